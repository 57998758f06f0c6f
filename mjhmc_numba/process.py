"""One chain's jump process: the arrays that the kernel works on, and the calls into it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import typeof

from mjhmc_numba.chart import Chart
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.kernel import chain, layout
from mjhmc_numba.kernel.layout import DENSITY_RAISED, FINISHED
from mjhmc_numba.kernel.metric import ROWS_AT_ONCE
from mjhmc_numba.metric import Metric
from mjhmc_numba.settings import INTEGRATORS, Settings, Tuned
from mjhmc_numba.target import Target

__all__ = ["Process", "Snapshot", "random_words"]

# Rungs kept since the last refresh: as many as fit into this many numbers, within bounds.
LADDER_NUMBERS = 1 << 21
RUNG_VECTORS = 5  # position, momentum, gradient, velocity, acceleration
SMALLEST_LADDER, LARGEST_LADDER = 8, 256


class Snapshot(NamedTuple):
    """What a process needs to go on: see `Process.snapshot` and `Process.resume`."""

    rungs: np.ndarray
    levels: np.ndarray
    rng: np.ndarray
    numbers: dict[str, float]  # by the names of `layout.RESUMABLE`
    tuned: Tuned


def random_words(seed: np.random.SeedSequence) -> np.ndarray:
    """The first state of a chain's random stream: four words, not all zero."""
    words = seed.generate_state(4, np.uint64)
    return words if words.any() else np.ones(4, np.uint64)


