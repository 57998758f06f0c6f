r"""The integral of a density by bridge sampling.

With draws of :math:`\pi = p / Z` and of a normalised proposal q (Meng and Wong 1996)

.. math:: Z = \frac{E_q[p\,h]}{E_\pi[q\,h]}, \qquad h = \frac{1}{s_1 p / Z + s_2 q},

where :math:`s_1, s_2` are the shares of effective draws; as Z stands on both sides, one iterates.
The proposal is a Gaussian fitted to draws and gradients, and p is made symmetric about its centre,
which leaves the integral as it is (the third warp of Meng and Schilling 2002). One half of each
chain finds the proposal and the other half is used, and the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from mjhmc_numba.coordinates import Reparametrisation
from mjhmc_numba.estimates.checks import check_arrays
from mjhmc_numba.estimates.error import standard_error
from mjhmc_numba.estimates.errors import OverlapError
from mjhmc_numba.estimates.features import Whitening
from mjhmc_numba.estimates.gradients import evaluate
from mjhmc_numba.results import Result

__all__ = ["Evidence", "log_marginal_likelihood"]

# With 4,000 draws of two normals so far apart the error is 0.2, and each further standard deviation
# doubles it; a Bayes factor with an error of 0.5 is known to a factor of e.
LEAST_OVERLAP = 0.01
LARGEST_ERROR = 0.5
BRIDGE_ITERATIONS = 1000  # 21 are enough with an overlap of 0.003, fewer with more


class Evidence(NamedTuple):
    """The log of the integral of a density.

    Parameters
    ----------
    log_evidence : float
    error : float
        Its standard error.
    overlap : float
        Of density and proposal, between 0 and 1 (the same).
    """

    log_evidence: float
    error: float
    overlap: float

    def __repr__(self) -> str:
        return (
            f"<Evidence: log {self.log_evidence:.6g} +- {self.error:.2g}, "
            f"overlap {self.overlap:.2g}>"
        )


class _Gaussian(NamedTuple):
    """A normal distribution: x = whitening of (centre + root z), z standard normal."""

    whitening: Whitening
    centre: np.ndarray
    root: np.ndarray

    @classmethod
    def fit(cls, x: np.ndarray, grad: np.ndarray) -> _Gaussian:
        """From draws and gradients (n, d).

        In whitened coordinates the covariance of the draws is shrunk towards 1, as far as it is
        noise (Ledoit and Wolf 2004).
        """
        whitening = Whitening.fit(x, grad)
        y, _ = whitening.apply(x, grad)
        n, d = y.shape
        centre = y.mean(axis=0)
        z = y - centre
        covariance = z.T @ z / n
        noise = (np.mean(np.einsum("ij,ij->i", z, z) ** 2) - np.sum(covariance**2)) / n
        share = min(1.0, noise / max(float(np.sum((covariance - np.eye(d)) ** 2)), 1e-300))
        return cls(
            whitening, centre, np.linalg.cholesky((1 - share) * covariance + share * np.eye(d))
        )

    def forward(self, z: np.ndarray) -> np.ndarray:
        """Positions x (n, d) of standardised z."""
        return self.whitening.unwhiten(self.centre + z @ self.root.T)

    def inverse(self, x: np.ndarray) -> np.ndarray:
        y, _ = self.whitening.apply(x, np.zeros_like(x))
        return np.linalg.solve(self.root, (y - self.centre).T).T

    def log_volume(self) -> float:
        """Log determinant of dx / dz."""
        return self.whitening.log_volume() + float(np.log(np.diag(self.root)).sum())


def _log_ratio(logp: Callable, proposal: _Gaussian, z: np.ndarray) -> np.ndarray:
    """(n,): log of the symmetrised density over the proposal's."""
    both = np.logaddexp(logp(proposal.forward(z)), logp(proposal.forward(-z))) - math.log(2.0)
    log_q = -0.5 * np.einsum("ij,ij->i", z, z) - 0.5 * z.shape[1] * math.log(2 * math.pi)
    return both + proposal.log_volume() - log_q


