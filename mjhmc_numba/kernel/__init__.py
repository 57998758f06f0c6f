"""What runs compiled, and the memory that it reads.

The algorithms are `@njit` functions that know `math`, NumPy and Numba alone. Beside them stand what
they are compiled by (`compilation`, `deferred`) and the declarations of what they read and write:
`layout` declares the arrays and checks them when they are connected, `statistics` lists what is
known of a draw.
"""
