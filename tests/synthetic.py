"""Chains whose properties are known."""

import numpy as np

from mjhmc_numba.warmup.spectrum import COARSE_DETAIL, spectrum


def autoregression(rho, n, rng, chains=4):
    """Chains (chain, draw, d) of standard normal numbers, correlated by rho from draw to draw."""
    rho = np.asarray(rho, dtype=float)
    x = np.empty((chains, n, rho.size))
    x[:, 0] = rng.normal(size=(chains, rho.size))
    for k in range(1, n):
        noise = rng.normal(size=(chains, rho.size))
        x[:, k] = rho * x[:, k - 1] + np.sqrt(1 - rho**2) * noise
    return x


def low_rank(x, grad, detail=COARSE_DETAIL):
    """The metric that the warm-up makes of draws and gradients."""
    return spectrum(x, grad).metric(detail)
