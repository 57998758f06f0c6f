"""Tuning: reads what the kernel reports, returns frozen settings.

Each tuner is pure: a state, and functions that make it, take one report in, and read off the
result. `tuner.Tuner` puts them together and drives a process through its warm-up.
"""

from mjhmc_numba.warmup.tuner import Tuner

__all__ = ["Tuner"]
