"""The random stream of one chain: xoshiro256++ (Blackman and Vigna 2019) in four 64-bit words.

A NumPy Generator costs 15 microseconds to pass into compiled code; an array costs half of one,
and is saved and restored by copying it.
"""

import math

import numpy as np

from mjhmc_numba.kernel.compilation import kernel_jit

TO_UNIT = 2.0**-52  # of the 52 highest bits of a word

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
def _advance(s0, s1, s2, s3):
    """The next 64 random bits, and the words after them."""
    result = _rotate_left(s0 + s3, 23) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    return result, s0, s1, s2, _rotate_left(s3, 45)


@kernel_jit
def next_word(rng):
    """The next 64 random bits; advances `rng`, a uint64 array of length 4."""
    result, rng[0], rng[1], rng[2], rng[3] = _advance(rng[0], rng[1], rng[2], rng[3])
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
def _layer_and_share(word):
    """A layer of the ziggurat, and a share of its width between -1 and 1."""
    share = 2.0 * ((np.float64(word >> np.uint64(12)) + 0.5) * TO_UNIT) - 1.0
    return word & np.uint64(LAYERS - 1), share


@kernel_jit
def _normal_at_edge(rng, layer, share):
    """(whether it is one, a normal number) from the part of a layer that the density crosses."""
    if layer == 0:
        tail = _normal_beyond(rng, EDGES[1])
        return True, tail if share > 0.0 else -tail
    x = share * EDGES[layer]
    below = math.exp(-0.5 * (EDGES[layer] ** 2 - x * x))
    above = math.exp(-0.5 * (EDGES[layer + np.uint64(1)] ** 2 - x * x))
    return above + uniform(rng) * (below - above) < 1.0, x


@kernel_jit
def normal(rng):
    """A standard normal number, by the ziggurat (Marsaglia and Tsang 2000; Doornik 2005)."""
    while True:
        layer, share = _layer_and_share(next_word(rng))
        if abs(share) < INSIDE[layer]:
            return share * EDGES[layer]
        found, x = _normal_at_edge(rng, layer, share)
        if found:
            return x


@kernel_jit
def fill_normal(rng, out):
    """Fill `out` with standard normal numbers, those of as many calls of `normal`.

    The words stay in registers but for the one number in a hundred at the edge of its layer.
    """
    s0, s1, s2, s3 = rng[0], rng[1], rng[2], rng[3]
    for k in range(out.size):
        word, s0, s1, s2, s3 = _advance(s0, s1, s2, s3)
        layer, share = _layer_and_share(word)
        if abs(share) < INSIDE[layer]:
            out[k] = share * EDGES[layer]
        else:
            rng[0], rng[1], rng[2], rng[3] = s0, s1, s2, s3
            found, x = _normal_at_edge(rng, layer, share)
            out[k] = x if found else normal(rng)
            s0, s1, s2, s3 = rng[0], rng[1], rng[2], rng[3]
    rng[0], rng[1], rng[2], rng[3] = s0, s1, s2, s3