def aligned_zeros(*shape: int) -> np.ndarray:
    """Zeros whose rows lie where the kernel's `layout.row` looks for them."""
    width = layout.row_width.py_func(shape[-1])
    size = math.prod(shape[:-1]) * width
    memory = np.zeros(size + layout.LINE)
    begin = -(memory.ctypes.data // memory.itemsize) % layout.LINE
    return memory[begin : begin + size].reshape(*shape[:-1], width)[..., : shape[-1]]


def scaled_directions(metric: Metric) -> np.ndarray:
    """The directions times the scale, and rows of zeros up to a number that the kernel likes."""
    rank = -(-metric.rank // ROWS_AT_ONCE) * ROWS_AT_ONCE
    directions = aligned_zeros(rank, metric.ndim)
    directions[: metric.rank] = metric.directions * metric.scale
    return directions


def _capacity(ndim: int) -> int:
    rungs = LADDER_NUMBERS // (RUNG_VECTORS * ndim)
    power = 1 << max(int(rungs).bit_length() - 1, 0)
    return min(max(power, SMALLEST_LADDER), LARGEST_LADDER)


def _chart_arrays(chart: Chart | None) -> dict[str, np.ndarray]:
    """What the kernel wants of a chart, by the names of `layout.ADDRESSES`."""
    if chart is None:
        chart = Chart.none()
    return {
        "chart_row": np.ascontiguousarray(chart.rows, dtype=np.int64),
        "chart_mover": np.ascontiguousarray(chart.movers, dtype=np.int64),
        "chart_location": np.ascontiguousarray(chart.location.T, dtype=float),
        "chart_scaler": np.ascontiguousarray(chart.scalers, dtype=np.int64),
        "chart_knots": np.ascontiguousarray(chart.knots, dtype=float),
        "chart_log_scale": np.ascontiguousarray(chart.log_scale.T, dtype=float),
        "chart_shift": np.ascontiguousarray(chart.shift.T, dtype=float),
        "chart_features": np.zeros((2, 2 * chart.scalers.size)),
    }


class Process:
    """The jump process of one chain.

    It runs in the coordinates of a chart (`tuned.chart`) where there is one: `z`, `z_grad` and
    `z_logp` are its position, gradient and log density there, `x`, `grad` and `logp` in the
    coordinates of the density.

    Parameters
    ----------
    target : the density
    settings : the user's settings
    tuned : what to run with now; see `configure`
    rng : (4,) uint64, the state of the random stream; advanced in place
    record : capacity of the jump record's buffer; 0 keeps none
    """

    def __init__(
        self,
        target: Target,
        settings: Settings,
        tuned: Tuned,
        rng: np.ndarray,
        *,
        record: int = 0,
    ):
        if record and settings.method_code != layout.COMPETING:
            raise SettingsError("A jump record needs method='competing', which knows all rates.")
        d, capacity = target.ndim, _capacity(target.ndim)
        self.target, self.settings, self.rng = target, settings, rng
        self.rungs = aligned_zeros(RUNG_VECTORS, capacity, d)
        self.levels = np.zeros((2, capacity))
        self.work = aligned_zeros(layout.WORK_ROWS, d)
        self.record_x = aligned_zeros(record, d)
        self.record_holding = np.zeros((record, 2))
        self.record_event = np.zeros(record)
        self.state = np.zeros(1, layout.STATE)
        self._set(ndim=d, capacity=capacity, record_capacity=record, direction=1)
        self.tuned = tuned.replace(chart=None)
        self.configure(tuned)

    @staticmethod
    def compile_kernel() -> None:
        """Load the kernel from its cache, or compile it, before anybody waits for a draw."""
        state, x = np.zeros(1, layout.STATE), np.empty(1)
        draws, stats = np.empty((0, 1)), np.empty((0, len(layout.STAT_NAMES)))
        for entry, arguments in (
            (chain.start_process, (state, x)),
            (chain.move_process, (state, x)),
            (chain.settle_process, (state,)),
            (chain.restart_process, (state,)),
            (chain.probe_step, (state, x, x, 0.0, 1, 0, 0.0)),
            (chain.run_ticks, (state, draws, stats)),
        ):
            entry.compile(tuple(typeof(argument) for argument in arguments))

    def _set(self, **values) -> None:
        for name, value in values.items():
            self.state[name] = value

    def configure(self, tuned: Tuned, max_gradients: int | None = None) -> None:
        """Run with `tuned` from now on; a new step size counts from the next refresh, and after a
        new chart there must be a `restart`.
        """
        settings, g = self.settings, self.settings.balancing
        resolved = settings.resolve(tuned.integrator)
        if tuned.chart is not self.tuned.chart:
            self._change_chart(tuned.chart)
        self.tuned = tuned
        self._set(
            step_size=tuned.step_size,
            num_steps=tuned.num_steps,
            refresh_rate=tuned.refresh_rate,
            draw_interval=tuned.draw_interval,
            stages=INTEGRATORS[tuned.integrator][0],
            motion=INTEGRATORS[tuned.integrator][1],
            step_jitter=resolved.step_jitter,
            refresh_jitter=resolved.refresh_jitter,
            refresh_alpha=settings.refresh_alpha,
            refine_threshold=resolved.refine_threshold,
            refine_levels=resolved.refine_levels,
            rates=g.code,
            g_max=g.bound,
            g=g.address,
            clock=settings.clock_code,
            method=settings.method_code,
            max_jumps=settings.max_jumps,
            max_gradients=settings.max_gradients if max_gradients is None else max_gradients,
        )
        metric = tuned.metric
        directions = scaled_directions(metric)
        rank = directions.shape[0]  # rows of zeros count too
        self._metric_arrays = (
            np.ascontiguousarray(metric.scale, dtype=float),
            directions,
            np.pad(metric.spectrum(), ((0, 0), (0, rank - metric.rank))),
            np.ascontiguousarray(metric.centre, dtype=float),
        )
        self._chart_arrays = _chart_arrays(tuned.chart)
        self._set(
            rank=rank,
            chart_rows=self._chart_arrays["chart_row"].size,
            chart_movers=self._chart_arrays["chart_mover"].size,
            chart_scalers=self._chart_arrays["chart_scaler"].size,
        )
        self.connect()

    def _change_chart(self, chart: Chart | None) -> None:
        """The present state in other coordinates."""
        x, grad, logp, k = self.x.copy(), self.grad.copy(), self.logp, self._slot
        if chart is None:
            self.rungs[0, k], self.rungs[2, k], self.levels[1, k] = x, grad, logp
        else:
            self.rungs[0, k] = chart.to_z(x)
            self.rungs[2, k] = chart.gradient_to_z(x, grad)
            self.levels[1, k] = logp + chart.log_volume(x)

    def set_step_size(self, step_size: float) -> None:
        """A new step size, from the next refresh on."""
        self.tuned = self.tuned.replace(step_size=step_size)
        self.state["step_size"] = step_size

    def connect(self) -> None:
        """Write the addresses of all arrays into the record, as after one of them was replaced."""
        scale, directions, spectrum, centre = self._metric_arrays
        arrays = {
            "table": self.target.table,
            "x": self.rungs[0],
            "v": self.rungs[1],
            "grad": self.rungs[2],
            "velocity": self.rungs[3],
            "acceleration": self.rungs[4],
            "energy": self.levels[0],
            "logp": self.levels[1],
            "scale": scale,
            "directions": directions,
            "stretch": spectrum[0],
            "root": spectrum[1],
            "shrink": spectrum[2],
            "centre": centre,
            **self._chart_arrays,
            "rng": self.rng,
            "work": self.work,
            "record_x": self.record_x,
            "record_holding": self.record_holding,
            "record_event": self.record_event,
        }
        self._set(density=self.target.address)
        self._set(**{name: array.ctypes.data for name, array in arrays.items()})

    def start(self, x: np.ndarray) -> None:
        """Begin at x with a fresh momentum."""
        self._raise(chain.start_process(self.state, np.array(x, dtype=float)))

    def settle(self) -> None:
        """Settle what is left open for later; call it before somebody else moves (see `move`)."""
        self._raise(chain.settle_process(self.state))

    def move(self, x: np.ndarray) -> None:
        """Go on at x, where somebody else has moved to or changed the density.

        `settle` must have been called before that change.
        """
        self._raise(chain.move_process(self.state, np.array(x, dtype=float)))

    def restart(self) -> None:
        """Begin a new ladder with a fresh momentum where the process is."""
        chain.restart_process(self.state)

    def probe(self, x, grad, logp: float, integrator: str, step_size: float) -> tuple[float, float]:
        """Energy error of one integrator step from x with a fresh momentum, and the log density
        that it gains; moves nothing. All are in the coordinates of the chart.
        """
        raised, error, gain = chain.probe_step(
            self.state, x, grad, logp, *INTEGRATORS[integrator], step_size
        )
        self._raise(DENSITY_RAISED if raised else FINISHED)
        return error, gain

    def evaluate(self, x) -> tuple[float, np.ndarray]:
        """Log density and gradient at x, counted; moves nothing."""
        self.state["n_steps"] += 1
        self.state["all_gradients"] += 1
        return self.target.logp_and_grad(x)

    def run(self, draws: np.ndarray, stats: np.ndarray) -> tuple[int, int]:
        """Fill the rows of draws and stats; returns (rows filled, status of the kernel)."""
        return chain.run_ticks(self.state, draws, stats)

    def snapshot(self) -> Snapshot:
        """All that another process needs to go on with the same next draw, copied."""
        numbers = {name: self[name].item() for name in layout.RESUMABLE}
        return Snapshot(self.rungs.copy(), self.levels.copy(), self.rng.copy(), numbers, self.tuned)

    @classmethod
    def resume(cls, target: Target, settings: Settings, snapshot: Snapshot) -> Process:
        """The process of a snapshot, on the same density."""
        process = cls(target, settings, snapshot.tuned, snapshot.rng.copy())
        process.rungs[...], process.levels[...] = snapshot.rungs, snapshot.levels
        process._set(**snapshot.numbers)
        return process

    def __getitem__(self, name: str):
        """A number of the process by its name in `layout.STATE`."""
        return self.state[name][0]

    def abort(self) -> None:
        """Make the kernel come back at the next event; from any thread."""
        self.state["abort"] = 1

    @property
    def _slot(self) -> int:
        return int(self["here"]) & (self.levels.shape[1] - 1)

    @property
    def z(self) -> np.ndarray:
        """The present position in the chart (a view)."""
        return self.rungs[0, self._slot]

    @property
    def z_grad(self) -> np.ndarray:
        """The gradient of the log density there (a view)."""
        return self.rungs[2, self._slot]

    @property
    def z_logp(self) -> float:
        return float(self.levels[1, self._slot])

    @property
    def x(self) -> np.ndarray:
        """The present position (a view where there is no chart)."""
        chart = self.tuned.chart
        return self.z if chart is None else chart.to_x(self.z)

    @property
    def grad(self) -> np.ndarray:
        """The gradient of the log density at the present position (likewise)."""
        chart = self.tuned.chart
        return self.z_grad if chart is None else chart.gradient_to_x(self.x, self.z_grad)

    @property
    def logp(self) -> float:
        chart = self.tuned.chart
        return self.z_logp if chart is None else self.z_logp - float(chart.log_volume(self.z))

    def error(self) -> BaseException:
        """What the density raised."""
        return self.target.error_at(self.work[layout.ASKED].copy())

    def _raise(self, status: int) -> None:
        if status == DENSITY_RAISED:
            raise self.error()
