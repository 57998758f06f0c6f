r"""The ladder of states :math:`\ldots, L^{-1}\zeta, \zeta, L\zeta, \ldots` since the last refresh.

The process is at rung i with a direction s = +1 or -1, and

* L takes (i, s) to (i + s, s): a rung that is known costs nothing, a new one M steps;
* F takes (i, s) to (i, -s): only the direction changes, energies do not depend on it;
* R keeps x, draws a momentum and starts a new ladder.

The rungs lie in a circular buffer, a power of two long. When it is full, the rung at the far end is
forgotten and would be computed again; memory does not grow with the length of the run.
"""

import math

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.integrators import evaluate_force, integrate
from mjhmc_numba.kernel.layout import (
    keeps_velocity,
    random_stream,
    row_of,
    scratch_point,
    vector_of,
)
from mjhmc_numba.kernel.metric import draw_momentum, kinetic_energy, refresh_momentum
from mjhmc_numba.kernel.random import uniform
from mjhmc_numba.kernel.reparametrisation import inverse, is_reparametrised

_x, _v, _grad = row_of("x"), row_of("v"), row_of("grad")
_velocity, _acceleration = row_of("velocity"), row_of("acceleration")
_energies, _logps = vector_of("energy"), vector_of("logp")
_divergence_x = row_of("divergence_x")

# A step that gains more energy than this has diverged (the threshold that Stan and PyMC use).
DIVERGENCE_THRESHOLD = 1000.0


@kernel_jit
def slot(p, i):
    """Where rung i lies; the capacity is a power of two, so this holds for negative i too."""
    return i & (p.capacity - 1)


@kernel_jit
def rung(p, i):
    """Rung i as a point of phase space: its x, v (for s = +1), gradient, velocity, acceleration.

    The last two are M^-1 v and M^-1 grad, and are there only where `keeps_velocity`.
    """
    k = slot(p, i)
    return _x(p, k), _v(p, k), _grad(p, k), _velocity(p, k), _acceleration(p, k)


@kernel_jit
def energy_of(p, i):
    """Energy of rung i."""
    return _energies(p)[slot(p, i)]


@kernel_jit
def logp_of(p, i):
    """Log density of rung i."""
    return _logps(p)[slot(p, i)]


@kernel_jit
def _set_levels(p, i, energy, logp):
    _energies(p)[slot(p, i)] = energy
    _logps(p)[slot(p, i)] = logp


@kernel_jit
def total_energy(logp, kinetic):
    """H = -logp + kinetic energy; infinite wherever it is not finite."""
    energy = kinetic - logp
    return energy if math.isfinite(energy) else math.inf


@kernel_jit
def copy_vector(source, destination):
    """Copy; a slice assignment would compile a shape check, which takes seconds."""
    for j in range(source.size):
        destination[j] = source[j]


@kernel_jit
def copy_point(p, source, destination):
    """Copy a point of phase space, with what it has of velocity and acceleration."""
    # A loop over the members of a tuple would not be unrolled.
    copy_vector(source[0], destination[0])
    copy_vector(source[1], destination[1])
    copy_vector(source[2], destination[2])
    if keeps_velocity(p):
        copy_vector(source[3], destination[3])
        copy_vector(source[4], destination[4])


@kernel_jit
def _apply_L(p, side, level, start, end):
    """Write L (side = +1) of `start`, or its inverse, to `end`, refined `level` times.

    Returns (raised, logp, H).
    """
    copy_point(p, start, end)
    pieces = 1 << level
    raised, logp = integrate(p, side * p.ladder_step / pieces, p.num_steps * pieces, end)
    if raised or logp == -math.inf:
        return raised, logp, math.inf
    return False, logp, total_energy(logp, kinetic_energy(p, end[1], end[3]))


@kernel_jit
def _same_level_back(p, side, level, i, energy):
    """Whether L, started at its far end, would choose the same level: then the edge exists.

    Rung i was reached with refinement `level`. If a coarser level would do for the way back,
    the way back is another one and the two ends are no neighbours. Returns (raised, same).
    """
    far, back = rung(p, i), scratch_point(p)
    for coarser in range(level):
        raised, _, energy_back = _apply_L(p, -side, coarser, far, back)
        if raised:
            return True, False
        if abs(energy_back - energy) <= p.refine_threshold:
            return False, False
    return False, True


