"""The command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mjhmc_numba import command

ROOT = Path(__file__).resolve().parents[2]
WARM = "import sys; from mjhmc_numba.command import main; sys.exit(main(['warm']))"
HITS = """
import json
from mjhmc_numba.kernel import chain
from mjhmc_numba.process import Process
Process.compile_kernel()
print(json.dumps([sum(chain.run_ticks.stats.cache_hits.values()),
                  sum(chain.run_ticks.stats.cache_misses.values())]))
"""


def run_python(code, cache):
    environment = dict(os.environ, MJHMC_NUMBA_CACHE_DIR=str(cache))
    command_line = [sys.executable, "-c", code]
    return subprocess.run(
        command_line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_warm_compiles_the_sampler_for_the_processes_after_it(tmp_path):
    cache = tmp_path / "cache"
    first, second = (run_python(WARM, cache) for _ in range(2))
    assert first.returncode == second.returncode == 0, first.stderr
    assert "Compiling the sampler" in first.stdout
    assert "Compiling" not in second.stdout
    assert str(cache) in second.stdout
    assert json.loads(run_python(HITS, cache).stdout) == [1, 0]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_warm_says_so_if_there_is_no_safe_folder(tmp_path):
    tmp_path.chmod(0o777)
    done = run_python(WARM, tmp_path)
    assert done.returncode == 1
    assert "can be written by other users" in done.stderr
    assert "every process compiles it" in done.stdout


def test_a_command_is_needed(capsys):
    with pytest.raises(SystemExit):
        command.main([])
    assert "warm" in capsys.readouterr().err
