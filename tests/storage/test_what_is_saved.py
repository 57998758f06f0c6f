"""Whatever a chain has is saved or known to be made anew: an attribute that is added must be named
here, or in what is saved.
"""

import numpy as np

from mjhmc_numba import Settings, targets
from mjhmc_numba.density import as_target
from mjhmc_numba.initial import Region
from mjhmc_numba.run.chain import ChainRun
from mjhmc_numba.run.tasks import ChainState, ChainTask
from mjhmc_numba.saving import load, save

REMADE = {
    "task",  # of the call that goes on
    "pace",  # of its machine
    "aborted",
    "finished",
    "sampling",
    "last",
    "has_moved",  # seen from where the process is
    "block",  # of the call of the kernel that is under way
    "spare",  # a process that is no longer used, for the next chain of this thread
    "tuned",  # of a chain that has ended; before that the process has it
    "saved",  # what is on the disk: read from there
    # Rows: pieces on the disk, or with the result that is extended.
    "out",
    "rows",
    "base",
    "warmup",
    "warmup_out",
    "warmup_kept",
    "parts",
    "gradient",
}


def chain_that_ran():
    target = as_target(targets.standard_normal(2))
    seed = np.random.SeedSequence(1)
    task = ChainTask(target, Settings(), 20, 20, seed, Region.anywhere(2))
    chain = ChainRun(task, np.empty((20, 2)))
    output = chain.run()
    assert output.error is None
    return chain, output


def test_whatever_a_chain_has_is_saved_or_known_to_be_made_anew():
    chain, _ = chain_that_ran()
    assert set(vars(chain)) == {*ChainState._fields} | REMADE


def test_what_a_chain_needs_to_go_on_comes_back_as_it_was():
    chain, output = chain_that_ran()
    end = output.end
    for name in set(ChainState._fields) - {"process", "piece", "tuner"}:
        np.testing.assert_equal(save(getattr(end, name)), save(getattr(chain, name)))
    back = load(ChainState, save(end), settings=chain.task.settings)
    np.testing.assert_equal(save(back), save(end))
