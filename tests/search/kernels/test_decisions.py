"""A few decisions for every metric and output: small enough to run uncompiled."""

import numpy as np
import pytest

import likewise as lw
from tests.support.oracle import Oracle, assert_same_verdict, assert_same_verdicts
from tests.support.strategies import METRICS, OUTPUTS

PAST, NEW = 140, 20


def decisions(metric, output):
    """A past that fills more than one block, repeats included, and new decisions near it."""
    rng = np.random.default_rng(8)
    X = rng.integers(1, 6, (PAST + NEW, 3)) * 0.25
    X[20:60] = X[0]
    kinds = rng.integers(0, 3, len(X))
    if output == "label":
        Z = [("yes", "no", None)[kind] for kind in kinds]
    elif output == "number":
        Z = kinds * 0.5
    else:
        Z = np.eye(3)[kinds]
    epsilon = 0.02 if metric == "cosine" else 0.25
    return lw.Rule(metric, epsilon, output=output, delta=0.0 if output == "label" else 0.5), X, Z


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("metric", METRICS)
def test_a_few_decisions_get_exact_verdicts(metric, output):
    rule, X, Z = decisions(metric, output)
    monitor, oracle = lw.Monitor(rule, comparable=True), Oracle(rule, comparable=True)
    monitor.load(X[:PAST], Z[:PAST])
    oracle.load(X[:PAST], Z[:PAST])
    found = 0
    for i in range(PAST, PAST + NEW // 2):
        expected = oracle.observe(X[i], Z[i])
        assert_same_verdict(monitor.observe(X[i], Z[i]), expected)
        found += len(expected.rows)
    gone = range(0, PAST, 3)
    assert monitor.forget(gone) == oracle.forget(gone)
    rest = slice(PAST + NEW // 2, PAST + NEW)
    expected = oracle.observe_many(X[rest], Z[rest])
    assert_same_verdicts(monitor.observe_many(X[rest], Z[rest], threads=2), expected)
    assert_same_verdict(monitor.check(X[0], Z[0]), oracle.check(X[0], Z[0]))
    assert found > 20, "nothing to find"


WIDE = {"linf": 0.3, "l1": 3.0, "l2": 0.7, "cosine": 0.02}


@pytest.mark.parametrize(
    ("metric", "index", "output"),
    [
        ("linf", "auto", "label"),
        ("l1", "live", "label"),
        ("l2", "flat", "label"),
        ("l2", "flat", "probabilities"),
        ("cosine", "flat", "number"),
    ],
)
def test_a_few_wide_decisions_get_exact_verdicts(metric, index, output):
    """A sketch, and a flat scan: one by one, and with enough at once for products."""
    rng = np.random.default_rng(3)
    centres = 1 + rng.random((8, 40))
    X = centres[rng.integers(8, size=PAST + 60)] + 0.2 * rng.random((PAST + 60, 40))
    kinds = rng.integers(0, 3, len(X))
    Z = {"label": kinds.tolist(), "number": kinds * 1.0}.get(output, np.eye(3)[kinds])
    rule = lw.Rule(metric, WIDE[metric], output=output, delta=0.0 if output == "label" else 0.5)
    monitor = lw.Monitor(rule, index=index, comparable=True)
    oracle = Oracle(rule, comparable=True)
    monitor.load(X[:PAST], Z[:PAST])
    oracle.load(X[:PAST], Z[:PAST])
    found = 0
    for part in (slice(PAST, PAST + 6), slice(PAST + 6, PAST + 12)):
        for x, z in zip(X[part], Z[part], strict=True):
            expected = oracle.observe(x, z)
            assert_same_verdict(monitor.observe(x, z), expected)
            found += len(expected.rows)
        gone = range(part.start - PAST, PAST, 3)
        assert monitor.forget(gone) == oracle.forget(gone)
    for part in (slice(PAST + 12, PAST + 20), slice(PAST + 20, PAST + 60)):
        expected = oracle.observe_many(X[part], Z[part])
        assert_same_verdicts(monitor.observe_many(X[part], Z[part], threads=2), expected)
    assert_same_verdict(monitor.check(X[0], Z[0]), oracle.check(X[0], Z[0]))
    assert monitor.explain().shape == ("flat scan" if index == "flat" else "sketch tree")
    assert found > 20, "nothing to find"


def test_a_growing_tree_gets_exact_verdicts():
    rule = lw.Rule("linf", 0.5)
    X = np.arange(600, dtype=float)[:, None] * [0.1, -0.3]
    Z = [i % 3 for i in range(600)]
    monitor, oracle = lw.Monitor(rule, comparable=True), Oracle(rule, comparable=True)
    for i in range(600):
        verdict = monitor.observe(X[i], Z[i])
        if i % 40:
            oracle.load(X[i : i + 1], Z[i : i + 1])
        else:
            assert_same_verdict(verdict, oracle.observe(X[i], Z[i]))
    assert monitor.explain().leaves > 4
