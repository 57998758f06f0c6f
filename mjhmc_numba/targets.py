r"""Distributions to sample from: the paper's, those of its released code, and others.

Each builder returns a `Distribution`: a compiled log density with its gradient, the arrays it
reads, exact moments where they are known and exact draws where they can be had. Log densities are
up to a constant.

The densities are functions of the module, not closures: Numba compiles each once and stores it,
and other parameters of the same distribution are other arrays, not other code.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from mjhmc_numba.kernel.compilation import FASTMATH

__all__ = [
    "Distribution",
    "banana",
    "correlated_gaussian",
    "funnel",
    "gaussian",
    "log_gamma",
    "log_gaussian",
    "multimodal_gaussian",
    "product_of_experts",
    "product_of_t",
    "rough_well",
    "sparse_image_code",
    "standard_normal",
    "student_t",
]

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]


@dataclass(frozen=True, eq=False)
class Distribution:
    """A target distribution on R^ndim.

    Attributes
    ----------
    name : str
    ndim : int
    density : callable
        Compiled ``density(x, grad, *args) -> logp``; writes the gradient into `grad`.
    args : tuple of float64 arrays
        What the density reads besides x.
    mean, variance : array of shape (ndim,), or None
        Exact, coordinate by coordinate. None where unknown or not finite.
    draw : callable or None
        ``draw(rng, n)`` gives n independent exact draws, shape (n, ndim).
    """

    name: str
    ndim: int
    density: Callable[..., float]
    args: tuple[Array, ...] = ()
    mean: Array | None = None
    variance: Array | None = None
    draw: Draw | None = None

    def logp_and_grad(self, x: ArrayLike) -> tuple[float, Array]:
        """Log density (up to a constant) and its gradient at the point x, shape (ndim,)."""
        point = np.array(x, dtype=np.float64)
        if point.shape != (self.ndim,):
            raise ValueError(f"x must have shape ({self.ndim},), not {point.shape}.")
        grad = np.empty(self.ndim)
        return float(self.density(point, grad, *self.args)), grad

    def logp(self, x: ArrayLike) -> float:
        """Log density (up to a constant) at the point x, shape (ndim,)."""
        return self.logp_and_grad(x)[0]


def _density(function: Callable[..., float]) -> Callable[..., float]:
    """Compile a density lazily, and store it on disk where Numba finds a folder to write to."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH}
    try:
        return njit(function, cache=True, **options)
    except RuntimeError:
        # No such folder (a read-only installation, no home): compiled anew in each process.
        return njit(function, **options)


