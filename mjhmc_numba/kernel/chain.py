"""The entry points of the kernel: start a process, move it, run it for n ticks.

Each gets an array of one `layout.STATE` record.
"""

import math

from mjhmc_numba.kernel.adaptation import adapt_step, keep_draw
from mjhmc_numba.kernel.clock import advance
from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.density import write_position
from mjhmc_numba.kernel.integrators import integrate
from mjhmc_numba.kernel.jump import resolve_flip, start_clocks
from mjhmc_numba.kernel.ladder import (
    copy_vector,
    energy_of,
    logp_of,
    place,
    rung,
    start_ladder,
    total_energy,
)
from mjhmc_numba.kernel.layout import (
    COLUMN,
    DENSITY_RAISED,
    FINISHED,
    counts_of,
    keeps_velocity,
    scratch_point,
)
from mjhmc_numba.kernel.metric import apply_inverse_mass, draw_momentum, kinetic_energy


@kernel_jit
def start_process(state, x):
    """Place the process at x with a fresh momentum and set its clocks going."""
    p = state[0]
    if place(p, x, True):
        return DENSITY_RAISED
    start_clocks(p)
    p.in_tick = 0
    return FINISHED


@kernel_jit
def move_process(state, x):
    """Continue at x, where the density may be another one: momentum and clocks run on."""
    return DENSITY_RAISED if place(state[0], x, False) else FINISHED


@kernel_jit
def resolve_process(state):
    """Resolve a pending flip, before another step method moves or changes the density."""
    return DENSITY_RAISED if resolve_flip(state[0]) else FINISHED


@kernel_jit
def restart_process(state):
    """Begin a new ladder where the process is, after its metric or its clocks have changed."""
    p = state[0]
    _, v, grad, velocity, acceleration = rung(p, p.here)
    kinetic = draw_momentum(p, v, velocity)
    if keeps_velocity(p):
        apply_inverse_mass(p, grad, acceleration)
    p.direction = 1
    start_ladder(p, kinetic)
    start_clocks(p)


@kernel_jit
def probe_steps(state, x, grad, logp, stages, motion, step_size, errors, gains):
    """One integrator step from each of the draws x (n, d) with a fresh momentum; moves nothing.

    `grad` (n, d) and `logp` (n,) belong to x, all in the coordinates of the process. Writes the
    energy errors and the log densities gained, which are infinite where a step leaves the support.
    Returns whether the density raised.
    """
    p = state[0]
    usual_stages, usual_motion = p.stages, p.motion
    p.stages, p.motion = stages, motion
    end = scratch_point(p)
    end_x, end_v, end_grad, end_velocity, end_acceleration = end
    has_raised = False
    for k in range(x.shape[0]):
        copy_vector(x[k], end_x)
        copy_vector(grad[k], end_grad)
        if keeps_velocity(p):
            apply_inverse_mass(p, end_grad, end_acceleration)
        energy = total_energy(logp[k], draw_momentum(p, end_v, end_velocity))
        has_raised, end_logp = integrate(p, step_size, 1, end)
        if has_raised:
            break
        errors[k], gains[k] = math.inf, -math.inf
        if end_logp > -math.inf:
            errors[k] = total_energy(end_logp, kinetic_energy(p, end_v, end_velocity)) - energy
            gains[k] = end_logp - logp[k]
    p.stages, p.motion = usual_stages, usual_motion
    return has_raised


@kernel_jit
def write_draw(p, draw, stats):
    """Write the present position and the statistics since the last draw; start them again."""
    x, _, _, _, _ = rung(p, p.here)
    log_volume = write_position(p, x, draw)
    energy = energy_of(p, p.here)
    counts = counts_of(p)
    for k in range(counts.size):  # the first columns, in their order
        stats[k] = counts[k]
    stats[COLUMN.energy] = energy + log_volume  # as `lp`: comparable between chains
    # A draw at a refresh is the end of the path before it.
    stats[COLUMN.energy_error] = p.path_error if p.low == p.high else energy - p.origin_energy
    stats[COLUMN.acceptance_rate] = p.acceptance / p.acceptance_weight
    stats[COLUMN.step_size] = p.ladder_step
    stats[COLUMN.step_size_bar] = p.step_size
    stats[COLUMN.lp] = logp_of(p, p.here) - log_volume
    p.done += 1
    p.in_tick = 0
    start_counts(p)


@kernel_jit
def start_counts(p):
    """Count from zero for the next draw."""
    counts = counts_of(p)
    for k in range(counts.size):
        counts[k] = 0
    p.acceptance = 0.0
    p.acceptance_weight = 0.0


@kernel_jit
def run_ticks(state, draws, stats):
    """Fill the rows of draws (n, d) and stats (n, len(STAT_NAMES)), one tick per row.

    In a warm-up the draws are kept, and the step size adapts after each.

    Returns (rows filled, status). A status other than FINISHED leaves the process in the middle
    of a tick, and a further call goes on from there.
    """
    p = state[0]
    for n in range(draws.shape[0]):
        if p.in_tick == 0:
            p.tick_end = p.now + p.draw_interval
            p.in_tick = 1
        status = advance(p)
        if status != FINISHED:
            return n, status
        write_draw(p, draws[n], stats[n])
        if p.kept_capacity > 0:
            keep_draw(p)
        if p.adapts != 0:
            adapt_step(p, stats[n])
    return draws.shape[0], FINISHED
