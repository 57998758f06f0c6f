"""The command line."""

import os

import pytest

from mjhmc_numba import command
from tests.new_process import report_of, run

WARM = "import sys; from mjhmc_numba.command import main; sys.exit(main(['warm']))"
HITS = """
import json
from mjhmc_numba.kernel import chain
from mjhmc_numba.process import Process
Process.compile_kernel()
print(json.dumps([sum(chain.run_ticks.stats.cache_hits.values()),
                  sum(chain.run_ticks.stats.cache_misses.values())]))
"""


def test_warm_compiles_the_sampler_for_the_processes_after_it(tmp_path):
    cache = tmp_path / "cache"
    first, second = (run(WARM, cache=cache) for _ in range(2))
    assert first.returncode == second.returncode == 0, first.stderr
    assert "Compiling the sampler" in first.stdout
    assert "Compiling" not in second.stdout
    assert str(cache) in second.stdout
    assert report_of(HITS, cache=cache) == [1, 0]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_warm_says_so_if_there_is_no_safe_folder(tmp_path):
    tmp_path.chmod(0o777)
    done = run(WARM, cache=tmp_path)
    assert done.returncode == 1
    assert "can be written by other users" in done.stderr
    assert "every process compiles it" in done.stdout


def test_a_command_is_needed(capsys):
    with pytest.raises(SystemExit):
        command.main([])
    assert "warm" in capsys.readouterr().err
