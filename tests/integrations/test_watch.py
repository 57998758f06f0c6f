"""What a chain tells of its draws as they come."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from mjhmc_numba.diagnostics import chain_findings
from mjhmc_numba.diagnostics.looks import ALL_DIMENSIONS, FIRST_LOOK, FIRST_NUMBERS, SECOND_LOOK
from mjhmc_numba.diagnostics.rules import STUCK_STAY
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.pymc.watch import Watch
from mjhmc_numba.saving import load, save
from mjhmc_numba.settings import Settings
from mjhmc_numba.stats import COLUMN
from mjhmc_numba.warmup.first import first_guess
from tests.synthetic import autoregression

NDIM = 20
ROW = [0.0] * len(STAT_NAMES)
TUNED = first_guess(Settings(), NDIM)


def new_watch(ndim=NDIM):
    return Watch(SimpleNamespace(told=[f"x[{k}]" for k in range(ndim)], is_hierarchy=False))


def watched(watch, draws, stays=None):
    """What is told of these draws: {number of the draw: message}."""
    told = {}
    for x in draws:
        row = list(ROW)
        row[COLUMN["longest_stay"]] = (stays or {}).get(watch.made + 1, 0.0)
        finding = watch.finding(row, x, math.nan, TUNED)
        if finding is not None:
            told[watch.made] = finding.message
    return told


def chain(rho, n, seed):
    """One chain whose dimensions are correlated by rho from draw to draw."""
    return autoregression(rho, n, np.random.default_rng(seed), chains=1)[0]


def drifting(dimension, n, seed):
    """A chain that goes all the way in one dimension and mixes in the others."""
    draws = chain(np.full(NDIM, 0.2), n, seed)
    draws[:, dimension] += np.linspace(-5, 5, n)
    return draws


def test_a_slow_dimension_is_told_at_the_first_look_and_only_once(seeds):
    watch = new_watch()
    told = watched(watch, drifting(13, FIRST_LOOK, seeds(1)))
    assert watched(watch, drifting(13, 2 * FIRST_LOOK, seeds(1, 1))) == {}
    assert list(told) == [FIRST_LOOK]
    assert "in x[13] or its square" in told[FIRST_LOOK]
    assert "reparametrise" in told[FIRST_LOOK]


def test_a_dimension_whose_spread_changes_slowly_is_told(seeds):
    """Its signs are independent, but its sizes are not."""
    rng = np.random.default_rng(seeds(2))
    n = 2 * FIRST_LOOK
    draws = rng.normal(size=(n, NDIM))
    draws[:, 4] = rng.choice([-1.0, 1.0], n) * np.exp(0.5 * chain(np.array([0.99]), n, rng)[:, 0])
    (message,) = watched(new_watch(), draws).values()
    assert "in x[4] or its square" in message


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.6])
def test_nothing_is_told_of_draws_that_mix(seeds, rho):
    for k in range(20):
        draws = chain(np.full(NDIM, rho), 2 * FIRST_LOOK, seeds(3, k))
        assert watched(new_watch(), draws) == {}


def test_it_looks_whenever_the_draws_have_doubled(seeds):
    """A chain that begins to mix slowly late is told of at the next look."""
    rng = np.random.default_rng(seeds(4))
    begins = FIRST_LOOK + 1
    draws = rng.normal(size=(5 * FIRST_LOOK, NDIM))
    draws[begins:, :] = 2.0
    told = watched(new_watch(), draws)
    assert list(told) == [2 * FIRST_LOOK]


def test_it_keeps_few_numbers_however_long_the_chain(seeds):
    watch = new_watch(100)
    watched(watch, chain(np.full(100, 0.1), ALL_DIMENSIONS, seeds(5)))
    assert len(watch.kept) == ALL_DIMENSIONS
    assert 16 <= watch.kept[0].size <= 32
    watched(watch, chain(np.full(100, 0.1), 20 * SECOND_LOOK, seeds(5, 1)))
    assert SECOND_LOOK / 2 <= len(watch.kept) <= SECOND_LOOK
    wide = new_watch(FIRST_NUMBERS // 60)
    watched(wide, np.random.default_rng(seeds(5, 2)).normal(size=(60, FIRST_NUMBERS // 60)))
    assert wide.kept[0].size <= 32


def test_late_looks_see_all_draws(seeds):
    """Every other draw of a long chain says as much of what is slow."""
    draws = chain(np.where(np.arange(NDIM) == 3, 0.6, 0.1), 8 * SECOND_LOOK, seeds(7))
    draws[4 * SECOND_LOOK + 1 :, 3] += 20.0
    told = watched(new_watch(), draws)
    assert list(told) == [8 * SECOND_LOOK]
    assert f"first {8 * SECOND_LOOK} draws" in told[8 * SECOND_LOOK]
    assert "x[3]" in told[8 * SECOND_LOOK]


def test_what_is_found_waits_if_something_else_has_to_be_told(seeds):
    draws = drifting(2, FIRST_LOOK + 5, seeds(8))
    told = watched(new_watch(), draws, stays={FIRST_LOOK: STUCK_STAY + 1})
    assert list(told) == [FIRST_LOOK, FIRST_LOOK + 1]
    assert "stuck" in told[FIRST_LOOK]
    assert "mixes slowly" in told[FIRST_LOOK + 1]


def test_a_chain_that_is_not_fast_is_rarely_told_of(seeds):
    """A ninth of its draws would do; that of the slowest of 100 dimensions looks like less."""
    draws = [chain(np.full(100, 0.8), SECOND_LOOK, seeds(9, k)) for k in range(40)]
    assert sum(bool(watched(new_watch(100), x)) for x in draws) <= 6


@pytest.mark.parametrize("at", [0, 10, ALL_DIMENSIONS + 5])
def test_what_was_saved_goes_on_as_before(seeds, at):
    draws = drifting(7, FIRST_LOOK, seeds(6))
    watch = new_watch()
    watched(watch, draws[:at])
    other = load(Watch, save(watch), layout=watch.layout)
    told = watched(other, draws[at:])
    assert told == watched(watch, draws[at:])
    assert len(told) == 1


# ------------------------------------------- the same as of chains that are looked at afterwards


def made_up(seed, **changes):
    """A chain of made-up draws with its rows: {name: values} of columns of the kernel."""
    rng = np.random.default_rng(seed)
    n = changes.pop("n", 2300)
    draws = chain(np.full(NDIM, changes.pop("rho", 0.3)), n, seed)
    columns = {
        "energy": chain(np.array([changes.pop("energy_rho", 0.2)]), n, rng)[:, 0] + 1e4,
        "n_R": np.ones(n),
        "acceptance_rate": np.clip(rng.normal(changes.pop("rate", 0.8), 0.1, n), 0, 1),
    }
    rows = np.zeros((n, len(STAT_NAMES)))
    for name, values in (columns | changes).items():
        rows[:, COLUMN[name]] = values
    return draws, rows


def sparse(at, value, n=2300):
    values = np.zeros(n)
    values[at:] = value
    return values


@pytest.mark.parametrize(
    "tuned",
    [TUNED, TUNED.replace(converged=False), TUNED.replace(integrator="rotation")],
    ids=["", "unconverged", "rotation"],
)
@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, set()),
        ({"rho": 0.99}, {"mixing"}),
        ({"energy_rho": 0.98}, {"energy"}),
        ({"energy_rho": 0.98, "n_R": 0.5}, set()),
        ({"rate": 0.3}, {"acceptance"}),
        ({"rate": 0.3, "n": 150}, set()),
        ({"longest_stay": sparse(700, STUCK_STAY + 3.0)}, {"stuck"}),
        ({"n_diverging": sparse(20, 2.0)}, {"divergence"}),
        ({"n_capped": sparse(3, 1.0), "rho": 0.99, "energy_rho": 0.98}, None),
    ],
)
def test_a_chain_is_told_the_same_while_it_draws_and_afterwards(seeds, changes, kinds, tuned):
    draws, rows = made_up(seeds(10), **changes)
    watch = new_watch()
    online = [
        watch.finding(row.tolist(), x, row[COLUMN["acceptance_rate"]], tuned)
        for x, row in zip(draws, rows, strict=True)
    ]
    stats = {name: rows[:, k] for name, k in COLUMN.items()}
    stats["diverging"] = stats.pop("n_diverging") > 0
    afterwards = chain_findings(draws, stats, tuned, watch.layout.told)
    assert sorted(f for f in online if f is not None) == sorted(afterwards)
    expected = {"capped", "mixing", "energy"} if kinds is None else kinds
    if tuned.integrator == "rotation":  # which has no step size that could fit
        expected = expected - {"acceptance"}
    assert {f.kind for f in afterwards} == expected | (
        set() if tuned.converged else {"unconverged"}
    )
