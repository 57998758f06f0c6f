r"""Discrete-time HMC on the ladder of the jump process: the paper's control.

Apply L and accept with probability :math:`\min(1, \pi(L\zeta)/\pi(\zeta))`, else flip; then, with a
given probability, draw a new momentum. With probability 1 it is standard HMC. Nothing is cached
between steps, as in the usual implementations.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mjhmc_numba import Settings, as_target
from mjhmc_numba.initial import Region, find_start
from mjhmc_numba.kernel.chain import write_draw
from mjhmc_numba.kernel.compilation import FASTMATH
from mjhmc_numba.kernel.ladder import energy_of, neighbour_energy, refresh, rung, start_ladder
from mjhmc_numba.kernel.layout import (
    DENSITY_RAISED,
    FINISHED,
    INTERRUPTED,
    STAT_NAMES,
    random_stream,
)
from mjhmc_numba.kernel.metric import kinetic_energy
from mjhmc_numba.kernel.random import uniform
from mjhmc_numba.kernel.rates import log_probability_ratio
from mjhmc_numba.process import Process, random_words
from mjhmc_numba.targets import Distribution
from mjhmc_numba.warmup.first import first_guess

# As the kernel is compiled, but not cached: the kernel's cache does not look at this file.
_jit = njit(nogil=True, error_model="numpy", fastmath=FASTMATH)


@_jit
def hmc_step(p, refresh_probability):
    """One step. Returns whether the density raised."""
    _, v, _, velocity, _ = rung(p, p.here)
    start_ladder(p, kinetic_energy(p, v, velocity))
    raised, energy_ahead = neighbour_energy(p, 1)
    if raised:
        return True
    ratio = log_probability_ratio(energy_of(p, p.here), energy_ahead)
    acceptance = math.exp(min(0.0, ratio))
    p.acceptance += acceptance
    p.acceptance_weight += 1.0
    if uniform(random_stream(p)) < acceptance:
        p.here += 1
        p.n_L += 1
    else:
        p.direction = -1
        p.n_F += 1
    if uniform(random_stream(p)) < refresh_probability:
        refresh(p)
        p.n_R += 1
    return False


@_jit
def run_hmc(state, draws, stats, refresh_probability):
    """Fill the rows of draws and stats, one step per row; returns (rows filled, status)."""
    p = state[0]
    for n in range(draws.shape[0]):
        if p.abort != 0:
            return n, INTERRUPTED
        if hmc_step(p, refresh_probability):
            return n, INTERRUPTED if p.abort != 0 else DENSITY_RAISED
        write_draw(p, draws[n], stats[n])
    return draws.shape[0], FINISHED


def sample_hmc(
    target: Distribution,
    initial: np.ndarray | None = None,
    *,
    step_size: float,
    num_steps: int,
    refresh_probability: float,
    draws: int,
    chains: int,
    seed,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Run chains of discrete-time HMC with fixed settings and the unit metric, one by one.

    Parameters
    ----------
    target : Distribution
        what to sample from
    initial : array (chains, d), optional
        where the chains start; random if not given
    step_size, num_steps : float, int
        length per gradient, and gradients per step
    refresh_probability : float
        in (0, 1]: how likely a new momentum is drawn after a step
    draws, chains : int
        steps per chain, each of which is a draw; and number of chains
    seed : int or sequence of int
        entropy of a `numpy.random.SeedSequence`

    Returns
    -------
    draws : array (chain, draw, d)
    stats : dict of arrays (chain, draw)
        the kernel's statistics by name; `n_gradients` counts gradients
    """
    if not 0 < refresh_probability <= 1:
        raise ValueError(f"refresh_probability lies in (0, 1], not {refresh_probability!r}.")
    compiled = as_target(target)
    settings = Settings(
        step_size=step_size,
        num_steps=num_steps,
        refresh_rate=1.0,
        draw_interval=1.0,
        integrator="leapfrog",
        metric=np.ones(compiled.ndim),
    )
    out = np.empty((chains, draws, compiled.ndim))
    rows = np.empty((chains, draws, len(STAT_NAMES)))
    for k, child in enumerate(np.random.SeedSequence(seed).spawn(chains)):
        region = Region.anywhere(compiled.ndim) if initial is None else Region(initial[k], 0.0)
        process = _started(compiled, settings, region, child)
        _, status = run_hmc(process.state, out[k], rows[k], refresh_probability)
        if status == DENSITY_RAISED:
            raise process.error()
    return out, {name: rows[..., j] for j, name in enumerate(STAT_NAMES)}


def _started(target, settings: Settings, region: Region, seed: np.random.SeedSequence) -> Process:
    """A process at a start in the region, from which the gradients are counted."""
    start, _ = find_start(target, region, np.random.default_rng(seed.spawn(1)[0]))
    process = Process(target, settings, first_guess(settings, target.ndim), random_words(seed))
    process.start(start)
    process.count_anew()
    return process
