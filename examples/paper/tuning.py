"""Search for settings with Optuna."""

from __future__ import annotations

import warnings
from collections.abc import Callable


def minimise(objective: Callable, trials: int, seed: int) -> list[dict]:
    """Trials of a search by Optuna's tree-structured Parzen estimator: settings, `objective`."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=trials)
    return [trial.params | {"objective": trial.value} for trial in study.trials]
