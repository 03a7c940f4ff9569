"""Shards name what one monitor names, to the last bit; also when they lose everything at random.

The oracle is tests/support/oracle.py. Epsilon is a distance that occurs, so pairs lie on the
boundary.
"""

from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from likewise.search.engine.row_engine import RowEngine
from likewise.search.outputs import outputs_of
from likewise.sharding.protocol import Session, ShardSpec
from likewise.sharding.shard import Shard, compact_answers, expand_answers
from tests.support.interruptions import Interruptions, at_step
from tests.support.oracle import Oracle, assert_same_verdicts
from tests.support.play import VERBS, play
from tests.support.sharded import FailingShards, LocalShards, sharded
from tests.support.strategies import Tally, every_kind, prove, streams

pytestmark = pytest.mark.early

SEEDS = st.integers(0, 2**32 - 1)
STEPS = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(1, 5) | st.integers(1, 60), SEEDS),
    min_size=1,
    max_size=10,
)
SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 40), st.integers(1, 64))
"""Shards, rows of a segment, decisions sent together."""


@every_kind
def test_shards_name_exactly_the_witnesses(metric, output, family):
    tally = Tally()

    @prove(4, stream=streams(metric, output, family, most=200), steps=STEPS, shape=SHAPES)
    def holds(stream, steps, shape):
        shards, segment, batch_rows = shape
        monitor = sharded(stream.rule, shards, segment=segment, batch_rows=batch_rows)
        whole = [("observe_many", 100, 0), *steps]
        tally.note(play(monitor, Oracle(stream.rule), stream.X, stream.Z, whole))

    tally.assert_enough()


def test_shards_that_lose_everything_at_random_change_no_verdict():
    tally, lost = Tally(), 0

    @prove(24, stream=streams(most=200), steps=STEPS, shape=SHAPES, seed=SEEDS)
    def holds(stream, steps, shape, seed):
        nonlocal lost
        shards, segment, batch_rows = shape
        backend = FailingShards(shards, seed, often=0.2)
        monitor = sharded(
            stream.rule, shards, backend=backend, segment=segment, batch_rows=batch_rows
        )
        tally.note(play(monitor, Oracle(stream.rule), stream.X, stream.Z, steps))
        lost += backend.lost

    tally.assert_enough()
    assert lost > 30, f"only {lost} calls failed"


@pytest.mark.parametrize("often", [0.0, 0.1])
@pytest.mark.parametrize("asked", ["comparable", "support"])
@pytest.mark.parametrize("compare", ["all", "within", "across"])
def test_comparables_and_models_are_as_with_one_monitor(compare, often, asked):
    tally = Tally()

    @prove(8, stream=streams(most=160), steps=STEPS, shape=SHAPES, seed=SEEDS)
    def holds(stream, steps, shape, seed):
        rule = replace(stream.rule, compare=compare)
        shards, segment, batch_rows = shape
        monitor = sharded(
            rule,
            shards,
            backend=FailingShards(shards, seed, often),
            segment=segment,
            batch_rows=batch_rows,
            **{asked: True},
        )
        models = [
            ("a", "b", None)[i % 3] for i in np.random.default_rng(seed).permutation(len(stream))
        ]
        oracle = Oracle(rule, comparable=True)
        tally.note(play(monitor, oracle, stream.X, stream.Z, steps, models))

    tally.assert_enough()


PEOPLE = lw.Rule(
    features={
        "age": lw.Feature("number", tolerance=5, missing="match"),
        "job": lw.Feature("category", missing="match"),
        "sex": lw.Feature("protected"),
    },
    output_column="approved",
    protected_must_differ=True,
)


