"""The arguments of `pm.sample`: what those that are not ours are answered."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import pymc as pm

from mjhmc_numba.errors import SettingsError

__all__ = [
    "NOT_OURS",
    "blas_threads",
    "check_init",
    "check_place_of_model",
    "check_progressbar",
    "number_of_chains",
    "refuse",
    "refuse_for_made_step",
]

_OF_NUTS = "it is a setting of NUTS. Those of MJHMC are the fields of mjhmc_numba.Settings."

# Arguments that mean nothing here: values that ask for nothing, and what to say to others.
NOT_OURS: dict[str, tuple[tuple, str]] = {
    "step": (
        (None,),
        "all variables are MJHMC's here. pm.sample(step=[MJHMC([...]), ...]) mixes step methods.",
    ),
    "nuts_sampler": ((None,), "the sampler is MJHMC here. pm.sample(nuts_sampler=...) runs NUTS."),
    "nuts_sampler_kwargs": ((None, {}), "the sampler is MJHMC here, not NUTS."),
    "nuts": (
        (None, {}),
        "these are for NUTS. Give settings of MJHMC by name: target_accept=0.9.",
    ),
    "n_init": ((None, 200_000), "it is for NUTS's start by ADVI. MJHMC has none."),
    "mp_ctx": ((None,), "chains run on threads here. executor= runs them in other processes."),
    "progressbar_theme": ((None,), "the display has no themes."),
    "backend": ((None, "numba"), "the density is compiled by PyTensor's Numba backend."),
    "max_treedepth": ((), "MJHMC has no trees. max_gradients= is the most that a draw may cost."),
    "early_max_treedepth": ((), "MJHMC has no trees."),
    "step_scale": ((), "the first step size is found by trial. step_size= fixes it."),
    "scaling": ((), "metric= takes a covariance, a vector of variances or a Metric."),
    "is_cov": ((), "metric= takes a covariance or a vector of variances."),
    "potential": ((), "metric= takes a covariance, a vector of variances or a Metric."),
    **dict.fromkeys(
        ("Emax", "adapt_step_size", "gamma", "k", "t0", "path_length", "max_steps"), ((), _OF_NUTS)
    ),
    "start": ((None,), "initvals= has the values to start at."),
}

PROGRESSBARS = (
    "combined",
    "split",
    "combined+stats",
    "stats+combined",
    "split+stats",
    "stats+split",
)
INITS = (
    "auto",
    "adapt_diag",
    "jitter+adapt_diag",
    "jitter+adapt_diag_grad",
    "advi+adapt_diag",
    "advi",
    "advi_map",
    "map",
    "adapt_full",
    "jitter+adapt_full",
)


def refuse(options: dict[str, Any]) -> dict[str, Any]:
    """The options without those of PyMC that ask for nothing; others of PyMC raise."""
    left = {}
    for name, value in options.items():
        if name not in NOT_OURS:
            left[name] = value
            continue
        harmless, sentence = NOT_OURS[name]
        if not any(type(value) is type(known) and value == known for known in harmless):
            raise SettingsError(f"{name}: {sentence}")
    return left


def refuse_for_made_step(given: Mapping[str, Any]) -> None:
    """Say where arguments of a step go that was made before `pm.sample` was called."""
    for name in ("nuts", "mjhmc"):  # PyMC makes `target_accept=` one of the former
        for inner, value in (given.get(name) or {}).items():
            refuse({inner: value})
            raise SettingsError(
                f"{inner}: pm.sample was given a step that is made already. Give it to the step, "
                f"as in pm.sample(step=MJHMC({inner}={value!r}))."
            )


def check_progressbar(progressbar: Any) -> None:
    """Raise, as PyMC does, unless it is one of PyMC's values."""
    if isinstance(progressbar, str) and progressbar not in PROGRESSBARS:
        raise SettingsError(
            f"progressbar={progressbar!r} is not True, False, or one of {', '.join(PROGRESSBARS)}."
        )


def check_init(init: str) -> None:
    """Raise unless PyMC has such an initialisation, and warn that it is not used."""
    if not isinstance(init, str) or init.lower() not in INITS:
        raise SettingsError(f"init={init!r} is none of PyMC's: {', '.join(INITS)}.")
    if init.lower() != "auto":
        warnings.warn(
            f"init={init!r} is not used: MJHMC finds its metric in the warm-up, from starts "
            "jittered around the initial values (jitter=False starts at these).",
            UserWarning,
            stacklevel=3,
        )


def number_of_chains(chains: int | None, cores: int | None) -> int:
    """PyMC's rule where no number is given."""
    return max(2, cores or min(4, os.cpu_count() or 1)) if chains is None else chains


def blas_threads(blas_cores: Any, cores: int | None, chains: int) -> int | None:
    """Threads of BLAS for each chain, by PyMC's rule for the total; None leaves them as they are.

    One, the default, makes draws that do not depend on the number of cores.
    """
    if blas_cores is None or blas_cores == "auto":
        return None if blas_cores is None else 1
    if not isinstance(blas_cores, int) or isinstance(blas_cores, bool) or blas_cores < 1:
        raise SettingsError(
            f"blas_cores is a whole number >= 1, 'auto' or None, not {blas_cores!r}."
        )
    return max(1, blas_cores // min(chains, cores or os.cpu_count() or 1))


def check_place_of_model(**counts: Any) -> None:
    """Say where a model goes that was given in a number's place."""
    for name, value in counts.items():
        if isinstance(value, pm.Model):
            raise SettingsError(
                f"{name} is a number, and was given a model. Give that as model=, or use `with`."
            )
