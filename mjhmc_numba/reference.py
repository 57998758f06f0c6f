r"""A slow, plain twin of the kernel, to be read beside the paper: the oracle of the tests.

A state is :math:`\zeta = (x, v)` with energy :math:`H = -\log\pi(x) + \tfrac12 v^\top M^{-1} v`.
Seen from a refresh of the momentum it is a rung i of the ladder
:math:`\ldots, L^{-1}\zeta, \zeta, L\zeta, \ldots` and a direction s, so its momentum is s v.
Three events change it:

==  =========================  ==================================================
L   (i, s) -> (i + s, s)       rate :math:`g(\pi_{ahead}/\pi)`
F   (i, s) -> (i, -s)          rate :math:`\max[0, g(\pi_{behind}/\pi) - g(\pi_{ahead}/\pi)]`
R   same x, another momentum   rate :math:`\beta`
==  =========================  ==================================================

with :math:`g(t) = \sqrt t` in the paper. Rungs are kept in a dictionary and never forgotten,
matrices are written out, nothing is compiled. Only the random stream is the kernel's own, and it
is read in the same order: from the same four words the twin makes the same draws, but for
rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mjhmc_numba.kernel.random import exponential, fill_normal, uniform
from mjhmc_numba.kernel.statistics import COUNTS
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import Tuned

__all__ = ["ReferenceProcess", "ReferenceRun", "Visit", "run"]

Density = Callable[[np.ndarray], tuple[float, np.ndarray]]

# Kicks and drifts as fractions of h = stages * step_size; numbers of Blanes et al. (2014).
_B2 = 0.21178
_A3, _B3 = 0.29619504261126, 0.11888010966548
_KICKS = {
    "leapfrog": (0.5, 0.5),
    "two_stage": (_B2, 1 - 2 * _B2, _B2),
    "three_stage": (_B3, 0.5 - _B3, 0.5 - _B3, _B3),
    "harmonic": (0.5, 0.5),
}
_DRIFTS = {
    "leapfrog": (1.0,),
    "two_stage": (0.5, 0.5),
    "three_stage": (_A3, 1 - 2 * _A3, _A3),
    "harmonic": (1.0,),
}

# As the kernel's, see kernel/ladder.py and kernel/rates.py.
_DIVERGENCE = 1000.0
_LARGEST_LOG_RATE = 700.0


class Visit(NamedTuple):
    """An entry of the jump record: a state, the time spent in it, and what ended the stay."""

    x: np.ndarray
    holding_time: float
    expected_holding_time: float
    event: str


class ReferenceRun(NamedTuple):
    """Draws (n, d), a dictionary of statistics (n,) each, and the jump record."""

    draws: np.ndarray
    stats: dict[str, np.ndarray]
    jumps: list[Visit]


@dataclass
class Rung:
    """A state of the ladder; v is its momentum when s = +1."""

    x: np.ndarray
    v: np.ndarray
    grad: np.ndarray
    logp: float
    energy: float


def run(
    logp_and_grad: Density,
    x0: np.ndarray,
    draws: int,
    settings: Settings,
    tuned: Tuned,
    rng: np.ndarray,
) -> ReferenceRun:
    """Sample as the kernel does, slowly.

    Parameters
    ----------
    logp_and_grad : callable
        x -> (log density, gradient).
    x0 : (d,) array
        Where to start.
    draws : int
        Number of ticks.
    settings : Settings
        As the kernel gets them.
    tuned : Tuned
        Likewise.
    rng : (4,) array of uint64
        The state of the random stream; advanced in place.
    """
    process = ReferenceProcess(logp_and_grad, x0, settings, tuned, rng)
    rows = []
    positions = np.empty((draws, process.here.x.size))
    for n in range(draws):
        process.advance()
        positions[n] = process.here.x
        rows.append(process.statistics())
    stats = {name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}
    return ReferenceRun(positions, stats, process.jumps)


class ReferenceProcess:
    """The jump process of one chain; see `run` for the parameters."""

    def __init__(
        self,
        logp_and_grad: Density,
        x0: np.ndarray,
        settings: Settings,
        tuned: Tuned,
        rng: np.ndarray,
    ):
        self.logp_and_grad, self.settings, self.tuned, self.rng = (
            logp_and_grad,
            settings,
            tuned,
            rng,
        )
        if settings.refresh_alpha is not None:
            self.tuned = tuned = tuned.replace(refresh_alpha=settings.refresh_alpha)
        self.g_max = settings.balancing.bound
        # Competing exponentials are the only way where g has no bound; a Poisson clock is
        # theirs.
        bounded = math.isfinite(self.g_max)
        self.competing = settings.method == "competing" or not bounded
        self.poisson = settings.clock == "poisson" or self.competing
        self.step_jitter, self.refine_levels, self.refine_threshold = settings.resolve(
            tuned.integrator
        )
        self._set_metric()
        self._reset_statistics()
        self.now = self.tick_end = 0.0
        self.stay = 0
        self.jumps: list[Visit] = []
        self._begin_at(np.array(x0, dtype=float), new_momentum=True)
        self._start_clocks()

    # ------------------------------------------------------------ kinetic energy

    def _set_metric(self) -> None:
        r"""Matrices :math:`M^{-1}`, A with :math:`A A^\top = M`, and M."""
        metric = self.tuned.metric
        U, scale = metric.directions, metric.scale
        identity = np.eye(metric.ndim)
        inner = identity + U.T @ np.diag(metric.eigenvalues - 1) @ U
        self.inverse_mass = np.diag(scale) @ inner @ np.diag(scale)
        root = identity + U.T @ np.diag(metric.eigenvalues**-0.5 - 1) @ U
        self.mass_root = np.diag(1 / scale) @ root
        self.mass = self.mass_root @ self.mass_root.T

    def _fresh_momentum(self) -> np.ndarray:
        z = np.empty(self.tuned.metric.ndim)
        fill_normal(self.rng, z)
        return self.mass_root @ z

    def _energy(self, logp: float, v: np.ndarray) -> float:
        """H, where anything that is not finite means probability 0."""
        with np.errstate(over="ignore", invalid="ignore"):  # a path may go astray
            energy = 0.5 * v @ self.inverse_mass @ v - logp
        return float(energy) if math.isfinite(energy) else math.inf

    def _evaluate(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        logp, grad = self.logp_and_grad(x)
        self.counts["n_gradients"] += 1
        return (float(logp) if math.isfinite(logp) else -math.inf), np.array(grad, dtype=float)

    # ---------------------------------------------------------------- the ladder

    @property
    def here(self) -> Rung:
        """The present rung."""
        return self.rungs[self.i]

    def _begin_ladder(self, x, v, grad, logp) -> None:
        """A new ladder at (x, v), with its own step size."""
        self.rungs = {0: Rung(x, v, grad, logp, self._energy(logp, v))}
        self.i, self.s = 0, 1
        self.origin_energy = self.here.energy
        self.path_error = 0.0
        jitter = self.step_jitter * (2 * uniform(self.rng) - 1)
        self.step_size = self.tuned.step_size * (1 + jitter)
        self.scheduled = False
        self.pending: tuple[float, float] | None = None

    def _begin_at(self, x: np.ndarray, *, new_momentum: bool) -> None:
        logp, grad = self._evaluate(x)
        v = self._fresh_momentum() if new_momentum else self.s * self.here.v
        self._begin_ladder(x, v, grad, logp)

    def resolve_flip(self) -> None:
        """Resolve a pending flip, before another step method moves."""
        self._resolve_flip()

    def move(self, x: np.ndarray) -> None:
        """Go on at x, where another step method has moved to; the momentum is kept."""
        self._begin_at(np.array(x, dtype=float), new_momentum=False)

    def _refresh(self) -> None:
        r"""R: :math:`v \leftarrow \alpha s v + \sqrt{1 - \alpha^2}\, n`, n ~ N(0, M)."""
        alpha, here = self.tuned.refresh_alpha, self.here
        kept = alpha * self.s * here.v
        v = kept + math.sqrt(1 - alpha**2) * self._fresh_momentum()
        path_error = here.energy - self.origin_energy
        self._begin_ladder(here.x, v, here.grad, here.logp)
        self.path_error = path_error

    def _energy_error(self) -> float:
        """Energy gained on the path that the draw ends, or is on."""
        if len(self.rungs) == 1:
            return self.path_error
        return self.here.energy - self.origin_energy

    def _L(self, start: Rung, side: int, level: int) -> Rung:
        """L (side = +1) or its inverse (-1), in steps that are halved `level` times."""
        if self.tuned.integrator == "rotation":
            return self._rotated(start, side * self.tuned.num_steps * self.step_size)
        kicks, drifts = _KICKS[self.tuned.integrator], _DRIFTS[self.tuned.integrator]
        h = side * len(drifts) * self.step_size / 2**level
        x, v, grad, logp = start.x, start.v, start.grad, start.logp
        for _ in range(self.tuned.num_steps * 2**level):
            for kick, drift in zip(kicks[:-1], drifts, strict=True):
                v = v + kick * h * self._force(x, grad)
                x, v = self._drift(drift * h, x, v)
                logp, grad = self._evaluate(x)
                if logp == -math.inf:
                    return Rung(x, v, grad, logp, math.inf)
            v = v + kicks[-1] * h * self._force(x, grad)
        return Rung(x, v, grad, logp, self._energy(logp, v))

    def _rotated(self, start: Rung, angle: float) -> Rung:
        """All steps of a rung at once, without kicks."""
        x, v = self._drift(angle, start.x, start.v)
        logp, grad = self._evaluate(x)
        if not np.isfinite(grad).all():
            logp = -math.inf
        return Rung(x, v, grad, logp, self._energy(logp, v))

    def _force(self, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """What the kicks follow: all of the gradient, or what the rotation leaves of it."""
        if self.tuned.integrator == "harmonic":
            return grad + self.mass @ (x - self.tuned.metric.centre)
        return grad

    def _drift(self, t: float, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Straight motion, or exact motion in the Gaussian :math:`N(m, M^{-1})`."""
        if self.tuned.integrator not in ("harmonic", "rotation"):
            return x + t * (self.inverse_mass @ v), v
        away = x - self.tuned.metric.centre
        turned = math.cos(t) * away + math.sin(t) * (self.inverse_mass @ v)
        return (
            self.tuned.metric.centre + turned,
            math.cos(t) * v - math.sin(t) * (self.mass @ away),
        )

    def _close(self, one: Rung, other: Rung) -> bool:
        return abs(one.energy - other.energy) <= self.refine_threshold

    def _neighbour(self, start: Rung, side: int) -> Rung:
        """The next rung: L at the coarsest level that nearly conserves the energy.

        The far end must choose the same level for its way back. Otherwise the two are no
        neighbours: the rung gets an infinite energy, so nothing goes there.
        """
        for level in range(self.refine_levels + 1):
            rung = self._L(start, side, level)
            if self._close(rung, start):
                break
        if not rung.energy - start.energy < _DIVERGENCE:
            self.counts["n_diverging"] += 1
        if level > 0 and math.isfinite(rung.energy):
            self.counts["n_refined"] += 1
            # any() stops at the first, as the kernel does: gradients are counted.
            if any(self._close(self._L(rung, -side, k), rung) for k in range(level)):
                self.counts["n_blocked"] += 1
                rung.energy = math.inf
        return rung

    def _neighbour_energy(self, side: int) -> float:
        """Energy of the rung next to this one; a known rung costs nothing."""
        if self.i + side not in self.rungs:
            self.rungs[self.i + side] = self._neighbour(self.here, side)
        return self.rungs[self.i + side].energy

    # -------------------------------------------------------------- rates, clocks

    def _log_ratio(self, energy: float) -> float:
        """Log of the probability of a state with this energy over that of the present one."""
        if not math.isfinite(energy):
            return -math.inf
        return self.here.energy - energy

    def _g(self, log_t: float) -> float:
        """The balancing function."""
        rates = self.settings.rates
        if log_t == -math.inf:
            return 0.0
        if rates == "sqrt":
            return math.exp(min(log_t / 2, _LARGEST_LOG_RATE))
        log_t = min(log_t, _LARGEST_LOG_RATE)
        if rates == "metropolis":
            return math.exp(min(log_t, 0.0))
        if rates == "barker":
            return 2 / (1 + math.exp(min(-log_t, _LARGEST_LOG_RATE)))
        assert callable(rates)
        return rates(math.exp(log_t)) if log_t <= 0 else math.exp(log_t) * rates(math.exp(-log_t))

    def _ring_gap(self) -> float:
        return exponential(self.rng) / self.g_max if self.poisson else 1 / self.g_max

    def _refresh_gap(self) -> float:
        """Regular refreshes are a whole number of rings apart, rounded at random."""
        rate = self.tuned.refresh_rate
        if self.poisson:
            return exponential(self.rng) / rate
        jitter = self.settings.refresh_jitter * (2 * uniform(self.rng) - 1)
        rings = math.floor(self.g_max * (1 + jitter) / rate + uniform(self.rng))
        return max(rings, 1) / self.g_max

    def _start_clocks(self) -> None:
        """Poisson clocks; or regular ones, refreshes half-way between rings."""
        self.next_ring = self.now + self._ring_gap()
        if not self.poisson:
            self.next_ring -= 0.5 / self.g_max
        self.next_refresh = self.now + self._refresh_gap()
        self.entered = self.now
        self.total_rate = 0.0

    def _wait(self, rate: float) -> float:
        waiting_time = exponential(self.rng)
        return waiting_time / rate if rate > 0 else math.inf

    def _schedule(self) -> None:
        """Competing exponentials: the sooner of w_L and w_F (w_R is the refresh clock)."""
        ahead = self._log_ratio(self._neighbour_energy(self.s))
        behind = self._log_ratio(self._neighbour_energy(-self.s))
        rate_L = self._g(ahead)
        rate_F = max(0.0, self._g(behind) - rate_L)
        wait_L, wait_F = self._wait(rate_L), self._wait(rate_F)
        self.next_ring = self.now + min(wait_L, wait_F)
        self.next_event = "L" if wait_L < wait_F else "F"
        self.total_rate = rate_L + rate_F + self.tuned.refresh_rate
        self.scheduled = True
        self._count_acceptance(ahead, 1 / self.total_rate)

    def _thinned_event(self) -> str | None:
        """Thinning: L with probability g_ahead / g_max, else perhaps F.

        The rung behind decides between F and nothing. It is asked as late as possible, when
        the direction matters next: see `_resolve_flip`.
        """
        self._resolve_flip()
        ahead = self._log_ratio(self._neighbour_energy(self.s))
        self._count_acceptance(ahead, 1.0)
        g_ahead = self._g(ahead)
        u = uniform(self.rng) * self.g_max
        if u < g_ahead:
            return "L"
        self.pending = (u, g_ahead)
        return None

    def _resolve_flip(self) -> None:
        """After a failed move, F with probability max(0, g_behind - g_ahead) / g_max."""
        if self.pending is None:
            return
        u, g_ahead = self.pending
        self.pending = None
        g_behind = self._g(self._log_ratio(self._neighbour_energy(-self.s)))
        if u < g_ahead + max(0.0, g_behind - g_ahead):
            self._apply("F")

    # ------------------------------------------------------------------- events

    def _apply(self, event: str) -> None:
        """L or F."""
        self._leave(event)
        if event == "L":
            self.i += self.s
            self.stay = 0
        else:
            self.s = -self.s

    def _leave(self, event: str) -> None:
        """The present state is left: note the time that was spent in it."""
        self.counts["n_" + event] += 1
        expected = 1 / self.total_rate if self.total_rate > 0 else math.inf
        self.jumps.append(Visit(self.here.x.copy(), self.now - self.entered, expected, event))
        self.entered = self.now
        self.scheduled = False

    def _ring(self) -> None:
        self.stay += 1
        if self.competing:
            self.now = self.next_ring
            self._apply(self.next_event)
        else:
            event = self._thinned_event()
            self.now = self.next_ring
            self.next_ring = self.now + self._ring_gap()
            if event is not None:
                self._apply(event)
        self.counts["longest_stay"] = max(self.counts["longest_stay"], self.stay)

    def _refresh_event(self) -> None:
        if self.tuned.refresh_alpha > 0:  # a full refresh forgets the direction
            self._resolve_flip()
        self.now = self.next_refresh
        self._leave("R")
        self._refresh()
        self.next_refresh = self.now + self._refresh_gap()

    def advance(self) -> None:
        """Run for `draw_interval` of system time: one draw."""
        counts, settings = self.counts, self.settings
        self.tick_end = self.now + self.tuned.draw_interval
        while True:
            if self.competing and not self.scheduled:
                self._schedule()
            if min(self.next_ring, self.next_refresh) > self.tick_end:
                self.now = self.tick_end
                return
            jumps = counts["n_L"] + counts["n_F"] + counts["n_R"]
            if jumps >= settings.max_jumps or counts["n_gradients"] >= settings.max_gradients:
                self._skip_to_tick()
                return
            if self.next_refresh <= self.next_ring:
                self._refresh_event()
            else:
                self._ring()

    def _skip_to_tick(self) -> None:
        """Too much has happened in this tick: let the rest of it pass without an event."""
        rest = self.tick_end - self.now
        self.next_ring += rest
        self.next_refresh += rest
        self.entered += rest
        self.now = self.tick_end
        self.counts["n_capped"] += 1

    # --------------------------------------------------------------- statistics

    def _reset_statistics(self) -> None:
        self.counts = dict.fromkeys(COUNTS, 0)
        self.acceptance = self.acceptance_weight = 0.0

    def _count_acceptance(self, log_ratio: float, weight: float) -> None:
        self.acceptance += weight * math.exp(min(0.0, log_ratio))
        self.acceptance_weight += weight

    def statistics(self) -> dict[str, float]:
        """What has been counted since the last call, and the present state's numbers."""
        weight = self.acceptance_weight
        stats = {
            **self.counts,
            "energy": self.here.energy,
            "energy_error": self._energy_error(),
            "acceptance_rate": self.acceptance / weight if weight > 0 else math.nan,
            "step_size": self.step_size,
            "lp": self.here.logp,
            "step_size_bar": self.tuned.step_size,
        }
        self._reset_statistics()
        return stats
