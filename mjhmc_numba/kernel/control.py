r"""Discrete-time HMC on the same ladder, for comparison.

The paper's control: apply L and accept with probability :math:`\min(1, \pi(L\zeta)/\pi(\zeta))`,
else flip; then, with a given probability, draw a new momentum. With probability 1 it is standard
HMC. Nothing is cached between steps, as in the usual implementations.
"""

import math

from mjhmc_numba.kernel.chain import write_draw
from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.ladder import energy_of, neighbour_energy, refresh, rung, start_ladder
from mjhmc_numba.kernel.layout import DENSITY_RAISED, FINISHED, INTERRUPTED, random_stream
from mjhmc_numba.kernel.metric import kinetic_energy
from mjhmc_numba.kernel.random import uniform
from mjhmc_numba.kernel.rates import log_probability_ratio


@kernel_jit
def control_step(p, refresh_probability):
    """One step of the control sampler. Returns whether the density raised."""
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


@kernel_jit
def run_control(state, draws, stats, refresh_probability):
    """Fill the rows of draws and stats, one step of discrete-time HMC a row."""
    p = state[0]
    for n in range(draws.shape[0]):
        if p.abort != 0:
            return n, INTERRUPTED
        if control_step(p, refresh_probability):
            return n, DENSITY_RAISED
        write_draw(p, draws[n], stats[n])
    return draws.shape[0], FINISHED
