"""What can go wrong before or during sampling, each with what to do about it."""

__all__ = [
    "CheckpointError",
    "GradientError",
    "InitialPointError",
    "MemoryRequestError",
    "SettingsError",
    "SlowDensityWarning",
    "SamplingWarning",
    "StuckError",
    "StorageError",
    "TargetError",
]


class TargetError(ValueError):
    """The density cannot be used as it was given."""


class InitialPointError(TargetError):
    """The density or its gradient is not finite where a chain has to start."""


class GradientError(TargetError):
    """The gradient is not the derivative of the log density."""


class SettingsError(ValueError):
    """A setting is unknown, out of range, or does not go with another."""


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, read, or gone on from by this call."""


class StorageError(RuntimeError):
    """Draws cannot be stored on disk; those that were are readable."""


class MemoryRequestError(MemoryError):
    """The output would not fit into memory; nothing has been allocated."""


class StuckError(RuntimeError):
    """A chain could not move at all: its draws are one point, again and again."""


class SlowDensityWarning(UserWarning):
    """The density is a Python function: every gradient goes through the interpreter."""


class SamplingWarning(UserWarning):
    """The draws should not be trusted as they are; the message says why and what to do."""
