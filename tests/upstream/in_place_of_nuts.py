"""A pytest plugin: MJHMC is what PyMC calls NUTS.

It lies on the path by itself, since PyMC's tests are a package `tests` of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pymc.initial_point import make_initial_point_fns_per_chain
from pymc.model import modelcontext
from pymc.sampling import mcmc
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import Competence

from mjhmc_numba.pymc import MJHMC

PYMC_NUTS = pm.NUTS


class NUTS(MJHMC):
    """MJHMC under the name, and with the two arguments for a metric, of PyMC's NUTS."""

    name = "nuts"

    def __init__(self, *args: Any, scaling: Any = None, is_cov: bool = False, **options: Any):
        if scaling is not None:
            scaling = np.asarray(scaling, dtype=float)
            if not is_cov:
                scaling = np.linalg.inv(scaling) if scaling.ndim == 2 else 1.0 / scaling
            options["metric"] = scaling
        super().__init__(*args, **options)

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        return PYMC_NUTS.competence(var, has_grad)


def init_nuts(
    *,
    init: str = "auto",
    chains: int = 1,
    n_init: int = 0,
    model: pm.Model | None = None,
    random_seed: Any = None,
    progressbar: bool = True,
    jitter_max_retries: int = 10,
    tune: int | None = None,
    initvals: Mapping | Sequence | None = None,
    compile_kwargs: Mapping | None = None,
    quiet: bool = False,
    **options: Any,
) -> tuple[list, NUTS]:
    """Initial points, and the step: it finds its metric and jitters its starts itself."""
    model = modelcontext(model)
    seeds = pm.util._get_seeds_per_chain(random_seed, chains)
    functions = make_initial_point_fns_per_chain(
        model=model, overrides=initvals, jitter_rvs=set(), chains=chains
    )
    points = [function(seed) for function, seed in zip(functions, seeds, strict=True)]
    step = NUTS(model=model, initial_point=points[0], compile_kwargs=compile_kwargs, **options)
    return points, step


def put_in_place() -> None:
    """Replace NUTS wherever PyMC has its name."""
    STEP_METHODS[STEP_METHODS.index(PYMC_NUTS)] = NUTS
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "pymc" and getattr(module, "NUTS", None) is PYMC_NUTS:
            module.NUTS = NUTS  # type: ignore[attr-defined]
    mcmc.init_nuts = pm.init_nuts = init_nuts


put_in_place()
