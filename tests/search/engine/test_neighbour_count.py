"""Counting neighbours in bounded memory, and what makes the tree anew."""

import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.search.engine import near_pairs as crowd
from likewise.search.indexes.index_state import IndexState
from likewise.search.kernels import table as t
from tests.support.programs import run_python

STATM = Path("/proc/self/statm")
MEGABYTE = 1 << 20
WINDOW, BATCH = 20_000, 5_000

needs_statm = pytest.mark.skipif(
    not STATM.exists(), reason="the system does not say how much is used"
)


def resident() -> int:
    return int(STATM.read_text().split()[1]) * 4096


def tree_of(monitor: lw.Monitor):
    return monitor.core.engine._neighbours.index_up_to(monitor.rows)


def growth_in_a_window(verb: str, width: int, rows: int) -> int:
    """Bytes gained between the fourth window and the last, by a monitor that forgets."""
    rng = np.random.default_rng(1)
    monitor = lw.Monitor(lw.Rule("linf", 1e-3), burst=lw.Burst(3_000))
    pool = rng.random((3 * BATCH, width)).astype(np.float32)
    settled = found = 0
    for start in range(0, rows, BATCH):
        X = pool[rng.integers(len(pool), size=BATCH)]
        if verb == "observe_many":
            found += monitor.observe_many(X, ["past"] * BATCH, threads=1).neighbours.sum()
        else:
            found += sum(monitor.observe(x, "past").neighbours for x in X)
        if start >= WINDOW:
            monitor.forget(np.arange(start - WINDOW, start - WINDOW + BATCH))
        if start + BATCH == 4 * WINDOW:
            settled = resident()
    assert found > rows // 10
    return resident() - settled


@pytest.mark.long
@needs_statm
@pytest.mark.parametrize(("verb", "width"), [("observe", 8), ("observe_many", 8)])
def test_memory_is_bounded_over_a_long_stream(verb, width):
    assert growth_in_a_window(verb, width, 250_000) < 8 * MEGABYTE


@pytest.mark.long
@needs_statm
def test_memory_is_bounded_where_the_tree_holds_a_sketch():
    """Of 40 coordinates 24 are kept: 96 bytes for each of 320,000 rows after the fourth window."""
    assert growth_in_a_window("observe_many", 40, 400_000) < 12 * MEGABYTE


@pytest.mark.long
@needs_statm
def test_memory_would_grow_if_sketches_were_not_given_back(monkeypatch):
    """The bar above can be missed: without the release it is."""
    monkeypatch.setattr(IndexState, "release_before", lambda self, row: None)
    assert growth_in_a_window("observe_many", 40, 400_000) > 20 * MEGABYTE


@pytest.mark.long
@pytest.mark.parametrize("order", ["random", "sorted", "drifting", "equal"])
def test_the_tree_holds_the_last_rows_and_a_few_more(order):
    rng = np.random.default_rng(2)
    X = rng.random((30_000, 4))
    if order == "sorted":
        X = X[np.argsort(X[:, 0])]
    if order == "drifting":
        X += np.arange(len(X))[:, None] * 1e-4
    if order == "equal":
        X[:] = 0.5
    monitor = lw.Monitor(lw.Rule("linf", 0.01), burst=lw.Burst(500))
    blocks = set()
    for start in range(0, 30_000, 1_000):
        monitor.observe_many(X[start : start + 500], [0] * 500)
        for x in X[start + 500 : start + 1_000]:
            monitor.observe(x, 0)
        held = tree_of(monitor).state
        assert held.region(t.COUNT).view(np.int64, int(held.table[t.BLOCKS])).sum() < 500 + 4_096
        blocks.add(int(held.table[t.BLOCKS]))
    assert max(blocks) < 200, "blocks are used again"


DENSE = """
import resource
import numpy as np
import likewise as lw

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

def run(rows):
    monitor = lw.Monitor(lw.Rule("linf", 0.1), burst=lw.Burst(2_000))
    counts = monitor.observe_many(np.full((rows, 3), 0.5), [0] * rows).neighbours
    assert counts.tolist() == np.minimum(np.arange(rows), 2_000).tolist()

run(300)  # everything is imported and compiled
before = most()
run(20_000)  # 38 million neighbours, 32 bytes each
print(most() - before)
"""


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts in kilobytes")
def test_a_batch_of_copies_is_counted_in_bounded_memory():
    done = run_python("-c", textwrap.dedent(DENSE))
    assert int(done.stdout) < 128, "megabytes"


def test_the_tree_follows_the_sketch_of_the_index_in_use():
    rng = np.random.default_rng(3)
    X = np.zeros((3_000, 60))
    X[:, 50:] = rng.random((3_000, 10))  # the other coordinates tell nothing
    rule = lw.Rule("linf", 0.05)
    monitor = lw.Monitor(rule, burst=lw.Burst(200))
    found = [monitor.observe(x, i % 2).neighbours for i, x in enumerate(X)]
    assert monitor.explain().changes > 0
    assert tree_of(monitor).coordinates is monitor.core.engine.index.coordinates
    near = [np.abs(X[max(0, i - 200) : i] - X[i]).max(axis=1, initial=0) for i in range(3_000)]
    assert found == [int((one <= 0.05 * (1 + 1e-9)).sum()) for one in near]


def test_a_tree_is_made_anew_only_when_it_must_be(monkeypatch):
    made = []

    class Noted(crowd.LiveTree):
        def __init__(self, *given, **settings) -> None:
            made.append(given)
            super().__init__(*given, **settings)

    monkeypatch.setattr(crowd, "LiveTree", Noted)
    rng = np.random.default_rng(4)
    monitor = lw.Monitor(lw.Rule("linf", 0.1), burst=lw.Burst(100))
    for _ in range(5):
        for x in rng.random((150, 3)):
            monitor.observe(x, 0)
            with pytest.raises(lw.errors.BadDecision):
                monitor.observe([np.nan, 0, 0], 0)
        monitor.observe_many(rng.random((150, 3)), [0] * 150)
        monitor.load(rng.random((50, 3)), [0] * 50)
        monitor.forget(np.arange(len(monitor) - 40, len(monitor) - 30))
        monitor.check([0.0, 0.0, 0.0], 0)
    assert len(made) == 1
    monitor.load(rng.random((150, 3)), [0] * 150)
    monitor.check([0.0, 0.0, 0.0], 0)
    assert len(made) == 2, "nothing of what the tree holds is among the last 100"
