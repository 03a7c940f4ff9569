"""Memory: zero where nothing was written, given back when told, bounded in a window."""

import gc
import mmap
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.search.history.reserved_memory import PAGE, Region, can_reserve
from likewise.search.kernels import table as t
from tests.support.looping import each

STATM = Path("/proc/self/statm")
MEGABYTE = 1 << 20

needs_statm = pytest.mark.skipif(
    not STATM.exists(), reason="the system does not say how much is used"
)


def resident() -> int:
    """Bytes of memory this process really has."""
    gc.collect()
    return int(STATM.read_text().split()[1]) * PAGE


@pytest.mark.parametrize("size", [1, PAGE - 1, PAGE, PAGE + 1, 3 * MEGABYTE])
def test_region_is_zero_and_long_enough(size):
    region = Region(size)
    assert region.size >= size and region.size % PAGE == 0
    assert len(region.memory) == region.size
    assert region.address % PAGE == 0
    assert not region.memory.any()
    assert not region.view(np.float64, size // 8).any()


def test_view_is_the_beginning_of_the_region_itself():
    region = Region(PAGE)
    region.view(np.int64, 5)[:] = np.arange(5)
    assert region.memory[:40].view(np.int64).tolist() == [0, 1, 2, 3, 4]
    assert region.view(np.int64, 5).ctypes.data == region.address
    assert len(region.view(np.float32, 7)) == 7
    assert len(region.view(np.float32, 0)) == 0


def test_grown_region_begins_with_the_old_content_and_is_zero_beyond():
    region = Region(PAGE)
    region.view(np.int64, 100)[:] = np.arange(100)
    longer = region.enlarge(10 * MEGABYTE, 80 * 8)
    assert longer.size >= 10 * MEGABYTE
    assert longer.view(np.int64, 80).tolist() == list(range(80))
    assert not longer.memory[80 * 8 :].any()
    longer.view(np.int64, 1)[0] = 77
    assert region.view(np.int64, 1)[0] == 0, "the old region is another one"


def test_released_pages_are_zero_and_their_neighbours_as_they_were():
    region = Region(10 * PAGE)
    region.memory[:] = 7
    region.release(3 * PAGE, 5 * PAGE)
    assert not region.memory[3 * PAGE : 5 * PAGE].any()
    assert (region.memory[: 3 * PAGE] == 7).all() and (region.memory[5 * PAGE :] == 7).all()
    region.memory[4 * PAGE] = 9
    assert region.memory[4 * PAGE] == 9, "released memory can be used again"


def test_release_without_the_systems_help_is_zero_too(monkeypatch):
    monkeypatch.delattr(mmap, "MADV_DONTNEED", raising=False)
    test_released_pages_are_zero_and_their_neighbours_as_they_were()


@needs_statm
def test_a_reservation_costs_nothing_until_written_and_again_once_released():
    before = resident()
    region = Region(1 << 34)
    assert resident() - before < 4 * MEGABYTE
    region.memory[: 64 * MEGABYTE] = 1
    assert resident() - before > 56 * MEGABYTE
    region.release(0, 64 * MEGABYTE)
    assert resident() - before < 8 * MEGABYTE
    assert not region.memory[: 64 * MEGABYTE].any()


def test_fits_refuses_the_absurd_and_admits_the_ordinary():
    assert can_reserve([])
    assert can_reserve([PAGE, MEGABYTE])
    assert not can_reserve([1 << 60])
    assert not can_reserve([PAGE, 1 << 70])
    assert not can_reserve([1 << 46] * 5), "all at once is more than there are addresses"


@needs_statm
def test_fits_keeps_nothing():
    before = int(STATM.read_text().split()[0])
    for _ in range(20):
        can_reserve([1 << 34, 1 << 60])
        can_reserve([1 << 34])
    after = int(STATM.read_text().split()[0])
    assert (after - before) * PAGE < 1 << 34


# Forgetting


WINDOW, BATCH, ROWS = 50_000, 10_000, 1_000_000


def growth_in_a_window(dtype, verb, rows=ROWS, width=12, index="auto"):
    """Bytes gained between the fourth window and the last."""
    rng = np.random.default_rng(1)
    metric = "linf" if index == "auto" else "l2"
    monitor = lw.Monitor(lw.Rule(metric, 1e-3 if dtype == "float32" else 1), index=index)
    pool = (rng.random((3 * BATCH, width)) * 250).astype(dtype)
    settled = 0
    for start in range(0, rows, BATCH):
        X = pool[rng.integers(len(pool), size=BATCH)]
        getattr(monitor, verb)(X, ["past"] * BATCH)
        if start >= WINDOW:
            monitor.forget(np.arange(start - WINDOW, start - WINDOW + BATCH))
            assert len(monitor) == WINDOW
        if start + BATCH == 4 * WINDOW:
            settled = resident()
    return resident() - settled


@pytest.mark.long
@needs_statm
@pytest.mark.parametrize(("dtype", "verb"), [("uint8", "load"), ("float32", "observe_many")])
def test_memory_is_bounded_in_a_window(dtype, verb):
    assert growth_in_a_window(dtype, verb) < 8 * MEGABYTE


@needs_statm
@pytest.mark.parametrize("index", ["live", "flat"])
def test_memory_is_bounded_in_a_window_of_many_coordinates(index):
    """A sketch takes 96 bytes for each of 250,000 rows forgotten after the fourth window."""
    assert growth_in_a_window("float32", "load", 450_000, 40, index) < 8 * MEGABYTE


@pytest.mark.long
@needs_statm
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_memory_would_grow_with_the_past_if_nothing_were_given_back(dtype, monkeypatch):
    """The bar above can be missed: without the release it is."""
    monkeypatch.setattr(Region, "release", lambda self, start, stop: None)
    assert growth_in_a_window(dtype, "load") > 12 * MEGABYTE


@each("storage", ["uint8", "int16", "float32", "float64", "uint64"])
@each("metric", ["linf", "cosine"])
def test_forgotten_decisions_are_zero_in_memory(metric, storage):
    rng = np.random.default_rng(2)
    n, width = 3 * PAGE, 5
    X = rng.integers(1, 100, (n, width)).astype(storage)
    rule = lw.Rule(metric, 1e-3, output="probabilities", storage=storage)
    monitor = lw.Monitor(rule)
    monitor.load(X, rng.dirichlet([1.0] * 3, n))
    gone = np.zeros(n, dtype=bool)
    gone[:PAGE] = True  # a whole page of rows, and here and there one
    gone[PAGE + 1 :: 7] = True
    reserved_memory = monitor.core.engine.index.state
    size = monitor.core.engine.history.row_bytes
    rows = reserved_memory.region(t.ROWS).view(np.uint8, n * size).reshape(n, size)
    outputs = reserved_memory.region(t.OUTPUTS).view(np.float64, 3 * n).reshape(n, 3)
    kept_rows, kept_outputs = rows[~gone].copy(), outputs[~gone].copy()
    assert rows.any(axis=1).all() and outputs.any(axis=1).all()

    assert monitor.forget(np.flatnonzero(gone)) == gone.sum()
    assert not rows[gone].any() and not outputs[gone].any()
    assert (rows[~gone] == kept_rows).all() and (outputs[~gone] == kept_outputs).all()
    if metric == "cosine":
        norms = reserved_memory.region(t.NORMS).view(np.float64, n)
        assert not norms[gone].any() and norms[~gone].all()


@pytest.mark.parametrize(
    ("width", "index", "arrays"),
    [
        (2, "auto", {t.ROWS: 16, t.OUTPUTS: 8, t.NORMS: 8}),
        (40, "live", {t.ROWS: 320, t.OUTPUTS: 8, t.NORMS: 8, t.PLACES: 24 * 8}),
        (40, "flat", {t.ROWS: 320, t.OUTPUTS: 8, t.NORMS: 8, t.BLOCK_PLACES: 8}),
    ],
    ids=["a tree", "a sketch", "a flat scan"],
)
def test_pages_forgotten_bit_by_bit_are_given_back_once(width, index, arrays, monkeypatch):
    """So many rows that every array of rows ends on a page: each is released, and only there."""
    released = {}
    release = Region.release

    def noting(self, start, stop):
        released.setdefault(self.address, []).append((start, stop))
        release(self, start, stop)

    rng = np.random.default_rng(3)
    monitor = lw.Monitor(lw.Rule("cosine", 0.001), index=index)
    monitor.load(rng.random((3 * PAGE, width)), ["past"] * (3 * PAGE))
    assert not monitor.core.engine.chooser.busy
    monkeypatch.setattr(Region, "release", noting)
    state = monitor.core.engine.index.state
    for part in np.array_split(rng.permutation(PAGE) + PAGE, 7):
        assert not released
        monitor.forget(part)
        monitor.forget(part)
    for slot, size in arrays.items():
        given = released.get(state.region(slot).address, [])
        assert given == [(PAGE * size, 2 * PAGE * size)], f"slot {slot} of the table"
    monitor.forget(range(3 * PAGE))
    for slot, size in arrays.items():
        parts = [(page * PAGE * size, (page + 1) * PAGE * size) for page in range(3)]
        assert sorted(released[state.region(slot).address]) == parts
    assert len(monitor) == 0
    assert monitor.observe(rng.random(width), "new").row == 3 * PAGE


def test_growing_keeps_values_through_growth_and_release():
    from likewise.search.history import reserved_memory

    growing = reserved_memory.Growing(np.int64)
    growing._region = reserved_memory.Region(1 << 16)  # small, so that it has to grow
    growing._view = growing._view_rows(growing._region)
    expected = np.arange(60_000) ** 2
    for first in range(0, 60_000, 6_000):
        growing.put(first, expected[first : first + 6_000], 6_000)
        growing.release(first - 1_000)
        kept = growing.first(first + 6_000)[max(0, first - 1_000) :]
        np.testing.assert_array_equal(kept, expected[max(0, first - 1_000) : first + 6_000])
    assert growing.first(100)[0] == 0
    assert growing._region.begins >= (53_000 * 8 - reserved_memory.PAGE)