def _vector(value: ArrayLike, ndim: int, name: str) -> Array:
    """A float64 array of shape (ndim,), from a number or an array."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape not in ((), (ndim,)) or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be a finite number or have shape ({ndim},).")
    return np.full(ndim, array) if array.ndim == 0 else array.copy()


def _positive(value: float, name: str) -> float:
    if not (math.isfinite(value) and value > 0.0):
        raise ValueError(f"{name} must be positive and finite, not {value}.")
    return float(value)


def _dimension(ndim: int, least: int = 1, name: str = "ndim") -> int:
    if int(ndim) != ndim or ndim < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {ndim}.")
    return int(ndim)


# --- Gaussians --------------------------------------------------------------------------------


@_density
def _gaussian_density(x, grad, mean, precision):
    r""":math:`-\frac12 \sum_j \tau_j (x_j - \mu_j)^2`."""
    logp = 0.0
    for j in range(x.size):
        deviation = x[j] - mean[j]
        grad[j] = -precision[j] * deviation
        logp += 0.5 * grad[j] * deviation
    return logp


def _draw_gaussian(mean: Array, sd: Array, rng: np.random.Generator, n: int) -> Array:
    return mean + sd * rng.standard_normal((n, mean.size))


def gaussian(sd: ArrayLike, mean: ArrayLike = 0.0, *, name: str = "gaussian") -> Distribution:
    """Gaussian of independent coordinates with the given standard deviations.

    Parameters
    ----------
    sd : array, shape (ndim,)
    mean : float or array, shape (ndim,)
    name : str
    """
    scale = np.atleast_1d(np.asarray(sd, dtype=np.float64))
    if scale.ndim != 1 or not np.all(np.isfinite(scale) & (scale > 0.0)):
        raise ValueError("sd must have shape (ndim,) and be positive and finite.")
    centre = _vector(mean, scale.size, "mean")
    return Distribution(
        name=name,
        ndim=scale.size,
        density=_gaussian_density,
        args=(centre, scale**-2),
        mean=centre,
        variance=scale**2,
        draw=partial(_draw_gaussian, centre, scale),
    )


def standard_normal(ndim: int = 1) -> Distribution:
    """Independent standard normal coordinates."""
    return gaussian(np.ones(_dimension(ndim)), name="standard_normal")


def log_gaussian(ndim: int = 2, log_conditioning: float = 6.0) -> Distribution:
    r"""The ill-conditioned Gaussian of the released code: log-spaced precisions.

    The precisions are spaced evenly in the logarithm from
    :math:`10^{-\mathrm{log\_conditioning}}` (standard deviation 1000 by default) to 1.
    """
    precision = np.logspace(-float(log_conditioning), 0.0, _dimension(ndim))
    return gaussian(precision**-0.5, name="log_gaussian")


@_density
def _correlated_gaussian_density(x, grad, mean, precision):
    r""":math:`-\frac12 (x - \mu)^T \Lambda (x - \mu)`."""
    logp = 0.0
    for i in range(x.size):
        force = 0.0
        for j in range(x.size):
            force -= precision[i, j] * (x[j] - mean[j])
        grad[i] = force
        logp += 0.5 * force * (x[i] - mean[i])
    return logp


def _draw_correlated(mean: Array, root: Array, rng: np.random.Generator, n: int) -> Array:
    return mean + rng.standard_normal((n, mean.size)) @ root.T


def correlated_gaussian(cov: ArrayLike, mean: ArrayLike = 0.0) -> Distribution:
    """Gaussian with a full covariance matrix.

    Parameters
    ----------
    cov : array, shape (ndim, ndim)
        Symmetric and positive definite.
    mean : float or array, shape (ndim,)
    """
    covariance = np.array(cov, dtype=np.float64)
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise ValueError(f"cov must be square, not of shape {covariance.shape}.")
    if not np.allclose(covariance, covariance.T, rtol=1e-10, atol=0.0):
        raise ValueError("cov must be symmetric.")
    try:
        root: Array = np.linalg.cholesky(covariance).astype(np.float64)
    except np.linalg.LinAlgError as error:
        raise ValueError("cov must be positive definite.") from error
    inverse_root = np.linalg.inv(root)
    centre = _vector(mean, covariance.shape[0], "mean")
    return Distribution(
        name="correlated_gaussian",
        ndim=covariance.shape[0],
        density=_correlated_gaussian_density,
        args=(centre, inverse_root.T @ inverse_root),
        mean=centre,
        variance=np.diag(covariance).copy(),
        draw=partial(_draw_correlated, centre, root),
    )


@_density
def _two_gaussians_density(x, grad, centre, log_odds, precision):
    r"""Log of :math:`w e^{-\tau |x - c|^2 / 2} + (1 - w) e^{-\tau |x + c|^2 / 2}`."""
    square, along = 0.0, 0.0
    for j in range(x.size):
        square += x[j] * x[j] + centre[j] * centre[j]
        along += x[j] * centre[j]
    # Both exponents share `square`; what tells the modes apart is t, the log odds at x.
    t = 2.0 * precision[0] * along + log_odds[0]
    pull = math.tanh(0.5 * t)
    for j in range(x.size):
        grad[j] = precision[0] * (pull * centre[j] - x[j])
    return -0.5 * precision[0] * square + 0.5 * abs(t) + math.log1p(math.exp(-abs(t)))


def _draw_two_gaussians(
    centre: Array, weight: float, sd: float, rng: np.random.Generator, n: int
) -> Array:
    sign = np.where(rng.random(n) < weight, 1.0, -1.0)
    return sign[:, None] * centre + sd * rng.standard_normal((n, centre.size))


def multimodal_gaussian(
    ndim: int = 2, separation: float = 3.0, *, sd: float = 1.0, weight: float = 0.5
) -> Distribution:
    """Mixture of two round Gaussians at +separation and -separation along the first axis.

    The released code has standard deviation sqrt(1/2) and, since it adds its separation of 3
    twice, modes at +6 and -6: ``multimodal_gaussian(separation=6, sd=0.5**0.5)``, between which no
    sampler moves in practice.

    Parameters
    ----------
    ndim : int
    separation : float
        Half the distance between the modes.
    sd : float
        Standard deviation of each mode in every direction.
    weight : float
        Probability of the mode at +separation, in (0, 1).
    """
    if not 0.0 < weight < 1.0:
        raise ValueError(f"weight must lie strictly between 0 and 1, not {weight}.")
    centre = np.zeros(_dimension(ndim))
    centre[0] = float(separation)
    scale = _positive(sd, "sd")
    return Distribution(
        name="multimodal_gaussian",
        ndim=centre.size,
        density=_two_gaussians_density,
        args=(centre, np.array([math.log(weight / (1.0 - weight))]), np.array([scale**-2])),
        mean=(2.0 * weight - 1.0) * centre,
        variance=scale**2 + 4.0 * weight * (1.0 - weight) * centre**2,
        draw=partial(_draw_two_gaussians, centre, weight, scale),
    )


# --- The rough well ---------------------------------------------------------------------------


@_density
def _rough_well_density(x, grad, sigma_and_frequency):
    r""":math:`-\sum_j [x_j^2 / (2 \sigma^2) + \cos(\omega x_j)]`."""
    sigma, frequency = sigma_and_frequency[0], sigma_and_frequency[1]
    logp = 0.0
    for j in range(x.size):
        slope = x[j] / (sigma * sigma)
        phase = frequency * x[j]
        logp -= 0.5 * slope * x[j] + math.cos(phase)
        grad[j] = frequency * math.sin(phase) - slope
    return logp


def _rough_well_variance(sigma: float, frequency: float) -> float:
    """Variance of one coordinate by the trapezoidal rule, exponentially accurate here."""
    step = min(sigma, 2.0 * math.pi / frequency) / 32.0
    x = np.arange(-math.ceil(12.0 * sigma / step), math.ceil(12.0 * sigma / step) + 1) * step
    weight = np.exp(-0.5 * (x / sigma) ** 2 - np.cos(frequency * x))
    return float(weight @ x**2 / weight.sum())


def _draw_rough_well(
    ndim: int, sigma: float, frequency: float, rng: np.random.Generator, n: int
) -> Array:
    """Rejection from N(0, sigma^2): accept with probability exp(-cos(w x) - 1), about 0.47."""
    kept, missing = [], n * ndim
    while missing > 0:
        x = sigma * rng.standard_normal(2 * missing + 16)
        x = x[rng.random(x.size) < np.exp(-np.cos(frequency * x) - 1.0)][:missing]
        kept.append(x)
        missing -= x.size
    return np.concatenate(kept or [np.empty(0)]).reshape(n, ndim)


def rough_well(ndim: int = 2, period: float = 8.0, sigma: float = 100.0) -> Distribution:
    r"""The rough well: :math:`E(x) = \sum_j [x_j^2 / (2\sigma^2) + \cos(2 \pi x_j / period)]`.

    The paper's text has :math:`\cos(\pi x / 4)`, which is period 8 (the default); its released
    code has period 4. The variance is that of the smooth well, :math:`\sigma^2`, to within
    rounding when :math:`\sigma` is many periods; it is computed by quadrature.

    Parameters
    ----------
    ndim : int
    period : float
        Of the ripples.
    sigma : float
        Standard deviation of the well without ripples.
    """
    size, width = _dimension(ndim), _positive(sigma, "sigma")
    frequency = 2.0 * math.pi / _positive(period, "period")
    return Distribution(
        name="rough_well",
        ndim=size,
        density=_rough_well_density,
        args=(np.array([width, frequency]),),
        mean=np.zeros(size),
        variance=np.full(size, _rough_well_variance(width, frequency)),
        draw=partial(_draw_rough_well, size, width, frequency),
    )


# --- Curved and heavy-tailed ------------------------------------------------------------------


@_density
def _funnel_density(x, grad, scale):
    r"""Neal's funnel: :math:`v = x_0 \sim N(0, s^2)`, :math:`x_j | v \sim N(0, e^v)`."""
    v = x[0]
    precision = math.exp(-v)
    square = 0.0
    for j in range(1, x.size):
        square += x[j] * x[j]
        grad[j] = -precision * x[j]
    slope = v / (scale[0] * scale[0])
    half_count = 0.5 * (x.size - 1)
    grad[0] = -slope - half_count + 0.5 * precision * square
    return -0.5 * slope * v - half_count * v - 0.5 * precision * square


