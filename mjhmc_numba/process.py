"""One chain's jump process: the one owner of the memory that the kernel works on.

The kernel gets no NumPy array but those of a call: it reads and writes by address. So a `Process`
owns every array that is declared in `layout.ARRAYS`, checks each against its declaration when its
address is written (`connect`), and holds a reference to each, to the target (whose C function and
table the kernel calls) and to the settings (whose balancing function it may call) as long as it
lives. `rng` is owned together with the caller that gave it. Nothing in the kernel outlives a call:
when the process is collected, nobody reads its memory any more.

A process cannot be copied, as its record holds addresses: `Process.snapshot` and `Process.resume`
make another one that goes on in the same way. Others use its methods; `state`, `rungs`, `levels`
and `work` are there for the tests of the kernel.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numba import typeof

from mjhmc_numba.coordinates import Draws, Reparametrisation
from mjhmc_numba.density import Target
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.kernel import chain, layout
from mjhmc_numba.kernel.compilation import compile_together
from mjhmc_numba.kernel.layout import DENSITY_RAISED, FINISHED, INTERRUPTED, aligned_zeros
from mjhmc_numba.settings import Settings
from mjhmc_numba.tuned import INTEGRATORS, Tuned
from mjhmc_numba.turns import away_for, has_turn

__all__ = ["Aborted", "Process", "Progress", "Snapshot", "Visits", "random_words"]

# Rungs kept since the last refresh: as many as fit into this many numbers (16 MB), within bounds.
# The warm-up asks for 6 per path at most, both ways; a rung that is forgotten is computed again.
LADDER_NUMBERS = 1 << 21
RUNG_ARRAYS = ("x", "v", "grad", "velocity", "acceleration")
LEVEL_ARRAYS = ("energy", "logp")
SMALLEST_LADDER, LARGEST_LADDER = 8, 256
POLL_SECONDS = 0.05  # from one look for signals to the next, about: a tenth of what Ctrl-C may take

RESUMED = list(layout.RESUMABLE)  # as NumPy takes several fields of a record
# What is tuned and has a place in the record, by the same name in both.
TUNED_NUMBERS = tuple(
    field.name for field in fields(Tuned) if field.name in layout.INTEGERS + layout.REALS
)


class Aborted(BaseException):
    """The process was told to come back: see `Process.abort`."""


class Kept(NamedTuple):
    """Draws that the kernel has kept: see `Process.keep_draws`."""

    x: np.ndarray
    grad: np.ndarray
    logp: np.ndarray

    @classmethod
    def room(cls, n: int, ndim: int) -> Kept:
        """For n draws."""
        return cls(np.zeros((n, ndim)), np.zeros((n, ndim)), np.zeros(n))


class Snapshot(NamedTuple):
    """What a process needs to go on: see `Process.snapshot` and `Process.resume`."""

    rungs: np.ndarray  # of the present ladder alone
    levels: np.ndarray
    rng: np.ndarray
    kept: Kept
    numbers: dict[str, float]  # by the names of `layout.RESUMABLE`
    tuned: Tuned


class Progress(NamedTuple):
    """How far a process is: draws and divergences since `count_anew`, all gradients."""

    draws: int
    gradients: int
    divergences: int
    step_size: float


class Visits(NamedTuple):
    """States that a process has visited, (n, ...): the jump record."""

    x: np.ndarray
    holding: np.ndarray  # (n, 2): time spent in each, sampled and expected
    event: np.ndarray  # what ended the visit


def _polls(state: np.ndarray, raised: list[BaseException]) -> Iterator[None]:
    """Each step is a look for signals; what their handlers raise is kept, and the kernel stops.

    A handler runs before anything else does here. In a generator that is within the `try`, in a
    function it would be before it.
    """
    last, before, planned = time.perf_counter(), int(state["all_gradients"][0]), 1
    while True:
        try:
            yield
            now, gradients = time.perf_counter(), int(state["all_gradients"][0])
            wanted = (gradients - before) * POLL_SECONDS / max(now - last, 1e-9)
            planned = int(min(max(wanted, 1), 2 * planned))
            last, before = now, gradients
            state["poll_at"] = gradients + planned
        except GeneratorExit:
            return
        except BaseException as error:
            raised.append(error)
            state["abort"] = 1  # seen when the kernel goes on


def random_words(seed: np.random.SeedSequence) -> np.ndarray:
    """The first state of a chain's random stream: four words, not all zero."""
    words = seed.generate_state(4, np.uint64)
    return words if words.any() else np.ones(4, np.uint64)


