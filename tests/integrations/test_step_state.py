"""Whatever a step method has is saved or known to be made anew: an attribute that is added must be
named here, or in what is saved.
"""

import dataclasses

from mjhmc_numba.pymc import MJHMC
from mjhmc_numba.pymc.step import Chain, MJHMCState
from tests.integrations.chains import OTHERS_WARN, begin, run

pytestmark = OTHERS_WARN

# Arguments of the constructor, and what it makes of them.
GIVEN = {
    "settings",
    "density",
    "check_gradient",
    "jitter",
    "_given_tune",
    "_names",
    "_parts",
    "_tries",
}
REMADE = {
    "_target",
    "_draws",  # memory of one draw
    "_rows",
    "_saved",  # what is saved of the chain, until the next draw
    "_has_moved",  # no longer asked
    "_origin",
    "_is_marked",  # sent along again with the next draw
}
OF_PYMC = {"vars", "stats_dtypes", "stats_dtypes_shapes", "_BlockedStep__newargs"}


def test_whatever_a_step_has_is_saved_or_known_to_be_made_anew(model):
    with model:
        step = MJHMC(tune=20)
    begin(step, 1, 20)
    run(step, model.initial_point(), draws=5, tune=20)
    saved = {field.name for field in dataclasses.fields(MJHMCState)} - {"chain", "var_names"}
    saved |= {f"_{name}" for name in Chain._fields} - {"_others"}  # those are of the density
    assert set(vars(step)) == saved | GIVEN | REMADE | OF_PYMC
