"""Why draws cannot be turned into sharper estimates."""

__all__ = ["EstimateError", "IdentityError", "OverlapError"]


class EstimateError(ValueError):
    """The draws, gradients or functions cannot be used as they were given."""


class IdentityError(EstimateError):
    """Stein's identity does not hold for this density or these draws: no sharper estimate."""


class OverlapError(EstimateError):
    """The proposal of the bridge does not overlap with the draws: no evidence from it."""
