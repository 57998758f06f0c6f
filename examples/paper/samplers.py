"""The samplers of the comparisons, run to a budget of gradients, and how well they did."""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

import mjhmc_numba
from examples.paper.discrete_hmc import sample_hmc
from mjhmc_numba import SamplingWarning, Settings
from mjhmc_numba.targets import Distribution

PILOT_DRAWS = 99  # a chain that has not moved in 100 raises; a pilot only counts gradients


@dataclass
class Run:
    """Draws (chain, draw, d) and the gradients they took; a jump record where there is one."""

    draws: np.ndarray
    gradients: int
    jumps: list[dict[str, np.ndarray]] | None = None
    warmup_gradients: int = 0
    steps: np.ndarray | None = None  # (chain, draw): the gradients of each draw

    @property
    def gradients_per_draw(self) -> float:
        return self.gradients / (self.draws.shape[0] * self.draws.shape[1])

    @property
    def gradients_per_jump(self) -> float:
        return self.gradients / sum(len(record["event"]) for record in self.jumps or [])


@contextmanager
def quietly():
    """Without warnings of the sampler: published settings are run as they are, good or bad."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        yield


def refresh_rate(beta: float) -> float:
    """What the released code's corruption fraction beta means as a rate of refreshes."""
    return -0.5 * math.log1p(-beta)


def refresh_probability(beta: float) -> float:
    """The same for its control sampler: a probability per step."""
    return min(1.0, refresh_rate(beta))


def _stream(seed, k: int) -> list[int]:
    """The k-th of several seeds that belong to one, itself a number or a list of them."""
    return [*np.atleast_1d(seed).tolist(), k]


def starts(target: Distribution, chains: int, seed) -> np.ndarray | None:
    """Exact draws to start from, where they can be had."""
    if target.draw is None:
        return None
    return target.draw(np.random.default_rng(seed), chains)


# -------------------------------------------------------------------- samplers


def paper_mjhmc(
    target: Distribution,
    *,
    step_size: float,
    num_steps: int,
    rate: float,
    gradients: int,
    draws: int,
    seed,
    chains: int = 1,
    jumps: bool = False,
    initial=None,
    interval: float | None = None,
) -> Run:
    """The paper's process, `draws` at equal system times; `gradients` in all, about.

    If the `interval` between draws is given, there are as many gradients as it takes.
    """
    fixed = {
        "step_size": step_size,
        "num_steps": num_steps,
        "refresh_rate": rate,
        "metric": np.ones(target.ndim),
        "max_gradients": 100_000_000,
        "max_jumps": 10_000_000,
    }
    run = partial(
        mjhmc_numba.sample,
        target,
        tune=0,
        chains=chains,
        cores=1,
        progress=False,
        check_gradient=False,
    )
    begin = starts(target, chains, seed) if initial is None else initial
    with quietly():
        if interval is None:
            # The gradients in a unit of the process's time depend on all the settings.
            trial = 0.5 / rate
            settings = Settings.paper(draw_interval=trial, **fixed)
            pilot = run(initial=begin, draws=PILOT_DRAWS, seed=_stream(seed, 1), settings=settings)
            cost = max(pilot.gradients["draws"], num_steps) / (PILOT_DRAWS * trial)
            interval, begin = gradients / (draws * cost), pilot.draws[:, -1]
        settings = Settings.paper(draw_interval=interval, **fixed)
        result = run(
            initial=begin, draws=draws, seed=_stream(seed, 2), jumps=jumps, settings=settings
        )
    steps = result.stats["n_steps"]
    return Run(result.draws, result.gradients["draws"], result.jumps, steps=steps)


