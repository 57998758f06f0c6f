"""Runs in rounds: exact chains that can be continued stand for a sampler."""

import numpy as np
import pytest

from mjhmc_numba import SettingsError, Until
from mjhmc_numba.estimates import refine
from tests.estimates.known import TARGETS, exact_chains


class Endless:
    """Chains that can be continued; counts what was asked for."""

    def __init__(self, name, seed, shift=0.0, most=10**9):
        self.target, self.rng = TARGETS[name](), np.random.default_rng(seed)
        self.shift, self.most, self.asked, self.made = shift, most, [], None

    def __call__(self, n):
        self.asked.append(n)
        have = 0 if self.made is None else self.made[0].shape[1]
        x, g = exact_chains(self.target, self.rng, 4, min(n, self.most - have))
        new = x + self.shift * np.arange(4)[:, None, None], g
        self.made = new if self.made is None else self.joined(new)
        return self.made

    def joined(self, new):
        return tuple(np.concatenate([a, b], axis=1) for a, b in zip(self.made, new, strict=True))


def refined(chains, until, first=100, **options):
    return refine(*chains(first), until, chains, **options)


def test_rounds_end_when_the_error_is_small_enough(seeds):
    chains, seen = Endless("rough_well", seeds(101)), []
    found = refined(chains, Until(0.02), report=seen.append)
    assert found.is_met
    assert found.trouble == ""
    assert len(found.rounds) == len(chains.asked) > 1
    assert seen == found.rounds
    assert chains.made[0].shape[1] == sum(chains.asked) == found.rounds[-1].draws
    assert (found.estimates.mcse_mean <= 0.02 * found.estimates.sd).all()
    assert found.rounds[0].error > 0.02 >= found.rounds[-1].error
    # An error of 0.02 needs 2500 independent draws, and is not overdone.
    assert 2000 < 4 * found.rounds[-1].draws < 6000


def test_sharper_estimates_need_fewer_draws(seeds):
    found = refined(Endless("log_gamma_3", seeds(102)), Until(0.005))
    assert found.is_met
    assert 4 * found.rounds[-1].draws < 40_000 / 5  # of a plain average


def test_absolute_tolerances_are_not_in_deviations(seeds):
    found = refined(Endless("rough_well", seeds(103)), Until(1.0, unit="absolute"))
    assert found.is_met
    assert found.estimates.mcse_mean.max() <= 1.0 < found.estimates.sd.min()


def test_only_what_is_named_counts_each_with_its_own_tolerance(seeds):
    """The first of two rough wells needs 400 draws, both of them with 0.01 need 10,000."""
    wells = Endless("rough_well", seeds(108))
    found = refined(wells, Until({"x[0]": 0.05}))
    assert found.estimates.names == ["x[0]"]
    assert found.rounds[-1].draws <= 300
    both = Until({"x[0]": 0.05, "above": 0.02}, functions={"above": lambda x: x[..., 1] > 0})
    found = refined(Endless("rough_well", seeds(109)), both)
    assert found.estimates.names == ["x[0]", "above"]
    assert found.rounds[-1].quantity == "above"
    assert found.rounds[-1].tolerance == 0.02
    assert found.rounds[-1].draws > 500


def test_the_cap_is_kept_and_the_quantity_is_named(seeds):
    found = refined(Endless("rough_well", seeds(104)), Until({"x[1]": 1e-4}, most_draws=350))
    assert not found.is_met
    assert found.rounds[-1].draws == 350
    assert "error of x[1] is 0.0" in found.trouble
    assert "not 0.0001 as asked" in found.trouble


def test_chains_that_end_early_end_it(seeds):
    found = refined(Endless("rough_well", seeds(110), most=250), Until(1e-4))
    assert not found.is_met
    assert [r.draws for r in found.rounds] == [100, 200]


def test_chains_that_disagree_do_not_end_it(seeds):
    """However small the error: Gaussian chains at different places."""
    chains = Endless("correlated_gaussian", seeds(105), shift=1.0)
    found = refined(chains, Until(10.0, most_draws=300))
    assert found.rounds[0].error < 10.0
    assert found.rounds[-1].r_hat > 1.1
    assert not found.is_met
    assert "R-hat of x[" in found.trouble


def test_a_quantity_without_an_error_ends_it_and_is_named(seeds):
    until = Until({"root": 0.1}, functions={"root": lambda x: np.where(x[..., 0] > 0, 1.0, np.nan)})
    found = refined(Endless("rough_well", seeds(111)), until)
    assert len(found.rounds) == 1
    assert not found.is_met
    assert "error of root is not known: some values are not finite" in found.trouble


def test_stopping_by_the_error_does_not_spoil_the_intervals(seeds):
    """80 runs that stop when their own errors say so; 95 % is known to 0.024, 4 are allowed."""
    covered = []
    for k in range(80):
        chains = Endless("log_gamma_3", seeds(112, k))
        found = refined(chains, Until({"x[1]": 0.003})).estimates
        covered.append(abs(found.mean[0] - chains.target.mean[1]) < 1.96 * found.mcse_mean[0])
    assert np.mean(covered) > 0.95 - 4 * 0.024


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"mu": 0.0},), "tolerance of mu is positive, not 0.0"),
        (({"mu": "small"},), "tolerance of mu is positive, not 'small'"),
        (({},), "at least one"),
        ((0.1, "percent"), "unit='percent' is unknown"),
        ((0.1, "sd", 1000, 1.0), "r_hat is above 1"),
        (({"mu": 0.1}, "sd", 1000, 1.01, {"f": len}), "small enough for f"),
        ((0.1, "sd", 1000, 1.01, {"f": np.zeros(3)}), "f is a function of the draws"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(SettingsError, match=message):
        Until(*arguments)


def test_what_is_not_there_is_named(seeds):
    chains = Endless("rough_well", seeds(107))
    with pytest.raises(SettingsError, match=r"no quantity mu; there are x\[0\], x\[1\]"):
        refined(chains, Until({"mu": 0.1}))
    with pytest.raises(SettingsError, match="draws=20 of the first round"):
        refined(Endless("rough_well", seeds(107)), Until(0.1), first=20)
    with pytest.raises(SettingsError, match="most_draws=60"):
        refined(Endless("rough_well", seeds(107)), Until(0.1, most_draws=60))
