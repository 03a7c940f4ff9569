"""Like pairs are all pairs of near inputs, whatever their outputs: no other, and each once.

The oracle is a matrix of all distances, as stored, in float64; epsilon is one of them.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from likewise.monitor.like_pairs import find_remembered_like_pairs, like_pairs
from tests.support.lazily import polars as pl
from tests.support.oracle import as_stored, input_distances, slack_of, storage_of
from tests.support.refusals import raises
from tests.support.strategies import FAMILIES, METRICS, prove, streams

FEATURES = {
    "age": {"kind": "number", "tolerance": 5},
    "income": {"kind": "number", "tolerance": 100, "missing": "match"},
    "job": {"kind": "category", "missing": "match"},
    "sex": {"kind": "protected"},
}


def expected_pairs(rule: lw.Rule, X: np.ndarray, alive: np.ndarray | None = None) -> dict:
    """By later and earlier row, the distance."""
    storage = storage_of(rule, X)
    past = as_stored(storage, X)
    reach = rule.epsilon * (1.0 + slack_of(rule, storage))
    found = {}
    for later in range(1, len(X)):
        distances = input_distances(rule, past[:later], past[later])
        for earlier in np.flatnonzero(distances <= reach).tolist():
            if alive is None or (alive[later] and alive[earlier]):
                found[later, earlier] = distances[earlier]
    return found


def as_found(chunks) -> dict:
    """The same of what was found; each pair comes once, later rows come whole."""
    found, seen = {}, set()
    for pairs in chunks:
        assert pairs.later.dtype == pairs.earlier.dtype == np.int64
        assert pairs.distances.dtype == np.float64
        assert not pairs.later.flags.writeable and len(pairs) == len(pairs.distances)
        rows = set(pairs.later.tolist())
        assert not rows & seen, "the pairs of one row come in one chunk"
        seen |= rows
        columns = (pairs.later.tolist(), pairs.earlier.tolist(), pairs.distances.tolist())
        for later, earlier, distance in zip(*columns, strict=True):
            assert earlier < later and (later, earlier) not in found
            found[later, earlier] = distance
    return found


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("family", FAMILIES)
def test_like_pairs_are_all_near_pairs(metric, family):
    many = []

    @prove(
        6,
        drawn=streams(metric, family=family, most=300),
        most=st.sampled_from((1, 50, 1 << 20)),
        threads=st.integers(1, 3),
    )
    def holds(drawn, most, threads):
        expected = expected_pairs(drawn.rule, drawn.X)
        found = as_found(like_pairs(drawn.rule, drawn.X, most=most, threads=threads))
        assert found == expected
        many.append(len(expected))

    assert sum(map(bool, many)) >= len(many) / 2


@pytest.mark.parametrize("index", ["auto", "live", "brute"])
def test_like_pairs_within_a_monitor_are_those_it_remembers(index):
    many = []

    @prove(12, drawn=streams(most=300), seed=st.integers(0, 2**32 - 1))
    def holds(drawn, seed):
        rng = np.random.default_rng(seed)
        monitor = lw.Monitor(drawn.rule, index=index)
        monitor.observe_many(drawn.X, drawn.Z)
        alive = rng.random(len(drawn.X)) < rng.choice([0.2, 0.9, 1.0])
        monitor.forget(np.flatnonzero(~alive))
        expected = expected_pairs(drawn.rule, drawn.X, alive)
        assert as_found(find_remembered_like_pairs(monitor, most=100)) == expected
        verdicts = lw.Monitor(drawn.rule).observe_many(drawn.X, drawn.Z)
        pairs = zip(verdicts.owners.tolist(), verdicts.witnesses.rows.tolist(), strict=True)
        assert {pair for pair in pairs if alive[list(pair)].all()} <= expected.keys()
        many.append(len(expected))

    assert any(many)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_like_pairs_of_long_inputs_by_a_flat_scan(metric):
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(20, 60))
    X = (centres[rng.integers(20, size=700)] + 0.3 * rng.normal(size=(700, 60))).astype(np.float32)
    rule = lw.Rule(metric, 1.0)
    past = X.astype(np.float64)
    near = np.sort(input_distances(rule, past, past[0]))[1:]
    rule = replace(rule, epsilon=float(near[10]))
    monitor = lw.Monitor(rule, index="flat")
    monitor.observe_many(X, ["any"] * 700)
    monitor.forget([3, 4, 5])
    alive = np.ones(700, dtype=bool)
    alive[[3, 4, 5]] = False
    expected = expected_pairs(rule, X, alive)
    assert len(expected) > 1_000
    assert as_found(find_remembered_like_pairs(monitor, most=500)) == expected
    assert as_found(like_pairs(rule, X)) == expected_pairs(rule, X)


def table(count: int) -> dict[str, list]:
    rng = np.random.default_rng(6)
    some = rng.random(count) < 0.1
    return {
        "age": rng.integers(20, 60, count).tolist(),
        "income": [
            None if gone else int(v)
            for v, gone in zip(rng.integers(0, 900, count), some, strict=True)
        ],
        "job": [None if rng.random() < 0.05 else "abc"[i] for i in rng.integers(0, 3, count)],
        "sex": ["fm"[i] for i in rng.integers(0, 2, count)],
        "granted": ["yes"] * count,
    }


@pytest.mark.parametrize("must_differ", [False, True])
def test_like_pairs_of_a_table_with_open_places_and_columns_that_must_differ(must_differ):
    rule = lw.Rule(features=FEATURES, output_column="granted", protected_must_differ=must_differ)
    columns = table(400)
    age, sex = np.array(columns["age"]), np.array(columns["sex"])
    income = np.array([np.nan if one is None else one for one in columns["income"]])
    job = np.array(["" if one is None else one for one in columns["job"]])
    near = np.abs(age - age[:, None]) <= 5
    gaps = np.abs(income - income[:, None])
    near &= np.isnan(gaps) | (gaps <= 100)
    near &= (job == job[:, None]) | (job == "") | (job == "")[:, None]
    if must_differ:
        near &= sex != sex[:, None]
    expected = {(int(a), int(b)) for a, b in np.argwhere(near) if b < a}
    found = {}
    for pairs in like_pairs(rule, pl.DataFrame(columns), most=64):
        for later, earlier in zip(pairs.later.tolist(), pairs.earlier.tolist(), strict=True):
            assert (later, earlier) not in found
            found[later, earlier] = True
    assert found.keys() == expected and len(expected) > 1_000
    without_outputs = pl.DataFrame(columns).drop("granted")
    chunks = list(like_pairs(rule, without_outputs, ["yes"] * 400))
    assert sum(map(len, chunks)) == len(expected)


def test_chunks_are_bounded_however_alike_rows_are():
    sizes = [
        len(pairs) for pairs in like_pairs(lw.Rule("linf", 0.1), np.zeros((2_000, 2)), most=5_000)
    ]
    assert sum(sizes) == 2_000 * 1_999 // 2 and max(sizes) <= 5_000 and len(sizes) > 300


def test_none_or_one_decision_has_no_pair():
    rule = lw.Rule("linf", 0.1)
    assert (
        list(like_pairs(rule, np.zeros((1, 3)))) == list(like_pairs(rule, np.zeros((0, 3)))) == []
    )
    assert list(find_remembered_like_pairs(lw.Monitor(rule))) == []


def test_a_monitor_that_goes_on_meanwhile_is_an_error():
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    monitor.observe_many(np.zeros((2_000, 2)), ["a"] * 2_000)
    chunks = find_remembered_like_pairs(monitor, most=10)
    next(chunks)
    monitor.observe([0.0, 0.0], "b")
    with raises(lw.errors.BadDecision):
        next(chunks)


@pytest.mark.parametrize("most", [0, -1, 1.5, True, None])
def test_a_chunk_has_room_for_a_pair(most):
    with raises(lw.errors.BadRule, setting="most"):
        list(like_pairs(lw.Rule("linf", 0.1), [[0.0]], most=most))
