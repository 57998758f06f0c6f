"""The random stream: known words, and the laws of what is made from them."""

import math

import numpy as np
import pytest
from numba import njit
from scipy import stats

from mjhmc_numba.kernel.random import (
    TAIL,
    _normal_beyond,
    exponential,
    fill_normal,
    next_word,
    uniform,
)
from tests.kernel.processes import words

N = 400_000
# |z| < 5 as a probability.
P_VALUE = 2 * stats.norm.sf(5)


@njit
def many_uniform(rng, n):
    out = np.empty(n)
    for k in range(n):
        out[k] = uniform(rng)
    return out


@njit
def many_exponential(rng, n):
    out = np.empty(n)
    for k in range(n):
        out[k] = exponential(rng)
    return out


@njit
def many_beyond(rng, limit, n):
    out = np.empty(n)
    for k in range(n):
        out[k] = _normal_beyond(rng, limit)
    return out


def normals(rng, rows, columns):
    out = np.empty((rows, columns))
    for row in out:
        fill_normal(rng, row)
    return out


def assert_moments(sample, law):
    """The first four moments of a sample about the mean of its law, in standard errors."""
    x = sample - law.mean()
    for order in (1, 2, 3, 4):
        exact, square = (
            law.expect(lambda y, k=k: (y - law.mean()) ** k) for k in (order, 2 * order)
        )
        z = (np.mean(x**order) - exact) / math.sqrt((square - exact**2) / sample.size)
        assert abs(z) < 5


def test_words_are_those_of_xoshiro256_plus_plus():
    rng = np.array([1, 2, 3, 4], np.uint64)
    expected = [41943041, 58720359, 3588806011781223]
    assert [int(next_word(rng)) for _ in expected] == expected


@pytest.mark.parametrize("word", [0, 1, 2**63, 2**64 - 1])
def test_uniform_numbers_are_never_0_nor_1(word):
    # rotl(s0 + s3, 23) + s0 is the word if s0 = 0 and s3 is the word rotated back.
    rotated = ((word >> 23) | (word << 41)) & (2**64 - 1)
    state = [0, 1, 2, rotated]
    assert int(next_word(np.array(state, np.uint64))) == word
    assert 0 < uniform(np.array(state, np.uint64)) < 1
    assert 0 < exponential(np.array(state, np.uint64)) < 50


def test_uniform_numbers_are_uniform(seeds):
    sample = many_uniform(words(seeds(1)), N)
    assert stats.kstest(sample, "uniform").pvalue > P_VALUE
    assert_moments(sample, stats.uniform())


def test_exponential_numbers_are_exponential(seeds):
    sample = many_exponential(words(seeds(2)), N)
    assert stats.kstest(sample, "expon").pvalue > P_VALUE
    assert_moments(sample, stats.expon())


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_normal_numbers_are_normal_and_independent(seeds, columns):
    sample = normals(words(seeds(3, columns)), N // 20, columns)
    assert stats.kstest(sample.ravel(), "norm").pvalue > P_VALUE
    assert_moments(sample.ravel(), stats.norm())
    products = (sample.T @ sample / math.sqrt(sample.shape[0]))[np.triu_indices(columns, 1)]
    assert np.all(np.abs(products) < 5)


def test_normal_numbers_fill_equal_cells_equally(seeds):
    """400 cells of equal probability: a fault in one layer of the generator would show."""
    sample = np.empty(4_000_000)
    fill_normal(words(seeds(6)), sample)
    counts = np.histogram(stats.norm.cdf(sample), bins=400, range=(0, 1))[0]
    assert stats.chisquare(counts).pvalue > P_VALUE


def test_normal_numbers_have_normal_tails(seeds):
    sample = np.empty(4_000_000)
    fill_normal(words(seeds(7)), sample)
    for t in (3.0, 3.5, 3.7, 4.0, 4.5):
        for tail in (sample > t, sample < -t):
            expected = sample.size * stats.norm.sf(t)
            assert abs(tail.sum() - expected) < 5 * math.sqrt(expected) + 1
    beyond = np.abs(sample[np.abs(sample) > 3.7])
    law = stats.truncnorm(3.7, math.inf)
    assert stats.kstest(beyond, law.cdf).pvalue > P_VALUE


@pytest.mark.parametrize("limit", [0.5, TAIL])
def test_normal_numbers_beyond_a_limit_have_the_law_of_those_that_are(seeds, limit):
    sample = many_beyond(words(seeds(8)), limit, N)
    law = stats.truncnorm(limit, math.inf)
    assert stats.kstest(sample, law.cdf).pvalue > P_VALUE


def test_successive_numbers_are_uncorrelated(seeds):
    sample = many_uniform(words(seeds(4)), N) - 0.5
    for lag in (1, 2, 3, 7):
        z = np.sum(sample[lag:] * sample[:-lag]) * 12 / math.sqrt(N - lag)
        assert abs(z) < 5


def test_equal_words_give_equal_numbers(seeds):
    np.testing.assert_array_equal(
        normals(words(seeds(5)), 100, 3), normals(words(seeds(5)), 100, 3)
    )
