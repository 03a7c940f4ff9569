"""Every index asked for by name, wrapper, object or factory says what the oracle says.

So does `live`, which is played the same streams. Indexes written in Python are slow, so streams are
short: some rebuild, split and overflow within a hundred rows.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from tests.support.index_cases import few, groups
from tests.support.lazily import faiss
from tests.support.oracle import Oracle, assert_same_verdict, assert_same_verdicts
from tests.support.play import VERBS, play, play_together, radius_on_an_edge, steps_through
from tests.support.strategies import (
    CLOUDS,
    FAMILIES,
    METRICS,
    OUTPUTS,
    Tally,
    inputs,
    out_of_reach,
    prove,
    spoil,
    streams,
)

pytestmark = pytest.mark.early

ROWS = 60
WIDTHS = (1, 2, 3, 4, 5, 8, 9)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(VERBS), st.integers(1, 5) | st.integers(1, 60), st.integers(0, 2**32 - 1)
    ),
    min_size=1,
    max_size=8,
)
GROUPS = [(metric, group) for metric in METRICS for group in groups(metric)]

every_metric = pytest.mark.parametrize("metric", METRICS)
every_output = pytest.mark.parametrize("output", OUTPUTS)
every_family = pytest.mark.parametrize("family", FAMILIES)


@pytest.fixture(autouse=True)
def one_thread_for_faiss():
    """On a busy machine its threads wait milliseconds for each other, for every decision."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


@pytest.mark.long
@pytest.mark.parametrize(("metric", "group"), GROUPS)
def test_any_interleaving_of_calls_equals_the_oracle(metric, group):
    tally = Tally()

    @prove(8, stream=streams(metric, most=ROWS, widths=WIDTHS), steps=STEPS)
    def holds(stream, steps):
        whole = [("observe", 15, 0), *steps, ("observe_many", 10, 1), ("observe", 15, 1)]
        width = stream.X.shape[1]
        monitors = [
            lw.Monitor(stream.rule, index=make(width)) for make in groups(metric)[group].values()
        ]
        tally.note(play_together(monitors, Oracle(stream.rule), stream.X, stream.Z, whole))

    tally.assert_enough()


@every_output
@every_metric
def test_observe_and_check_name_exactly_the_witnesses(metric, output):
    tally = Tally()

    @prove(8, stream=streams(metric, output, most=ROWS, widths=WIDTHS))
    def holds(stream):
        expected = Oracle(stream.rule).observe_many(stream.X, stream.Z)
        for make in few(metric).values():
            monitor = lw.Monitor(stream.rule, index=make(stream.X.shape[1]))
            for x, z, one in zip(stream.X, stream.Z, expected, strict=True):
                if one.row % 3 == 0 or len(one.rows):
                    assert_same_verdict(monitor.check(x, z), replace(one, row=None))
                assert_same_verdict(monitor.observe(x, z), one)
        tally.note(expected)

    tally.assert_enough()


@every_family
@every_metric
def test_observe_many_after_load_names_exactly_the_witnesses(metric, family):
    tally = Tally()

    @prove(
        8,
        stream=streams(metric, family=family, most=ROWS, widths=WIDTHS),
        share=st.floats(0, 0.7),
        size=st.sampled_from((1, 7, 1_000)),
    )
    def holds(stream, share, size):
        cut, oracle = int(share * len(stream)), Oracle(stream.rule)
        oracle.load(stream.X[:cut], stream.Z[:cut])
        expected = oracle.observe_many(stream.X[cut:], stream.Z[cut:])
        for make in few(metric).values():
            monitor = lw.Monitor(stream.rule, index=make(stream.X.shape[1]))
            assert monitor.load(stream.X[:cut], stream.Z[:cut]) == range(cut)
            for start in range(cut, len(stream), size):
                part = slice(start, start + size)
                said = monitor.observe_many(stream.X[part], stream.Z[part])
                assert_same_verdicts(said, expected[start - cut : start - cut + size])
        tally.note(expected)

    tally.assert_enough()


@pytest.mark.parametrize("cloud", CLOUDS)
@every_metric
def test_no_magnitude_hides_a_witness(metric, cloud):
    """With duplicates, a coordinate of no weight, no slack, and a pair exactly on the radius."""
    rng = np.random.default_rng(CLOUDS.index(cloud))
    X = inputs(rng, cloud, 100, 5, np.dtype(np.float64), metric)
    spoil(rng, X, "repeats")
    Z = rng.integers(30, size=len(X)).tolist()
    rule = lw.Rule(metric, 1.0, weights=[1.0, 0.3, 0.0, 7.0, 1e-3], slack=0)
    if metric == "cosine":
        X[out_of_reach(rule, X)] = 1
    rule = replace(rule, epsilon=radius_on_an_edge(rule, X, Z, 2))
    for make in few(metric).values():
        if isinstance(make(5), str | lw.Periodic | lw.Split):
            steps = steps_through(len(X), seed=1)
        else:  # an object cannot forget
            steps = [step for step in steps_through(len(X), seed=1) if step[0] != "thin"]
        expected = play(lw.Monitor(rule, index=make(5)), Oracle(rule), X, Z, steps)
        assert any((one.input_distances == rule.epsilon).any() for one in expected)


@pytest.mark.long
@pytest.mark.parametrize(("metric", "group"), GROUPS)
def test_a_large_load_is_indexed_like_a_stream(metric, group):
    rng = np.random.default_rng(2)
    X = rng.integers(0, 6, (580, 4)) * 0.1 + 1e-3 * rng.random((580, 4))
    Z = rng.integers(5, size=580).tolist()
    rule = lw.Rule(metric, 1.0, slack=0)
    rule = replace(rule, epsilon=radius_on_an_edge(rule, X, Z, 3))
    steps = [("load", 520, 0), ("forget", 60, 1), ("observe", 20, 2), ("observe_many", 40, 3)]
    monitors = [lw.Monitor(rule, index=make(4)) for make in groups(metric)[group].values()]
    expected = play_together(monitors, Oracle(rule), X, Z, steps)
    assert sum(len(one.rows) for one in expected) > 50
