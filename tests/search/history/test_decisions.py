"""The history: room for rows, their order, what is erased, what an index is told of them."""

import numpy as np
import pytest

import likewise as lw
from likewise.search.history.stored_decisions import STORAGES, History
from likewise.search.kernels import table as t
from tests.search.kernels.calling import Given, history_for
from tests.support.looping import each

RULE = lw.Rule("linf", 0.1)


def filled(rows: int, width: int = 3, capacity: int = 64, rule: lw.Rule = RULE) -> History:
    """A history of rows 1, 2, 3, ... in every coordinate."""
    history = history_for(rule, width, capacity=capacity)
    history.ensure(rows)
    history.rows[:rows] = np.arange(1, rows + 1)[:, None]
    outputs = history.region(t.OUTPUTS).view(np.float64, rows)
    outputs[:] = np.arange(1, rows + 1)
    history.region(t.ALIVE).view(np.uint8, rows)[:] = 1
    history.table[t.TOTAL] = history.table[t.LIVE] = rows
    return history


@each("storage", STORAGES)
@each("shape", [(5,), (2, 3), (4, 1, 2)], ids=str)
def test_rows_have_the_shape_and_the_type_they_are_kept_in(storage, shape):
    history = History(RULE, shape, storage, Given(t.LABEL, 1), capacity=10)
    kept = "float64" if storage in ("int64", "uint64") else storage
    width = int(np.prod(shape))
    assert history.rows.shape == (10, *shape) and history.rows.dtype == kept
    assert (history.width, history.row_bytes) == (width, width * np.dtype(kept).itemsize)
    assert history.table[t.ROW_BYTES] == history.row_bytes
    assert history.rows.ctypes.data == history.table[t.ROWS]
    assert (history.total, history.live, history.capacity) == (0, 0, 10)


@pytest.mark.parametrize("width", [1, 7, 8, 9, 64, 65])
def test_weights_end_in_zeros_where_sums_run_over_the_end(width):
    plain = history_for(RULE, width)
    assert plain.weights[:width].tolist() == [1.0] * width
    given = np.arange(1.0, width + 1).tolist()
    weighed = history_for(lw.Rule("l1", 0.1, weights=given), width)
    assert weighed.weights[:width].tolist() == given
    for history in (plain, weighed):
        assert len(history.weights) % 8 == 0 and len(history.weights) < width + 8
        assert not history.weights[width:].any()
        assert history.table[t.WEIGHTS] == history.weights.ctypes.data


def test_rows_keep_their_content_when_there_must_be_more_room():
    history, moves = filled(60), 0
    for total in range(60, 500):
        moved = history.ensure(1)
        moves += moved
        assert moved == (total in (64, 128, 256)), "only where there is no room left"
        history.rows[total] = total + 1
        history.table[t.TOTAL] += 1
        assert history.capacity > total
    assert moves == 3
    assert history.rows[:500].tolist() == [[row + 1.0] * 3 for row in range(500)]
    assert history.region(t.OUTPUTS).view(np.float64, 60).tolist() == list(range(1, 61))
    assert history.rows.ctypes.data == history.table[t.ROWS]
    assert not history.rows[500:].any(), "beyond them nothing was written"


def test_an_index_is_told_of_the_history_and_of_nothing_else():
    history = filled(20)
    table = np.full(t.SLOTS, -7)
    history.copy_to(table)
    assert table[: t.HISTORY].tolist() == history.table[: t.HISTORY].tolist()
    assert (table[t.HISTORY :] == -7).all()
    assert (table[t.TOTAL], table[t.LIVE]) == (20, 20)


def test_erased_rows_are_zero_and_no_longer_counted():
    history = filled(40, rule=lw.Rule("cosine", 0.1))
    norms = history.region(t.NORMS).view(np.float64, 40)
    norms[:] = 3.0
    gone = np.array([0, 7, 8, 39])
    history.erase(gone)
    kept = np.delete(np.arange(40), gone)
    assert (history.live, history.total) == (36, 40)
    assert np.flatnonzero(history.remembered_flags()).tolist() == kept.tolist()
    assert not history.rows[gone].any() and not norms[gone].any()
    assert history.rows[kept, 0].tolist() == (kept + 1).tolist()
    assert (norms[kept] == 3.0).all()
    outputs = history.region(t.OUTPUTS).view(np.float64, 40)
    assert not outputs[gone].any() and outputs[kept].tolist() == (kept + 1).tolist()
    history.erase(np.empty(0, dtype=np.int64))
    assert history.live == 36


@pytest.mark.parametrize("most", [1, 2, 10, 100])
def test_a_sample_is_of_remembered_rows_spread_over_the_history(most):
    history = filled(64)
    for gone in ([], range(10), range(0, 64, 2), range(3, 64)):
        fresh = [row for row in gone if history.remembered_flags()[row]]
        history.erase(np.array(fresh, dtype=np.int64))
        rows = history.sample(most)
        assert len(rows) <= most
        assert (np.diff(rows) > 0).all(), "in order, each once"
        assert history.remembered_flags()[rows].all()
        assert min(most, history.live) >= len(rows) >= min(most // 2, history.live)
        if most == 10 and not list(gone):
            assert rows[0] == 0 and rows[-1] == 63
    history.erase(np.flatnonzero(history.remembered_flags()))
    assert len(history.sample(most)) == 0


@each("storage", STORAGES)
def test_values_are_taken_as_they_are_only_if_all_of_them_fit(storage):
    """What `takes` promises: no value of that type can be wrong, or become another."""
    history = history_for(RULE, 1, storage)
    for name in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16",
                 "float32", "float64"):  # fmt: skip
        given = np.dtype(name)
        extremes = [True, False]
        if given.kind in "iu":
            extremes = [np.iinfo(given).min, np.iinfo(given).max]
        elif given.kind == "f":
            extremes = [np.finfo(given).min, np.finfo(given).max, np.finfo(given).tiny, 0.5]
        values = np.array(extremes, dtype=given)
        if history.can_store(given):
            assert storage not in ("int64", "uint64")
            kept = values.astype(history.dtype)
            assert kept.astype(float).tolist() == values.astype(float).tolist()
    assert history.can_store(np.dtype(storage)) == (storage not in ("int64", "uint64"))


def test_memory_in_use_is_what_rows_take():
    history = filled(50)
    assert history.used_bytes == 50 * (24 + 8 + 1)
    assert history.disk_bytes == 0
    history.note_touched(10**9)  # there is no file to let go of
    assert history.total == 50