def _draw_funnel(ndim: int, scale: float, rng: np.random.Generator, n: int) -> Array:
    draws = rng.standard_normal((n, ndim))
    draws[:, 0] *= scale
    draws[:, 1:] *= np.exp(0.5 * draws[:, :1])
    return draws


def funnel(ndim: int = 10, scale: float = 3.0) -> Distribution:
    r"""Neal's (2003) funnel: :math:`v \sim N(0, 3^2)` and nine :math:`x_j | v \sim N(0, e^v)`.

    Coordinate 0 is v. The energy in the released code has its sign reversed and lacks the
    normalising term (ndim - 1) v / 2, so it is not a distribution; this one is.

    Parameters
    ----------
    ndim : int
        Including v, at least 2.
    scale : float
        Standard deviation of v.
    """
    size, sd = _dimension(ndim, least=2), _positive(scale, "scale")
    variance = np.full(size, math.exp(0.5 * sd**2))
    variance[0] = sd**2
    return Distribution(
        name="funnel",
        ndim=size,
        density=_funnel_density,
        args=(np.array([sd]),),
        mean=np.zeros(size),
        variance=variance,
        draw=partial(_draw_funnel, size, sd),
    )


@_density
def _banana_density(x, grad, scale_and_curvature):
    r""":math:`x_0 \sim N(0, s^2)`, :math:`x_1 | x_0 \sim N(b (x_0^2 - s^2), 1)`, others N(0, 1)."""
    scale, curvature = scale_and_curvature[0], scale_and_curvature[1]
    slope = x[0] / (scale * scale)
    off = x[1] - curvature * (x[0] * x[0] - scale * scale)
    grad[0] = -slope + 2.0 * curvature * x[0] * off
    grad[1] = -off
    logp = -0.5 * slope * x[0] - 0.5 * off * off
    for j in range(2, x.size):
        grad[j] = -x[j]
        logp -= 0.5 * x[j] * x[j]
    return logp


