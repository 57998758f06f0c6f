"""Chains on processes that MPI has started, where it is installed."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import mjhmc_numba as mj
from tests.api.densities import SHORT, log_gamma
from tests.new_process import ROOT

pytest.importorskip("mpi4py")
mpiexec = shutil.which("mpiexec")

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::mjhmc_numba.SamplingWarning"),
    pytest.mark.skipif(mpiexec is None, reason="needs an MPI"),
]

PROGRAM = """
import json
import os
import warnings

from mpi4py.futures import MPIPoolExecutor

import mjhmc_numba as mj
from mjhmc_numba.progress import Progress
from tests.api.densities import SHORT, log_gamma

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    done = []
    Progress.update = lambda self, rows: done.append(sum(row.done for row in rows))
    with MPIPoolExecutor() as executor:
        elsewhere = executor.submit(os.getpid).result() != os.getpid()
        result = mj.sample(log_gamma, ndim=2, seed=1, executor=executor, **SHORT)
    found = {"elsewhere": elsewhere, "done": done[-1], "draws": result.draws.tolist()}
    print(json.dumps(found))
"""

# Open MPI starts nothing for root, nor more processes than cores, unless it is told to.
ALLOWED = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # from Open MPI 5 on
}


def test_draws_on_processes_of_mpi_are_those_of_threads(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    run = subprocess.run(
        [str(mpiexec), "-n", "3", sys.executable, "-m", "mpi4py.futures", str(path)],
        env=os.environ | ALLOWED | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["elsewhere"]
    assert found["done"] == SHORT["chains"] * (SHORT["draws"] + SHORT["tune"])
    here = mj.sample(log_gamma, ndim=2, seed=1, **SHORT)
    np.testing.assert_array_equal(found["draws"], here.draws)
