"""Locally refined rungs leave the target invariant: by quadrature, not by sampling."""

import math

import numpy as np
import pytest
from numba import njit

from mjhmc_numba.density import as_target
from mjhmc_numba.kernel.ladder import energy_of, logp_of, neighbour_energy, place, rung
from tests.kernel.processes import COLUMN, quartic, run, settings, started, tuned

# Columns of what the sweep writes, for the rungs ahead and behind.
X, V, H, LOGP = range(4)
# The integrands jump where the level changes, so the error of a midpoint rule falls as n^-1.5:
# with 600 x 600 points it is a few parts in 10^4 of a standard deviation.
POINTS = 600
TOLERANCE = 1e-3


@njit
def tilted_quartic(x, grad):
    grad[0] = 1.0 - x[0] ** 3
    return x[0] - x[0] ** 4 / 4


@njit
def stand_at(p, position, momentum):
    """Make (x, v) the only rung of a new ladder."""
    p.here = 0
    p.direction = 1
    _, v, _, _, _ = rung(p, 0)
    v[0] = momentum
    place(p, position, False)


@njit
def write_neighbour(p, side, out):
    _, out[H] = neighbour_energy(p, side)
    x, v, _, _, _ = rung(p, side)
    out[X] = x[0]
    out[V] = v[0]
    out[LOGP] = logp_of(p, side)


@njit
def sweep(state, positions, momenta, energy, ahead, behind):
    """Energies of the points, and the rungs that the kernel finds next to each."""
    p = state[0]
    for k in range(positions.size):
        stand_at(p, positions[k : k + 1], momenta[k])
        energy[k] = energy_of(p, 0)
        write_neighbour(p, 1, ahead[k])
        write_neighbour(p, -1, behind[k])


class Sweep:
    """The points of a grid in (x, v), their weights under the target, and their neighbours."""

    def __init__(self, process, points):
        x = -2.9 + 6.3 * (np.arange(points) + 0.5) / points
        v = 6.4 * (2 * (np.arange(points) + 0.5) / points - 1)
        self.x, self.v = (a.ravel() for a in np.meshgrid(x, v, indexing="ij"))
        n = self.x.size
        self.energy, self.ahead, self.behind = np.empty(n), np.empty((n, 4)), np.empty((n, 4))
        sweep(process.state, self.x, self.v, self.energy, self.ahead, self.behind)
        weights = np.exp(-self.energy)
        self.weights = weights / weights.sum()

    def blocked(self, neighbours):
        """Rungs that exist as states but have been closed, as the way back is another one."""
        return np.isinf(neighbours[:, H]) & np.isfinite(neighbours[:, LOGP])

    def opened(self, neighbours):
        """The same rungs, with the check of the way back undone."""
        out = neighbours.copy()
        shut = self.blocked(neighbours)
        out[shut, H] = 0.5 * out[shut, V] ** 2 - out[shut, LOGP]
        return out

    def acceptance(self, neighbours):
        return np.exp(np.minimum(0.0, self.energy - neighbours[:, H]))

    def hmc_drift(self, f, ahead):
        """E[f after] - E[f before] of one Metropolis step: L if accepted, else F."""
        a = self.acceptance(ahead)
        after = a * f(ahead[:, X], ahead[:, V]) + (1 - a) * f(self.x, -self.v)
        return self.weights @ (after - f(self.x, self.v))

    def jump_drift(self, f, ahead, behind):
        """E[Q f] of the jump process with metropolis rates."""
        rate_L, g_behind = self.acceptance(ahead), self.acceptance(behind)
        rate_F = np.maximum(0.0, g_behind - rate_L)
        here = f(self.x, self.v)
        moved = rate_L * (f(ahead[:, X], ahead[:, V]) - here)
        return self.weights @ (moved + rate_F * (f(self.x, -self.v) - here))


