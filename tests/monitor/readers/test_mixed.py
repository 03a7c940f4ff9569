"""Rows of mixed columns: near is what the rule says, column by column, missing places included.

The oracle walks over all pairs in plain Python and knows nothing of vectors.
"""

import math
from typing import Any

import numpy as np
import pytest

import likewise as lw
from likewise import Feature

INF = math.inf
WORDS = ["red", "green", "blue", "grey", "pink"]


def column_gap(feature: Feature, a: Any, b: Any) -> float:
    if a is None or b is None:
        if feature.missing == "match":
            return 0.0
        if a is None and b is None:
            return 0.0
        return feature.mismatch if feature.mismatch is not None else INF
    if feature.kind == "number":
        if feature.ratio is None:
            return abs(a - b) / feature.tolerance
        if a == 0 and b == 0:
            return 0.0
        if a == 0 or b == 0 or (a > 0) != (b > 0):
            return INF
        small, large = sorted([abs(a), abs(b)])
        return math.log(large / small) / math.log(feature.ratio)
    if feature.kind == "ordinal":
        return abs(feature.order.index(a) - feature.order.index(b)) / feature.tolerance
    if a == b:
        return 0.0
    return INF if feature.mismatch is None else feature.mismatch


def row_distance(rule: lw.Rule, a: dict, b: dict) -> float:
    gaps = [column_gap(f, a[n], b[n]) for n, f in rule.features.items() if f.is_compared]
    if rule.metric == "linf":
        return max(gaps)
    return sum(gaps) if rule.metric == "l1" else math.sqrt(sum(gap * gap for gap in gaps))


def drawn_feature(rng: np.random.Generator) -> Feature:
    missing = str(rng.choice(["reject", "mismatch", "match"]))
    match int(rng.integers(5)):
        case 0:
            return Feature("number", tolerance=float(rng.choice([0.5, 1, 3])), missing=missing)
        case 1:
            return Feature("number", tolerance=str(rng.choice(["10%", "50%"])), missing=missing)
        case 2:
            tolerance = float(rng.choice([1, 2]))
            return Feature("ordinal", order=WORDS, tolerance=tolerance, missing=missing)
        case 3:
            return Feature("category", missing=missing)
        case _:
            mismatch = float(rng.choice([0.3, 0.5, 2.0]))
            words = WORDS[: int(rng.integers(2, 6))]
            return Feature("category", values=words, mismatch=mismatch, missing=missing)


def drawn_value(rng: np.random.Generator, feature: Feature) -> Any:
    if feature.missing != "reject" and rng.random() < 0.15:
        return None
    if feature.kind == "number":
        if feature.ratio is not None:
            return float(rng.choice([0, 1, -1]) * rng.choice([1.0, 1.05, 1.1, 1.4, 1.5, 2.2]))
        return float(rng.integers(0, 8)) / 2
    return str(rng.choice(list(feature.values or WORDS)))


def drawn_table(seed: int) -> tuple[lw.Rule, list[dict]]:
    rng = np.random.default_rng(seed)
    features = {f"c{j}": drawn_feature(rng) for j in range(int(rng.integers(1, 6)))}
    if not any(feature.is_compared for feature in features.values()):
        features["n"] = Feature("number", tolerance=1)
    features["group"] = Feature("protected", missing="mismatch")
    rows = [
        {name: drawn_value(rng, feature) for name, feature in features.items()}
        | {"z": str(rng.choice(["yes", "no"]))}
        for _ in range(int(rng.integers(20, 120)))
    ]
    metric = str(rng.choice(["linf", "l1", "l2"]))
    rule = lw.Rule(metric, 1.0, features=features, output_column="z")
    distances = sorted(
        {d for a in rows[:30] for b in rows[:30] if 0 < (d := row_distance(rule, a, b)) < 50}
    )
    epsilon = float(rng.choice(distances)) if distances else 1.0
    differ = bool(rng.random() < 0.3)
    return (
        lw.Rule(
            metric, epsilon, features=features, output_column="z", protected_must_differ=differ
        ),
        rows,
    )


def expected(rule: lw.Rule, rows: list[dict]) -> list[dict[int, float]]:
    found = []
    for i, mine in enumerate(rows):
        near = {j: row_distance(rule, mine, rows[j]) for j in range(i) if rows[j]["z"] != mine["z"]}
        if rule.protected_must_differ:
            near = {j: d for j, d in near.items() if rows[j]["group"] != mine["group"]}
        found.append({j: d for j, d in near.items() if d <= rule.epsilon * (1 + 1e-9)})
    return found


def assert_verdict(verdict: lw.Verdict, known: dict[int, float]) -> None:
    assert verdict.witnesses.rows.tolist() == sorted(known)
    assert verdict.witnesses.input_distances == pytest.approx(
        [known[j] for j in sorted(known)], rel=1e-11, abs=1e-11
    )


@pytest.mark.long
@pytest.mark.parametrize("block", range(8))
def test_mixed_rows_are_near_as_the_rule_says(block):
    pairs = 0
    for seed in range(20 * block, 20 * block + 20):
        rule, rows = drawn_table(seed)
        known = expected(rule, rows)
        monitor = lw.Monitor(rule)
        half = len(rows) // 2
        for i, row in enumerate(rows[:half]):
            assert_verdict(monitor.check(row), known[i])
            assert_verdict(monitor.observe(row), known[i])
        verdicts = monitor.observe_many(rows[half:])
        for i, verdict in enumerate(verdicts, half):
            assert_verdict(verdict, known[i])
        pairs += sum(map(len, known))
        assert [monitor.past.values(i) for i in range(len(rows))] == rows
    assert pairs > 200, "hardly anything was near"


@pytest.mark.parametrize("index", ["live", "kdtree", "bdd", "brute"])
def test_mixed_rows_are_near_for_every_index(index):
    for seed in range(300, 306):
        rule, rows = drawn_table(seed)
        if index == "bdd" and rule.metric != "linf":
            continue
        verdicts = lw.Monitor(rule, index=index).observe_many(rows)
        for verdict, known in zip(verdicts, expected(rule, rows), strict=True):
            assert_verdict(verdict, known)


def test_forgotten_rows_are_no_witnesses_however_open_they_were():
    for seed in range(400, 420):
        rule, rows = drawn_table(seed)
        monitor = lw.Monitor(rule)
        monitor.observe_many(rows)
        gone = set(range(0, len(rows), 3))
        assert monitor.forget(sorted(gone)) == len(gone)
        again = dict(rows[-1], z="no")
        near = {
            j: row_distance(rule, again, row)
            for j, row in enumerate(rows)
            if j not in gone and row["z"] == "yes"
        }
        if rule.protected_must_differ:
            near = {j: d for j, d in near.items() if rows[j]["group"] != again["group"]}
        known = {j: d for j, d in near.items() if d <= rule.epsilon * (1 + 1e-9)}
        assert_verdict(monitor.check(again), known)