def _draw_banana(
    ndim: int, scale: float, curvature: float, rng: np.random.Generator, n: int
) -> Array:
    draws = rng.standard_normal((n, ndim))
    draws[:, 0] *= scale
    draws[:, 1] += curvature * (draws[:, 0] ** 2 - scale**2)
    return draws


def banana(ndim: int = 2, scale: float = 10.0, curvature: float = 0.03) -> Distribution:
    r"""The banana of Haario, Saksman and Tamminen (1999), a bent Gaussian centred at 0.

    :math:`x_0 \sim N(0, s^2)`; :math:`x_1 = b (x_0^2 - s^2) + N(0, 1)`, so its variance is
    :math:`1 + 2 b^2 s^4`; further coordinates are standard normal.

    Parameters
    ----------
    ndim : int
        At least 2.
    scale : float
        s; 10 in the reference.
    curvature : float
        b; 0.03 is moderate, 0.1 strong.
    """
    size, sd = _dimension(ndim, least=2), _positive(scale, "scale")
    variance = np.ones(size)
    variance[:2] = sd**2, 1.0 + 2.0 * curvature**2 * sd**4
    return Distribution(
        name="banana",
        ndim=size,
        density=_banana_density,
        args=(np.array([sd, float(curvature)]),),
        mean=np.zeros(size),
        variance=variance,
        draw=partial(_draw_banana, size, sd, float(curvature)),
    )


