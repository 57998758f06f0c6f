"""What a PyMC model can do wrong before sampling, each with the name of the culprit.

All of them also are PyMC's `SamplingError`, so that code around `pm.sample` catches them.
"""

from pymc.exceptions import SamplingError

from mjhmc_numba.errors import GradientError, InitialPointError, SlowDensityWarning, TargetError

__all__ = [
    "DataError",
    "DiscreteVariableError",
    "ExpansionError",
    "MissingGradientError",
    "ModelChangedError",
    "ModelError",
    "ModelGradientError",
    "NoVariableError",
    "OtherMethodError",
    "ObjectModeWarning",
    "RandomDensityError",
    "StartError",
    "UnknownVariableError",
]


class ModelError(TargetError, SamplingError):
    """The model cannot be sampled as it stands."""


class NoVariableError(ModelError):
    """The model has no free continuous variable."""


class DiscreteVariableError(ModelError):
    """A discrete variable was given to a sampler that follows gradients."""


class OtherMethodError(ModelError):
    """A variable that another step method alone can sample was given to this one."""


class UnknownVariableError(ModelError):
    """A variable or a data container that the model does not have."""


class MissingGradientError(ModelError):
    """An operation of the model has no gradient."""


class ModelGradientError(ModelError, GradientError):
    """An operation of the model has a gradient that is not its derivative."""


class RandomDensityError(ModelError):
    """The log density draws random numbers: two calls at one point differ."""


class StartError(ModelError, InitialPointError):
    """The log density or its gradient is not finite at the initial point."""


class DataError(StartError):
    """Observed values or data are NaN or infinite, and the log density with them."""


class ModelChangedError(ModelError):
    """The model is no longer the one that was compiled."""


class ExpansionError(ModelError):
    """A transformed variable or a Deterministic cannot be computed from the draws."""


class ObjectModeWarning(SlowDensityWarning):
    """An operation of the model has no native code: every gradient goes through Python."""
