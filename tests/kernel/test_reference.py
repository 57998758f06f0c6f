"""The kernel and its plain twin make the same draws from the same random stream."""

import numpy as np
import pytest
from numba import njit

from mjhmc_numba import reference
from mjhmc_numba.coordinates import Metric
from mjhmc_numba.density import as_target
from mjhmc_numba.kernel.layout import STAT_NAMES
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import INTEGRATORS
from tests.kernel.processes import (
    EXACT_COLUMNS,
    agreeing,
    dense_metric,
    label,
    low_rank_metric,
    own_bounded_g,
    own_unbounded_g,
    run,
    skewed_target,
    started,
    tuned,
    words,
)

DRAWS = 200
NDIM = 3

METRICS = {
    "diagonal": Metric.diagonal([1.0, 0.6, 0.3]).centred([-0.5, 0.4, 1.5]),
    "low_rank": low_rank_metric(NDIM).centred([0.0, 0.5, 1.0]),
    "dense": dense_metric(NDIM),
}
# Long enough for flips and refinement; at the edge of stability rounding would grow without end.
STEP_SIZES = {
    "leapfrog": 0.6,
    "two_stage": 0.5,
    "three_stage": 0.4,
    "harmonic": 0.6,
    "rotation": 0.6,
}
BOUNDED = {"metropolis": {}, "barker": {}, own_bounded_g: {"rates_bound": 1.0}}
SIMULATIONS = [
    {"rates": rates, **bound, **way}
    for rates, bound in BOUNDED.items()
    for way in (
        {"method": "thinning", "clock": "regular"},
        {"method": "thinning", "clock": "poisson"},
        {"method": "competing"},
    )
] + [{"rates": "sqrt"}, {"rates": own_unbounded_g}]

# The rest of the settings takes turns, so that each meets every simulation, integrator, metric.
VARIATIONS = [
    {"refresh_alpha": 0.0, "step_jitter": 0.15, "refine_levels": 0},
    {"refresh_alpha": 0.7, "step_jitter": 0.0, "refine_levels": 4, "refine_threshold": 0.1},
]


def assert_equal_runs(kernel_draws, kernel_stats, twin):
    np.testing.assert_allclose(kernel_draws, twin.draws, rtol=1e-9, atol=1e-9)
    twin_stats = np.column_stack([twin.stats[name] for name in STAT_NAMES])
    np.testing.assert_array_equal(kernel_stats[:, EXACT_COLUMNS], twin_stats[:, EXACT_COLUMNS])
    np.testing.assert_allclose(kernel_stats, twin_stats, rtol=1e-8, atol=1e-8)


@pytest.fixture(scope="module")
def target():
    return skewed_target(NDIM)


