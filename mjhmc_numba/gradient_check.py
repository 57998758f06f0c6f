"""Is the gradient the derivative of the log density? Both are compared along short paths.

Between two points the log density changes by the integral of its gradient along the way, which
Simpson's rule gives from three points. The path lies beside the start and not around it: at a mode,
where people like to start, the gradient vanishes whatever factor it is wrong by. How far the rule
may be off is seen from the trapezoidal rule, which differs from it where the density is curved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mjhmc_numba.density import Target
from mjhmc_numba.errors import GradientError

__all__ = ["GRADIENTS_TAKEN", "check_gradient", "gradient_fault"]

# Lengths of the paths, in units of 1 + |x|: the first does for most densities; a longer one stands
# out of the rounding of a large log density, a shorter one stays within a narrow density.
STEPS = (1e-4, 1e-2, 1e-6, 1.0, 1e-8)
POINTS = (1.0, 1.5, 2.0)  # of a path, in steps from the start: the three of Simpson's rule
LAST_PLACES = 1e3  # last places of a log density: a sum of 1e6 terms, whose errors add up as a root
# Relative errors of a slope: what is taken for right, and a comparison counts if it would show a
# gradient that is wrong by the second. Solvers of differential equations are off by 1e-3 where no
# more is asked of them.
TOLERANCE = 0.003
DECISIVE = 0.03
# Random directions. One alone misses a wrong dimension when it hardly goes along it: by less than
# 0.03 of its deviation once in 42 (2.4 %), and three once in 72,000.
DIRECTIONS = 3
NAMED_ONE_BY_ONE = 200  # dimensions; in more of them halving takes 2 log2(d) paths in place of d

GRADIENTS_TAKEN = DIRECTIONS * len(POINTS)  # where the first path agrees


class Comparison(NamedTuple):
    """The mean slope along a path, by the gradient and by the log density."""

    step: float  # length of the path
    said: float
    measured: float
    tolerance: float  # of their difference
    size: float  # of slopes on the path

    @property
    def difference(self) -> float:
        return abs(self.said - self.measured)

    @property
    def agrees(self) -> bool:
        return self.difference <= self.tolerance

    @property
    def is_decisive(self) -> bool:
        return self.tolerance <= DECISIVE * self.size

    def excuses(self, other: Comparison) -> bool:
        """Whether one that agrees outweighs another that does not.

        A shorter path does. On a longer one a wrong gradient adds up, and larger slopes may hide
        it; noise of the log density does not add up.
        """
        longer = self.step / other.step
        return longer < 1 or longer * self.difference <= other.difference * longer**0.5


def _compare(target: Target, x: np.ndarray, direction: np.ndarray, step: float) -> Comparison:
    """Compare along one path; where something is not finite, nothing is decided."""
    found = [_evaluate(target, x + at * step * direction) for at in POINTS]
    logps = np.array([logp for logp, _ in found])
    slopes = np.array([grad @ direction for _, grad in found])
    if not (np.isfinite(logps).all() and np.isfinite(slopes).all()):
        return Comparison(step, np.nan, np.nan, np.inf, 0.0)
    said = float(slopes @ (1, 4, 1)) / 6
    measured = float(logps[2] - logps[0]) / step
    size = max(float(np.abs(slopes).max()), abs(measured))
    curved = abs(said - 0.5 * float(slopes[0] + slopes[2]))
    single = bool((logps == logps.astype(np.float32)).all())
    eps = np.finfo(np.float32 if single else float).eps
    rounding = LAST_PLACES * float(eps * np.abs(logps).max()) / step
    return Comparison(step, said, measured, TOLERANCE * size + curved + rounding, size)


def _evaluate(target: Target, x: np.ndarray) -> tuple[float, np.ndarray]:
    try:
        return target.logp_and_grad(x)
    except Exception:  # the sampler may never come here; if it does, it says so
        return np.nan, np.full(target.ndim, np.nan)


def _judge(target: Target, x: np.ndarray, direction: np.ndarray) -> Comparison | None:
    """The clearest comparison that speaks against the gradient; None if one speaks for it, or all
    are unclear.
    """
    against: list[Comparison] = []
    for step in STEPS:
        with np.errstate(all="ignore"):
            found = _compare(target, x, direction, step)
        if not found.is_decisive:
            continue
        if not found.agrees:
            against.append(found)
        elif not against or found.excuses(max(against)):  # the longest, where noise matters least
            return None
    return min(against, key=lambda c: c.tolerance / c.size) if against else None


def _directions(x: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    for _ in range(DIRECTIONS):
        direction = rng.standard_normal(x.size)
        yield direction / np.linalg.norm(direction) * (1 + np.abs(x))


def _suspects(target: Target, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Dimensions to look at one by one: all, or in many dimensions one that halving leads to."""
    suspects = np.arange(target.ndim)
    if target.ndim <= NAMED_ONE_BY_ONE:
        return suspects
    while suspects.size > 1:
        half = suspects[: suspects.size // 2]
        direction = np.zeros(target.ndim)
        direction[half] = rng.choice([-1.0, 1.0], half.size) / np.sqrt(half.size)
        is_right = _judge(target, x, direction * (1 + np.abs(x))) is None
        suspects = suspects[half.size :] if is_right else half
    return suspects


def gradient_fault(target: Target, x: np.ndarray, rng: np.random.Generator) -> str | None:
    """What is wrong with the gradient, as changes of the log density along random paths beside x
    show it; None if nothing is seen.

    Parameters
    ----------
    target : Target
        The density.
    x : (d,) array
        Where it is finite.
    rng : numpy.random.Generator
        Chooses the directions.
    """
    if all(_judge(target, x, direction) is None for direction in _directions(x, rng)):
        return None
    return (
        "The gradient is not the derivative of the log density beside the initial point."
        f"{_worst_dimension(target, x, rng)}"
    )


def check_gradient(target: Target, x: np.ndarray, rng: np.random.Generator) -> None:
    """Raise GradientError where `gradient_fault` finds one."""
    fault = gradient_fault(target, x, rng)
    if fault is not None:
        raise GradientError(
            f"{fault} Correct it, or pass check_gradient=False if the density is not smooth there."
        )


def _worst_dimension(target: Target, x: np.ndarray, rng: np.random.Generator) -> str:
    worst, message = 0.0, ""
    for j in _suspects(target, x, rng):
        path = np.zeros(target.ndim)
        path[j] = 1 + abs(x[j])
        found = _judge(target, x, path)
        if found is None:
            continue
        said, measured = found.said / path[j], found.measured / path[j]
        if abs(said - measured) > worst:
            worst = abs(said - measured)
            message = (
                f" In {target.names[j]} the density says {said:.6g} and finite differences "
                f"say {measured:.6g}."
            )
    return message
