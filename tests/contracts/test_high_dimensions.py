"""The contract beyond 32 coordinates: sketches, rotations and change-overs never show in a verdict.

Short streams of any kind come from Hypothesis; `wide.py` has the long ones. Each has a pair of
decisions exactly on the radius, and no slack to hide behind.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from tests.support.oracle import Oracle, assert_same_verdict, assert_same_verdicts
from tests.support.play import VERBS, Foreseen, play, radius_on_an_edge, steps_through
from tests.support.refusals import raises
from tests.support.strategies import METRICS, Tally, prove, streams
from tests.support.wide_streams import (
    CASES,
    EVERY,
    INDEXES,
    clusters,
    embeddings,
    pictures,
    seed_of,
    thirty_labels,
    wide_stream,
)

pytestmark = pytest.mark.early

WIDTHS = (33, 34, 40, 63, 64, 65, 100, 192, 257, 384, 1_000, 3_072, 5_000)
STEPS = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(1, 120), st.integers(0, 2**32 - 1)),
    min_size=1,
    max_size=12,
)
EVERY_INDEX = [(metric, index) for metric in METRICS for index in INDEXES[metric]]


def shapes_of(width: int) -> list[tuple[int, ...]]:
    """Ways to lay out as many coordinates."""
    shapes = [(width,), (1, width), (width, 1)]
    shapes += [(width // k, k) for k in (2, 3, 8) if width % k == 0]
    shapes += [(width // 24, 8, 3)] if width % 24 == 0 else []
    return shapes


@pytest.mark.parametrize(("metric", "index"), EVERY_INDEX)
def test_any_interleaving_of_calls_equals_the_oracle_however_wide(metric, index):
    tally = Tally()

    @prove(10, stream=streams(metric, widths=WIDTHS, cells=60_000), steps=STEPS, pick=st.data())
    def holds(stream, steps, pick):
        shape = pick.draw(st.sampled_from(shapes_of(stream.X.shape[1])))
        X = stream.X.reshape(len(stream), *shape)
        whole = [("observe", 10, 0), *steps, ("observe", 30, 1), ("observe_many", 999, 2)]
        monitor = lw.Monitor(stream.rule, index=index)
        tally.note(play(monitor, Oracle(stream.rule), X, stream.Z, whole))

    tally.assert_enough()


@pytest.mark.parametrize("metric", METRICS)
def test_foreseen_witnesses_are_those_of_the_oracle(metric):
    tally = Tally()

    @prove(8, stream=streams(metric, widths=(33, 64, 150), most=200))
    def holds(stream):
        expected = Oracle(stream.rule).observe_many(stream.X, stream.Z)
        foreseen = Foreseen(stream.rule, stream.X, stream.Z).observe_many(stream.X, stream.Z)
        for mine, theirs in zip(foreseen, expected, strict=True):
            assert mine.rows.tolist() == theirs.rows.tolist()
            assert mine.input_distances.tobytes() == theirs.input_distances.tobytes()
        tally.note(expected)

    tally.assert_enough()


@pytest.mark.pairwise
@pytest.mark.parametrize(("name", "metric", "index"), EVERY)
def test_hard_wide_streams_get_exact_verdicts(name, metric, index):
    rule, X, Z, foreseen = wide_stream(name, metric)
    at_once = 600 if index == "flat" and len(X) > 700 else 0  # what a rotation is learnt from
    steps = steps_through(len(X), seed_of(name, metric, index), load=at_once)
    monitor = lw.Monitor(rule, index=index)
    expected = play(monitor, foreseen.afresh(), X, Z, steps)
    found = np.concatenate([one.input_distances for one in expected])
    assert found.size > len(X) * CASES[name].per_row / 8, "the stream has too little to find"
    assert (found == rule.epsilon).any(), "no witness lies on the radius"
    assert monitor.explain().changes > 0 or not at_once, "nothing was rotated"


@pytest.mark.parametrize(
    ("name", "metric", "index"),
    [
        ("embeddings", "l2", "auto"),
        ("embeddings", "l2", "flat"),
        ("five coordinates of 300 tell", "linf", "auto"),
        ("five coordinates of 300 tell", "linf", "live"),
    ],
)
def test_rows_that_arrive_or_go_during_a_change_over_are_not_lost(name, metric, index):
    """Loads and forgets in between a few decisions, so that whatever changes meets them midway."""
    rule, X, Z, foreseen = wide_stream(name, metric)
    cycle = [("observe", 25, 0), ("load", 60, 0), ("thin", 20, 7), ("observe_many", 20, 1)]
    monitor = lw.Monitor(rule, index=index)
    expected = play(monitor, foreseen.afresh(), X, Z, cycle * (len(X) // 105))
    assert sum(len(one.rows) for one in expected) > len(X) / 4
    assert monitor.explain().changes > 0 or metric == "l2"  # learning directions takes its time


WAYS = {
    "one by one": lambda monitor, X, Z: [monitor.observe(x, z) for x, z in zip(X, Z, strict=True)],
    "whole": lambda monitor, X, Z: [monitor.observe_many(X, Z)],
    "whole, 3 threads": lambda monitor, X, Z: [monitor.observe_many(X, Z, threads=3)],
    **{
        f"batches of {size}": lambda monitor, X, Z, size=size: [
            monitor.observe_many(X[i : i + size], Z[i : i + size]) for i in range(0, len(X), size)
        ]
        for size in (50, 300)
    },
}


def everything_said(parts):
    """Rows and both distances of all witnesses, as bytes."""
    said = [part.witnesses for part in parts]
    return tuple(
        b"".join(getattr(one, name).tobytes() for one in said)
        for name in ("rows", "input_distances", "output_distances")
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("pictures", "linf"),
        ("coordinates take turns", "l2"),
        ("embeddings with many neighbours", "cosine"),
        ("a plane at first, far away", "l2"),
        ("float32, far away", "l1"),
    ],
)
def test_verdicts_do_not_depend_on_index_batches_threads_or_where_rows_are(name, metric, tmp_path):
    rule, X, Z, foreseen = wide_stream(name, metric)
    X, Z = X[:1_000], Z[:1_000]
    expected = everything_said(
        [lw.Verdict(0, lw.Witnesses(*known)) for known in foreseen.known[: len(X)]]
    )
    assert len(expected[0]) > 2 * len(X)
    for turn, (way, observe) in enumerate(WAYS.items()):
        for index in INDEXES[metric]:
            rows = tmp_path / f"{index}-{turn}" if turn % 2 == 0 else None
            with lw.Monitor(rule, index=index, row_file=rows) as monitor:
                said = everything_said(observe(monitor, X, Z))
            assert said == expected, f"index {index}, {way}, rows in {rows or 'memory'}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "metric", "index", "storage"),
    [
        ((70_000,), "linf", "auto", "uint8"),
        ((70_000,), "l2", "flat", "float32"),
        ((70_000,), "cosine", "auto", "uint8"),
        ((224, 224, 3), "linf", "auto", "float32"),
        ((224, 224, 3), "l2", "flat", "uint8"),
        ((224, 224, 3), "l1", "live", "uint8"),
    ],
    ids=str,
)
def test_the_last_of_very_many_coordinates_counts(shape, metric, index, storage):
    """Rows that are equal except beyond 16 and 17 bits of coordinates."""
    rng, width = np.random.default_rng(5), int(np.prod(shape))
    X = np.tile(rng.integers(1, 200, width), (20, 1))
    X[:, -1] += np.arange(20) % 7
    X[:, 65_536] += np.arange(20) % 5
    X[::4, : width // 2] = rng.integers(0, 200, width // 2)
    X = X.astype(storage).reshape(20, *shape)
    Z = (np.arange(20) % 3).tolist()
    rule = lw.Rule(metric, 1.0, slack=0)
    rule = replace(rule, epsilon=radius_on_an_edge(rule, X, Z, 1.5, among=6))
    expected = Oracle(rule).observe_many(X, Z)
    assert 15 < sum(len(one.rows) for one in expected) < 100
    assert any((one.input_distances == rule.epsilon).any() for one in expected)
    monitor = lw.Monitor(rule, index=index)
    assert_same_verdicts(monitor.observe_many(X[:10], Z[:10]), expected[:10])
    for x, z, one in zip(X[10:17], Z[10:17], expected[10:17], strict=True):
        assert_same_verdict(monitor.observe(x, z), one)
    assert_same_verdicts(monitor.observe_many(X[17:], Z[17:], threads=2), expected[17:])
    assert monitor.past.inputs([0, 19]).tobytes() == X[[0, 19]].tobytes()


@lru_cache(maxsize=1)
def two_regimes(metric):
    """700 rows, and 700 others unlike them in every coordinate."""
    rng = np.random.default_rng(2)
    first = clusters(rng, 700, 80, noise=0.01)
    second = 50 + clusters(rng, 700, 80)[:, rng.permutation(80)] * np.arange(80)
    X, Z = np.concatenate([first, second]), thirty_labels(rng, 1_400)
    rule = lw.Rule(metric, 1.0, slack=0)
    rule = replace(rule, epsilon=radius_on_an_edge(rule, second, Z[700:], 2))
    return rule, X, Z, Foreseen(rule, X, Z)


@pytest.mark.parametrize(("metric", "index"), EVERY_INDEX)
def test_a_history_forgotten_and_begun_anew_is_as_exact(metric, index):
    rule, X, Z, foreseen = two_regimes(metric)
    monitor, oracle = lw.Monitor(rule, index=index), foreseen.afresh()
    assert_same_verdicts(
        monitor.observe_many(X[:700], Z[:700]), oracle.observe_many(X[:700], Z[:700])
    )
    assert monitor.forget(range(700)) == oracle.forget(range(700)) == 700
    expected, start = [], 700
    for size in (1, 150, 30, 319, 200):
        batch = slice(start, start + size)
        expected += oracle.observe_many(X[batch], Z[batch])
        assert_same_verdicts(monitor.observe_many(X[batch], Z[batch]), expected[-size:])
        start += size
    assert start == 1_400
    assert sum(len(one.rows) for one in expected) > 700


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_a_sliding_window_is_exact_under_every_index(metric):
    rng, window = np.random.default_rng(8), 300
    X = embeddings(rng, metric, n=1_500) + np.linspace(0, 2, 1_500, dtype=np.float32)[:, None]
    Z = thirty_labels(rng, len(X))
    rule = lw.Rule(metric, 1.0, slack=0)
    rule = replace(rule, epsilon=radius_on_an_edge(rule, X[-window:], Z[-window:], 4))
    foreseen = Foreseen(rule, X, Z)
    for index in INDEXES[metric]:
        monitor, oracle, found = lw.Monitor(rule, index=index), foreseen.afresh(), 0
        for row, (x, z) in enumerate(zip(X, Z, strict=True)):
            if row >= window:
                assert monitor.forget(row - window) == oracle.forget(row - window) == 1
            expected = oracle.observe(x, z)
            assert_same_verdict(monitor.observe(x, z), expected)
            found += len(expected.rows)
        assert found > len(X)
        assert len(monitor) == window


@pytest.mark.parametrize("metric", ["linf", "l1"])
def test_a_flat_scan_is_for_metrics_with_a_rotation(metric):
    with raises(lw.errors.BadRule):
        lw.Monitor(lw.Rule(metric, 0.1), index="flat")


def test_monitors_of_several_shapes_say_the_same():
    X = pictures(np.random.default_rng(1), "linf", n=300)
    Z = thirty_labels(np.random.default_rng(2), 300)
    rule = lw.Rule("linf", 11, slack=0)
    expected = Oracle(rule).observe_many(X, Z)
    assert sum(len(one.rows) for one in expected) > 300
    for shape in ((8, 8, 3), (192,), (64, 3), (1, 192, 1), (3, 8, 8)):
        given = X.reshape(300, *shape)
        monitor = lw.Monitor(rule)
        for x, z, one in zip(given[:100], Z[:100], expected, strict=False):
            assert_same_verdict(monitor.observe(x, z), one)
        assert_same_verdicts(monitor.observe_many(given[100:], Z[100:]), expected[100:])
        assert monitor.past.inputs(range(300)).shape == (300, *shape)
