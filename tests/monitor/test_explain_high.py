"""explain() says which index is in use and why, and a change of index changes no verdict."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import likewise as lw
from likewise.verdict.losses import Explanation
from tests.support.oracle import assert_same_verdict, assert_same_verdicts
from tests.support.play import Foreseen, radius_on_an_edge
from tests.support.wide_streams import (
    clusters,
    embeddings,
    five_coordinates_tell,
    pictures,
    thirty_labels,
    two_labels,
)


def random(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def stream_of(X, Z, metric, per_row):
    rule = lw.Rule(metric, 1.0, slack=0)
    return replace(rule, epsilon=radius_on_an_edge(rule, X, Z, per_row)), X, Z


def embedding_stream(n: int = 3_000):
    return stream_of(embeddings(random(), "l2", n), two_labels(random(2), n), "l2", 30)


def picture_stream(n: int = 2_500):
    X = pictures(random(), "linf", n, side=16)
    return stream_of(X, thirty_labels(random(2), n), "linf", 3)


def sparse_stream():
    X = five_coordinates_tell(random(), "linf")
    return stream_of(X, two_labels(random(3), len(X)), "linf", 3)


def table_stream(n: int = 3_000):
    return stream_of(clusters(random(), n, 12), thirty_labels(random(2), n), "linf", 3)


STREAMS = {
    "flat scan": embedding_stream,
    "sketch tree": picture_stream,
    "tree": table_stream,
}


def assert_makes_sense(told: Explanation, monitor: lw.Monitor) -> None:
    assert told.remembered == len(monitor)
    assert told.index in ("live", "flat")
    assert (told.index == "flat") == (told.shape == "flat scan")
    assert told.shape in ("tree", "sketch tree", "flat scan")
    assert told.reason.strip()
    assert 0 < told.coordinates <= told.width
    assert (told.coordinates == told.width) or told.shape != "tree"
    assert 0.0 <= told.share_visited <= 1.0
    assert 0.0 <= told.rows_read <= told.remembered
    assert told.bytes_per_decision > 0
    assert told.reach == monitor.rule.epsilon * (1.0 + told.slack)
    text = str(told)
    for part in (told.shape, told.reason, told.storage, f"{told.share_visited:.2%}"):
        assert part in text, f"{part!r} is not in: {text}"


@pytest.mark.parametrize("one_by_one", [True, False], ids=["observe", "observe_many"])
@pytest.mark.parametrize(("shape", "make"), STREAMS.items(), ids=STREAMS)
def test_auto_ends_in_the_shape_that_fits_the_stream(shape, make, one_by_one):
    rule, X, Z = make()
    if rule.metric == "l2":  # compiled before, so that the stream is not over before it is
        lw.Monitor(rule, index="flat").observe(X[0], Z[0])
    monitor, seen = lw.Monitor(rule), set()
    for start in range(0, len(X), 250):
        batch = slice(start, start + 250)
        if one_by_one:
            for x, z in zip(X[batch], Z[batch], strict=True):
                monitor.observe(x, z)
        else:
            monitor.observe_many(X[batch], Z[batch])
        told = monitor.explain()
        assert_makes_sense(told, monitor)
        seen.add(told.shape)
    assert told.shape == shape, str(told)
    assert told.width == X[0].size and told.storage == X.dtype.name
    assert seen <= {shape, "tree", "sketch tree"}
    assert told.changes >= {"flat scan": 1}.get(shape, 0)
    assert told.changes == 0 or shape != "tree"


@pytest.mark.parametrize("one_by_one", [True, False], ids=["observe", "observe_many"])
@pytest.mark.parametrize("make", [embedding_stream, sparse_stream])
def test_a_change_of_index_changes_no_verdict(make, one_by_one):
    rule, X, Z = make()
    oracle, monitor, changed_at = Foreseen(rule, X, Z), lw.Monitor(rule), []
    for start in range(0, len(X), 50):
        changes = monitor.explain().changes if start else 0
        xs, zs = X[start : start + 50], Z[start : start + 50]
        expected = oracle.observe_many(xs, zs)
        if one_by_one:
            for x, z, one in zip(xs, zs, expected, strict=True):
                assert_same_verdict(monitor.observe(x, z), one)
        else:
            assert_same_verdicts(monitor.observe_many(xs, zs), expected)
        if monitor.explain().changes != changes:
            changed_at.append(start)
    assert oracle.pairs > len(X)
    assert changed_at and changed_at[0] > 0 and changed_at[-1] < len(X) - 200, changed_at


def test_a_flat_scan_looks_at_less_than_a_tree_of_embeddings():
    rule, X, Z = embedding_stream()
    tree, scan = lw.Monitor(rule, index="live"), lw.Monitor(rule, index="flat")
    for monitor in (tree, scan):
        monitor.observe_many(X, Z)
    assert (tree.explain().index, tree.explain().shape) == ("live", "sketch tree")
    assert (scan.explain().index, scan.explain().shape) == ("flat", "flat scan")
    assert scan.explain().rows_read <= tree.explain().rows_read
    assert tree.explain().share_visited > 0.2


def test_share_and_rows_read_are_those_of_the_last_thousand_decisions():
    """Far-away decisions touch next to nothing, and soon nothing else is remembered in the mean."""
    rule, X, Z = table_stream()
    monitor = lw.Monitor(replace(rule, epsilon=rule.epsilon * 2))
    monitor.observe_many(X, Z)
    busy = monitor.explain()
    assert busy.rows_read > 1
    for step in range(1_100):
        monitor.observe(np.full(12, 1e3 * (step + 1)), 0)
    assert monitor.explain().rows_read < 0.5
    assert monitor.explain().share_visited < busy.share_visited


def test_bytes_per_decision_leave_out_rows_on_disk(tmp_path):
    X, Z = pictures(random(), "linf", 600, side=32), thirty_labels(random(2), 600)
    rule = lw.Rule("linf", 11)
    in_memory = lw.Monitor(rule)
    in_memory.observe_many(X, Z)
    with lw.Monitor(rule, row_file=tmp_path / "rows") as on_disk:
        on_disk.observe_many(X, Z)
        assert in_memory.explain().bytes_per_decision > 3_072
        assert on_disk.explain().bytes_per_decision < 1_500
        assert in_memory.explain().bytes_on_disk == 0
        assert on_disk.explain().bytes_on_disk >= 3_072
        assert "on disk" in str(on_disk.explain())
        assert "on disk" not in str(in_memory.explain())


def test_forgotten_decisions_are_counted_apart():
    rule, X, Z = picture_stream(600)
    monitor = lw.Monitor(rule)
    monitor.load(X, Z)
    monitor.forget(range(250))
    told = monitor.explain()
    assert (told.remembered, told.forgotten) == (350, 250)
    assert_makes_sense(told, monitor)


@pytest.mark.parametrize("index", ["auto", "live", "flat"])
def test_an_empty_monitor_can_be_explained(index):
    told = lw.Monitor(lw.Rule("l2", 0.5), index=index).explain()
    assert told.width is None and told.remembered == told.changes == 0
    assert str(told).strip()


def test_an_explanation_is_frozen():
    told = lw.Monitor(lw.Rule("l2", 0.5)).explain()
    with pytest.raises(FrozenInstanceError):
        told.shape = "tree"
