"""The contract: every witness, no other row, distances to the last bit, however it is asked."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from tests.support.oracle import Oracle, assert_same_verdict, assert_same_verdicts
from tests.support.play import VERBS, play
from tests.support.strategies import (
    FAMILIES,
    METRICS,
    OUTPUTS,
    Stream,
    Tally,
    every_kind,
    prove,
    streams,
)

pytestmark = pytest.mark.early

SEEDS = st.integers(0, 2**32 - 1)
CHUNKS = st.lists(st.integers(0, 3) | st.integers(0, 300), min_size=1, max_size=8)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(VERBS),
        st.integers(1, 5) | st.integers(1, 150),
        SEEDS,
    ),
    min_size=1,
    max_size=20,
)

every_metric = pytest.mark.parametrize("metric", METRICS)
every_output = pytest.mark.parametrize("output", OUTPUTS)
every_family = pytest.mark.parametrize("family", FAMILIES)


def chunks_of(stream: Stream, sizes: list[int]) -> list[tuple[np.ndarray, object]]:
    """The stream cut into pieces of these sizes, and the rest as one more piece."""
    ends = [*np.minimum(np.cumsum([0, *sizes]), len(stream)).tolist(), len(stream)]
    return [(stream.X[a:b], stream.Z[a:b]) for a, b in pairwise(ends)]


def test_streams_have_something_to_find():
    tally, boundary = Tally(), 0

    @prove(100, stream=streams(most=130))
    def holds(stream):
        nonlocal boundary
        expected = Oracle(stream.rule).observe_many(stream.X, stream.Z)
        tally.note(expected)
        boundary += any((one.input_distances == stream.rule.epsilon).any() for one in expected)

    tally.assert_enough(share=0.5)
    assert boundary * 5 >= tally.examples, f"only {boundary} examples lie on the boundary"


@every_kind
def test_observe_names_exactly_the_witnesses(metric, output, family):
    tally = Tally()

    @prove(8, stream=streams(metric, output, family))
    def holds(stream):
        monitor = lw.Monitor(stream.rule)
        verdicts = [monitor.observe(x, z) for x, z in zip(stream.X, stream.Z, strict=True)]
        expected = Oracle(stream.rule).observe_many(stream.X, stream.Z)
        for verdict, one in zip(verdicts, expected, strict=True):  # after all: none was overwritten
            assert_same_verdict(verdict, one)
        assert len(monitor) == len(stream)
        tally.note(expected)

    tally.assert_enough()


@every_kind
def test_observe_many_equals_observing_one_by_one(metric, output, family):
    tally = Tally()

    @prove(8, stream=streams(metric, output, family), sizes=CHUNKS, threads=st.integers(1, 3))
    def holds(stream, sizes, threads):
        monitor = lw.Monitor(stream.rule)
        chunks = chunks_of(stream, sizes)
        batches = [monitor.observe_many(X, Z, threads=threads) for X, Z in chunks]
        expected = Oracle(stream.rule).observe_many(stream.X, stream.Z)
        start = 0
        for batch, (X, _) in zip(batches, chunks, strict=True):
            assert_same_verdicts(batch, expected[start : start + len(X)])
            start += len(X)
        tally.note(expected)

    tally.assert_enough()


@every_output
@every_metric
def test_check_equals_observe_and_leaves_no_trace(metric, output):
    tally = Tally()

    @prove(6, stream=streams(metric, output, most=400))
    def holds(stream):
        monitor, oracle, expected = lw.Monitor(stream.rule), Oracle(stream.rule), []
        for x, z in zip(stream.X, stream.Z, strict=True):
            expected.append(oracle.check(x, z))
            for _ in range(2):
                assert_same_verdict(monitor.check(x, z), expected[-1])
            assert len(monitor) == len(oracle)
            assert_same_verdict(monitor.observe(x, z), oracle.observe(x, z))
        tally.note(expected)

    tally.assert_enough()


@every_output
@every_metric
def test_loaded_decisions_are_witnesses_like_observed_ones(metric, output):
    tally = Tally()

    @prove(6, stream=streams(metric, output), share=st.floats(0, 1))
    def holds(stream, share):
        monitor, oracle = lw.Monitor(stream.rule), Oracle(stream.rule)
        cut = int(share * len(stream))
        rows = monitor.load(stream.X[:cut], stream.Z[:cut])
        assert rows == oracle.load(stream.X[:cut], stream.Z[:cut])
        assert len(monitor) == cut
        expected = oracle.observe_many(stream.X[cut:], stream.Z[cut:])
        verdicts = [
            monitor.observe(x, z) for x, z in zip(stream.X[cut:], stream.Z[cut:], strict=True)
        ]
        for verdict, one in zip(verdicts, expected, strict=True):
            assert_same_verdict(verdict, one)
        tally.note(expected)

    tally.assert_enough()


@every_output
@every_metric
def test_forgotten_rows_are_never_witnesses_again(metric, output):
    tally = Tally()

    @prove(
        6, stream=streams(metric, output), seed=SEEDS, share=st.sampled_from((0.1, 0.5, 0.95, 1.0))
    )
    def holds(stream, seed, share):
        monitor, oracle = lw.Monitor(stream.rule), Oracle(stream.rule)
        rng, expected = np.random.default_rng(seed), []
        for start in range(0, len(stream), 100):
            X, Z = stream.X[start : start + 100], stream.Z[start : start + 100]
            expected += oracle.observe_many(X, Z)
            for x, z, one in zip(X, Z, expected[start:], strict=True):
                assert_same_verdict(monitor.observe(x, z), one)
            end = start + len(X)
            rows = np.flatnonzero(rng.random(end) < share)
            assert monitor.forget(rows) == oracle.forget(rows)
            assert monitor.forget(rows) == 0, "a row is forgotten only once"
            assert len(monitor) == len(oracle)
        tally.note(expected)

    tally.assert_enough()


@every_family
@every_metric
def test_any_interleaving_of_calls_equals_the_oracle(metric, family):
    tally = Tally()

    @prove(8, stream=streams(metric, family=family), steps=STEPS)
    def holds(stream, steps):
        whole = [("observe", 20, 0), *steps, ("observe", 50, 1)]
        monitor, oracle = lw.Monitor(stream.rule), Oracle(stream.rule)
        tally.note(play(monitor, oracle, stream.X, stream.Z, whole))

    tally.assert_enough()


@every_metric
def test_verdicts_stay_correct_when_everything_is_forgotten_again_and_again(metric):
    tally = Tally()

    @prove(6, stream=streams(metric))
    def holds(stream):
        monitor, oracle, expected = lw.Monitor(stream.rule), Oracle(stream.rule), []
        for start in range(0, len(stream), 150):
            X, Z = stream.X[start : start + 150], stream.Z[start : start + 150]
            expected += oracle.observe_many(X, Z)
            assert_same_verdicts(monitor.observe_many(X, Z), expected[start:])
            everything = range(start + len(X))
            assert monitor.forget(everything) == oracle.forget(everything) == len(X)
            assert len(monitor) == 0
        tally.note(expected)

    tally.assert_enough()
