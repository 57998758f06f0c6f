"""The table of statistics, and how a draw's are made of the kernel's rows."""

import math

import numpy as np

from mjhmc_numba.kernel import layout
from mjhmc_numba.kernel.statistics import COUNTS, STAT_NAMES, STATISTICS
from mjhmc_numba.settings import Settings
from mjhmc_numba.stats import COLUMN, OF_CLOCK, OF_TUNED, Rows, by_name
from mjhmc_numba.warmup.first import first_guess


def named(stats, acceptance=math.nan, **options):
    """Statistics of one chain with these rows of the kernel."""
    rows = Rows.empty(len(stats), 2)
    rows.note_tuned(slice(None), first_guess(Settings(draw_interval=3.0), 2))
    rows.note_times(slice(None), 10.0, 4.0, 2.0)
    columns = (np.array(stats)[None], rows.tuned[None], rows.times[None])
    return by_name(*columns, acceptance=np.array([acceptance]), **options)


def kernel_rows(n, **columns):
    rows = np.zeros((n, len(STAT_NAMES)))
    for name, values in columns.items():
        rows[:, COLUMN[name]] = values
    return rows


def test_every_column_of_the_kernel_is_declared_once_and_is_where_the_kernel_writes_it():
    names = [row.name for row in STATISTICS]
    assert len(set(names)) == len(names)
    assert STAT_NAMES[: len(COUNTS)] == COUNTS
    assert all(name in layout.STATE.names for name in COUNTS)
    assert list(layout.COLUMN) == list(range(len(STAT_NAMES)))
    assert STAT_NAMES[layout.COLUMN.lp] == "lp"


def test_statistics_have_the_names_types_and_order_of_the_table():
    values = named(kernel_rows(3))
    assert list(values) == [row.name for row in STATISTICS]
    for row in STATISTICS:
        assert values[row.name].dtype == np.dtype(row.dtype)
        assert values[row.name].shape == (1, 3)


def test_parameters_and_times_are_written_beside_their_draws():
    values = named(kernel_rows(4))
    assert (values["draw_interval"] == 3.0).all()
    np.testing.assert_allclose(values["perf_counter_start"], [[10.0, 11.0, 12.0, 13.0]])
    np.testing.assert_allclose(values["perf_counter_diff"], 1.0)
    np.testing.assert_allclose(values["process_time_diff"], 0.5)
    assert len(OF_TUNED) + len(OF_CLOCK) + len(STAT_NAMES) + 3 == len(STATISTICS)


def test_what_follows_from_the_counts():
    values = named(
        kernel_rows(3, n_L=[2, 0, 1], n_F=[1, 0, 0], n_R=[0, 0, 1], n_diverging=[0, 3, 1])
    )
    assert values["n_jumps"].tolist() == [[3, 0, 2]]
    assert values["holding_time"].tolist() == [[1.0, 3.0, 1.5]]
    assert values["diverging"].tolist() == [[False, True, True]]
    assert values["divergences"].tolist() == [[0, 1, 2]]
    assert named(kernel_rows(2, n_diverging=1), is_warmup=True)["divergences"].tolist() == [[0, 0]]


def test_where_nothing_was_tried_the_acceptance_before_counts():
    rates = [math.nan, 0.5, math.nan, 0.25]
    first = named(kernel_rows(4, acceptance_rate=rates))["acceptance_rate"]
    np.testing.assert_array_equal(first, [[math.nan, 0.5, 0.5, 0.25]])
    later = named(kernel_rows(4, acceptance_rate=rates), acceptance=0.75)["acceptance_rate"]
    np.testing.assert_array_equal(later, [[0.75, 0.5, 0.5, 0.25]])
