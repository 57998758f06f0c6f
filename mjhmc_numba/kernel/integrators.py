r"""L: reversible, volume-preserving maps that nearly conserve the energy.

All are palindromes of kicks :math:`v \leftarrow v + b h \nabla\log\pi(x)` and drifts
:math:`x \leftarrow x + a h M^{-1} v`:

=============  ======  ==============================  ==================
integrator     stages  kicks b                         drifts a
=============  ======  ==============================  ==================
leapfrog       1       1/2, 1/2                        1
two_stage      2       b, 1 - 2b, b                    1/2, 1/2
three_stage    3       b, 1/2 - b, 1/2 - b, b          a, 1 - 2a, a
=============  ======  ==============================  ==================

`step_size` is the length per gradient, so h = stages * step_size, and integrators compare at
equal cost. A negative step size gives the inverse map.

The *harmonic* integrator has leapfrog's kicks, but its drift is the exact motion in the Gaussian
that the metric describes, :math:`N(m, M^{-1})`: a rotation by the angle h about m. Its kicks have
the remaining force :math:`\nabla\log\pi(x) + M (x - m)` alone. On a target that is nearly
that Gaussian it makes almost no energy error at any step size, and an angle of a quarter turn
forgets the start (splitting as in Shahbaba et al. 2014, Stat. Comput. 24, 339).

The *rotation* is that motion without any kick: the gradient is not asked where to go. It is for
targets with a fine structure whose gradient says nothing of the large one; the energy error is
then that of the Gaussian, at any angle, and one evaluation does for all steps of a rung.
"""

import math

from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.density import evaluate
from mjhmc_numba.kernel.layout import HARMONIC, PULL_ROW, ROTATION, keeps_velocity, scratch
from mjhmc_numba.kernel.metric import apply_inverse_mass, centre_of, pull_to_centre, scale_of

# Blanes, Casas and Sanz-Serna (2014), SIAM J. Sci. Comput. 36, A1556.
TWO_STAGE_B = 0.21178
THREE_STAGE_B = 0.11888010966548
THREE_STAGE_A = 0.29619504261126


@kernel_jit
def kick_fraction(stages, k):
    """The k-th of stages + 1 kicks, as a fraction of h."""
    outer = k == 0 or k == stages
    if stages == 1:
        return 0.5
    if stages == 2:
        return TWO_STAGE_B if outer else 1.0 - 2.0 * TWO_STAGE_B
    return THREE_STAGE_B if outer else 0.5 - THREE_STAGE_B


@kernel_jit
def drift_fraction(stages, k):
    """The k-th drift, as a fraction of h."""
    if stages == 1:
        return 1.0
    if stages == 2:
        return 0.5
    return 1.0 - 2.0 * THREE_STAGE_A if k == 1 else THREE_STAGE_A


@kernel_jit
def kick(length, v, grad):
    """Move the momentum along the gradient, or the velocity along the acceleration."""
    for j in range(v.size):
        v[j] += length * grad[j]


@kernel_jit
def kick_and_drift(p, kick_length, drift_length, x, v, grad):
    """Both where the metric is diagonal, in one pass over the vectors."""
    scale = scale_of(p)
    for j in range(x.size):
        kicked = v[j] + kick_length * grad[j]
        v[j] = kicked
        x[j] += drift_length * scale[j] * scale[j] * kicked


@kernel_jit
def kick_and_follow(kick_length, drift_length, x, v, grad, velocity, acceleration):
    """Both where the velocity is carried along."""
    for j in range(x.size):
        v[j] += kick_length * grad[j]
        kicked = velocity[j] + kick_length * acceleration[j]
        velocity[j] = kicked
        x[j] += drift_length * kicked


@kernel_jit
def evaluate_force(p, point):
    """Log density, gradient and acceleration at the position: (raised, logp)."""
    x, _, grad, _, acceleration = point
    raised, logp = evaluate(p, x, grad)
    if keeps_velocity(p):
        apply_inverse_mass(p, grad, acceleration)
    return raised, logp


@kernel_jit
def rotate(p, angle, point, pull):
    """Exact motion in N(m, M^-1): x and v turn about (m, 0).

    So do the velocity and `pull` = M (x - m), of which each is the other one's momentum.
    """
    x, v, _, velocity, _ = point
    centre = centre_of(p)
    cosine, sine = math.cos(angle), math.sin(angle)
    for j in range(x.size):
        away = x[j] - centre[j]
        x[j] = centre[j] + cosine * away + sine * velocity[j]
        velocity[j] = cosine * velocity[j] - sine * away
    for j in range(x.size):
        pulled = pull[j]
        pull[j] = cosine * pulled + sine * v[j]
        v[j] = cosine * v[j] - sine * pulled


@kernel_jit
def kick_by_rest(p, length, point, pull):
    """Move the momentum along what the Gaussian leaves of the gradient."""
    x, v, grad, velocity, acceleration = point
    centre = centre_of(p)
    for j in range(x.size):
        v[j] += length * (grad[j] + pull[j])
        velocity[j] += length * (acceleration[j] + x[j] - centre[j])


@kernel_jit
def _integrate_harmonic(p, step_size, num_steps, point):
    pull = scratch(p, PULL_ROW)
    pull_to_centre(p, point[0], pull)
    kick_by_rest(p, 0.5 * step_size, point, pull)
    logp = -math.inf
    for n in range(num_steps):
        rotate(p, step_size, point, pull)
        raised, logp = evaluate_force(p, point)
        if raised or logp == -math.inf:
            return raised, logp
        # The last kick of a step and the first of the next are one.
        kick_by_rest(p, step_size if n + 1 < num_steps else 0.5 * step_size, point, pull)
    return False, logp


@kernel_jit
def _integrate_rotation(p, angle, point):
    pull = scratch(p, PULL_ROW)
    pull_to_centre(p, point[0], pull)
    rotate(p, angle, point, pull)
    raised, logp = evaluate(p, point[0], point[2])  # no kick will ask for the acceleration
    for slope in point[2]:
        if not math.isfinite(slope):  # others would be thrown off by it
            return raised, -math.inf
    return raised, logp


@kernel_jit
def integrate(p, step_size, num_steps, point):
    """Apply the integrator `num_steps` times to a point of phase space, in place.

    Returns (raised, logp); logp is -inf as soon as the path has left the support, and the rest
    of it is not walked.
    """
    if p.motion == HARMONIC:
        return _integrate_harmonic(p, step_size, num_steps, point)
    if p.motion == ROTATION:
        return _integrate_rotation(p, num_steps * step_size, point)
    # Handing over five arrays at every gradient would take as long as a small density does.
    x, v, grad, velocity, acceleration = point
    carries = keeps_velocity(p)
    h = p.stages * step_size
    kick_length = kick_fraction(p.stages, 0) * h
    logp = -math.inf
    for _ in range(num_steps):
        for k in range(p.stages):
            drift_length = drift_fraction(p.stages, k) * h
            if carries:
                kick_and_follow(kick_length, drift_length, x, v, grad, velocity, acceleration)
            else:
                kick_and_drift(p, kick_length, drift_length, x, v, grad)
            raised, logp = evaluate(p, x, grad)
            if raised or logp == -math.inf:
                return raised, logp
            if carries:
                apply_inverse_mass(p, grad, acceleration)
            kick_length = kick_fraction(p.stages, k + 1) * h
        # The last kick of a step and the first of the next are one.
        kick_length *= 2.0
    kick(0.5 * kick_length, v, grad)
    if carries:
        kick(0.5 * kick_length, velocity, acceleration)
    return False, logp
