"""What verdicts do not depend on: threads, batches, index, how the past arrived, memory layout."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from tests.support.oracle import Oracle, assert_same_verdict, assert_same_verdicts
from tests.support.strategies import METRICS, OUTPUTS, Tally, prove, streams


def stream(n: int = 600, dims: int = 5, seed: int = 1):
    """Points on a coarse lattice of tenths: plenty of ties, and epsilon lies on one."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, dims)) * 0.1, rng.integers(0, 3, n).tolist()


RULE = lw.Rule("linf", 0.1)


@pytest.fixture(scope="module")
def expected():
    said = Oracle(RULE).observe_many(*stream())
    assert sum(len(one.rows) for one in said) > 1_000
    return said


@pytest.mark.parametrize("threads", [None, 1, 2, 3, 8])
def test_verdicts_do_not_depend_on_threads(threads, expected):
    assert_same_verdicts(lw.Monitor(RULE).observe_many(*stream(), threads=threads), expected)


@pytest.mark.parametrize("size", [1, 2, 7, 127, 128, 129, 599, 600, 10_000])
def test_verdicts_do_not_depend_on_batch_size(size, expected):
    X, Z = stream()
    monitor = lw.Monitor(RULE)
    for start in range(0, len(X), size):
        batch = monitor.observe_many(X[start : start + size], Z[start : start + size])
        assert_same_verdicts(batch, expected[start : start + size])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("output", OUTPUTS)
def test_verdicts_do_not_depend_on_the_index(metric, output):
    tally = Tally()

    @prove(5, drawn=streams(metric, output))
    def holds(drawn):
        said = Oracle(drawn.rule).observe_many(drawn.X, drawn.Z)
        for index in ("auto", "live"):
            monitor = lw.Monitor(drawn.rule, index=index)
            assert_same_verdicts(monitor.observe_many(drawn.X, drawn.Z), said)
        tally.note(said)

    tally.assert_enough()


def test_verdicts_do_not_depend_on_how_the_past_arrived():
    tally = Tally()

    @prove(25, drawn=streams(), share=st.floats(0.1, 0.9))
    def holds(drawn, share):
        cut = 1 + int(share * (len(drawn) - 1))
        past, future = (drawn.X[:cut], drawn.Z[:cut]), (drawn.X[cut:], drawn.Z[cut:])
        loaded, observed, batched, mixed = (lw.Monitor(drawn.rule) for _ in range(4))
        loaded.load(*past)
        for x, z in zip(*past, strict=True):
            observed.observe(x, z)
        batched.observe_many(*past, threads=2)
        mixed.observe(past[0][0], past[1][0])
        mixed.load(past[0][1:], past[1][1:])
        oracle = Oracle(drawn.rule)
        oracle.load(*past)
        said = oracle.observe_many(*future)
        for monitor in (loaded, observed, batched, mixed):
            assert_same_verdicts(monitor.observe_many(*future), said)
        tally.note(said)

    tally.assert_enough()


LAYOUTS = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "every other column of a wider array": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards view": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "other byte order": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "read only": lambda X: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
    "lists": lambda X: X.tolist(),
    "tuple of tuples": lambda X: tuple(tuple(row) for row in X.tolist()),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_verdicts_do_not_depend_on_memory_layout(layout, expected):
    X, Z = stream()
    given = layout(X)
    one_by_one, batched = lw.Monitor(RULE), lw.Monitor(RULE)
    for x, z, one in zip(given, Z, expected, strict=True):
        assert_same_verdict(one_by_one.observe(x, z), one)
    assert_same_verdicts(batched.observe_many(given, Z), expected)


@pytest.mark.parametrize("container", [list, tuple, np.array], ids=["list", "tuple", "array"])
def test_verdicts_do_not_depend_on_the_container_of_labels(container, expected):
    X, Z = stream()
    assert_same_verdicts(lw.Monitor(RULE).observe_many(X, container(Z)), expected)


@pytest.mark.parametrize("kind", ["list", "float32", "int64"])
def test_numbers_and_probabilities_come_in_any_container(kind):
    X, labels = stream(300)
    convert = {"list": np.ndarray.tolist, "float32": np.float32, "int64": np.int64}[kind]
    numbers = convert(np.array(labels, dtype=float))
    chances = convert(np.eye(3)[labels])
    for output, Z in (("number", numbers), ("probabilities", chances)):
        rule = lw.Rule("l1", 0.2, output=output, delta=0.5)
        said = Oracle(rule).observe_many(X, Z)
        assert sum(len(one.rows) for one in said) > 100
        assert_same_verdicts(lw.Monitor(rule).observe_many(X, Z), said)
        monitor = lw.Monitor(rule)
        for x, z, one in zip(X, Z, said, strict=True):
            assert_same_verdict(monitor.observe(x, z), one)


def test_monitor_keeps_its_own_copy_of_what_it_is_given(expected):
    X, Z = stream()
    monitor, batched, loaded = lw.Monitor(RULE), lw.Monitor(RULE), lw.Monitor(RULE)
    buffer = np.empty(X.shape[1])
    for x, z, one in zip(X[:300], Z[:300], expected, strict=False):
        buffer[:] = x
        assert_same_verdict(monitor.observe(buffer, z), one)
        buffer[:] = 77.0
    for other, verb in ((batched, "observe_many"), (loaded, "load")):
        first = X[:300].copy()
        getattr(other, verb)(first, Z[:300])
        first[:] = 77.0
    for each in (monitor, batched, loaded):
        assert_same_verdicts(each.observe_many(X[300:], Z[300:]), expected[300:])


def test_monitor_keeps_its_own_copy_of_probabilities():
    X, labels = stream(200)
    rule = lw.Rule("linf", 0.1, output="probabilities", delta=0.3)
    Z = np.eye(3)[labels]
    said, monitor, buffer = Oracle(rule).observe_many(X, Z), lw.Monitor(rule), np.empty(3)
    assert any(len(one.rows) for one in said)
    for x, z, one in zip(X, Z, said, strict=True):
        buffer[:] = z
        assert_same_verdict(monitor.observe(x, buffer), one)
        buffer[:] = 1 / 3


def test_monitors_do_not_share_anything(expected):
    X, Z = stream()
    other = lw.Monitor(replace(RULE, epsilon=0.2))
    monitor = lw.Monitor(RULE)
    for x, z, one in zip(X[:300], Z[:300], expected, strict=False):
        other.observe(x[:2], z)
        assert_same_verdict(monitor.observe(x, z), one)
    assert len(other) == len(monitor) == 300


def test_an_empty_batch_says_nothing_and_leaves_no_trace(expected):
    X, Z = stream()
    monitor = lw.Monitor(RULE)
    assert_same_verdicts(monitor.observe_many(np.empty((0, 3)), []), [])
    assert list(monitor.load(np.empty((0, 3)), [])) == []
    assert_same_verdicts(monitor.observe_many(X[:300], Z[:300]), expected[:300])
    assert_same_verdicts(monitor.observe_many(X[:0], Z[:0]), [])
    assert list(monitor.load(X[:0], Z[:0])) == []
    assert monitor.forget([]) == 0
    assert_same_verdicts(monitor.observe_many(X[300:], Z[300:]), expected[300:])
