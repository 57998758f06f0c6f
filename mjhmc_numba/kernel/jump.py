r"""One event of the jump process, simulated in one of two ways that agree in law.

*Competing exponentials* (any g; the paper's algorithm): draw waiting times with rates
:math:`\Gamma_L, \Gamma_F, \Gamma_R`; the shortest wins and is the holding time. Both neighbours
must be known before anything can happen.

*Thinning* (bounded g): a clock that does not look at the state rings; at a ring, move with
probability :math:`g_{ahead} / g_{max}`, else flip with probability
:math:`\max(0, g_{behind} - g_{ahead}) / g_{max}`, else do nothing. With exponential gaps of rate
:math:`g_{max}` this is the same Markov jump process; with regular gaps it is its uniformised
chain, which for metropolis rates is HMC with reduced momentum flips (Sohl-Dickstein 2012,
arXiv:1205.1939) on a cached ladder. The rung behind is asked for only after a failed move, and a
refresh costs no gradient.

Whether a failed move flips is resolved as late as possible: at the next ring. If a full refresh
comes first, the direction is forgotten anyway and the rung behind is never computed.
"""

import math

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.density import write_position
from mjhmc_numba.kernel.ladder import energy_of, neighbour_energy, rung
from mjhmc_numba.kernel.layout import (
    CLOCK_POISSON,
    COMPETING,
    EVENT_F,
    EVENT_L,
    random_stream,
    row_of,
    vector_of,
)
from mjhmc_numba.kernel.random import exponential, uniform
from mjhmc_numba.kernel.rates import balancing, flip_rate, jump_rates, log_probability_ratio

_record_x, _record_holding = row_of("record_x"), row_of("record_holding")
_record_event = vector_of("record_event")


@kernel_jit
def ring_gap(p):
    """Time between two looks at the neighbours (thinning)."""
    if p.clock == CLOCK_POISSON:
        return exponential(random_stream(p)) / p.g_max
    return 1.0 / p.g_max


@kernel_jit
def refresh_gap(p):
    """Time between two refreshes.

    Under the regular clock it is a whole number of rings, rounded up or down at random so that
    the refresh rate holds on average.
    """
    if p.clock == CLOCK_POISSON:
        return exponential(random_stream(p)) / p.refresh_rate
    rng = random_stream(p)
    jitter = p.refresh_jitter * (2.0 * uniform(rng) - 1.0)
    rings = math.floor(p.g_max * (1.0 + jitter) / p.refresh_rate + uniform(rng))
    return max(rings, 1.0) / p.g_max


@kernel_jit
def start_clocks(p):
    """Set both clocks going.

    The regular ones so that refreshes fall amid two rings, and on draws that are as far apart:
    then a draw is the end of a whole path, and the next path begins there.
    """
    p.next_ring = p.now + ring_gap(p)
    if p.clock != CLOCK_POISSON:
        p.next_ring -= 0.5 / p.g_max
    p.next_refresh = p.now + refresh_gap(p)
    p.entered = p.now
    p.scheduled = 0


@kernel_jit
def _count_acceptance(p, log_ratio, weight):
    """Average min(1, pi_ahead / pi) over system time; rings see time averages."""
    p.acceptance += weight * math.exp(min(0.0, log_ratio))
    p.acceptance_weight += weight


@kernel_jit
def schedule_jump(p):
    """Competing exponentials: draw w_L and w_F, keep the sooner. Returns whether it raised.

    w_R is the refresh clock, which runs on: exponential waiting times have no memory.
    """
    raised, energy_ahead = neighbour_energy(p, p.direction)
    if raised:
        return True
    raised, energy_behind = neighbour_energy(p, -p.direction)
    if raised:
        return True
    energy = energy_of(p, p.here)
    rate_L, rate_F = jump_rates(p.rates, energy, energy_ahead, energy_behind, p.g)
    wait_L = exponential(random_stream(p)) / rate_L
    wait_F = exponential(random_stream(p)) / rate_F
    p.next_ring = p.now + min(wait_L, wait_F)
    p.next_event = EVENT_L if wait_L < wait_F else EVENT_F
    p.total_rate = rate_L + rate_F + p.refresh_rate
    p.scheduled = 1
    _count_acceptance(p, log_probability_ratio(energy, energy_ahead), 1.0 / p.total_rate)
    return False


@kernel_jit
def resolve_flip(p):
    """Decide whether the last failed move flipped. Returns whether the density raised."""
    if p.pending_flip == 0:
        return False
    raised, energy_behind = neighbour_energy(p, -p.direction)
    if raised:
        return True
    p.pending_flip = 0
    behind = log_probability_ratio(energy_of(p, p.here), energy_behind)
    g_behind = balancing(p.rates, behind, p.g)
    if p.pending_u < p.pending_g + flip_rate(p.pending_g, g_behind):
        move(p, EVENT_F)
    return False


@kernel_jit
def thinned_event(p):
    """Thinning: a ring. Returns whether the density raised."""
    if resolve_flip(p):
        return True
    raised, energy_ahead = neighbour_energy(p, p.direction)
    if raised:
        return True
    ahead = log_probability_ratio(energy_of(p, p.here), energy_ahead)
    _count_acceptance(p, ahead, 1.0)
    g_ahead = balancing(p.rates, ahead, p.g)
    u = uniform(random_stream(p)) * p.g_max
    p.now = p.next_ring
    p.next_ring = p.now + ring_gap(p)
    if u < g_ahead:
        move(p, EVENT_L)
    else:
        p.pending_flip = 1
        p.pending_u = u
        p.pending_g = g_ahead
    return False


@kernel_jit
def record_visit(p, event):
    """Write the state that is being left, with the time spent in it, to the jump record."""
    if p.record_capacity == 0:
        return
    x, _, _, _, _ = rung(p, p.here)
    n = p.recorded
    write_position(p, x, _record_x(p, n))
    holding = _record_holding(p, n)
    holding[0] = p.now - p.entered
    holding[1] = 1.0 / p.total_rate
    _record_event(p)[n] = event
    p.recorded = n + 1


@kernel_jit
def move(p, event):
    """Apply L or F: L goes one rung in the direction s, F reverses s."""
    record_visit(p, event)
    if event == EVENT_L:
        p.here += p.direction
        p.n_L += 1
        p.stay = 0
    else:
        p.direction = -p.direction
        p.n_F += 1
    p.entered = p.now
    p.scheduled = 0


@kernel_jit
def ring(p):
    """The ring of the clock: an event, or none. Returns whether the density raised."""
    p.stay += 1
    if p.method == COMPETING:
        p.now = p.next_ring
        move(p, p.next_event)
    elif thinned_event(p):
        return True
    p.longest_stay = max(p.longest_stay, p.stay)
    return False