@kernel_jit
def extend_ladder(p, side):
    """Compute the next rung on `side` (+1 or -1) of the known ones. Returns whether it raised."""
    end = p.high if side > 0 else p.low
    base, beyond = rung(p, end), rung(p, end + side)
    base_energy = energy_of(p, end)
    if p.high - p.low + 1 == p.capacity:  # full: the rung at the other end makes room
        if side > 0:
            p.low += 1
        else:
            p.high -= 1
    level = 0
    while True:
        raised, logp, energy = _apply_L(p, side, level, base, beyond)
        if raised:
            return True
        if abs(energy - base_energy) <= p.refine_threshold or level == p.refine_levels:
            break
        level += 1
    is_refined, has_way_back = level > 0 and math.isfinite(energy), True
    if is_refined:
        raised, has_way_back = _same_level_back(p, side, level, end + side, energy)
        if raised:
            return True
    # Counted once the rung is certain: what is interrupted before comes again.
    if not energy - base_energy < DIVERGENCE_THRESHOLD:
        p.n_diverging += 1
        p.all_divergences += 1
        copy_vector(base[0], _divergence_x(p, min(p.done, p.divergence_capacity - 1)))
    if is_refined:
        p.n_refined += 1
    if not has_way_back:
        p.n_blocked += 1
        energy = math.inf
    _set_levels(p, end + side, energy, logp)
    if side > 0:
        p.high += 1
    else:
        p.low -= 1
    return False


@kernel_jit
def neighbour_energy(p, side):
    """Energy of the neighbouring rung on `side`, computed if unknown. Returns (raised, H)."""
    i = p.here + side
    if i > p.high or i < p.low:
        if extend_ladder(p, side):
            return True, math.inf
    return False, energy_of(p, i)


@kernel_jit
def start_ladder(p, kinetic):
    """Make the present state, with momentum s v, the only rung of a new ladder.

    `kinetic` is its kinetic energy. The step size may change here and only here: within a
    ladder L stays one fixed map.
    """
    _, v, _, velocity, _ = rung(p, p.here)
    if p.direction < 0:
        for j in range(v.size):
            v[j] = -v[j]
        if keeps_velocity(p):
            for j in range(v.size):
                velocity[j] = -velocity[j]
    p.direction = 1
    p.low = p.here
    p.high = p.here
    p.scheduled = 0
    p.pending_flip = 0
    logp = logp_of(p, p.here)
    energy = total_energy(logp, kinetic)
    _set_levels(p, p.here, energy, logp)
    p.origin_energy = energy
    p.path_error = 0.0
    jitter = p.step_jitter * (2.0 * uniform(random_stream(p)) - 1.0)
    p.ladder_step = p.step_size * (1.0 + jitter)


@kernel_jit
def refresh(p):
    """R: same x, new momentum, new ladder. Costs no gradient."""
    _, v, _, velocity, _ = rung(p, p.here)
    path_error = energy_of(p, p.here) - p.origin_energy
    # The momentum of (i, s) is s v: a partial refresh must keep its sign.
    kinetic = refresh_momentum(p, p.refresh_alpha * p.direction, v, velocity)
    p.direction = 1
    start_ladder(p, kinetic)
    p.path_error = path_error


@kernel_jit
def place(p, position, new_momentum):
    """Put the process at a position of the density, as after a move by another step method.
    Returns whether it raised.

    Log density and gradient are computed anew (one gradient); the momentum is drawn, or kept. To
    keep it, a pending flip must be resolved before the move: afterwards the density that would
    resolve it is gone, and a momentum that is dropped in some cases has another law.
    """
    point = rung(p, p.here)
    x, v, _, velocity, _ = point
    if is_reparametrised(p):
        inverse(p, position, x)
    else:
        copy_vector(position, x)
    raised, logp = evaluate_force(p, point)
    if raised:
        return True
    if new_momentum:
        draw_momentum(p, v, velocity)
        p.direction = 1
    _set_levels(p, p.here, 0.0, logp)
    start_ladder(p, kinetic_energy(p, v, velocity))
    return False
