"""Search for settings with Optuna, and what the found ones are worth."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from examples.paper.samplers import worst_ess
from mjhmc_numba import StuckError

FINALISTS, AGAIN = 4, 3


def minimise(objective: Callable, trials: int, seed: int) -> list[dict]:
    """Trials of a search by Optuna's tree-structured Parzen estimator: settings, `objective`.

    An objective is negative, and 0 for settings with which a chain does not move.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
    study = optuna.create_study(sampler=sampler)

    def in_spite_of_being_stuck(trial):
        try:
            return objective(trial)
        except StuckError:
            return 0.0

    study.optimize(in_spite_of_being_stuck, n_trials=trials)
    return [trial.params | {"objective": trial.value} for trial in study.trials]


def tune(run: Callable, space: dict, trials: int, seed: int, measure: Callable = worst_ess) -> dict:
    """Settings with the most effective draws per gradient.

    The best few trials are run again with other seeds: the first of many noisy ones is lucky.

    Parameters
    ----------
    run : takes the settings as keywords and a seed; returns a `samplers.Run`
    space : (low, high) of step_size, num_steps and of the refresh rate or probability
    measure : of draws (chain, draw, d), their effective number for means and for squares
    """

    def loss(setting, number):
        found = run(**setting, seed=[seed, number])
        return -min(measure(found.draws)) / found.gradients

    rows = minimise(lambda trial: loss(suggest(trial, space), trial.number), trials, seed)
    rows.sort(key=lambda row: row["objective"])
    best = [{name: row[name] for name in space} for row in rows[:FINALISTS]]
    again = [np.mean([loss(one, trials + k) for k in range(AGAIN)]) for one in best]
    return best[int(np.argmin(again))]


def suggest(trial, space: dict) -> dict:
    """All on a logarithmic scale; num_steps whole."""
    setting = {}
    for name, (low, high) in space.items():
        ask = trial.suggest_int if name == "num_steps" else trial.suggest_float
        setting[name] = ask(name, low, high, log=True)
    return setting


def replicate(
    run: Callable, replicates: int, seed: int, measure: Callable = worst_ess
) -> dict[str, float]:
    """Worst effective draws per 1000 gradients of independent runs: means, standard errors."""
    rates = []
    for k in range(replicates):
        found = run(seed=[seed, 1000 + k])
        effective = np.maximum(measure(found.draws), 0.0)
        rates.append(1000.0 * effective / found.gradients)
    mean, error = np.mean(rates, axis=0), np.std(rates, axis=0, ddof=1) / replicates**0.5
    return {
        "ess_mean": mean[0],
        "ess_mean_error": error[0],
        "ess_square": mean[1],
        "ess_square_error": error[1],
    }
