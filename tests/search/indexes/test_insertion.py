"""Several threads insert what one thread would: the same rows, every invariant, exact verdicts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from likewise.search.indexes import live_tree
from likewise.search.indexes.live_tree import pieces_of
from likewise.search.kernels import add
from tests.search.indexes.arrivals import choose_outputs
from tests.search.indexes.beside import Beside
from tests.search.indexes.shapes import random
from tests.search.indexes.test_tree import every_shape
from tests.support.oracle import Oracle, assert_same_verdicts

pytestmark = pytest.mark.pairwise


@pytest.fixture
def shared(monkeypatch):
    """Let even short batches be inserted together; what became of each."""
    seen = []
    together = live_tree.insert_together

    def noting(workers, pieces, *others):
        left, splits = together(workers, pieces, *others)
        seen.append((len(pieces), left, sum(map(len, splits))))
        return left, splits

    monkeypatch.setattr(live_tree, "_LEAST_ROWS", 16)
    monkeypatch.setattr(live_tree, "insert_together", noting)
    return seen


@every_shape
@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.usefixtures("shared")
def test_insertion_by_threads_keeps_the_tree_and_the_verdicts(rule, make, threads):
    both, X = Beside(rule), make(4_000)
    for start, stop in ((0, 1), (1, 300), (300, 1_000), (1_000, 4_000)):
        both.observe_many(X[start:stop], threads=threads)
        both.audit()
    both.forget(range(500, 900))
    both.observe_many(X[:600], threads=threads)
    both.audit()
    assert both.ask_some(random(), 40) > 30


@pytest.mark.parametrize("output", ["label", "number", "probabilities"])
def test_verdicts_do_not_depend_on_threads_that_insert(output, shared):
    X, Z = random().random((3_000, 3)), choose_outputs(output, 3_000)
    rule = lw.Rule("linf", 0.06, output=output, delta=0.1)
    expected = Oracle(rule).observe_many(X, Z)
    assert sum(len(one.rows) for one in expected) > 3_000
    monitor = lw.Monitor(rule, index="live")
    for start, stop in ((0, 400), (400, 3_000)):
        verdicts = monitor.observe_many(X[start:stop], Z[start:stop], threads=3)
        assert_same_verdicts(verdicts, expected[start:stop])
    assert max(pieces for pieces, _, _ in shared) > 3
    assert any(splits for _, _, splits in shared), "no leaf was split by a thread"


def test_a_thread_without_room_leaves_the_rest_to_be_inserted(shared, monkeypatch):
    monkeypatch.setattr(live_tree, "_SPLIT_ROWS", 1 << 20)
    monkeypatch.setattr(live_tree, "_SPARE", add._ROOM + 2)  # one more split, then none
    X = random().random((6_000, 3))
    for _ in range(50):  # the first thread has room, and may be done before another begins
        both = Beside(lw.Rule("linf", 0.05))
        both.observe_many(X, threads=4)
        if any(left for _, left, _ in shared):
            break
    assert any(left for _, left, _ in shared), "every thread had room"
    both.audit()
    assert both.ask_some(random(), 40) > 40


@given(
    runs=st.lists(st.tuples(st.integers(1, 400), st.integers(0, 2**24 - 1)), max_size=40),
    threads=st.integers(1, 8),
)
def test_pieces_cover_all_rows_once_and_part_no_equal_paths(runs, threads):
    paths = np.sort(np.repeat([path for _, path in runs], [size for size, _ in runs]))
    pieces = pieces_of(paths.astype(np.uint64), threads)
    covered = [row for start, stop in pieces for row in range(start, stop)]
    assert covered == list(range(len(paths)))
    for _, stop in pieces[:-1]:
        assert paths[stop - 1] != paths[stop]
