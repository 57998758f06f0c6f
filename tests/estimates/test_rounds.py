import numpy as np
import pytest

from mjhmc_numba.estimates import EstimateError, refine
from tests.estimates.known import TARGETS, exact_chains


class Endless:
    """Chains that can be continued; counts what was asked for."""

    def __init__(self, name, seed, shift=0.0):
        self.target, self.rng = TARGETS[name](), np.random.default_rng(seed)
        self.shift, self.asked = shift, []

    def __call__(self, n):
        self.asked.append(n)
        x, g = exact_chains(self.target, self.rng, 4, n)
        return x + self.shift * np.arange(4)[:, None, None], g


def test_rounds_end_when_the_error_is_small_enough(seeds):
    chains, seen = Endless("rough_well", seeds(101)), []
    found = refine(chains, 0.02, first=100, report=seen.append)
    assert found.met
    assert len(found.rounds) == len(chains.asked) > 1
    assert seen == found.rounds
    assert found.draws.shape[1] == sum(chains.asked) == found.rounds[-1].draws
    assert (found.estimates.mcse_mean <= 0.02 * found.estimates.sd).all()
    assert found.rounds[0].error > 1 >= found.rounds[-1].error
    # An error of 0.02 needs 2500 independent draws, and is not overdone.
    assert 2000 < 4 * found.draws.shape[1] < 6000


def test_sharper_estimates_need_fewer_draws(seeds):
    found = refine(Endless("log_gamma_3", seeds(102)), 0.005, first=100)
    assert found.met
    assert 4 * found.draws.shape[1] < 40_000 / 5  # of a plain average


def test_absolute_tolerances_are_not_in_deviations(seeds):
    found = refine(Endless("rough_well", seeds(103)), 1.0, in_sd=False, first=100)
    assert found.met
    assert found.estimates.mcse_mean.max() <= 1.0 < found.estimates.sd.min()


def test_the_cap_is_kept_and_said(seeds):
    chains = Endless("rough_well", seeds(104))
    found = refine(chains, 1e-4, first=100, most=350)
    assert not found.met
    assert found.draws.shape[1] == 350


def test_chains_that_disagree_do_not_end_it(seeds):
    """However small the error of what is left: Gaussian chains at different places."""
    chains = Endless("correlated_gaussian", seeds(105), shift=1.0)
    found = refine(chains, 10.0, first=100, most=300, if_refused="plain")
    assert found.rounds[0].error < 1
    assert found.rounds[-1].r_hat > 1.1
    assert not found.met


def test_wrong_arguments_are_named(seeds):
    with pytest.raises(EstimateError, match="tolerance"):
        refine(Endless("rough_well", seeds(106)), 0.0)
    with pytest.raises(EstimateError, match="not arrays"):
        refine(Endless("rough_well", seeds(107)), 0.1, np.zeros((4, 100)))