@_density
def _student_t_density(x, grad, df):
    r""":math:`-\frac{\nu + d}2 \log(1 + |x|^2 / \nu)`."""
    square = 0.0
    for j in range(x.size):
        square += x[j] * x[j]
    factor = (df[0] + x.size) / (df[0] + square)
    for j in range(x.size):
        grad[j] = -factor * x[j]
    return -0.5 * (df[0] + x.size) * math.log1p(square / df[0])


def _draw_student_t(df: float, ndim: int, rng: np.random.Generator, n: int) -> Array:
    scale = np.sqrt(df / rng.chisquare(df, size=n))
    return scale[:, None] * rng.standard_normal((n, ndim))


def student_t(df: float = 5.0, ndim: int = 1) -> Distribution:
    """Round multivariate Student t with df degrees of freedom.

    Its mean is finite for df > 1 and its variance, df / (df - 2), for df > 2.
    """
    size, nu = _dimension(ndim), _positive(df, "df")
    return Distribution(
        name="student_t",
        ndim=size,
        density=_student_t_density,
        args=(np.array([nu]),),
        mean=np.zeros(size) if nu > 1.0 else None,
        variance=np.full(size, nu / (nu - 2.0)) if nu > 2.0 else None,
        draw=partial(_draw_student_t, nu, size),
    )


@_density
def _log_gamma_density(x, grad, shape):
    r""":math:`\sum_j [a_j x_j - e^{x_j}]`."""
    logp = 0.0
    for j in range(x.size):
        e = math.exp(x[j])
        grad[j] = shape[j] - e
        logp += shape[j] * x[j] - e
    return logp


def _draw_log_gamma(shape: Array, rng: np.random.Generator, n: int) -> Array:
    # Gamma(a) = Gamma(a + 1) U^(1/a) in law; in logarithms nothing underflows for small a.
    large = rng.gamma(shape + 1.0, size=(n, shape.size))
    return np.log(large) - rng.standard_exponential((n, shape.size)) / shape


def log_gamma(shape: ArrayLike = 1.0, ndim: int = 1) -> Distribution:
    r"""Logarithms of independent Gamma(a) variables: log density :math:`a x - e^x`.

    Asymmetric, so that errors of the mean have no symmetry to hide behind. Its mean is
    digamma(a) and its variance trigamma(a); for a = 1, -0.5772 and pi^2 / 6.

    Parameters
    ----------
    shape : float or array, shape (ndim,)
        a, positive.
    ndim : int
    """
    a = _vector(shape, _dimension(ndim), "shape")
    if np.any(a <= 0.0):
        raise ValueError(f"shape must be positive, not {a}.")
    return Distribution(
        name="log_gamma",
        ndim=a.size,
        density=_log_gamma_density,
        args=(a,),
        mean=np.array([_digamma(value) for value in a]),
        variance=np.array([_trigamma(value) for value in a]),
        draw=partial(_draw_log_gamma, a),
    )


# Bernoulli numbers B_2, B_4, ..., B_14; at arguments of 16 and above the series below ends
# beneath rounding (Abramowitz and Stegun 6.3.18 and 6.4.12).
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _digamma(x: float) -> float:
    shift = 0.0
    while x < 16.0:
        shift -= 1.0 / x
        x += 1.0
    series = sum(b / (2 * k * x ** (2 * k)) for k, b in enumerate(_BERNOULLI, start=1))
    return shift + math.log(x) - 0.5 / x - series