FUNCTIONS = {
    "x": lambda x, v: x,
    "x^2": lambda x, v: x**2,
    "x^4": lambda x, v: x**4,
    "v^2": lambda x, v: v**2,
    "energy": lambda x, v: v**2 / 2 + x**4 / 4 - x,
    "xv": lambda x, v: x * v,
    "cos": lambda x, v: np.cos(2 * x + v),
    "sin": lambda x, v: np.sin(x - 2 * v),
    "tail": lambda x, v: 1 / (1 + np.exp(-4 * (x - 1.5))),
}


CASES = [
    {"refine_levels": 3, "refine_threshold": 0.3},
    {"refine_levels": 1, "refine_threshold": 0.1},
]


def refining_process(**changes):
    chosen = settings(**(CASES[0] | changes))
    return started(as_target(tilted_quartic, 1), chosen, tuned(1, step_size=0.7), 1)


@pytest.fixture(scope="module", params=CASES, ids=str)
def swept(request):
    return Sweep(refining_process(**request.param), POINTS)


def drifts(swept, ahead, behind):
    """Drifts of all functions in units of their standard deviations, for HMC and jump process."""
    out = []
    for f in FUNCTIONS.values():
        values = f(swept.x, swept.v)
        sd = math.sqrt(swept.weights @ (values - swept.weights @ values) ** 2)
        out.append((swept.hmc_drift(f, ahead) / sd, swept.jump_drift(f, ahead, behind) / sd))
    return np.abs(out)


def test_refined_rungs_and_closed_edges_both_occur(swept):
    for neighbours in (swept.ahead, swept.behind):
        closed = swept.weights @ swept.blocked(neighbours)
        assert 0.02 < closed < 0.5


def test_expectations_do_not_move_under_refined_transitions(swept):
    assert drifts(swept, swept.ahead, swept.behind).max() < TOLERANCE


def test_expectations_move_if_the_way_back_is_not_checked(swept):
    """The check of the level is needed, and the quadrature would see it missing."""
    moved = drifts(swept, swept.opened(swept.ahead), swept.opened(swept.behind)).max(axis=0)
    assert np.all(moved > 10 * TOLERANCE)


def test_an_open_edge_leads_back_to_where_it_came_from():
    process = refining_process()
    rng = np.random.default_rng(2)
    x, v = rng.normal(0.7, 0.7, 2000), rng.normal(0, 1, 2000)
    one_way, there, back = np.empty(2000), np.empty((2000, 4)), np.empty((2000, 4))
    sweep(process.state, x, v, one_way, there, back)
    open_ahead = np.isfinite(there[:, H])
    assert 0.5 < open_ahead.mean() < 1
    n = open_ahead.sum()
    energy, further, returned = np.empty(n), np.empty((n, 4)), np.empty((n, 4))
    end = there[open_ahead]
    sweep(process.state, end[:, X].copy(), end[:, V].copy(), energy, further, returned)
    np.testing.assert_allclose(returned[:, X], x[open_ahead], atol=1e-10)
    np.testing.assert_allclose(returned[:, V], v[open_ahead], atol=1e-10)
    np.testing.assert_allclose(returned[:, H], one_way[open_ahead], rtol=1e-10)


def test_no_rung_is_refined_where_the_energy_is_conserved_well_enough():
    for changes in ({"refine_threshold": 1e9}, {"refine_levels": 0}):
        process = refining_process(**changes)
        _, columns = run(process, 500)
        assert columns[:, COLUMN["n_refined"]].sum() == 0
        assert columns[:, COLUMN["n_blocked"]].sum() == 0
    _, columns = run(refining_process(), 500)
    assert columns[:, COLUMN["n_refined"]].sum() > columns[:, COLUMN["n_blocked"]].sum() > 0


def test_refinement_frees_a_chain_from_where_its_step_is_too_long():
    target = as_target(quartic, 1)
    found = {}
    for levels in (0, 8):
        chosen = settings(refine_levels=levels, refine_threshold=8.0)
        process = started(target, chosen, tuned(1, step_size=0.5), 4, x0=np.array([50.0]))
        draws, _ = run(process, 400)
        found[levels] = abs(draws[-1, 0])
    assert found[0] == 50
    assert found[8] < 4
