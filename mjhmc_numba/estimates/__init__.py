r"""Sharper answers from the same draws.

Every draw comes with its gradient, and Stein's identity makes functions with mean zero of it:
control variates for any posterior expectation. `estimate` returns means, standard deviations,
covariances and probabilities with Monte Carlo errors and the gain over plain averages;
`log_marginal_likelihood` the evidence; `refine` draws in rounds until an error is small enough.
"""

from mjhmc_numba.estimates.errors import EstimateError, IdentityError, OverlapError
from mjhmc_numba.estimates.estimate import estimate
from mjhmc_numba.estimates.evidence import Evidence, log_marginal_likelihood
from mjhmc_numba.estimates.gradients import evaluate
from mjhmc_numba.estimates.rounds import Refined, Until, refine
from mjhmc_numba.estimates.table import Estimates

__all__ = [
    "EstimateError",
    "Estimates",
    "Evidence",
    "IdentityError",
    "OverlapError",
    "Refined",
    "Until",
    "estimate",
    "evaluate",
    "log_marginal_likelihood",
    "refine",
]