def _trigamma(x: float) -> float:
    shift = 0.0
    while x < 16.0:
        shift += 1.0 / (x * x)
        x += 1.0
    series = sum(b / x ** (2 * k + 1) for k, b in enumerate(_BERNOULLI, start=1))
    return shift + 1.0 / x + 0.5 / (x * x) + series


# --- Products of experts ----------------------------------------------------------------------


@_density
def _product_density(x, grad, filters, alpha):
    r""":math:`-\sum_e \alpha_e \log(1 + (w_e \cdot x)^2)`."""
    logp = 0.0
    grad[:] = 0.0
    for e in range(alpha.size):
        response = 0.0
        for j in range(x.size):
            response += filters[e, j] * x[j]
        square = response * response
        logp -= alpha[e] * math.log1p(square)
        pull = -2.0 * alpha[e] * response / (1.0 + square)
        for j in range(x.size):
            grad[j] += pull * filters[e, j]
    return logp


def _draw_product(unmix: Array, nu: Array, rng: np.random.Generator, n: int) -> Array:
    # (1 + y^2)^-(nu + 1)/2 is the density of t_nu / sqrt(nu).
    return (rng.standard_t(nu, size=(n, nu.size)) / np.sqrt(nu)) @ unmix.T


def _product(name: str, filters: Array, alpha: Array) -> Distribution:
    """Product of t experts, checked to be a distribution, with what is known of it."""
    ndim = filters.shape[1]
    _check_integrable(filters, alpha)
    nu = 2.0 * alpha - 1.0
    variance: Array | None = None
    draw: Draw | None = None
    if filters.shape[0] == ndim:
        unmix: Array = np.linalg.inv(filters).astype(np.float64)
        draw = partial(_draw_product, unmix, nu)
        if np.all(nu > 2.0):
            # t_nu / sqrt(nu) has variance 1 / (nu - 2).
            variance = unmix**2 @ (1.0 / (nu - 2.0))
    has_mean = np.linalg.matrix_rank(filters[nu > 1.0]) == ndim
    return Distribution(
        name=name,
        ndim=ndim,
        density=_product_density,
        args=(filters, alpha),
        mean=np.zeros(ndim) if has_mean else None,
        variance=variance,
        draw=draw,
    )


def _check_integrable(filters: Array, alpha: Array) -> None:
    r"""Refuse experts whose product cannot be normalised.

    If the filters of the experts with :math:`\alpha_e > 1/2` span the space, take ndim independent
    ones of them. The other factors are at most 1, and in the coordinates
    :math:`y_e = w_e \cdot x` what is left is a product of integrable functions
    :math:`(1 + y_e^2)^{-\alpha_e}`: the density is integrable. In the same way it has a mean
    if those with :math:`\alpha_e > 1` span the space, and a variance with :math:`3/2`.
    """
    if filters.ndim != 2 or alpha.shape != filters.shape[:1]:
        raise ValueError(
            f"filters must have shape (experts, ndim) and alpha (experts,), not {filters.shape} "
            f"and {alpha.shape}."
        )
    if not (np.all(np.isfinite(filters)) and np.all(np.isfinite(alpha) & (alpha > 0.0))):
        raise ValueError("filters must be finite; alpha finite and positive.")
    heavy = alpha > 0.5
    if not heavy.any() or np.linalg.matrix_rank(filters[heavy]) < filters.shape[1]:
        raise ValueError(
            "the filters of experts with alpha > 1/2 do not span the space, so nothing says that "
            "the density can be normalised."
        )


