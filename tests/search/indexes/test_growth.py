"""Memory that has to move: verdicts do not notice, however little was reserved at first."""

import numpy as np
import pytest

import likewise as lw
from likewise.search.history import reserved_memory
from likewise.search.history import stored_decisions as history
from likewise.search.indexes import index_state
from likewise.search.kernels import table as t
from tests.search.indexes import shapes
from tests.search.indexes.audit import audit
from tests.support.oracle import Oracle, assert_same_verdict, assert_same_verdicts
from tests.support.play import Foreseen
from tests.support.strategies import METRICS, OUTPUTS

pytestmark = pytest.mark.pairwise

N = 1_500


@pytest.fixture
def moves(monkeypatch):
    """Start with room for 40 rows; count how often an array had to move."""
    counted = []
    grown = reserved_memory.Region.enlarge

    def counting(region, size, used):
        counted.append(size)
        return grown(region, size, used)

    monkeypatch.setattr(reserved_memory.Region, "enlarge", counting)
    monkeypatch.setattr(reserved_memory, "_SMALLEST", 64)
    monkeypatch.setattr(history.History, "_affordable", lambda self: 40)
    monkeypatch.setattr(index_state, "_RESULTS", 8)
    return counted


def decisions(metric, output, n=N):
    rng = shapes.random()
    X = rng.integers(1, 8, (n, 3)) * 0.1 + np.arange(n)[:, None] * 1e-4
    kinds = rng.integers(0, 12, n)
    epsilon = 0.003 if metric == "cosine" else 0.15
    rule = lw.Rule(metric, epsilon, output=output, delta=0.0 if output == "label" else 0.2)
    if output == "label":
        return rule, X, [f"label {kind}" for kind in kinds]
    return rule, X, kinds * 0.1 if output == "number" else rng.dirichlet([0.3] * 4, n)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("metric", METRICS)
def test_verdicts_do_not_depend_on_the_memory_reserved(metric, output, moves):
    rule, X, Z = decisions(metric, output)
    expected = Oracle(rule).observe_many(X, Z)
    assert sum(len(one.rows) for one in expected) > 5_000
    monitor = lw.Monitor(rule)
    for x, z, one in zip(X, Z, expected, strict=True):
        assert_same_verdict(monitor.observe(x, z), one)
    assert len(moves) > 20
    audit(monitor)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_batches_do_not_depend_on_the_memory_reserved(output, threads, moves):
    rule, X, Z = decisions("l2", output, 3_000)
    expected = Oracle(rule).observe_many(X, Z)
    monitor = lw.Monitor(rule)
    said = []
    for start, stop in ((0, 1), (1, 700), (700, 1_000), (1_000, 3_000)):
        said.append((start, monitor.observe_many(X[start:stop], Z[start:stop], threads=threads)))
        audit(monitor)
    for start, verdicts in said:
        assert_same_verdicts(verdicts, expected[start : start + len(verdicts)])
    assert len(moves) > 20


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_more_witnesses_than_a_thread_can_hold_are_all_named(output, threads, moves):
    rule, X, Z = decisions("linf", output, 1_200)
    rule = lw.Rule("linf", 100.0, output=output)  # everything is near everything
    expected = Oracle(rule).observe_many(X, Z)
    pairs = sum(len(one.rows) for one in expected)
    monitor = lw.Monitor(rule)
    verdicts = monitor.observe_many(X, Z, threads=threads)
    room = int(monitor.core.engine.index.state.table[t.RESULT_CAPACITY])
    assert pairs > 30 * room, "the results were never full"
    assert_same_verdicts(verdicts, expected)


