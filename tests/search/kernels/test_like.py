"""Looking for a like case: any near row within bounds, -1 exactly if there is none.

The twin compares with every row. Radii are distances that occur; small enough to run uncompiled.
"""

import numpy as np
import pytest

import likewise as lw
from likewise.search.indexes.flat_index import FlatScan
from likewise.search.indexes.live_tree import LiveTree
from likewise.search.indexes.python_index import PythonIndex
from likewise.search.indexes.rotation import initial_rotation
from likewise.search.kernels import table as t
from tests.search.kernels.calling import history_for
from tests.support.index_cases import Scan
from tests.support.oracle import input_distances, output_distances
from tests.support.strategies import METRICS, OUTPUTS

COUNT = 300
INDEXES = {
    "tree": LiveTree,
    "sketch": lambda history: LiveTree(history, np.array([0, 2], dtype=np.int64)),
    "flat": lambda history: FlatScan(history, initial_rotation(history.width)),
    "proposed": lambda history: PythonIndex(history, Scan, "scan", wants_comparable=True),
}


def twin(rule, X, row, since, alive):
    """All rows from `since` on, before `row`, that are near it."""
    distances = input_distances(rule, X[:row], X[row])
    near = np.flatnonzero((distances <= rule.epsilon * (1.0 + 1e-9)) & alive[:row])
    return near[near >= since]


def stream(metric, output):
    rng = np.random.default_rng(11)
    X = rng.integers(1, 17, (COUNT, 3)) * 0.125
    X[40:60] = X[0]
    kinds = rng.choice(7, COUNT, p=[0.82, *[0.03] * 6])
    Z = np.eye(7)[kinds] if output == "probabilities" else kinds[:, None] * 1.0
    rule = lw.Rule(metric, 1.0, output=output)
    distances = np.sort(input_distances(rule, X, X[5]))
    distances = distances[distances > 1e-6]
    return lw.Rule(metric, float(distances[4]), output=output), X, Z


def remembered(rule, X, Z, make):
    """An index over a history in which every row was taken in; some are forgotten again."""
    history = history_for(rule, X.shape[1], out_width=Z.shape[1], capacity=2 * COUNT)
    index = make(history)
    history.table = index.state.table
    half = COUNT // 2
    for part in (slice(0, half), slice(half, COUNT)):
        assert index.workers.write(X[part], Z[part]) == (0, 0)
        index.insert(part.start, part.stop - part.start)
        history.join(part.stop - part.start)
    gone = np.arange(3, COUNT, 10)
    index.remove(gone)
    history.erase(gone)
    alive = np.ones(COUNT, dtype=bool)
    alive[gone] = False
    return index, alive


def cases():
    for name in INDEXES:
        for metric in METRICS:
            if name != "flat" or metric in ("l2", "cosine"):
                yield name, metric


@pytest.mark.parametrize(("name", "metric"), list(cases()))
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_like_case_is_found_exactly_if_there_is_one(name, metric, output):
    rule, X, Z = stream(metric, output)
    index, alive = remembered(rule, X, Z, INDEXES[name])
    outputs = Z[:, 0] if output != "probabilities" else Z
    some = np.flatnonzero(alive)[::4]
    found = none = 0
    for row in some.tolist():
        rows, distances = index.find_near_rows(row)
        assert rows.tolist() == twin(rule, X, row, 0, alive).tolist()
        assert distances.tobytes() == input_distances(rule, X[rows], X[row]).tobytes()
        for since in (0, row // 2, row - 3):
            near = twin(rule, X, row, max(since, 0), alive)
            differ = output_distances(rule, outputs[near], outputs[row]) > rule.delta
            index.given[:] = Z[row]
            assert index.count_agreeing(row, max(since, 0)) == (~differ).sum()
            if differ.any():
                continue  # it has a witness, and would not be asked
            index.given[:] = Z[row]
            if name == "proposed":
                index.find_near_rows(row)  # which notes the latest
            like = index.find_comparable(row, max(since, 0))
            assert (like >= 0) == (len(near) > 0)
            assert like < 0 or like in near
            assert name != "proposed" or like == (near[-1] if len(near) else -1)
            found, none = found + (like >= 0), none + (like < 0)
    assert found > 3 and none > 3, "nothing to find"


@pytest.mark.parametrize("metric", METRICS)
def test_likes_of_many_rows_are_those_of_each(metric):
    rule, X, Z = stream(metric, "label")
    index, alive = remembered(rule, X, Z, INDEXES["tree"])
    batch = index._batch
    first = COUNT - COUNT // 2
    size = COUNT - first
    sinces = np.arange(first, COUNT) // 3
    likes = np.full(size, -1, dtype=np.int64)
    known = np.arange(0, size, 4)
    likes[known] = 1_000_000  # found before: left as it is
    assert sorted(batch.order[:size].tolist()) == list(range(size))
    index.find_comparable_many(first, likes, sinces)
    assert (likes[known] == 1_000_000).all()
    for i in np.setdiff1d(np.arange(size), known).tolist():
        near = twin(rule, X, first + i, sinces[i], alive)
        agreeing = near[Z[near, 0] == Z[first + i, 0]]
        if alive[first + i] and len(agreeing) == len(near):
            assert (likes[i] >= 0) == (len(near) > 0)
            assert likes[i] < 0 or likes[i] in near
    assert (likes >= 0).sum() > len(known) + 5 and (likes < 0).sum() > 5


@pytest.mark.parametrize(("name", "metric"), list(cases()))
@pytest.mark.parametrize("output", OUTPUTS)
def test_of_many_rows_all_that_agree_are_counted(name, metric, output):
    rule, X, Z = stream(metric, output)
    index, alive = remembered(rule, X, Z, INDEXES[name])
    outputs = Z[:, 0] if output != "probabilities" else Z
    first, size = COUNT - COUNT // 2, COUNT // 2
    sinces = np.arange(first, COUNT) // 3
    expected, near = [], []
    for row, since in zip(range(first, COUNT), sinces.tolist(), strict=True):
        agreeing = twin(rule, X, row, since, alive)
        differ = output_distances(rule, outputs[agreeing], outputs[row]) > rule.delta
        expected.append(int((~differ).sum()) if alive[row] else None)
        near.append(twin(rule, X, row, 0, alive).tolist())
    counts, rows = index.find_near_rows_of_many(first, size)
    found = np.split(rows, np.cumsum(counts)[:-1])
    agreeing = np.full(size, 7)
    index.count_agreeing_many(first, agreeing, sinces)
    for i in np.flatnonzero(alive[first:]).tolist():
        assert agreeing[i] == 7 + expected[i]
        assert found[i].tolist() == near[i]
    assert max(one or 0 for one in expected) > 3 and 0 in expected


def test_the_table_has_room_for_what_is_asked():
    assert max(t.SINCE, t.SINCES, t.COMPARABLE_ROWS, t.WANTS_LATEST, t.AGREEING) < t.SLOTS
