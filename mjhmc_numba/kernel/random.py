"""The random stream of one chain: xoshiro256++ (Blackman and Vigna 2019) in four 64-bit words.

A NumPy Generator costs 15 microseconds to pass into compiled code; an array costs half of one,
and is saved and restored by copying it.
"""

import math

import numpy as np

from mjhmc_numba.kernel.compilation import kernel_jit

TO_UNIT = 2.0**-52

# The normal density is covered by LAYERS shapes of equal area: rectangles, and a last one with
# the tail beyond TAIL. Both constants solve that condition for 256 layers.
LAYERS = 256
TAIL = 3.6541528853610088
AREA = 0.00492867323399


def _layer_edges():
    edges = np.zeros(LAYERS + 1)
    edges[0], edges[1] = AREA / math.exp(-0.5 * TAIL**2), TAIL
    for k in range(2, LAYERS):
        height = AREA / edges[k - 1] + math.exp(-0.5 * edges[k - 1] ** 2)
        edges[k] = math.sqrt(-2.0 * math.log(height))
    return edges


EDGES = _layer_edges()
INSIDE = EDGES[1:] / EDGES[:-1]  # below this share of its width a layer lies under the density


@kernel_jit
def _rotate_left(word, count):
    return (word << np.uint64(count)) | (word >> np.uint64(64 - count))


@kernel_jit
def next_word(rng):
    """The next 64 random bits; advances `rng`, a uint64 array of length 4."""
    result = _rotate_left(rng[0] + rng[3], 23) + rng[0]
    shifted = rng[1] << np.uint64(17)
    rng[2] ^= rng[0]
    rng[3] ^= rng[1]
    rng[1] ^= rng[2]
    rng[0] ^= rng[3]
    rng[2] ^= shifted
    rng[3] = _rotate_left(rng[3], 45)
    return result


@kernel_jit
def uniform(rng):
    """A uniform number in (0, 1): the centre of one of 2**52 equal cells, so never 0 or 1."""
    return (np.float64(next_word(rng) >> np.uint64(12)) + 0.5) * TO_UNIT


@kernel_jit
def exponential(rng):
    """A standard exponential number."""
    return -math.log(uniform(rng))


@kernel_jit
def _normal_beyond(rng, limit):
    """A standard normal number beyond `limit` > 0 (Marsaglia 1964)."""
    while True:
        x = -math.log(uniform(rng)) / limit
        if -2.0 * math.log(uniform(rng)) > x * x:
            return limit + x


@kernel_jit
def normal(rng):
    """A standard normal number, by the ziggurat (Marsaglia and Tsang 2000; Doornik 2005)."""
    while True:
        word = next_word(rng)
        layer = word & np.uint64(LAYERS - 1)
        u = 2.0 * ((np.float64(word >> np.uint64(12)) + 0.5) * TO_UNIT) - 1.0
        if abs(u) < INSIDE[layer]:
            return u * EDGES[layer]
        if layer == 0:
            tail = _normal_beyond(rng, EDGES[1])
            return tail if u > 0.0 else -tail
        x = u * EDGES[layer]
        below = math.exp(-0.5 * (EDGES[layer] ** 2 - x * x))
        above = math.exp(-0.5 * (EDGES[layer + np.uint64(1)] ** 2 - x * x))
        if above + uniform(rng) * (below - above) < 1.0:
            return x


@kernel_jit
def fill_normal(rng, out):
    """Fill `out` with standard normal numbers."""
    for k in range(out.size):
        out[k] = normal(rng)