def _bridge(at_draws: np.ndarray, at_proposals: np.ndarray, size: float) -> Evidence:
    """Meng and Wong's iteration, with the error of Fruehwirth-Schnatter (2004).

    Parameters
    ----------
    at_draws : (chain, draw) array
        Log ratios of density and proposal at draws of the density.
    at_proposals : (m,) array
        The same at draws of the proposal.
    size : float
        Effective number of the former.
    """
    m = len(at_proposals)
    s1, s2 = size / (size + m), m / (size + m)
    # The unknown log Z is a common shift of both; one starts at the median.
    log_z = float(np.median(at_draws))
    for _ in range(BRIDGE_ITERATIONS):
        above = np.exp(-np.logaddexp(math.log(s1), math.log(s2) + log_z - at_proposals))
        below = np.exp(-np.logaddexp(math.log(s1) + at_draws - log_z, math.log(s2)))
        step = math.log(max(above.mean(), 1e-300)) - math.log(max(below.mean(), 1e-300))
        log_z += step
        if abs(step) < 1e-10:  # far below any Monte Carlo error
            break
    error_above = above.std(ddof=1) / math.sqrt(m) / max(above.mean(), 1e-300)
    error_below, _ = standard_error(below[:, :, None])
    error = math.hypot(error_above, float(error_below[0]) / max(below.mean(), 1e-300))
    return Evidence(log_z, error, float(below.mean()))


def log_marginal_likelihood(
    draws: np.ndarray | Result,
    density,
    *,
    grads: np.ndarray | None = None,
    reparametrisation: Reparametrisation | None = None,
    seed=None,
    cores: int | None = None,
) -> Evidence:
    """Log of the integral of a density over all space, from draws of it.

    If the density is prior times likelihood, each with all its constants, this is the evidence
    of the model.

    Parameters
    ----------
    draws : (chain, draw, d) array or Result
    density : Target or callable
        See `mjhmc_numba.estimates.evaluate`.
    grads : (chain, draw, d) array, optional
        Gradients at the draws; computed if not given.
    reparametrisation : Reparametrisation, optional
        Coordinates in which the proposal is Gaussian; those of the first chain for a `Result`.
    seed : int or SeedSequence, optional
        Of the proposals.
    cores : int, optional

    Returns
    -------
    Evidence
    """
    if isinstance(draws, Result):
        reparametrisation = reparametrisation or draws.tuned[0].reparametrisation
        grads = draws.stats.get("gradient") if grads is None else grads
        draws = draws.draws
    draws = np.asarray(draws, dtype=float)
    if grads is None:
        _, grads = evaluate(density, draws, cores)
    check_arrays(draws, grads)
    outer = reparametrisation or Reparametrisation.none()
    z, by_z = outer.to_z(draws), outer.gradient_to_z(draws, grads)

    def logp(z):
        x = outer.to_x(z)
        return evaluate(density, x, cores)[0] + outer.log_volume(x)

    rng = np.random.default_rng(seed)
    half = draws.shape[1] // 2
    halves = slice(0, half), slice(draws.shape[1] - half, None)
    with threadpool_limits(1, user_api="blas"):
        both = [
            _one_way(z[:, fit], by_z[:, fit], z[:, used], logp, rng)
            for fit, used in (halves, halves[::-1])
        ]
    return _together(*both)


def _one_way(x_fit, g_fit, x_used, logp, rng) -> Evidence:
    """The proposal from some draws, the evidence from others."""
    d = x_fit.shape[2]
    proposal = _Gaussian.fit(x_fit.reshape(-1, d), g_fit.reshape(-1, d))
    z = proposal.inverse(x_used.reshape(-1, d))
    at_draws = _log_ratio(logp, proposal, z).reshape(x_used.shape[:2])
    at_proposals = _log_ratio(logp, proposal, rng.standard_normal((z.shape[0], d)))
    lowest = np.nanmin(at_draws)
    if not np.isfinite(lowest):
        raise OverlapError("The density is not finite at some of the draws: are they of it?")
    at_proposals = np.where(np.isfinite(at_proposals), at_proposals, -1e300)  # a density of 0
    # Bounded: of an unbounded ratio a few far draws would decide what it is worth.
    _, size = standard_error(np.tanh((at_draws - np.median(at_draws)) / 10.0)[:, :, None])
    return _bridge(at_draws, at_proposals, float(min(size[0], at_draws.size)))


def _together(one: Evidence, other: Evidence) -> Evidence:
    """Both ways; refused where they say that they cannot know."""
    overlap, apart = min(one.overlap, other.overlap), abs(one.log_evidence - other.log_evidence)
    # Each half is used both ways, so the errors go together: averaging takes little off.
    error = max((one.error + other.error) / 2, apart / 4)
    if overlap < LEAST_OVERLAP or error > LARGEST_ERROR:
        raise OverlapError(
            f"The Gaussian proposal and the draws overlap by {overlap:.1g} and both halves of the "
            f"draws give log evidences {apart:.1g} apart: too little to know the evidence. The "
            "target has far modes, a funnel or heavy tails; reparametrise it, or use sequential "
            "Monte Carlo."
        )
    return Evidence((one.log_evidence + other.log_evidence) / 2, error, overlap)
