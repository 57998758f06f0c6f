"""Advance the jump process to the next tick of system time: one draw.

Running the process for a time that does not depend on its state leaves the target invariant, so
the states at the ticks are unweighted draws, and a tick composes with other Markov steps.
"""

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.jump import record_visit, refresh_gap, resolve_flip, ring, schedule_jump
from mjhmc_numba.kernel.ladder import refresh
from mjhmc_numba.kernel.layout import (
    COMPETING,
    DENSITY_RAISED,
    EVENT_R,
    FINISHED,
    INTERRUPTED,
    RECORD_FULL,
)


@kernel_jit
def _refresh_event(p):
    """Refresh, and set the next one. Returns whether the density raised."""
    if p.refresh_alpha > 0.0 and resolve_flip(p):
        return True
    p.now = p.next_refresh
    record_visit(p, EVENT_R)
    refresh(p)
    p.n_R += 1
    p.entered = p.now
    p.next_refresh = p.now + refresh_gap(p)
    return False


@kernel_jit
def _skip_to_tick(p):
    """Let the rest of the tick pass without an event: all that is due is due later."""
    rest = p.tick_end - p.now
    p.next_ring += rest
    p.next_refresh += rest
    p.entered += rest
    p.now = p.tick_end
    p.n_capped += 1


@kernel_jit
def _stopped(p, gradients, stay):
    """Why an event did not come about. One that was interrupted comes again, and counts once."""
    if p.abort == 0:
        return DENSITY_RAISED
    p.n_gradients = gradients
    p.stay = stay
    return INTERRUPTED


@kernel_jit
def advance(p):
    """Run to the end of the current tick. Returns a status; anything but FINISHED can resume."""
    while True:
        if p.abort != 0:
            return INTERRUPTED
        gradients, stay = p.n_gradients, p.stay
        if p.record_capacity > 0 and p.recorded == p.record_capacity:
            return RECORD_FULL
        if p.method == COMPETING and p.scheduled == 0:
            if schedule_jump(p):
                return _stopped(p, gradients, stay)
        if min(p.next_ring, p.next_refresh) > p.tick_end:
            p.now = p.tick_end
            return FINISHED
        if p.n_L + p.n_F + p.n_R >= p.max_jumps or p.n_gradients >= p.max_gradients:
            _skip_to_tick(p)
            return FINISHED
        if p.next_refresh <= p.next_ring:
            raised = _refresh_event(p)
        else:
            raised = ring(p)
        if raised:
            return _stopped(p, gradients, stay)
