"""The worked example of a batch system: tasks write files, which are read as one."""

import pytest

from examples.slurm import chains


@pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning")
def test_files_of_the_tasks_are_read_as_one(tmp_path, monkeypatch, capsys):
    for task in ("2", "0"):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", task)
        monkeypatch.setattr("sys.argv", ["chains.py", "run", str(tmp_path), "--draws", "50"])
        chains.main()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chain_000.nc", "chain_002.nc"]
    monkeypatch.setattr("sys.argv", ["chains.py", "combine", str(tmp_path)])
    chains.main()
    assert "2 chains of 50 draws" in capsys.readouterr().out
