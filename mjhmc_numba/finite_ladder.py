r"""Exact generators on small circular ladders: stationary law, spectral gap, asymptotic variance.

A circular ladder has k rungs of energies :math:`H_0, \dots, H_{k-1}` and 2k states (i, s): a rung
and a direction s = +1 or -1. :math:`L: (i, s) \to (i + s \bmod k,\, s)`,
:math:`F: (i, s) \to (i, -s)`, and the target is
:math:`\pi_{(i, s)} = e^{-H_i} / (2 \sum_j e^{-H_j})`. A sampler's rates or probabilities on it
make a matrix of size 2k, and what a simulation would estimate can be computed.

**Numbering.** State (i, +1) has index i, state (i, -1) has index k + i: see `state_index`. A
function f of the rung alone is ``numpy.tile(f, 2)`` on the states.

**Rows.** Matrices act on row vectors. Entry (a, b) belongs to the move *from* a *to* b; a
transition matrix has rows that sum to 1 and :math:`\pi P = \pi`; a generator has rows that sum
to 0 and :math:`\pi Q = 0`. The paper writes columns: its :math:`\Gamma` and :math:`\hat T` are
the transposes of ours.

The rates are those of the compiled kernel, called as the sampler calls them. To test a sampler
of one's own, build its matrix in the same numbering and ask for
``abs(ladder_law(energies) @ Q).max()``.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mjhmc_numba.balancing import NAMED
from mjhmc_numba.kernel.rates import (
    CUSTOM,
    METROPOLIS,
    balancing,
    jump_rates,
    log_probability_ratio,
)

__all__ = [
    "asymptotic_variance",
    "embedded_chain",
    "expected_holding_times",
    "hmc_matrix",
    "ladder_law",
    "mjhmc_generator",
    "spectral_gap",
    "state_index",
    "stationary_law",
    "uniformised",
]

Matrix = NDArray[np.float64]

# Rows are sums of rounded numbers; a matrix whose rows miss 0 or 1 by more is a mistake.
_ROW_TOLERANCE = 1e-10


def state_index(rung: int, direction: int, rungs: int) -> int:
    """Index of the state (rung, direction): rung for +1, rungs + rung for -1; rungs wrap round.

    Parameters
    ----------
    rung : int
    direction : {1, -1}
    rungs : int
        Length k of the ladder.

    Returns
    -------
    int
        From 0 to 2k - 1.
    """
    if direction not in (1, -1):
        raise ValueError(f"direction must be +1 or -1, not {direction}.")
    return rung % rungs + (0 if direction == 1 else rungs)


def ladder_law(energies: ArrayLike) -> NDArray[np.float64]:
    r"""The target :math:`\pi_{(i,s)} \propto e^{-H_i}` on the 2k states.

    A rung whose energy is not finite has probability 0.

    Parameters
    ----------
    energies : array, shape (k,)

    Returns
    -------
    array, shape (2k,)
    """
    H = _checked_energies(energies)
    finite = np.isfinite(H)
    weights = np.zeros(H.size)
    weights[finite] = np.exp(H[finite].min() - H[finite])
    return np.tile(weights / (2.0 * weights.sum()), 2)


def mjhmc_generator(
    energies: ArrayLike,
    rates: str | Callable[[float], float] = "sqrt",
    refresh_rate: float = 0.0,
) -> Matrix:
    r"""Generator of Markov jump HMC on a circular ladder.

    From a state with energies H here, :math:`H_{ahead}` at L and :math:`H_{behind}` at
    :math:`L^{-1}`, with a balancing function :math:`g(t) = t\,g(1/t)`,

    .. math::
        Q_{\zeta \to L\zeta} &= g(e^{H - H_{ahead}}), \\
        Q_{\zeta \to F\zeta} &= \max[0,\; g(e^{H - H_{behind}}) - g(e^{H - H_{ahead}})]
                                + \beta / 2,

    the paper's equation (MJHMC) for :math:`g(t) = \sqrt t`.

    Refreshment in the sampler redraws the momentum and so leaves the ladder. A circle has no other
    ladder to go to, so here R can only randomise the direction: at rate :math:`\beta` s is drawn
    anew, +1 or -1 with probability 1/2 each. Half of these redraws change nothing and do not
    appear in a generator, hence :math:`\beta / 2`.

    Parameters
    ----------
    energies : array, shape (k,)
        At least two; one that is not finite means a rung of probability 0.
    rates : {"sqrt", "metropolis", "barker"} or callable
        The balancing function g. One's own is called with t in [0, 1] only; above 1 it is
        continued by :math:`g(t) = t\,g(1/t)`, and it is refused if it does not agree with that.
    refresh_rate : float
        :math:`\beta`, not negative.

    Returns
    -------
    array, shape (2k, 2k)
    """
    H = _checked_energies(energies)
    if not (np.isfinite(refresh_rate) and refresh_rate >= 0.0):
        raise ValueError(f"refresh_rate must be finite and not negative, not {refresh_rate}.")
    k = H.size
    Q = np.zeros((2 * k, 2 * k))
    with _balancing_function(rates) as (kind, address):
        for s in (1, -1):
            for i in range(k):
                ahead, behind = H[(i + s) % k], H[(i - s) % k]
                rate_L, rate_F = jump_rates(kind, H[i], ahead, behind, address)
                here = state_index(i, s, k)
                Q[here, state_index(i + s, s, k)] = rate_L
                Q[here, state_index(i, -s, k)] = rate_F + 0.5 * refresh_rate
    np.fill_diagonal(Q, -Q.sum(axis=1))
    return Q


def hmc_matrix(energies: ArrayLike, refresh_probability: float = 0.0) -> Matrix:
    r"""Transition matrix of discrete-time HMC on a circular ladder, the paper's control.

    Move to :math:`L\zeta` with the Metropolis probability
    :math:`a = \min(1, e^{H - H_{ahead}})`; on rejection flip, to :math:`F\zeta`, with
    probability 1 - a. Then, with `refresh_probability`, draw the direction anew (half of the
    redraws change nothing). All three leave `ladder_law` invariant.

    Parameters
    ----------
    energies : array, shape (k,)
    refresh_probability : float
        In [0, 1].

    Returns
    -------
    array, shape (2k, 2k)
    """
    H = _checked_energies(energies)
    if not 0.0 <= refresh_probability <= 1.0:
        raise ValueError(f"refresh_probability must lie in [0, 1], not {refresh_probability}.")
    k = H.size
    step = np.zeros((2 * k, 2 * k))
    for s in (1, -1):
        for i in range(k):
            log_ratio = log_probability_ratio(H[i], H[(i + s) % k])
            accept = balancing(METROPOLIS, log_ratio, 0)
            here = state_index(i, s, k)
            step[here, state_index(i + s, s, k)] = accept
            step[here, state_index(i, -s, k)] = 1.0 - accept
    flipped = np.roll(step, k, axis=1)
    return (1.0 - 0.5 * refresh_probability) * step + 0.5 * refresh_probability * flipped


def expected_holding_times(generator: ArrayLike) -> NDArray[np.float64]:
    r"""Mean time spent in each state per visit, :math:`-1 / Q_{aa}`; infinite if never left.

    Parameters
    ----------
    generator : array, shape (n, n)

    Returns
    -------
    array, shape (n,)
    """
    exit_rates = _exit_rates(_checked_generator(generator))
    with np.errstate(divide="ignore"):
        return 1.0 / exit_rates


def embedded_chain(generator: ArrayLike) -> Matrix:
    r"""Transition matrix of the sequence of visited states, holding times forgotten.

    .. math::
        \hat P_{ab} = \frac{Q_{ab}}{\sum_{c \ne a} Q_{ac}}, \qquad \hat P_{aa} = 0

    (the least of competing exponentials; the paper's product over pairs of events agrees for two
    events and is wrong for three or more). Its stationary law is not :math:`\pi` but
    :math:`\hat\pi_a \propto \pi_a (-Q_{aa})`: a state is weighted by its expected holding time.
    A state that is never left keeps probability 1 of staying.

    Parameters
    ----------
    generator : array, shape (n, n)

    Returns
    -------
    array, shape (n, n)
    """
    Q = _checked_generator(generator)
    exit_rates = _exit_rates(Q)
    left = exit_rates > 0.0
    P = np.where(left[:, None], Q / np.where(left, exit_rates, 1.0)[:, None], 0.0)
    np.fill_diagonal(P, np.where(left, 0.0, 1.0))
    return P


def uniformised(generator: ArrayLike, rate: float | None = None) -> Matrix:
    r"""Transition matrix :math:`P = I + Q / \lambda` at the rings of a Poisson clock.

    The jump process, looked at whenever a clock of rate :math:`\lambda` rings, is this chain; it
    has the same stationary law as Q. With bounded g and :math:`\lambda = g_{max} + \beta` it is
    the sampler's thinned process.

    Parameters
    ----------
    generator : array, shape (m, m)
    rate : float, optional
        :math:`\lambda`, at least the largest exit rate, which it is unless given.
    """
    Q = _checked_generator(generator)
    largest = _exit_rates(Q).max()
    clock = largest if rate is None else float(rate)
    if not (np.isfinite(clock) and clock > 0.0 and clock >= largest * (1.0 - _ROW_TOLERANCE)):
        raise ValueError(f"rate must be at least the largest exit rate {largest:g}, not {clock:g}.")
    P = Q / clock
    np.fill_diagonal(P, 0.0)
    np.fill_diagonal(P, np.maximum(0.0, 1.0 - P.sum(axis=1)))
    return P


def stationary_law(matrix: ArrayLike) -> NDArray[np.float64]:
    r"""The law :math:`\pi` with :math:`\pi Q = 0`, or :math:`\pi P = \pi`.

    By the elimination of Grassmann, Taksar and Heyman (1985), which never subtracts, so that
    small probabilities are as accurate, relatively, as large ones.

    Parameters
    ----------
    matrix : array, shape (m, m)
        A generator (rows sum to 0) or a transition matrix (rows sum to 1).

    Returns
    -------
    array, shape (m,)
        States that are left for ever have probability 0.

    Raises
    ------
    ValueError
        If there are several laws: the chain falls into parts that do not reach each other (a
        ladder of equal energies without refreshment does: no flips).
    """
    M, _ = _checked_matrix(matrix)
    moves = M.copy()
    np.fill_diagonal(moves, 0.0)
    recurrent = _only_closed_class(moves > 0.0)
    moves = moves[np.ix_(recurrent, recurrent)]
    law = np.zeros(M.shape[0])
    if recurrent.size == 1:
        law[recurrent] = 1.0
        return law
    exit_rates = moves.sum(axis=1)
    # The law of the visited states first: its matrix is well scaled whatever the rates.
    weights = _gth(moves / exit_rates[:, None]) * (exit_rates.min() / exit_rates)
    law[recurrent] = weights / weights.sum()
    return law


def spectral_gap(matrix: ArrayLike, by: Literal["modulus", "real"] = "modulus") -> float:
    r"""Distance of the second eigenvalue from the first.

    With :math:`\lambda_1 = 1` set aside once, :math:`1 - \max |\lambda|` (by modulus, the
    paper's definition) or :math:`1 - \max \operatorname{Re} \lambda` (by real part). The
    two differ wherever eigenvalues lie near -1 or the circle. On a ladder with an even number
    of rungs the embedded chain has period 2 (each jump changes the parity of i or the
    direction), so -1 is an eigenvalue and the gap by modulus is 0, although time averages
    converge well.

    Parameters
    ----------
    matrix : array, shape (m, m)
        A transition matrix; or a generator, by real part only: the gap is
        :math:`-\max \operatorname{Re} \lambda` over all eigenvalues but one 0.
    by : {"modulus", "real"}
    """
    if by not in ("modulus", "real"):
        raise ValueError(f"by must be 'modulus' or 'real', not {by!r}.")
    M, is_generator = _checked_matrix(matrix)
    if is_generator and by == "modulus":
        raise ValueError("the gap of a generator is one of real parts: ask for by='real'.")
    first = 0.0 if is_generator else 1.0
    eigenvalues = np.linalg.eigvals(_scaled_by_law(M))
    rest = np.delete(eigenvalues, np.argmin(np.abs(eigenvalues - first)))
    if rest.size == 0:
        raise ValueError("one state alone has no spectral gap.")
    second = np.abs(rest).max() if by == "modulus" else rest.real.max()
    return float(first - second)


def asymptotic_variance(matrix: ArrayLike, f: ArrayLike) -> float:
    r"""Asymptotic variance of a mean of f along the chain (per step) or process (per time).

    With :math:`\tilde f = f - \pi(f)`,

    .. math::
        \lim_n n \operatorname{Var}\Big(\frac1n \sum_{t<n} f(\zeta_t)\Big)
            &= 2 \langle \tilde f, (I - P)^{-1} \tilde f \rangle_\pi
               - \langle \tilde f, \tilde f \rangle_\pi, \\
        \lim_T T \operatorname{Var}\Big(\frac1T \int_0^T f(\zeta_t)\,dt\Big)
            &= 2 \langle \tilde f, (-Q)^{-1} \tilde f \rangle_\pi,

    the inverses taken on functions of mean 0. Periodic chains are no exception. The relative
    accuracy is about 1e-16 times the slowest time scale, in steps or units of time.

    For the weighted mean over a record of n jumps with expected holding times h, give the
    embedded chain and :math:`h \tilde f / \hat\pi(h)`: the limit of n times its variance.

    Parameters
    ----------
    matrix : array, shape (m, m)
        A transition matrix or a generator, with one stationary law.
    f : array, shape (m,)
    """
    M, is_generator = _checked_matrix(matrix)
    values = np.asarray(f, dtype=np.float64)
    if values.shape != (M.shape[0],) or not np.all(np.isfinite(values)):
        raise ValueError(
            f"f must hold one finite value for each of the {M.shape[0]} states; its shape is "
            f"{values.shape}. A function of the rung alone is numpy.tile(f, 2)."
        )
    law = stationary_law(M)
    support = law > 0.0
    root, values = np.sqrt(law[support]), values[support]
    M = M[np.ix_(support, support)]
    operator = -M if is_generator else np.eye(root.size) - M
    # In the coordinates sqrt(pi) f the null vector is sqrt(pi) on both sides. Adding it at the
    # scale of the operator makes that invertible and changes nothing on functions of mean 0.
    operator = root[:, None] * operator / root
    operator += np.mean(np.diag(operator)) * np.outer(root, root)
    deviation = root * (values - root**2 @ values)
    inner = float(deviation @ np.linalg.solve(operator, deviation))
    return 2.0 * inner if is_generator else 2.0 * inner - float(deviation @ deviation)


def _checked_energies(energies: ArrayLike) -> NDArray[np.float64]:
    H = np.asarray(energies, dtype=np.float64)
    if H.ndim != 1 or H.size < 2:
        raise ValueError(f"energies must have shape (k,) with k >= 2, not {H.shape}.")
    if not np.any(np.isfinite(H)):
        raise ValueError("no energy is finite: every rung would have probability 0.")
    return H


@contextmanager
def _balancing_function(
    rates: str | Callable[[float], float],
) -> Iterator[tuple[int, int]]:
    """The kernel's code of a balancing function, and the address of one's own while it is used."""
    if isinstance(rates, str):
        if rates not in NAMED:
            raise ValueError(
                f"rates must be one of {sorted(NAMED)} or a function g(t), not {rates!r}."
            )
        yield NAMED[rates].code, 0
        return
    if not callable(rates):
        raise TypeError(f"rates must be a name or a function g(t), not {type(rates).__name__}.")
    _check_balance(rates)
    g, failures = rates, []

    def guarded(t: float) -> float:
        # An exception cannot pass through compiled code: keep it and raise it afterwards.
        try:
            return float(g(t))
        except Exception as failure:
            failures.append(failure)
            return 0.0

    callback = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(guarded)
    yield CUSTOM, ctypes.cast(callback, ctypes.c_void_p).value or 0
    if failures:
        raise failures[0]


def _check_balance(g: Callable[[float], float]) -> None:
    """Refuse a g that is negative, not finite, or not balanced: g(t) = t g(1/t)."""
    # From 1 to 1e-7, and their inverses; equal but for the rounding of g.
    for t in np.exp(-np.array([0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])):
        below, above = float(g(float(t))), float(g(float(1.0 / t)))
        if not (np.isfinite(below) and below >= 0.0):
            raise ValueError(f"a balancing function must be finite, not negative: g({t}) = {below}")
        if not abs(below - t * above) <= 1e-9 * max(below, t * above):
            raise ValueError(
                f"not a balancing function: g(t) = {below} but t g(1/t) = {t * above} at t = {t}."
            )


def _checked_matrix(matrix: ArrayLike) -> tuple[Matrix, bool]:
    """The matrix, and whether it is a generator (rows sum to 0) or stochastic (rows sum to 1)."""
    M = np.asarray(matrix, dtype=np.float64)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or M.shape[0] == 0:
        raise ValueError(f"the matrix must be square, not of shape {M.shape}.")
    if not np.all(np.isfinite(M)):
        raise ValueError("the matrix must be finite.")
    moves = M.copy()
    np.fill_diagonal(moves, 0.0)
    if np.any(moves < 0.0):
        a, b = np.argwhere(moves < 0.0)[0]
        raise ValueError(f"rates and probabilities must not be negative: entry ({a}, {b}).")
    sums, diagonal = M.sum(axis=1), np.diag(M)
    if np.all(np.abs(sums) <= _ROW_TOLERANCE * np.abs(diagonal)):
        return M, True
    if np.all(np.abs(sums - 1.0) <= _ROW_TOLERANCE) and np.all(diagonal >= 0.0):
        return M, False
    raise ValueError(
        "every row must sum to 0 (a generator) or every row to 1 (a transition matrix), from row "
        f"to column; the sums run from {sums.min():g} to {sums.max():g}."
    )


def _checked_generator(generator: ArrayLike) -> Matrix:
    Q, is_generator = _checked_matrix(generator)
    if not is_generator:
        raise ValueError("a generator is needed, with rows that sum to 0.")
    return Q


def _exit_rates(Q: Matrix) -> NDArray[np.float64]:
    return np.abs(np.diag(Q))  # not -0, whose inverse is -inf


def _only_closed_class(adjacency: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The states of the one class that is never left; several such classes are an error."""
    reach = adjacency | np.eye(adjacency.shape[0], dtype=bool)
    while True:
        # Paths of twice the length; counts of them are at most the number of states.
        further = (reach.astype(np.float64) @ reach.astype(np.float64)) > 0.0
        if np.array_equal(further, reach):
            break
        reach = further
    returns = np.all(~reach | reach.T, axis=1)
    recurrent = np.flatnonzero(returns)
    if not np.all(reach[recurrent[0], recurrent]):
        raise ValueError(
            "the stationary law is not unique: there are states that cannot reach each other "
            "in either direction and are never left."
        )
    return recurrent


def _gth(P: Matrix) -> NDArray[np.float64]:
    """Stationary law (up to a factor) of an irreducible chain; the diagonal is not used."""
    A = P.copy()
    for n in range(A.shape[0] - 1, 0, -1):
        A[:n, n] /= A[n, :n].sum()
        A[:n, :n] += np.outer(A[:n, n], A[n, :n])
    law = np.ones(A.shape[0])
    for n in range(1, A.shape[0]):
        law[n] = law[:n] @ A[:n, n]
    return law / law.max()


def _scaled_by_law(M: Matrix) -> Matrix:
    """The similar matrix whose first eigenvectors are sqrt(pi), which is best conditioned."""
    try:
        law = stationary_law(M)
    except ValueError:
        # Several laws, so the eigenvalue 1 is repeated: the gap is 0 in any scaling.
        return M
    if not np.all(law > 0.0):
        return M
    root = np.sqrt(law)
    return root[:, None] * M / root
