"""A log density behind an address: the one form that the kernel calls.

`signature`   the C signature, its codes, and a call from Python
`table`       the table of arrays that a density reads beside x
`wrapper`     the text of C functions around compiled code
`callback`    a Python function behind the C signature
`target`      `Target` and `as_target`: from what a user has to what the kernel calls

Who owns what
-------------
The kernel holds two addresses, of the C function and of its table, and owns neither. A `Target`
keeps both alive; a process keeps its target (`Process.target`). The target keeps its
`ArrayTable`, which owns the entries and a reference to every array that they point to. No array
is written once it is in a table: a new value is a new array. So copies of a table may share
their arrays, and each goes on reading what it read. A table that a run reads is not changed
while it runs, since that would free an array under it: each run has its own copy.

The machine code of an `@njit` density belongs to that density, and goes when it goes.
"""

from mjhmc_numba.density.target import Target, as_target

__all__ = ["Target", "as_target"]