def people(count: int) -> list[dict]:
    rng = np.random.default_rng(3)
    return [
        {
            "age": None if rng.random() < 0.1 else int(rng.integers(20, 60)),
            "job": None if rng.random() < 0.1 else str(rng.choice(["cook", "nurse"])),
            "sex": str(rng.choice(["f", "m"])),
            "approved": str(rng.choice(["yes", "no"])),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("often", [0.0, 0.05])
def test_tables_bursts_and_values_that_match_everything_are_as_with_one_monitor(often):
    rows = people(150)
    more = {"support": True, "burst": lw.Burst(20)}
    alone = lw.Monitor(PEOPLE, **more)
    cluster = sharded(PEOPLE, 3, backend=FailingShards(3, 5, often), **more)
    for start, size in ((0, 40), (40, 1), (41, 59), (100, 50)):
        batch = rows[start : start + size]
        mine, theirs = cluster.observe_many(batch), alone.observe_many(batch)
        assert [one.to_dict() for one in mine] == [one.to_dict() for one in theirs]
        if start == 41:
            for monitor in (cluster, alone):
                assert monitor.forget(range(0, 100, 7)) == 15
        for row in batch[:5]:
            assert cluster.check(row).to_dict() == alone.check(row).to_dict()
    assert sum(verdict.violation for verdict in theirs) > 10
    assert sum(verdict.neighbours for verdict in theirs) > 10


@pytest.mark.parametrize(
    ("index", "width"),
    [
        ("auto", 3),
        ("flat", 40),
        *(
            pytest.param(index, width, marks=pytest.mark.slow)
            for index, width in (("auto", 40), ("live", 3), ("live", 40), ("flat", 3))
        ),
    ],
)
def test_long_inputs_are_as_with_one_monitor(index, width):
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(30, width))
    X = centres[rng.integers(0, 30, 2_500)] + 0.05 * rng.normal(size=(2_500, width))
    Z = rng.integers(0, 3, 2_500)
    rule = lw.Rule("l2", 0.12 * width**0.5)
    expected = Oracle(rule).observe_many(X, Z)
    monitor = sharded(rule, 2, segment=300, batch_rows=250, index=index)
    for start in (0, 700, 1_400):
        stop = min(start + 700, 2_500) if start < 1_400 else 2_500
        assert_same_verdicts(
            monitor.observe_many(X[start:stop], Z[start:stop]), expected[start:stop]
        )
    assert sum(len(one.rows) for one in expected) > 1_000


def test_an_interrupted_call_is_made_wholly_or_not_at_all():
    rng = np.random.default_rng(8)
    X, Z = rng.integers(0, 6, (600, 3)) * 0.1, rng.integers(0, 3, 600).tolist()
    rule = lw.Rule("linf", 0.1)
    monitor, oracle, position = sharded(rule, 3, support=True), Oracle(rule, comparable=True), 1
    monitor.observe_many(X[:1], Z[:1])  # what a first call imports is not interrupted
    oracle.observe_many(X[:1], Z[:1])
    with Interruptions(4) as interruptions:
        for attempt in range(400):
            size = int(rng.choice([1, 4, 12]))
            batch = X[position : position + size], Z[position : position + size]
            before = monitor.rows
            if attempt % 9 == 8 and before:
                gone = rng.integers(0, before, 2)
                interruptions.call("forget", lambda rows=gone: monitor.forget(rows))
                monitor.forget(gone)
                oracle.forget(gone)
                continue
            name = "observe_many" if attempt % 3 else "load"
            verdicts = interruptions.call(name, partial(getattr(monitor, name), *batch))
            rows = monitor.rows
            assert rows in (before, before + len(batch[1]))
            if rows > before:
                expected = oracle.observe_many(*batch)
                if verdicts is not None and name == "observe_many":
                    assert [v.witnesses.rows.tolist() for v in verdicts] == [
                        one.rows.tolist() for one in expected
                    ]
                position += len(batch[1])
            if position >= 580:
                break
    assert interruptions.inside > 10
    rest = X[position:], Z[position:]
    found = [verdict.witnesses.rows.tolist() for verdict in monitor.observe_many(*rest)]
    assert found == [one.rows.tolist() for one in oracle.observe_many(*rest)]


def test_rows_added_to_a_shard_are_whole_or_cut_off_whatever_bytecode_is_interrupted():
    rule, interrupted = lw.Rule("linf", 0.1), 0
    points, more = np.arange(12.0).reshape(6, 2), np.arange(20.0, 30.0).reshape(5, 2)
    spec = ShardSpec(rule, "live", (2,), "float64", 1)
    for step in count():
        shard = Shard()
        shard.open(Session(1, "test", 1), spec, {}, 0, np.empty(0, np.int64))
        shard.add(Session(1, "test", 1), 0, points, np.zeros((6, 1)))
        add = partial(shard.add, Session(1, "test", 1), 6, more, np.ones((5, 1)))
        where = at_step(step, add)
        again = Session(1, "test", 2)
        held = shard.open(again, spec, {"test": 6}, 0, np.empty(0, np.int64))
        assert held == 6, where
        shard.add(again, 6, more[::-1], np.ones((5, 1)))
        shard.build(again, 11)
        counts, rows, *_ = expand_answers(shard.search(again, 11, more, np.zeros((5, 1))))
        assert counts.tolist() == [1] * 5 and rows.tolist() == [10, 9, 8, 7, 6], where
        if not where:
            break
        interrupted += 1
    assert interrupted > 50


def test_forgotten_rows_leave_a_shard_that_comes_back():
    backend = LocalShards(2)
    rule = lw.Rule("linf", 0.1)
    monitor = sharded(rule, 2, backend=backend, segment=4)
    X, Z = np.zeros((20, 2)), np.arange(20)
    monitor.observe_many(X, Z)
    monitor.forget(range(3, 20, 3))
    backend.lose(0)
    backend.lose(1)
    alive = [row for row in range(20) if row not in range(3, 20, 3)]
    assert monitor.check(X[0], 99).witnesses.rows.tolist() == alive
    monitor.forget(range(12))
    backend.lose(0)
    assert monitor.check(X[0], 99).witnesses.rows.tolist() == [row for row in alive if row >= 12]
    assert len(monitor) == len([row for row in alive if row >= 12])


def long_rows(count: int) -> tuple[np.ndarray, np.ndarray, lw.Rule]:
    """Vectors of which a tree tells little apart."""
    rng = np.random.default_rng(5)
    points = rng.normal(size=(20, 64))[rng.integers(0, 20, count)]
    points += 0.5 * rng.normal(size=points.shape)
    return points, rng.integers(0, 2, count), lw.Rule("l2", 4.0)


@pytest.mark.parametrize("batch_rows", [64, 5_000])
def test_a_loaded_shard_has_the_index_of_a_loaded_monitor(batch_rows):
    X, Z, rule = long_rows(4_200)
    alone, backend = lw.Monitor(rule), LocalShards(2)
    monitor = sharded(rule, backend=backend, shards=2, segment=500, batch_rows=batch_rows)
    for one in (alone, monitor):
        one.load(X[:4_000], Z[:4_000])
    choosers = [shard._engine.chooser for shard in backend.shards]
    assert alone.core.engine.chooser.index.name == "flat"
    assert [chooser.index.name for chooser in choosers] == ["flat", "flat"]
    assert not any(chooser.busy for chooser in choosers)
    backend.lose(1)  # and so has one that was brought back
    mine, theirs = (one.observe_many(X[4_000:], Z[4_000:]) for one in (monitor, alone))
    assert mine.witnesses == theirs.witnesses and theirs.pairs > 0
    assert backend.shards[1]._engine.chooser.index.name == "flat"


def test_rows_that_were_added_are_forgotten_cut_off_and_asked_about():
    X, Z, rule = long_rows(1_000)
    outputs = Z.astype(float).reshape(-1, 1)
    engine = RowEngine(rule)
    engine.begin((64,), "float64", outputs_of(rule, np.zeros(1)))
    gone = np.array([3, 40])
    for start in (0, 30, 60):
        own = gone[(gone >= start) & (gone < start + 30)]
        engine.add(X[start : start + 30], outputs[start : start + 30], own)
    engine.forget(np.array([7, 85]))
    engine.add(X[90:700], outputs[90:700])
    engine.settle(650)  # while the index lacks rows
    engine.add(X[650:900], outputs[650:900])
    counts, rows, near, far = engine.search(X[900:], outputs[900:])
    alone = lw.Monitor(rule)
    alone.load(X[:900], Z[:900])
    alone.forget([3, 7, 40, 85])
    due = alone.check_many(X[900:], Z[900:])
    assert due.pairs > 0 and np.array_equal(np.diff(due.offsets), counts)
    assert np.array_equal(due.witnesses.rows, rows)
    assert np.array_equal(due.witnesses.input_distances, near)
    assert np.array_equal(due.witnesses.output_distances, far)


@pytest.mark.parametrize("most", [0, 1, 50])
@pytest.mark.parametrize("farthest", [1, 3])
@pytest.mark.parametrize("offset", [0, 1 << 31])
def test_answers_are_whole_again_after_the_way(most, farthest, offset):
    rng = np.random.default_rng(1)
    counts = rng.integers(0, most + 1, 20)
    pairs = int(counts.sum())
    rows = rng.integers(0, 1_000, pairs) + offset
    answers = counts, rows, rng.random(pairs), rng.integers(1, 1 + farthest, pairs).astype(float)
    told = compact_answers(answers)
    assert sum(part.nbytes for part in told) <= sum(part.nbytes for part in answers)
    for again, before in zip(expand_answers(told), answers, strict=True):
        assert again.dtype == before.dtype and np.array_equal(again, before)
