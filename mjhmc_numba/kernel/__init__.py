"""Compiled code only: everything here is `@njit` and knows `math`, NumPy and Numba alone."""
