r"""Distributions to sample from: the paper's, those of its released code, and others.

Each builder returns a `Distribution`: a compiled log density with its gradient, the arrays it
reads, exact moments where they are known and exact draws where they can be had. Log densities are
up to a constant.

The densities are functions of a module, not closures: Numba compiles each once and stores it,
and other parameters of the same distribution are other arrays, not other code.
"""

from mjhmc_numba.targets.curved import banana, funnel
from mjhmc_numba.targets.distribution import Distribution
from mjhmc_numba.targets.experts import product_of_experts, product_of_t
from mjhmc_numba.targets.gaussians import (
    correlated_gaussian,
    gaussian,
    log_gaussian,
    multimodal_gaussian,
    standard_normal,
)
from mjhmc_numba.targets.images import sparse_image_code
from mjhmc_numba.targets.tails import log_gamma, student_t
from mjhmc_numba.targets.wells import rough_well

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
