r"""Between the draws of a warm-up: each is kept, and the step size adapts.

The step size follows dual averaging (Nesterov 2009; Hoffman and Gelman 2014, section 3.2). With
acceptance a, wanted acceptance :math:`\delta` and :math:`t` updates so far,

.. math::
    \bar d_t &= (1 - \eta_t)\, \bar d_{t-1} + \eta_t (\delta - a), \quad \eta_t = 1 / (t + t_0), \\
    \log\epsilon_{t+1} &= \mu - \tfrac{\sqrt t}{\gamma} \bar d_t, \qquad
    \log\bar\epsilon_t = t^{-\kappa} \log\epsilon_{t+1} + (1 - t^{-\kappa}) \log\bar\epsilon_{t-1}.

The acceptance is that of a step ahead, averaged over system time: a jump process visits unlikely
states often and leaves them at once, so that an average over jumps would say too little.
"""

import math

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.ladder import copy_vector, logp_of, rung
from mjhmc_numba.kernel.layout import COLUMN, row_of, vector_of

# Stan has 0.05, for more updates that each know less. On a banana, a Student-t in 20 dimensions and
# log-gamma variables (12 seeds, 500 draws of warm-up) 0.05, 0.15 and 0.5 leave an acceptance of
# 0.95, 0.86 and 0.82; the smallest effective size per 1000 gradients is 11.8, 16.1 and 16.7, and
# 2.4, 2.4 and 1.7 on the banana alone.
GAMMA = 0.15
T0 = 10.0  # Hoffman and Gelman (2014), and Stan; KAPPA too
KAPPA = 0.75

kept_x = row_of("kept_x")
kept_grad = row_of("kept_grad")
kept_logp = vector_of("kept_logp")


@kernel_jit
def average(updates, log_centre, log_average, deficit, acceptance, target):
    """One update of dual averaging: (log step to try next, log average, deficit)."""
    count = updates + 1
    eta = 1.0 / (count + T0)
    deficit = (1.0 - eta) * deficit + eta * (target - acceptance)
    log_step = log_centre - math.sqrt(count) / GAMMA * deficit
    weight = count**-KAPPA
    return log_step, weight * log_step + (1.0 - weight) * log_average, deficit


@kernel_jit
def _unrefined_acceptance(p, stats):
    """A refined rung counts as not accepted: any step size does well that is refined enough."""
    looks = p.draw_interval * p.g_max
    if not math.isfinite(looks):
        looks = max(stats[COLUMN.n_L] + stats[COLUMN.n_F], 1.0)
    return max(stats[COLUMN.acceptance_rate] - stats[COLUMN.n_refined] / looks, 0.0)


@kernel_jit
def adapt_step(p, stats):
    """Take in the acceptance of a draw.

    A new step size counts from a refresh on, so that is when it is worth a change.
    """
    if math.isfinite(stats[COLUMN.acceptance_rate]):
        p.accepted += _unrefined_acceptance(p, stats)
        p.tried += 1
    if stats[COLUMN.n_R] == 0 or p.tried == 0:
        return
    log_step, p.log_average, p.deficit = average(
        p.updates, p.log_centre, p.log_average, p.deficit, p.accepted / p.tried, p.target_accept
    )
    p.updates += 1
    p.step_size = min(max(math.exp(log_step), p.shortest_step), p.longest_step)
    p.accepted = 0.0
    p.tried = 0


@kernel_jit
def keep_draw(p):
    """Keep position, gradient and log density, in the coordinates of the process."""
    k = p.kept % p.kept_capacity
    x, _, grad, _, _ = rung(p, p.here)
    copy_vector(x, kept_x(p, k))
    copy_vector(grad, kept_grad(p, k))
    kept_logp(p)[k] = logp_of(p, p.here)
    p.kept += 1
