"""Where the data and the references of these posteriors are, and pieces that models share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import posterior as entries
import pytensor
import pytensor.tensor as pt

HERE = Path(__file__).resolve().parent

posterior = partial(entries.posterior, references=HERE / "references")


def data(name: str) -> dict:
    """The data of a posterior, by its name."""
    return entries.read(HERE / "data" / f"{name}.json.gz")


def scan(step: Callable, **options):
    """The outputs of `pytensor.scan`, which once returned updates as well."""
    if "return_updates" in inspect.signature(pytensor.scan).parameters:
        return pytensor.scan(step, return_updates=False, **options)
    return pytensor.scan(step, **options)[0]


def hidden_markov_logp(emission, row1, row2):
    """Log likelihood of a hidden chain of two states that both weigh 1 at the start.

    Parameters
    ----------
    emission : tensor, shape (n, 2)
        Log density of each observation in each state.
    row1, row2 : tensor, shape (2,)
        Probabilities of the next state.

    Notes
    -----
    The forward recursion is carried in normalised form: a few products and a division per step.
    """
    top = emission.max(axis=1)
    likelihood = pt.exp(emission - top[:, None])
    first = likelihood[0].sum()

    def step(e1, e2, p1, p11, p12, p21, p22):
        f1 = (p1 * p11 + (1 - p1) * p21) * e1
        f2 = (p1 * p12 + (1 - p1) * p22) * e2
        return f1 / (f1 + f2), f1 + f2

    _, norms = scan(
        step,
        sequences=[likelihood[1:, 0], likelihood[1:, 1]],
        outputs_info=[likelihood[0, 0] / first, None],
        non_sequences=[row1[0], row1[1], row2[0], row2[1]],
    )
    return pt.log(first) + pt.log(norms).sum() + top.sum()


def runge_kutta(slope: Callable, start: Sequence, parameters: Sequence, times: np.ndarray) -> list:
    """A path through two or more components by the classical Runge-Kutta method.

    Parameters
    ----------
    slope : callable
        Takes the state's components, then the parameters; returns the derivatives.
    start : sequence of scalars
    parameters : sequence of scalars
    times : (n,) array
        The state at `times[1:]` is returned, one tensor for each component.
    """
    size = len(start)

    def advance(h, *arguments):
        state, rest = arguments[:size], arguments[size:]

        def at(slopes, part):
            ahead = [x + part * h * s for x, s in zip(state, slopes, strict=True)]
            return slope(*ahead, *rest)

        s1 = slope(*state, *rest)
        s2 = at(s1, 0.5)
        s3 = at(s2, 0.5)
        s4 = at(s3, 1.0)
        return [
            x + h / 6 * (a + 2 * b + 2 * c + d)
            for x, a, b, c, d in zip(state, s1, s2, s3, s4, strict=True)
        ]

    steps = pt.as_tensor(np.diff(times))
    return scan(advance, sequences=[steps], outputs_info=start, non_sequences=parameters)