def _capacity(ndim: int) -> int:
    rungs = LADDER_NUMBERS // (len(RUNG_ARRAYS) * ndim)
    power = 1 << max(int(rungs).bit_length() - 1, 0)
    return min(max(power, SMALLEST_LADDER), LARGEST_LADDER)


@cache
def _entry_points() -> dict:
    """The functions of the kernel that are called from here, and the types of their arguments."""
    state, x = np.zeros(1, layout.STATE), np.empty(1)
    draws, stats = np.empty((0, 1)), np.empty((0, len(layout.STAT_NAMES)))
    arguments = {
        chain.start_process: (state, x),
        chain.move_process: (state, x),
        chain.resolve_process: (state,),
        chain.restart_process: (state,),
        chain.probe_steps: (state, draws, draws, x, 1, 0, 0.0, x, x),
        chain.run_ticks: (state, draws, stats),
    }
    return {entry: tuple(typeof(a) for a in given) for entry, given in arguments.items()}


class Process:
    """The jump process of one chain.

    It runs in the coordinates of a reparametrisation (`tuned.reparametrisation`) where there is
    one: `here` is its state there, `x`, `grad` and `logp` that in the coordinates of the density.

    Parameters
    ----------
    target : Target
        The density.
    settings : Settings
        The user's settings.
    tuned : Tuned
        What to run with now; see `configure`.
    rng : (4,) array of uint64
        The state of the random stream; advanced in place.
    record : int
        Capacity of the jump record's buffer; 0 keeps none.
    divergences : int
        Draws of which it is kept where they diverged; at least that of the last is.
    """

    def __init__(
        self,
        target: Target,
        settings: Settings,
        tuned: Tuned,
        rng: np.ndarray,
        *,
        record: int = 0,
        divergences: int = 1,
    ):
        if record and settings.method_code != layout.COMPETING:
            raise SettingsError("A jump record needs method='competing', which knows all rates.")
        self.compile_kernel()
        d, capacity = target.ndim, _capacity(target.ndim)
        self.target, self.settings, self.rng = target, settings, rng
        self.rungs = aligned_zeros(len(RUNG_ARRAYS), capacity, d)
        self.levels = np.zeros((len(LEVEL_ARRAYS), capacity))
        self._ladder_arrays = {
            **dict(zip(RUNG_ARRAYS, self.rungs, strict=True)),
            **dict(zip(LEVEL_ARRAYS, self.levels, strict=True)),
        }
        self._connected: dict[str, np.ndarray] = {}
        self._sizes: dict[str, int] = {}
        self.work = aligned_zeros(layout.WORK_ROWS, d)
        self._visits = Visits(aligned_zeros(record, d), np.zeros((record, 2)), np.zeros(record))
        self._kept = Kept.room(0, d)
        self._divergence_x = np.full((max(divergences, 1), d), np.nan)
        self.state = np.zeros(1, layout.STATE)
        self._set(ndim=d, capacity=capacity, record_capacity=record, direction=1)
        self._set(divergence_capacity=len(self._divergence_x), poll_at=layout.NEVER)
        self._raised: list[BaseException] = []  # by a handler of a signal
        if threading.current_thread() is threading.main_thread():
            self._poll_signals()
        self.tuned = tuned.replace(reparametrisation=None)
        self.configure(tuned)
        self._made_with = tuned, self._connected, self.state.copy()

    def begin_again(
        self, target: Target, settings: Settings, tuned: Tuned, rng: np.ndarray
    ) -> bool:
        """Be as newly made with these, where that takes no other arrays; says whether it does.

        A chain of a hundred draws takes less time than its process takes to be made.
        """
        made_with, connected, state = self._made_with
        known = self.target is target and self.settings is settings and made_with is tuned
        if not known or self._connected is not connected or len(self._divergence_x) > 1:
            return False
        self.state[...], self.rng[...], self._divergence_x[...] = state, rng, np.nan
        self._raised.clear()
        return True

    @staticmethod
    def compile_kernel() -> None:
        """Load the kernel from its cache, or compile it, before anybody waits for a draw."""
        compile_together(_entry_points())

    def _poll_signals(self) -> None:
        """Let the kernel look for signals now and then: their handlers run in the main thread, and
        only while it runs Python.
        """
        polls = _polls(self.state, self._raised)
        next(polls)
        self._poll = ctypes.CFUNCTYPE(None)(polls.__next__)
        self._set(poll=ctypes.cast(self._poll, ctypes.c_void_p).value or 0, poll_at=0)

    def __reduce_ex__(self, protocol) -> NoReturn:
        raise TypeError(
            "A Process cannot be copied or pickled: compiled code reads its memory by address. "
            "Take its snapshot() and make another one with Process.resume()."
        )

    # ------------------------------------------------------------- what it runs with

    def _set(self, **values) -> None:
        for name, value in values.items():
            self.state[name] = value

    def configure(
        self, tuned: Tuned, *, max_gradients: int | None = None, refine_levels: int | None = None
    ) -> None:
        """Run with `tuned` from now on; a new step size counts from the next refresh, and after a
        new reparametrisation there must be a `restart`.

        Parameters
        ----------
        tuned : Tuned
            What to run with.
        max_gradients, refine_levels : int or None
            In place of those of the settings, until the next call.
        """
        settings, g = self.settings, self.settings.balancing
        resolved = settings.resolve(tuned.integrator)
        if settings.refresh_alpha is not None:
            tuned = tuned.replace(refresh_alpha=settings.refresh_alpha)
        if tuned.metric.ndim != self.target.ndim:
            raise SettingsError(
                f"The metric has {tuned.metric.ndim} dimensions, the density {self.target.ndim}."
            )
        if tuned.reparametrisation is not self.tuned.reparametrisation:
            self._change_coordinates(tuned.reparametrisation)
        has_moved = not self._connected or not tuned.has_coordinates_of(self.tuned)
        self.tuned = tuned
        self._set(
            **{name: getattr(tuned, name) for name in TUNED_NUMBERS},
            stages=INTEGRATORS[tuned.integrator][0],
            motion=INTEGRATORS[tuned.integrator][1],
            step_jitter=resolved.step_jitter,
            refresh_jitter=settings.refresh_jitter,
            refine_threshold=resolved.refine_threshold,
            refine_levels=resolved.refine_levels if refine_levels is None else refine_levels,
            rates=g.code,
            g_max=g.bound,
            g=g.address,
            clock=settings.clock_code,
            method=settings.method_code,
            max_jumps=settings.max_jumps,
            max_gradients=settings.max_gradients if max_gradients is None else max_gradients,
            adapts=0,
        )
        if has_moved:
            self._transform_arrays = tuned.transform.arrays()
            self._set(**tuned.transform.sizes())
            self.connect()

    def _change_coordinates(self, coordinates: Reparametrisation | None) -> None:
        """The present state in other coordinates."""
        if coordinates is not None:
            coordinates.check(self.target.ndim)
        here, k = self.here.to(coordinates), self._slot
        self.rungs[0, k], self.rungs[2, k], self.levels[1, k] = here.x, here.grad, here.logp

    def adapt_step(self, target_accept: float, shortest: float, longest: float) -> None:
        """Adapt the step size from here on, until `configure` is called again.

        Parameters
        ----------
        target_accept : float
            The acceptance that is wanted.
        shortest, longest : float
            Bounds of the step size.
        """
        log_step = math.log(self.tuned.step_size)
        self._set(
            adapts=1,
            target_accept=target_accept,
            shortest_step=shortest,
            longest_step=longest,
            updates=0,
            tried=0,
            accepted=0.0,
            deficit=0.0,
            log_average=log_step,
            log_centre=log_step,
        )

    @property
    def averaged_step(self) -> float:
        """The step size that the adaptation has come to."""
        if not self["adapts"]:
            return self.tuned.step_size
        step = math.exp(self["log_average"])
        return float(min(max(step, self["shortest_step"]), self["longest_step"]))

    def keep_draws(self, most: int) -> None:
        """Keep the newest draws from here on, `most` of them until they are taken; 0: none."""
        self._kept = Kept.room(most, self.target.ndim)
        self._set(kept_capacity=most, kept=0)
        self.connect()

    def take_draws(self) -> Draws:
        """The draws kept since they were taken last, oldest first; room for others is made."""
        n, capacity = int(self["kept"]), len(self._kept.logp)
        rows = np.arange(max(n - capacity, 0), n) % max(capacity, 1)
        self._set(kept=0)
        x, grad, logp = (array[rows] for array in self._kept)
        return Draws(x, grad, logp, self.tuned.reparametrisation)

    def kept_gradients(self, n: int) -> np.ndarray:
        """Gradients (n, d) by x of the first n draws that are kept; they stay."""
        x, grad, logp = (array[: min(n, int(self["kept"]))] for array in self._kept)
        return Draws(x, grad, logp, self.tuned.reparametrisation).to(None).grad.copy()

    def connect(self) -> None:
        """Write the addresses of all arrays into the record, as after one of them was replaced.

        Raises
        ------
        ValueError
            If an array is not as `layout.ARRAYS` declares it.
        """
        arrays = {
            **self._ladder_arrays,
            **self._transform_arrays,
            "rng": self.rng,
            "work": self.work,
            "record_x": self._visits.x,
            "record_holding": self._visits.holding,
            "record_event": self._visits.event,
            "kept_x": self._kept.x,
            "kept_grad": self._kept.grad,
            "kept_logp": self._kept.logp,
            "divergence_x": self._divergence_x,
        }
        sizes = {name: self[name].item() for name in layout.SIZES}
        changed = {name for name in sizes if sizes[name] != self._sizes.get(name)}
        for name, depends_on in layout.SIZES_OF.items():
            is_known = self._connected.get(name) is arrays[name]
            if not is_known or not changed.isdisjoint(depends_on):
                layout.check_array(name, arrays[name], sizes)
                self.state[name] = arrays[name].ctypes.data
        self._connected, self._sizes = arrays, sizes
        self._set(density=self.target.address, table=self.target.table.ctypes.data)

    # ------------------------------------------------------------- where it is

    def _vector(self, x: Any) -> np.ndarray:
        """A copy of a position or gradient that the kernel may read."""
        vector = np.array(x, dtype=float, order="C")
        if vector.shape != (self.target.ndim,):
            raise ValueError(
                f"A position has shape ({self.target.ndim},), as the density, not {vector.shape}."
            )
        return vector

    def _vectors(self, x: Any) -> np.ndarray:
        """A copy (n, d) of one position or gradient or of several."""
        vectors = np.array(x, dtype=float, order="C", ndmin=2)
        if vectors.ndim != 2 or vectors.shape[1] != self.target.ndim:
            raise ValueError(f"Positions have shape (n, {self.target.ndim}), not {vectors.shape}.")
        return vectors

    def start(self, x: np.ndarray) -> None:
        """Begin at x with a fresh momentum."""
        x = self._vector(x)
        with away_for(self.target, 1):
            status = chain.start_process(self.state, x)
        self._raise(status)

    def resolve_flip(self) -> None:
        """Resolve a pending flip; call it before another step method moves (see `move`)."""
        self._raise(chain.resolve_process(self.state))

    def move(self, x: np.ndarray) -> None:
        """Go on at x, where another step method has moved to or changed the density.

        `resolve_flip` must have been called before that change.
        """
        self._raise(chain.move_process(self.state, self._vector(x)))

    def restart(self) -> None:
        """Begin a new ladder with a fresh momentum where the process is."""
        chain.restart_process(self.state)

    def probe(
        self, draws: Draws, integrator: str, step_size: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Energy errors of one integrator step from each draw with a fresh momentum, and the log
        densities that they gain; moves nothing.

        Parameters
        ----------
        draws : Draws
            One draw or n, in the coordinates of the process.
        integrator : str
            The integrator to try.
        step_size : float
            Length of the step per gradient.

        Returns
        -------
        errors, gains : (n,) arrays
        """
        if draws.coordinates is not self.tuned.reparametrisation:
            raise ValueError("A draw is probed in the coordinates of the process: use Draws.to.")
        x, grad = self._vectors(draws.x), self._vectors(draws.grad)
        if grad.shape != x.shape:
            raise ValueError(f"Positions have shape {x.shape}, their gradients {grad.shape}.")
        logp = np.array(draws.logp, dtype=float).reshape(len(x))
        errors, gains = np.empty((2, len(x)))
        with away_for(self.target, len(x)):
            raised = chain.probe_steps(
                self.state, x, grad, logp, *INTEGRATORS[integrator], step_size, errors, gains
            )
        self._raise(DENSITY_RAISED if raised else FINISHED)
        return errors, gains

    def evaluate(self, x: np.ndarray) -> Draws:
        """Log density and gradient at x, counted; moves nothing. In the density's coordinates."""
        self.state["n_gradients"] += 1
        self.state["all_gradients"] += 1
        with away_for(self.target, 1):
            logp, grad = self.target.logp_and_grad(x)
        return Draws(np.array(x, dtype=float), grad, logp)

    # ------------------------------------------------------------- run

    def _check_rows(self, draws: np.ndarray, stats: np.ndarray) -> None:
        for rows, width in ((draws, self.target.ndim), (stats, len(layout.STAT_NAMES))):
            if rows.shape != (len(draws), width) or rows.dtype != np.float64:
                raise ValueError(
                    f"Draws and statistics are written to arrays of float64 with shape "
                    f"({len(draws)}, {width}), not of {rows.dtype} with shape {rows.shape}."
                )
            if not (rows.flags.c_contiguous and rows.flags.writeable):
                raise ValueError("Draws and statistics are written to contiguous arrays.")

    def run(self, draws: np.ndarray, stats: np.ndarray) -> tuple[int, int]:
        """Fill the rows of draws and stats; returns (rows filled, status of the kernel)."""
        self._check_rows(draws, stats)
        run = self._run_in_turn if has_turn() else chain.run_ticks
        made, status = run(self.state, draws, stats)
        if status == INTERRUPTED:
            self._raise_of_signal()
        if self["adapts"]:
            self.tuned = self.tuned.replace(step_size=float(self["step_size"]))
        return made, status

    def _run_in_turn(
        self, state: np.ndarray, draws: np.ndarray, stats: np.ndarray
    ) -> tuple[int, int]:
        """What the kernel returns; others may go first meanwhile, if it takes long."""
        before = int(self["all_gradients"])
        with away_for(self.target, len(draws) * self.tuned.gradients_per_draw):
            began = time.perf_counter()
            made, status = chain.run_ticks(state, draws, stats)
            seconds = time.perf_counter() - began
        gradients = int(self["all_gradients"]) - before
        if gradients:
            self.target.gradient_seconds = seconds / gradients
        return made, status

    def abort(self) -> None:
        """Make the kernel come back at the next call of the density; from any thread."""
        self._set(abort=1, poll_at=0)

    def visits(self) -> Visits:
        """The jump record since it was cleared, copied."""
        n = int(self["recorded"])
        return Visits(*(array[:n].copy() for array in self._visits))

    def clear_record(self) -> None:
        """Forget the visits recorded so far; makes room for more."""
        self.state["recorded"] = 0

    def count_anew(self) -> None:
        """Count draws and divergences from here on, as after a warm-up."""
        self._set(all_divergences=0, done=0, n_gradients=0)
        self._divergence_x[...] = np.nan

    def progress(self) -> Progress:
        """How far it is; from any thread."""
        return Progress(
            int(self["done"]),
            int(self["all_gradients"]),
            int(self["all_divergences"]),
            float(self["step_size"]),
        )

    # ------------------------------------------------------------- save

    def snapshot(self) -> Snapshot:
        """All that another process needs to go on with the same next draw, copied."""
        numbers = dict(zip(layout.RESUMABLE, self.state[RESUMED][0].item(), strict=True))
        kept = Kept(*(array.copy() for array in self._kept))
        slots = self._known_slots
        rungs, levels, rng = self.rungs[:, slots], self.levels[:, slots], self.rng.copy()
        return Snapshot(rungs, levels, rng, kept, numbers, self.tuned)

    @classmethod
    def resume(
        cls,
        target: Target,
        settings: Settings,
        snapshot: Snapshot,
        *,
        record: int = 0,
        divergences: int = 1,
    ) -> Process:
        """The process of a snapshot, on the same density; `record` and `divergences` as it was
        made with. The jump record must have been cleared; earlier divergences are forgotten.
        """
        process = cls(
            target,
            settings,
            snapshot.tuned,
            snapshot.rng.copy(),
            record=record,
            divergences=divergences,
        )
        process.keep_draws(len(snapshot.kept.logp))
        for array, kept in zip(process._kept, snapshot.kept, strict=True):
            array[...] = kept
        process._set(**snapshot.numbers)
        process._set(abort=0)
        slots = process._known_slots
        process.rungs[:, slots], process.levels[:, slots] = snapshot.rungs, snapshot.levels
        return process

    @property
    def _known_slots(self) -> np.ndarray:
        """Where the rungs of the present ladder lie."""
        capacity = self.levels.shape[1]
        return np.arange(int(self["low"]), int(self["high"]) + 1)[-capacity:] & (capacity - 1)

    # ------------------------------------------------------------- read

    def __getitem__(self, name: str):
        """A number of the process by its name in `layout.STATE`."""
        return self.state[name][0]

    @property
    def _slot(self) -> int:
        return int(self["here"]) & (self.levels.shape[1] - 1)

    @property
    def here(self) -> Draws:
        """Position, gradient and log density in the coordinates of the process (views)."""
        k = self._slot
        return Draws(
            self.rungs[0, k], self.rungs[2, k], self.levels[1, k], self.tuned.reparametrisation
        )

    @property
    def x(self) -> np.ndarray:
        """The present position (a view where there is no reparametrisation)."""
        coordinates = self.tuned.reparametrisation
        return self.here.x if coordinates is None else coordinates.to_x(self.here.x)

    @property
    def grad(self) -> np.ndarray:
        """The gradient of the log density at the present position (likewise)."""
        return self.here.to(None).grad

    @property
    def logp(self) -> float:
        """The log density at the present position."""
        return float(self.here.to(None).logp)

    @property
    def divergence_starts(self) -> np.ndarray:
        """Where the last diverging step of each draw began, (draw, d); NaN where there was none.

        There are as many rows as were asked for, the last of which is for all later draws too.
        """
        coordinates = self.tuned.reparametrisation
        x = self._divergence_x.copy()
        return x if coordinates is None else coordinates.to_x(x)

    def error(self) -> BaseException:
        """What the density raised."""
        return self.target.error_at(self.work[layout.ASKED_ROW].copy())

    def _raise_of_signal(self) -> None:
        """Raise what the handler of a signal has raised; the process can go on afterwards."""
        if self._raised:
            self._set(abort=0, poll_at=0)
            raise self._raised.pop()

    def _raise(self, status: int) -> None:
        if status == DENSITY_RAISED:
            self._raise_of_signal()
            raise Aborted if self["abort"] else self.error()