def product_of_experts(ndim: int = 36, experts: int = 72, *, seed: int = 0) -> Distribution:
    r"""Student t experts on image patches: :math:`E = \sum_e \alpha_e \log(1 + (w_e \cdot x)^2)`.

    By default 72 experts on patches of 6 x 6, as in the paper (in a comment of its LaTeX source):
    filters with a quarter of their entries active, drawn uniformly with mean 0. There
    :math:`\alpha` is "chosen from a random normal distribution", so that half of the experts would
    repel and the product would in general not be a distribution. Here
    :math:`\alpha_e = 3/2 + |n_e|` with standard normal :math:`n_e`: every expert is a t of more
    than two degrees of freedom, and since the filters span the space (which is checked) the
    product is proper with finite variances.

    By symmetry the mean is 0. The variances are not known, and there are no exact draws, unless
    there are as many experts as dimensions.

    Parameters
    ----------
    ndim, experts : int
    seed : int
        Of the filters and the alphas.
    """
    size, count = _dimension(ndim), _dimension(experts, name="experts")
    rng = np.random.default_rng(seed)
    filters = rng.uniform(-1.0, 1.0, (count, size))
    active = max(1, round(0.25 * size))
    # Exactly `active` entries of each filter stay: those of the lowest random keys.
    order = np.argsort(rng.random((count, size)), axis=1)
    np.put_along_axis(filters, order[:, active:], 0.0, axis=1)
    alpha = 1.5 + np.abs(rng.standard_normal(count))
    return _product("product_of_experts", filters, alpha)


def product_of_t(
    ndim: int = 36,
    *,
    nu: ArrayLike | None = None,
    filters: ArrayLike | None = None,
    seed: int = 0,
) -> Distribution:
    r"""The released code's product of t: as many experts as dimensions, exact draws.

    :math:`E = \sum_e \frac{\nu_e + 1}2 \log(1 + (w_e \cdot x / \nu_e)^2)`. By default W is the
    identity and the :math:`\nu_e` are uniform in (2.1, 4.1), as there.

    Parameters
    ----------
    ndim : int
    nu : float or array, shape (ndim,), optional
        Degrees of freedom.
    filters : array, shape (ndim, ndim), optional
        The rows w_e; invertible.
    seed : int
        Of the default nu.
    """
    size = _dimension(ndim)
    if nu is None:
        degrees = np.random.default_rng(seed).uniform(2.1, 4.1, size)
    else:
        degrees = _vector(nu, size, "nu")
    if np.any(degrees <= 0.0):
        raise ValueError("nu must be positive.")
    rows = np.eye(size) if filters is None else np.array(filters, dtype=np.float64)
    if rows.shape != (size, size):
        raise ValueError(f"filters must have shape ({size}, {size}), not {rows.shape}.")
    return _product("product_of_t", rows / degrees[:, None], 0.5 * (degrees + 1.0))


# --- Sparse coding of image patches -----------------------------------------------------------


@_density
def _reconstruction(x, grad, dictionary, patches, precision):
    r""":math:`-\frac\tau2 \sum_p |y_p - D a_p|^2`, where x is all the a_p in a row."""
    pixels, coefficients = dictionary.shape
    logp = 0.0
    grad[:] = 0.0
    for p in range(patches.shape[0]):
        start = p * coefficients
        for i in range(pixels):
            residual = patches[p, i]
            for c in range(coefficients):
                residual -= dictionary[i, c] * x[start + c]
            logp -= 0.5 * precision * residual * residual
            for c in range(coefficients):
                grad[start + c] += precision * residual * dictionary[i, c]
    return logp


@_density
def _cauchy_code_density(x, grad, dictionary, patches, precision_and_scale):
    r"""Reconstruction and a Cauchy prior :math:`-\log(1 + (a / s)^2)`."""
    scale = precision_and_scale[1]
    logp = _reconstruction(x, grad, dictionary, patches, precision_and_scale[0])
    for j in range(x.size):
        ratio = x[j] / scale
        logp -= math.log1p(ratio * ratio)
        grad[j] -= 2.0 * ratio / (scale * (1.0 + ratio * ratio))
    return logp


