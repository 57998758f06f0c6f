"""Memory that the kernel reads by address is checked before its address is written."""

import copy
import pickle

import numpy as np
import pytest

from mjhmc_numba.coordinates import Draws, Metric
from mjhmc_numba.errors import SettingsError
from mjhmc_numba.kernel import layout
from mjhmc_numba.kernel.compilation import kernel_jit
from mjhmc_numba.kernel.layout import ARRAYS, SIZES, STAT_NAMES, row_of, vector_of
from mjhmc_numba.process import Process
from tests.kernel.processes import (
    low_rank_metric,
    run,
    settings,
    skewed_target,
    started,
    tuned,
    words,
)
from tests.reparametrisations import random_reparametrisation

NDIM = 11  # no multiple of a cache line
SOME_SIZES = dict(zip(SIZES, (NDIM, 8, 6, 5, 2, 3, 6, 4, 7, 3), strict=True))


def process_with(record=4):
    other = random_reparametrisation(NDIM, location_parents=2, scale_parents=3)
    values = tuned(NDIM, metric=low_rank_metric(NDIM), reparametrisation=other)
    return started(skewed_target(NDIM), settings(rates="sqrt"), values, 1, record=record)


def made(name):
    """An array of this name as it is declared, with numbers that tell where they are."""
    array = ARRAYS[name]
    shape = array.lengths(SOME_SIZES)
    out = layout.aligned_zeros(*shape) if array.is_padded else np.zeros(shape, array.dtype)
    out[...] = np.arange(out.size).reshape(shape)
    return out


def state_with(name, array):
    state = np.zeros(1, layout.STATE)
    for size, value in SOME_SIZES.items():
        state[size] = value
    state[name] = array.ctypes.data
    return state


@pytest.mark.parametrize("name", ARRAYS)
def test_the_kernel_reads_what_was_declared(name):
    array = made(name)
    layout.check_array(name, array, SOME_SIZES)
    state = state_with(name, array)
    if array.ndim == 1:
        access = vector_of(name)

        @kernel_jit
        def read(state, i):
            return access(state[0]).copy()

        rows = [array]
    else:
        access = row_of(name)

        @kernel_jit
        def read(state, i):
            return access(state[0], i).copy()

        rows = array
    for i, row in enumerate(rows):
        found = read(state, i)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, row)


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_is_not_as_declared_is_refused(name):
    good = made(name)
    wrong = [good.astype(np.float32), good[:-1], good[None]]
    if good.ndim == 2:
        wrong += [np.asfortranarray(good), good[:, :-1]]
    if ARRAYS[name].is_padded:
        wrong += [np.ascontiguousarray(good), _moved(good)]
    else:
        wrong += [np.repeat(good, 2, axis=-1)[..., ::2]]
    for array in wrong:
        with pytest.raises(ValueError, match=f"{name} of the kernel"):
            layout.check_array(name, array, SOME_SIZES)


