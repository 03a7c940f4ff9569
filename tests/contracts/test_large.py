"""Streams of a few thousand rows that are hard on a tree, checked in full against the oracle."""

from collections.abc import Callable

import numpy as np
import pytest

import likewise as lw
from tests.support.oracle import Oracle, assert_same_verdict, assert_same_verdicts

N = 2_500


def random(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def labels(n: int = N, kinds: int = 3) -> list[int]:
    return random(9).integers(kinds, size=n).tolist()


def near_pairs(count: int, dims: int) -> np.ndarray:
    """Random points, each with a sibling nearby somewhere else in the stream."""
    rng = random()
    centres = rng.random((count // 2, dims))
    points = np.concatenate([centres, centres + rng.normal(size=centres.shape) * 1e-3])
    return points[rng.permutation(len(points))]


def two_clusters() -> np.ndarray:
    points = random().normal(size=(N, 6)) * 0.05
    points[N // 2 :] += 1_000.0
    points[-50:] -= 1_000.0  # and back to the first
    return points


def mostly_zeros() -> np.ndarray:
    rng = random()
    return rng.random((N, 12)) * (rng.random((N, 12)) > 0.6)


def line() -> np.ndarray:
    return np.arange(N, dtype=float)[:, None] * np.array([[0.1, 0.0, 3.0]])


CASES: dict[str, tuple[lw.Rule, Callable[[], np.ndarray], Callable[[], list]]] = {
    "identical rows, mixed labels": (
        lw.Rule("linf", 0.1),
        lambda: np.full((1_500, 4), 0.3),
        labels,
    ),
    "identical rows, one label": (
        lw.Rule("l2", 0.1),
        lambda: np.full((N, 4), 0.3),
        lambda: ["same"] * (N - 1) + ["other"],
    ),
    "sorted line": (lw.Rule("l1", 31.0), line, labels),
    "reversed line": (lw.Rule("linf", 15.0), lambda: line()[::-1], labels),
    "drift in every coordinate": (
        lw.Rule("l2", 0.9),
        lambda: np.arange(N)[:, None] * 0.01 + random().random((N, 8)),
        labels,
    ),
    "one cluster, then another": (lw.Rule("linf", 0.08), two_clusters, labels),
    "60% zeros": (lw.Rule("linf", 0.5), mostly_zeros, labels),
    "300 labels": (
        lw.Rule("linf", 0.15),
        lambda: random().random((N, 5)),
        lambda: [f"label {i}" for i in labels(kinds=300)],
    ),
    "a label of its own for every row": (
        lw.Rule("l1", 0.3),
        lambda: random().random((N, 4)),
        lambda: list(range(N)),
    ),
    "cosine, directions in a cone": (
        lw.Rule("cosine", 1e-4),
        lambda: 1.0 + 0.02 * random().normal(size=(N, 10)),
        labels,
    ),
    "numbers along a line": (
        lw.Rule("linf", 3.0, output="number", delta=2.5),
        lambda: random().permutation(line()),
        lambda: random(3).normal(size=N).round(1) * 2,
    ),
    "probabilities": (
        lw.Rule("l2", 0.2, output="probabilities", output_metric="tv", delta=0.4),
        lambda: random().random((N, 3)),
        lambda: random(3).dirichlet([0.5] * 4, N),
    ),
    "pictures in bytes": (
        lw.Rule("linf", 16),
        lambda: (
            random().integers(0, 200, (40, 300))[random(2).integers(40, size=700)]
            + random(4).integers(0, 18, (700, 300))
        ).astype(np.uint8),
        lambda: labels(700),
    ),
    "pairs in 3,000 coordinates": (
        lw.Rule("l2", 0.08),
        lambda: near_pairs(300, 3_000),
        lambda: labels(300),
    ),
    "float32 pairs in 384 coordinates, cosine": (
        lw.Rule("cosine", 2e-6),
        lambda: near_pairs(500, 384).astype(np.float32),
        lambda: labels(500),
    ),
}


@pytest.mark.parametrize(("rule", "inputs", "outputs"), CASES.values(), ids=CASES)
def test_hard_streams_get_exact_verdicts(rule, inputs, outputs):
    X, Z = inputs(), outputs()
    Z = Z[: len(X)]
    expected = Oracle(rule).observe_many(X, Z)
    assert sum(len(one.rows) for one in expected) > 100, "the case has nothing to find"
    assert not all(len(one.rows) for one in expected)

    monitor = lw.Monitor(rule)
    for x, z, one in zip(X, Z, expected, strict=True):
        assert_same_verdict(monitor.observe(x, z), one)
    assert_same_verdicts(lw.Monitor(rule).observe_many(X, Z, threads=2), expected)

    half = len(X) // 2
    loaded = lw.Monitor(rule)
    loaded.load(X[:half], Z[:half])
    assert_same_verdicts(loaded.observe_many(X[half:], Z[half:]), expected[half:])


def test_forgetting_everything_leaves_a_monitor_as_good_as_new():
    rule, X, Z = lw.Rule("linf", 0.1), random().random((N, 4)), labels()
    monitor = lw.Monitor(rule)
    monitor.load(X, Z)
    assert monitor.forget(range(N)) == N
    assert len(monitor) == 0
    expected = Oracle(rule).observe_many(X, Z)
    assert sum(len(one.rows) for one in expected) > 100
    for x, z, one in zip(X, Z, expected, strict=True):
        verdict = monitor.observe(x, z)
        assert verdict.row == one.row + N, "row numbers are never reused"
        assert (verdict.witnesses.rows - N).tolist() == one.rows.tolist()
        assert verdict.witnesses.input_distances.tobytes() == one.input_distances.tobytes()


@pytest.mark.long
def test_a_sliding_window_sees_the_last_500_rows_and_no_others():
    rule, window, n = lw.Rule("linf", 0.3), 500, 5_000
    X = np.sin(np.arange(n) / 300)[:, None] + 0.2 * random().random((n, 4))
    Z = labels(n)
    monitor, oracle, found = lw.Monitor(rule), Oracle(rule), 0
    for row in range(n):
        if row >= window:
            assert monitor.forget(row - window) == oracle.forget(row - window) == 1
        expected = oracle.observe(X[row], Z[row])
        assert_same_verdict(monitor.observe(X[row], Z[row]), expected)
        assert len(monitor) == min(row + 1, window)
        found += len(expected.rows)
    assert found > 100_000


def test_labels_that_are_equal_in_python_are_equal_here():
    groups = [
        [1, True, 1.0, np.int64(1), np.float32(1)],
        [0, False, 0.0, -0.0],
        ["1", np.str_("1")],
        [(1, 2), (1.0, 2)],
        [2**60, float(2**60)],
        [-1],
        [-2],  # hash(-1) == hash(-2)
        [0.5],
        [2**60 + 2**61 - 1],  # the same hash as 2**60
        [None],
        [""],
        [b"1"],
        [()],
        [2**53 + 1],
    ]
    flat = [(label, g) for g, group in enumerate(groups) for label in group]
    monitor, batched = lw.Monitor(lw.Rule("linf", 1.0)), lw.Monitor(lw.Rule("linf", 1.0))
    batch = batched.observe_many(np.zeros((len(flat), 1)), [label for label, _ in flat])
    for row, (label, group) in enumerate(flat):
        others = [i for i in range(row) if flat[i][1] != group]
        assert monitor.observe([0.0], label).witnesses.rows.tolist() == others, repr(label)
        assert batch[row].witnesses.rows.tolist() == others, repr(label)