@_density
def _laplace_code_density(x, grad, dictionary, patches, precision_and_scale):
    r"""Reconstruction and a Laplace prior without its kink, :math:`-\sqrt{(a/s)^2 + \delta^2}`."""
    scale, delta = precision_and_scale[1], precision_and_scale[2]
    logp = _reconstruction(x, grad, dictionary, patches, precision_and_scale[0])
    for j in range(x.size):
        ratio = x[j] / scale
        length = math.sqrt(ratio * ratio + delta * delta)
        logp -= length
        grad[j] -= ratio / (scale * length)
    return logp


def _gabor_dictionary(patch_size: int, atoms: int, rng: np.random.Generator) -> Array:
    """Random oriented wavelets of mean 0 and length 1, shape (patch_size^2, atoms)."""
    axis = np.linspace(-1.0, 1.0, patch_size)
    px, py = (grid.ravel()[:, None] for grid in np.meshgrid(axis, axis))
    cx, cy = rng.uniform(-0.7, 0.7, (2, atoms))
    angle, phase = rng.uniform(0.0, math.pi, (2, atoms))
    width, cycles = rng.uniform(0.3, 0.7, atoms), rng.uniform(0.5, 1.5, atoms)
    along = (px - cx) * np.cos(angle) + (py - cy) * np.sin(angle)
    distance = (px - cx) ** 2 + (py - cy) ** 2
    wavelets = np.exp(-0.5 * distance / width**2) * np.cos(math.pi * cycles * along + phase)
    wavelets -= wavelets.mean(axis=0)
    return np.ascontiguousarray(wavelets / np.linalg.norm(wavelets, axis=0))


def _sparse_patches(dictionary: Array, count: int, noise: float, rng: np.random.Generator) -> Array:
    """Patches of which each uses about one atom in ten, plus noise."""
    atoms = dictionary.shape[1]
    codes = 2.0 * rng.standard_normal((count, atoms)) * (rng.random((count, atoms)) < 0.1)
    return codes @ dictionary.T + noise * rng.standard_normal((count, dictionary.shape[0]))


def sparse_image_code(
    patches: int = 1,
    patch_size: int = 6,
    *,
    overcomplete: int = 2,
    prior: Literal["cauchy", "laplace"] = "cauchy",
    scale: float = 0.5,
    noise: float = 0.2,
    seed: int = 0,
) -> Distribution:
    r"""Posterior of the coefficients of a sparse code of image patches.

    A patch is :math:`y = D a + \text{noise} \cdot n`, with a dictionary D of more atoms than
    pixels and independent sparse priors on a. Dictionary (oriented wavelets) and patches are
    generated from the seed.

    The prior is proper, hence so is the posterior: Cauchy, or Laplace rounded at 0 so that it has
    a gradient. (The released code weighs a Cauchy penalty by 0.01. On the null space of its
    four times overcomplete dictionary that falls off too slowly to be integrated.) Neither moments
    nor exact draws are known.

    Parameters
    ----------
    patches : int
        How many are coded at once; they are independent. There are
        ``patches * overcomplete * patch_size**2`` coefficients.
    patch_size : int
        Pixels along a side.
    overcomplete : int
        Atoms per pixel.
    prior : {"cauchy", "laplace"}
    scale : float
        Of the prior.
    noise : float
        Standard deviation of the noise in a pixel.
    seed : int
    """
    densities = {"cauchy": _cauchy_code_density, "laplace": _laplace_code_density}
    if prior not in densities:
        raise ValueError(f"prior must be one of {sorted(densities)}, not {prior!r}.")
    count = _dimension(patches, name="patches")
    side = _dimension(patch_size, least=2, name="patch_size")
    atoms = _dimension(overcomplete, name="overcomplete") * side**2
    sd = _positive(noise, "noise")
    rng = np.random.default_rng(seed)
    dictionary = _gabor_dictionary(side, atoms, rng)
    images = _sparse_patches(dictionary, count, sd, rng)
    return Distribution(
        name=f"sparse_image_code_{prior}",
        ndim=count * atoms,
        density=densities[prior],
        # The last number rounds the Laplace prior's kink over a tenth of its scale.
        args=(dictionary, images, np.array([sd**-2, _positive(scale, "scale"), 0.1])),
    )