def _moved(padded):
    """The same with the same strides, beginning amid a cache line."""
    width = padded.strides[0] // padded.itemsize
    memory = layout.aligned_zeros(padded.size // padded.shape[1] * width + 1)[1:]
    moved = memory.reshape(-1, width)[:, : padded.shape[1]]
    moved[...] = padded
    return moved


def test_a_process_has_all_arrays_as_declared_and_no_address_is_left_out():
    process = process_with()
    assert all(process[name] for name in layout.ADDRESSES if name not in ("g", "table"))
    parts = (SIZES, layout.ADDRESSES, layout.CONTROL, layout.RESUMABLE)
    assert set(layout.STATE.names) == {name for part in parts for name in part}


def test_an_array_that_was_replaced_by_another_is_checked_when_it_is_connected():
    process = process_with()
    process.work = np.zeros((3, NDIM))
    with pytest.raises(ValueError, match="work of the kernel"):
        process.connect()


@pytest.mark.parametrize("rng", [np.zeros(3, np.uint64), np.zeros(4, np.int64), np.zeros(4)])
def test_a_random_stream_is_four_words(rng):
    with pytest.raises(ValueError, match="rng of the kernel"):
        Process(skewed_target(NDIM), settings(), tuned(NDIM), rng)


@pytest.mark.parametrize(
    "x",
    [np.zeros(NDIM + 1), np.zeros(NDIM - 1), np.zeros((1, NDIM)), np.zeros(())],
    ids=np.shape,
)
def test_a_position_of_another_length_is_refused_and_nothing_is_overwritten(x):
    process = process_with()
    before = process.rungs.copy()
    for call in (process.start, process.move):
        with pytest.raises(ValueError, match="shape"):
            call(x)
    here = process.here
    if x.shape != (1, NDIM):  # which is one draw
        for wrong in (here._replace(x=x), here._replace(grad=x)):
            with pytest.raises(ValueError, match="shape"):
                process.probe(wrong, "leapfrog", 0.1)
    np.testing.assert_array_equal(process.rungs, before)


@pytest.mark.parametrize("part", ["x", "grad", "logp"])
def test_draws_are_probed_with_as_many_gradients_and_log_densities(part):
    process = process_with()
    x, grad, logp, coordinates = process.here
    three = {"x": np.tile(x, (3, 1)), "grad": np.tile(grad, (3, 1)), "logp": np.full(3, logp)}
    draws = Draws(three["x"], three["grad"], three["logp"], coordinates)
    assert process.probe(draws, "leapfrog", 0.1)[0].shape == (3,)
    with pytest.raises(ValueError, match="shape"):
        process.probe(draws._replace(**{part: three[part][:1]}), "leapfrog", 0.1)


def test_a_draw_of_other_coordinates_is_not_probed():
    process = process_with()
    with pytest.raises(ValueError, match="coordinates"):
        process.probe(Draws(process.x, process.grad, process.logp), "leapfrog", 0.1)


def buffers():
    return np.zeros((3, NDIM)), np.zeros((3, len(STAT_NAMES)))


@pytest.mark.parametrize(
    "change",
    [
        lambda d, s: (d[:, :-1].copy(), s),
        lambda d, s: (d[:, :-1], s),
        lambda d, s: (d[:2], s),
        lambda d, s: (d, s[:, :-1].copy()),
        lambda d, s: (d.astype(np.float32), s),
        lambda d, s: (np.asfortranarray(d), s),
        lambda d, s: (d[::2], s[:2]),
        lambda d, s: (np.broadcast_to(d[0], d.shape), s),
    ],
)
def test_buffers_that_do_not_fit_are_refused(change):
    process = process_with(record=0)
    assert process.run(*buffers()) == (3, 0)
    with pytest.raises(ValueError, match="written"):
        process.run(*change(*buffers()))


def test_a_metric_or_a_reparametrisation_of_another_density_is_refused():
    process = process_with()
    with pytest.raises(SettingsError, match="dimensions"):
        process.configure(tuned(NDIM, metric=Metric.diagonal(np.ones(NDIM + 1))))
    with pytest.raises(SettingsError, match="names dimension"):
        process.configure(tuned(NDIM, reparametrisation=random_reparametrisation(NDIM + 1)))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_process_is_not_copied(duplicate):
    with pytest.raises(TypeError, match="snapshot"):
        duplicate(process_with())


# What of a process is in its snapshot, and what is made anew by its constructor.
SAVED = {"rungs", "levels", "rng", "tuned", "state", "_kept"}
REMADE = {
    "_poll",
    "_raised",
    "target",
    "settings",
    "work",
    "_visits",
    "_transform_arrays",
    "_ladder_arrays",
    "_connected",
    "_sizes",
    "_divergence_x",
    "_made_with",
}


def test_whatever_a_process_has_is_saved_or_known_to_be_made_anew():
    assert set(vars(process_with())) == SAVED | REMADE


def test_a_resumed_process_makes_the_same_draws():
    process = process_with(record=0)
    run(process, 7)
    process.configure(process.tuned, max_gradients=123, refine_levels=0)
    other = Process.resume(process.target, process.settings, process.snapshot())
    assert all(other[name] == process[name] for name in layout.RESUMABLE)
    for one, two in zip(run(process, 10), run(other, 10), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("parents", [0, 2])
def test_a_process_that_begins_again_is_as_newly_made(parents):
    other = random_reparametrisation(NDIM, location_parents=2, scale_parents=3) if parents else None
    target, how = skewed_target(NDIM), settings(clock="poisson")
    values = tuned(NDIM, metric=low_rank_metric(NDIM), reparametrisation=other)
    used, new = (started(target, how, values, seed) for seed in (1, 2))
    run(used, 20)
    assert used.begin_again(target, how, values, words(2))
    used.start(np.zeros(NDIM))
    for one, two in zip(run(used, 10), run(new, 10), strict=True):
        np.testing.assert_array_equal(one, two)
    one, two = used.snapshot(), new.snapshot()
    assert one.numbers == two.numbers
    np.testing.assert_array_equal(one.rungs, two.rungs)
    np.testing.assert_array_equal(one.rng, two.rng)


@pytest.mark.parametrize("change", ["target", "settings", "tuned", "metric", "kept"])
def test_a_process_does_not_begin_again_as_another(change):
    target, how, values = skewed_target(NDIM), settings(), tuned(NDIM)
    process = started(target, how, values, 1)
    if change == "metric":
        process.configure(values.replace(metric=low_rank_metric(NDIM)))
    if change == "kept":
        process.keep_draws(5)
    asked = {"target": target, "settings": how, "tuned": values, "rng": words(2)}
    asked |= {"target": skewed_target(NDIM)} if change == "target" else {}
    asked |= {"settings": settings()} if change == "settings" else {}
    asked |= {"tuned": tuned(NDIM)} if change == "tuned" else {}
    run(process, 3)
    before = process.snapshot()
    assert not process.begin_again(**asked)
    assert process.snapshot().numbers == before.numbers
    assert process.begin_again(target, how, values, words(2)) == (change not in ("metric", "kept"))


def test_statistics_are_written_to_the_columns_of_their_names():
    process = process_with(record=0)
    _, stats = run(process, 5)
    last = dict(zip(STAT_NAMES, stats[-1], strict=True))
    log_volume = process.here.logp - process.logp
    energy = process.levels[0, process._slot] + log_volume
    assert last["energy"] == pytest.approx(energy, rel=1e-12)
    assert last["lp"] == pytest.approx(process.logp, rel=1e-12)
    assert last["step_size"] == process["ladder_step"]
    assert stats[:, layout.COLUMN.n_gradients].sum() == process["all_gradients"]
    assert [getattr(layout.COLUMN, name) for name in STAT_NAMES] == list(range(len(STAT_NAMES)))
