r"""The integrator of a tuned chain, tried by single steps from draws of its warm-up.

Per gradient, effective sizes grow as the length of a step in units of the slowest direction (see
trajectory.py), as long as it is accepted. So integrators are compared by

.. math:: h\, \tau(h)^{-2} / \sigma,

with the step size h per gradient, the mean stay :math:`\tau` (that of 1 / acceptance) over draws
that had no say in the metric, and the standard deviation :math:`\sigma` of the slowest direction.
The square was measured for the mean acceptance: over nine posteriors and 60 to 90 motions each,
acceptances from 0.7 to 0.93 do alike, and so does h times the square.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mjhmc_numba.coordinates import Draws
from mjhmc_numba.process import Process
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import Tuned
from mjhmc_numba.warmup.spectrum import FINE_DETAIL, Spectrum, centred_metric, estimate
from mjhmc_numba.warmup.trajectory import QUARTER_TURN

__all__ = ["FEWEST_TRIALS", "Trial", "choose_integrator", "step_bounds"]

# How long a draw would stay is the mean of 1 / acceptance. It tells of places that few draws are in
# and that are hard to leave, as a mean acceptance does not; but one momentum of many must not
# decide it, so that acceptances count as this at least.
LEAST = 0.05
# The harmonic integrator, whose Gaussian has other tails, must be accepted nearly everywhere. With
# any stay a chain now and then did not come back from a tail (rugby, eight schools: 3 seeds each).
LONGEST_STAY = 1.2
# Hardly any of these draws is in tails that are heavier than the Gaussian's, and a chain that gets
# there stays for long. So at the farthest draws the force that the Gaussian leaves over must be a
# third of the Gaussian's at most: 8 draws out of 300 to 500 gave 0.07 to 0.35 on seven nearly
# Gaussian posteriors, 0.19 to 0.3 on a Student-t with 30 degrees of freedom, and 0.58 to 0.83 on
# one with 4, where such chains were worth 35 to 2,900 of 10,000 draws and others 3,600 to 9,000.
FARTHEST, LARGEST_FORCE = 8, 1 / 3
TRIALS = 40  # draws; the mean of so many acceptances is known to 0.04
FEWEST_TRIALS = 16
SHARE_HELD_OUT = 1 / 3  # of the draws: a fit and its test have about the same errors
# Tried from the longest on, as long as a full acceptance would be better than the best so far.
ANGLES = QUARTER_TURN, 1.25  # of the harmonic integrator
STAGES = 1.1  # step size of two stages, in units of leapfrog's


class Trial(NamedTuple):
    """What integrators are tried with.

    Attributes
    ----------
    process : Process
        Makes the trial steps; it is configured anew for them.
    settings : Settings
        The user's.
    draws : Draws
        In the coordinates of what is tried.
    spectrum : Spectrum or None
        Of these draws; None where the user gave the metric.
    slowest : float
        Standard deviation of the slowest whitened direction.
    density_changes : bool
        Whether the density changes between draws.
    """

    process: Process
    settings: Settings
    draws: Draws
    spectrum: Spectrum | None
    slowest: float
    density_changes: bool

    @property
    def parts(self) -> tuple[Draws, Draws]:
        """The draws that a metric is fitted to, and the newest, which are held out."""
        n = len(self.draws.x) - math.ceil(SHARE_HELD_OUT * len(self.draws.x))
        return self.draws.take(slice(n)), self.draws.take(slice(n, None))


class _Best(NamedTuple):
    tuned: Tuned
    score: float


def choose_integrator(tuned: Tuned, trial: Trial, rng: np.random.Generator) -> Tuned:
    """The integrator that does best, with a step size to begin with."""
    settings, slowest = trial.settings, trial.slowest
    _, held_out = trial.parts
    n = len(held_out.x)
    points = held_out.take(rng.choice(n, min(TRIALS, n), replace=False))
    if trial.density_changes:
        points = _evaluated_again(trial.process, points)
    is_free = settings.step_size is None
    step = tuned.step_size
    best = _Best(tuned.replace(integrator="leapfrog"), 0.0)
    best = _longest(best, trial, points, [step], slowest)
    two_stage = tuned.replace(integrator="two_stage")
    longest = step_bounds(two_stage, slowest)[1] if is_free else math.inf
    longer = min(STAGES * step, longest) if is_free else step
    if settings.target_accept is None:  # two stages accept more than was asked for
        best = _longest(best, trial, points, [longer], slowest, two_stage)
    # A Gaussian whose centre moves with other variables is no good one to rotate about.
    if is_free and not trial.density_changes:
        best = _with_harmonic(best, tuned, trial, points)
    return best.tuned


def _with_harmonic(best: _Best, tuned: Tuned, trial: Trial, points: Draws) -> _Best:
    """The harmonic integrator if it does better, with a metric of the draws that are not held out;
    it is used with that of all. As that knows the draws which it is tried at, nothing else is
    estimated where even so it does no better.
    """
    tuned = tuned.replace(integrator="harmonic")
    if trial.spectrum is None:
        return _longest(best, trial, points, ANGLES, 1.0, tuned)
    of_all = tuned.replace(metric=centred_metric(trial.spectrum, FINE_DETAIL, trial.draws))
    if _longest(best, trial, points, ANGLES, 1.0, of_all) is best:
        return best
    seen, _ = trial.parts
    spectrum = estimate(seen.x, seen.grad, trial.settings.metric)
    fitted = tuned.replace(metric=centred_metric(spectrum, FINE_DETAIL, seen))
    found = _longest(best, trial, points, ANGLES, 1.0, fitted)
    if found is best:
        return best
    return found._replace(tuned=found.tuned.replace(metric=of_all.metric))


def _longest(
    best: _Best,
    trial: Trial,
    points: Draws,
    steps: Sequence[float],
    slowest: float,
    tuned: Tuned | None = None,
) -> _Best:
    """The best so far, or one of these step sizes (longest first) if that is better."""
    tuned = best.tuned if tuned is None else tuned
    trial.process.configure(tuned)
    for step in steps:
        if step / slowest <= best.score:
            break
        errors, _ = trial.process.probe(points, tuned.integrator, step)
        acceptance = np.exp(-np.maximum(errors, 0.0))
        stay = float(np.mean(1.0 / np.maximum(acceptance, LEAST)))
        score = step / stay**2 / slowest
        if tuned.integrator == "harmonic" and not (
            stay <= LONGEST_STAY and _suits_tails(tuned, trial.draws)
        ):
            continue
        if score > best.score and not _accepts_less(acceptance, trial.settings, best):
            best = _Best(tuned.replace(step_size=step), score)
    return best


def _suits_tails(tuned: Tuned, draws: Draws) -> bool:
    """Whether the Gaussian of the metric leaves little force over at the farthest draws."""
    z = tuned.metric.whiten(draws.x - draws.x.mean(axis=0))
    force = tuned.metric.whiten_gradient(draws.grad - draws.grad.mean(axis=0))
    squared = np.sum(z * z, axis=1)
    far = np.argsort(-squared)[:FARTHEST]
    left = np.sum((z + force)[far] ** 2, axis=1) / np.maximum(squared[far], 1e-300)
    return bool(np.mean(np.sqrt(left)) <= LARGEST_FORCE)


def _accepts_less(acceptance: np.ndarray, settings: Settings, best: _Best) -> bool:
    """Than the user asks for; leapfrog, the first, can be made to accept anything."""
    return best.score > 0.0 and float(acceptance.mean()) < (settings.target_accept or 0.0)


def step_bounds(tuned: Tuned, slowest: float) -> tuple[float, float]:
    """The shortest and the longest step size that make sense for the integrator."""
    if tuned.integrator == "rotation":
        return QUARTER_TURN, QUARTER_TURN
    if tuned.integrator == "harmonic":
        return 0.0, QUARTER_TURN
    # No path is longer than a quarter turn. Leapfrog is used while the slowest is still unknown.
    return 0.0, QUARTER_TURN * slowest / tuned.stages if tuned.stages > 1 else math.inf


def _evaluated_again(process: Process, draws: Draws) -> Draws:
    """The same positions on the density as it is now, in the same coordinates."""
    points = [process.evaluate(x) for x in draws.to(None).x]
    x, grad, logp = (np.array([point[k] for point in points]) for k in range(3))
    return Draws(x, grad, logp).to(draws.coordinates)
