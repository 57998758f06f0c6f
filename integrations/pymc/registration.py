"""MJHMC where nobody can hand over a step: PyMC assigns it to continuous variables by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from pymc.sampling import mcmc
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.hmc.nuts import NUTS

from mjhmc_numba.errors import SettingsError
from mjhmc_numba.pymc.arguments import refuse
from mjhmc_numba.pymc.layout import step_methods
from mjhmc_numba.pymc.packaging import answer_arguments
from mjhmc_numba.pymc.step import MJHMC
from mjhmc_numba.settings import Settings, choose_settings

__all__ = ["Registration", "fit_bambi", "register"]

# The last one's settings count; MJHMC is assigned while there is any.
_registered: list[Registration] = []
_replaced: list[Callable] = []  # PyMC's function while ours is in its place


def register(*, settings: Settings | None = None, **options: Any) -> Registration:
    """Let `pm.sample()` assign MJHMC to continuous variables, in NUTS's place.

    Packages that call `pm.sample` themselves, and cannot be given a step, use it from then on.
    Discrete variables, and those of other step methods, are left to these as before.

    Parameters
    ----------
    settings : Settings, optional
        Of the steps that are assigned; instead of `options`.
    **options
        The fields of `mjhmc_numba.Settings`. ``pm.sample(mjhmc={...})`` changes them for one call,
        and ``pm.sample(target_accept=...)`` this one.

    Returns
    -------
    Registration
        Use it as a context manager, or call `undo`, to have NUTS again.

    Examples
    --------
    >>> import pymc as pm, mjhmc_numba.pymc as mp
    >>> with pm.Model(), mp.register():
    ...     x = pm.Normal("x")
    ...     idata = pm.sample()  # doctest: +SKIP
    """
    choose_settings(settings, options)  # raises if they are wrong
    registration = Registration(options if settings is None else {"settings": settings})
    _registered.append(registration)
    _install()
    return registration


class Registration:
    """MJHMC as what PyMC assigns, until `undo`; see `register`."""

    def __init__(self, options: Mapping[str, Any]):
        self.options = options

    def __repr__(self) -> str:
        return f"<Registration: {'in effect' if self in _registered else 'undone'}>"

    def undo(self) -> None:
        """Let PyMC assign what it did before; a second time does nothing."""
        if self in _registered:
            _registered.remove(self)
        if not _registered:
            _uninstall()

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.undo()


def fit_bambi(
    model: Any,
    *,
    settings: Settings | None = None,
    mjhmc: Mapping[str, Any] | None = None,
    **fit: Any,
) -> Any:
    """Fit a Bambi model by MJHMC: what ``model.fit(**fit)`` returns, with its post-processing.

    Bambi knows its own inference methods alone, and calls `pm.sample` itself.

    Parameters
    ----------
    model : bambi.Model
        Built or not.
    settings : Settings, optional
        What not to tune; instead of `mjhmc`.
    mjhmc : mapping, optional
        The same as keyword arguments of `Settings`.
    **fit
        Handed to `model.fit`, such as draws, tune, chains, random_seed.

    Returns
    -------
    InferenceData or DataTree
        Without offsets, ready for `model.predict`.
    """
    method = fit.setdefault("inference_method", "pymc")
    if method != "pymc":
        raise SettingsError(f"inference_method={method!r} is not MJHMC: leave it out.")
    with register(settings=settings, **(mjhmc or {})):
        return model.fit(**fit)


# ------------------------------------------------------------------ in PyMC's list


def _install() -> None:
    """PyMC looks at its list, and calls `instantiate_steppers`, each time it samples."""
    methods = step_methods()
    if MJHMC not in methods:
        at = methods.index(NUTS) if NUTS in methods else 0
        methods[at : at + (NUTS in methods)] = [MJHMC]
    if not _replaced:
        answer_arguments()
        _replaced.append(mcmc.instantiate_steppers)
        mcmc.instantiate_steppers = _instantiate_steppers


def _uninstall() -> None:
    for methods in (step_methods(), STEP_METHODS):  # a package may have put a copy in its place
        if MJHMC in methods:
            methods[methods.index(MJHMC)] = NUTS
    if _replaced:
        mcmc.instantiate_steppers = _replaced.pop()


@functools.wraps(mcmc.instantiate_steppers)
def _instantiate_steppers(model, steps, selected_steps, *, step_kwargs=None, **more):
    """PyMC's function, with our settings; what PyMC makes of `target_accept` reaches MJHMC."""
    given = dict(step_kwargs or {})
    if MJHMC in selected_steps and _registered:
        own = dict(given.pop(MJHMC.name, {})) | refuse(given.pop("nuts", {}))
        given[MJHMC.name] = own if "settings" in own else {**_registered[-1].options, **own}
    return _replaced[0](model, steps, selected_steps, step_kwargs=given, **more)


_instantiate_steppers.answers = True  # type: ignore[attr-defined]  # as what it calls does