def control_hmc(
    target: Distribution,
    *,
    step_size: float,
    num_steps: int,
    probability: float,
    gradients: int,
    seed,
    chains: int = 1,
    initial=None,
) -> Run:
    """Discrete-time HMC: each step is a draw."""
    draws, stats = sample_hmc(
        target,
        initial=starts(target, chains, seed) if initial is None else initial,
        step_size=step_size,
        num_steps=num_steps,
        refresh_probability=probability,
        draws=max(gradients // (num_steps * chains), 10),
        chains=chains,
        seed=_stream(seed, 2),
    )
    steps = stats["n_gradients"].astype(int)
    return Run(draws, int(steps.sum()), steps=steps)


def default_mjhmc(
    target: Distribution, *, draws: int, chains: int, seed, tune: int = 1000, initial=None
) -> Run:
    """What a user of this package gets: tuned by itself."""
    with quietly():
        result = mjhmc_numba.sample(
            target,
            initial=initial,
            draws=draws,
            tune=tune,
            chains=chains,
            cores=1,
            seed=seed,
            progress=False,
        )
    return Run(result.draws, result.gradients["draws"], warmup_gradients=result.gradients["warmup"])


def nuts(target: Distribution, *, draws: int, chains: int, seed: int, tune: int = 1000) -> Run:
    """NUTS of nutpie, tuned by itself, on the same compiled density."""
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    def make_density():
        def density(x):
            grad = np.empty(target.ndim)
            return target.density(x, grad, *target.args), grad

        return density

    def make_expansion(*_):
        return lambda x: {"x": x}

    model = from_pyfunc(
        target.ndim, make_density, make_expansion, [np.dtype("float64")], [(target.ndim,)], ["x"]
    )
    trace = nutpie.sample(
        model, draws=draws, tune=tune, chains=chains, cores=1, seed=seed, progress_bar=False
    )
    spent = int(np.asarray(trace.sample_stats["n_steps"]).sum())
    warm = int(np.asarray(trace.warmup_sample_stats["n_steps"]).sum())
    return Run(np.asarray(trace.posterior["x"]), spent, warmup_gradients=warm)


# -------------------------------------------------------------------- measures


def autocovariance(series: np.ndarray, largest_lag: int) -> np.ndarray:
    """Mean of f_t f_{t+lag} over chains and coordinates of a series (chain, n, d) of mean 0.

    By Fourier transforms of blocks, each with what follows it: a long record takes no more
    memory than a short one.
    """
    n = series.shape[1]
    lags = min(largest_lag, n - 1)
    block = max(8 * lags, 1 << 16)
    length = 1 << (block + lags).bit_length()
    total = np.zeros(lags + 1)
    for chain in series:
        for at in range(0, n, block):
            own = np.fft.rfft(chain[at : at + block], length, axis=0)
            following = np.fft.rfft(chain[at : at + block + lags], length, axis=0)
            products = np.sum(own.conj() * following, axis=1)
            total += np.fft.irfft(products, length)[: lags + 1]
    return total / (series.shape[0] * series.shape[2] * (n - np.arange(lags + 1)))


def integrated_time(autocorrelation: np.ndarray, window: float = 6.0) -> tuple[float, int]:
    """1 + 2 sum of the autocorrelations up to `window` times itself, and the last lag summed.

    Sokal's window; an autocorrelation that has not decayed at its last lag is summed to there.
    """
    times = 2.0 * np.cumsum(autocorrelation) - 1.0
    enough = np.flatnonzero(np.arange(times.size) >= window * times)
    last = int(enough[0]) if enough.size else times.size - 1
    return float(times[last]), last


def ess_by_time(run: Run, variance: float) -> tuple[float, float]:
    """Effective draws of the mean per 1000 gradients, and the standard error of that.

    The true mean is 0. The coordinates are independent, and averaged over.
    """
    chains, n, d = run.draws.shape
    tau, last = integrated_time(autocovariance(run.draws, n // 4) / variance)
    ess = 1000.0 * n * chains / (tau * run.gradients)
    return ess, ess * _relative_error(last, n * chains * d)


def ess_weighted(run: Run, variance: float) -> tuple[float, float]:
    """The same by the jump record of one chain, weighted with expected holding times.

    Autocovariances are summed over as many gradients as those of the draws: the spread of the
    weights is noise beside which a window of its own would miss the slow part.
    """
    n_draws = run.draws.shape[1]
    _, last = integrated_time(autocovariance(run.draws, n_draws // 4) / variance)
    window = math.ceil(last * run.gradients_per_draw / run.gradients_per_jump)
    series = _weighted_series(run)
    _, n, d = series.shape
    covariances = autocovariance(series, window)
    ess = 1000.0 * n * variance / ((2.0 * covariances.sum() - covariances[0]) * run.gradients)
    return ess, ess * _relative_error(covariances.size - 1, n * d)


def _relative_error(last: int, n: int) -> float:
    """Of a sum of autocorrelations up to the lag `last`, from n values (Madras and Sokal)."""
    return math.sqrt(2.0 * (2 * last + 1) / n)


def _weighted_series(run: Run) -> np.ndarray:
    """The record of a run of one chain, each state times its share of the time."""
    (record,) = run.jumps or []
    weights = record["expected_holding_time"]
    return ((weights / weights.mean())[:, None] * record["x"])[None]


def curve(run: Run, view: str, longest: float, points: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Autocorrelation against gradients, at `points` from 0 to `longest`.

    Parameters
    ----------
    view : "draws", of the draws: the jump process at equal system times, or a discrete chain;
        "embedded", of the sequence of visited states as if all lasted equally long; or
        "weighted", of the visited states times their expected holding times
    """
    if view == "draws":
        series, step = run.draws, run.gradients_per_draw
    else:
        step = run.gradients_per_jump
        (record,) = run.jumps or []
        series = record["x"][None] if view == "embedded" else _weighted_series(run)
    covariances = autocovariance(series, math.ceil(longest / step) + 1)
    lags = step * np.arange(covariances.size)
    gradients = np.linspace(0.0, longest, points)
    return gradients, np.interp(gradients, lags, covariances / covariances[0])


def worst_ess(draws: np.ndarray) -> tuple[float, float]:
    """Least bulk ESS (rank-normalised, split chains) over the coordinates, and over squares."""
    import arviz

    def worst(values):
        columns = (np.ascontiguousarray(values[:, :, j]) for j in range(values.shape[2]))
        each = [float(np.asarray(arviz.ess(column, method="bulk"))) for column in columns]
        # Values that never move have no ESS: they are worth one draw.
        return float(np.min(np.nan_to_num(each, nan=1.0)))

    return worst(draws), worst(np.square(draws))


def gained_ess(draws: np.ndarray) -> tuple[float, float]:
    """The same without what the starts alone are worth, about a draw for each half of a chain.

    Chains that stand still have gained nothing, however little they cost.
    """
    starts_alone = 2.0 * draws.shape[0]
    means, squares = worst_ess(draws)
    return means - starts_alone, squares - starts_alone