@pytest.fixture(scope="module", params=SIMULATIONS, ids=label)
def simulation(request):
    """Settings of one simulation with each of the variations."""
    return [Settings(**request.param, **variation) for variation in VARIATIONS]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_kernel_and_twin_make_the_same_draws(target, simulation, integrator, metric):
    for turn, chosen in enumerate(simulation):
        values = tuned(
            NDIM,
            step_size=STEP_SIZES[integrator],
            num_steps=1 + turn,
            integrator=integrator,
            metric=METRICS[metric],
        )
        process = started(target, chosen, values, 17 + turn)
        twin = reference.run(
            target.logp_and_grad,
            np.zeros(NDIM),
            DRAWS // 2,
            chosen,
            agreeing(chosen, values),
            words(17 + turn),
        )
        assert_equal_runs(*run(process, DRAWS // 2), twin)
        assert twin.stats["n_L"].sum() > 0
        assert twin.stats["n_R"].sum() > 0
        if turn == 1:
            assert twin.stats["n_refined"].sum() > 0


COMPETING = [s for s in SIMULATIONS if s.get("method") == "competing" or len(s) == 1]


@pytest.mark.parametrize("simulation", COMPETING, ids=label)
def test_kernel_and_twin_record_the_same_jumps(target, simulation):
    chosen = Settings(**simulation, refresh_alpha=0.5)
    values = agreeing(chosen, tuned(NDIM, step_size=0.8))
    twin = reference.run(target.logp_and_grad, np.zeros(NDIM), 50, chosen, values, words(29))
    process = started(target, chosen, values, 29, record=len(twin.jumps) + 1)
    run(process, 50)
    visits = process.visits()
    assert len(visits.x) == len(twin.jumps)
    x, holding, expected, events = zip(*twin.jumps, strict=True)
    np.testing.assert_allclose(visits.x, x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(visits.holding[:, 0], holding, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(visits.event, ["_LFR".index(e) for e in events])
    np.testing.assert_allclose(visits.holding[:, 1], expected, rtol=1e-8)
    assert set(events) == {"L", "F", "R"}


@pytest.mark.parametrize("simulation", SIMULATIONS[::2], ids=label)
def test_kernel_and_twin_go_on_equally_after_a_move_by_another_step_method(target, simulation):
    chosen, values = Settings(**simulation), tuned(NDIM, step_size=0.5)
    process = started(target, chosen, values, 31)
    twin = reference.ReferenceProcess(
        target.logp_and_grad, np.zeros(NDIM), chosen, values, words(31)
    )
    rng = np.random.default_rng(1)
    for _ in range(30):
        elsewhere = rng.normal(0.5, 0.5, NDIM)
        process.resolve_flip()
        twin.resolve_flip()
        process.move(elsewhere)
        twin.move(elsewhere)
        draws, stats = run(process, 2)
        for draw, row in zip(draws, stats, strict=True):
            twin.advance()
            np.testing.assert_allclose(draw, twin.here.x, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(row, list(twin.statistics().values()), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("simulation", [SIMULATIONS[0], SIMULATIONS[-2]], ids=label)
@pytest.mark.parametrize("cap", [{"max_jumps": 9}, {"max_gradients": 8}], ids=label)
def test_kernel_and_twin_cut_the_same_draws_short(target, simulation, cap):
    chosen, values = Settings(**simulation, **cap), tuned(NDIM, draw_interval=8.0)
    twin = reference.run(target.logp_and_grad, np.zeros(NDIM), DRAWS, chosen, values, words(37))
    assert 0 < twin.stats["n_capped"].mean() < 1
    assert_equal_runs(*run(started(target, chosen, values, 37), DRAWS), twin)


@njit
def half_line(x, grad):
    """A normal density that is not a number above 0.3."""
    for j in range(x.size):
        grad[j] = -x[j]
    return -0.5 * np.sum(x * x) if x[0] < 0.3 else np.nan


@pytest.mark.parametrize("simulation", SIMULATIONS, ids=label)
def test_kernel_and_twin_agree_where_the_density_is_not_finite(simulation):
    target = as_target(half_line, 2)
    chosen = Settings(**simulation, refine_levels=2)
    values = tuned(2, step_size=0.5, integrator="two_stage")
    twin = reference.run(target.logp_and_grad, np.zeros(2), DRAWS, chosen, values, words(41))
    assert twin.stats["n_diverging"].sum() > 0
    assert_equal_runs(*run(started(target, chosen, values, 41), DRAWS), twin)


class EagerProcess(reference.ReferenceProcess):
    """Resolves a pending flip at the ring where the move failed."""

    def _ring(self):
        super()._ring()
        self._resolve_flip()


@pytest.mark.parametrize("simulation", SIMULATIONS[:9:2], ids=label)
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_flips_that_are_resolved_late_change_no_draw(target, simulation, alpha):
    chosen = Settings(**simulation, refresh_alpha=alpha)
    values = agreeing(chosen, tuned(NDIM, step_size=0.7, refresh_rate=0.7))
    eager = EagerProcess(target.logp_and_grad, np.zeros(NDIM), chosen, values, words(47))
    draws, stats = run(started(target, chosen, values, 47), DRAWS)
    for draw in draws:
        eager.advance()
        np.testing.assert_allclose(draw, eager.here.x, rtol=1e-9, atol=1e-9)
    if eager.competing:
        return
    # ... but cost less, if a full refresh makes some of them irrelevant.
    spent = stats[:, 0].sum()
    assert (
        spent < eager.counts["n_gradients"] if alpha == 0 else spent <= eager.counts["n_gradients"]
    )