def test_loads_and_forgetting_do_not_depend_on_the_memory_reserved(moves):
    rule, X, Z = decisions("l1", "label", 4_000)
    monitor, oracle = lw.Monitor(rule), Oracle(rule)
    for start, stop in ((0, 30), (30, 2_000), (2_000, 2_100), (2_100, 4_000)):
        assert monitor.load(X[start:stop], Z[start:stop]) == oracle.load(
            X[start:stop], Z[start:stop]
        )
        audit(monitor)
        gone = range(start // 2, stop // 2, 3)
        assert monitor.forget(gone) == oracle.forget(gone)
        audit(monitor)
        for x, z in zip(X[start:stop:97], Z[start:stop:97], strict=True):
            assert_same_verdict(monitor.check(x, z), oracle.check(x, z))
    assert len(moves) > 20


def test_rebuilds_do_not_depend_on_the_memory_reserved(moves):
    rule = lw.Rule("linf", 1e-6)
    monitor, oracle, X = lw.Monitor(rule), Oracle(rule), shapes.shells(9_000)
    for x in X[:5_000]:
        monitor.observe(x, "past")
    monitor.observe_many(X[5_000:], ["past"] * 4_000, threads=2)
    oracle.load(X, ["past"] * 9_000)
    audit(monitor)
    assert monitor.explain().subtrees_rebuilt > 0
    found = 0
    for x in X[::150]:
        expected = oracle.check(x, "new")
        assert_same_verdict(monitor.check(x, "new"), expected)
        found += len(expected.rows)
    assert found > 60
    assert len(moves) > 20


def wide_decisions(metric, n=1_800, dims=40):
    """Enough coordinates for a sketch or a rotation, in clusters that come and go."""
    rng = shapes.random()
    centres = rng.normal(size=(30, dims))
    X = centres[rng.integers(30, size=n)] + 0.1 * rng.normal(size=(n, dims))
    Z = [f"label {kind}" for kind in rng.integers(0, 12, n)]
    distances = {"linf": 0.33, "l1": 4.3, "l2": 0.85, "cosine": 0.009}
    return lw.Rule(metric, distances[metric], slack=0), X, Z


WIDE = [("linf", "auto"), ("l1", "live"), ("l2", "flat"), ("l2", "auto"), ("cosine", "flat")]


@pytest.mark.parametrize("batch", [1, 90])
@pytest.mark.parametrize(("metric", "index"), WIDE)
def test_sketches_and_rotations_do_not_depend_on_the_memory_reserved(
    metric, index, batch, moves, monkeypatch
):
    """Two indexes stand over the history while one is about to take over: both have to move."""
    monkeypatch.setattr(index_state, "_RESULTS", 8)
    rule, X, Z = wide_decisions(metric)
    foreseen = Foreseen(rule, X, Z)
    assert foreseen.pairs > 1_000
    monitor = lw.Monitor(rule, index=index)
    for start in range(0, len(X), batch):
        part = slice(start, start + batch)
        expected = foreseen.observe_many(X[part], Z[part])
        if batch == 1:
            assert_same_verdict(monitor.observe(X[start], Z[start]), expected[0])
        else:
            assert_same_verdicts(monitor.observe_many(X[part], Z[part]), expected)
        if start % 450 == 0:
            audit(monitor)
            gone = range(start // 2, start // 2 + min(batch, 40))
            assert monitor.forget(gone) == foreseen.forget(gone)
    audit(monitor)
    assert len(moves) > 20


@pytest.mark.parametrize("room", [1 << 23, 0])
def test_a_system_that_refuses_large_reservations_is_asked_for_less(room, monkeypatch):
    asked = []

    def refuse(sizes):
        asked.append(sum(sizes))
        return sum(sizes) < room

    monkeypatch.setattr(reserved_memory, "can_reserve", refuse)
    monkeypatch.setattr(index_state, "_RESULTS", 8)
    rule, X, Z = decisions("linf", "label")
    monitor = lw.Monitor(rule)
    assert_same_verdicts(monitor.observe_many(X, Z), Oracle(rule).observe_many(X, Z))
    assert len(asked) > 10 and asked == sorted(asked, reverse=True)
    if room:
        assert asked[-1] < room <= asked[-2]
    else:
        assert asked[-1] < 1 << 23, "and then as little as can be is taken"
