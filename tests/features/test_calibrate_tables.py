"""Calibration of rules with features: the curve is what monitors flag, whatever the columns."""

from dataclasses import replace

import numpy as np
import pytest

import likewise as lw
from likewise import Feature

WORDS = ["red", "green", "blue"]


def table_of(seed: int, metric: str) -> tuple[lw.Rule, list[dict]]:
    rng = np.random.default_rng(seed)
    features = {
        "age": Feature("number", tolerance=5),
        "income": Feature("number", tolerance="10%", missing="mismatch"),
        "school": Feature("ordinal", order=WORDS, tolerance=2),
        "job": Feature("category"),
        "home": Feature("category", values=WORDS, mismatch=0.4),
        "sex": Feature("protected"),
    }
    rows = [
        {
            "age": int(rng.integers(20, 60)),
            "income": None if rng.random() < 0.1 else float(rng.choice([0, 900, 1000, 1050, 4000])),
            "school": str(rng.choice(WORDS)),
            "job": str(rng.choice(["nurse", "clerk"])),
            "home": str(rng.choice(WORDS)),
            "sex": str(rng.choice(["f", "m"])),
            "z": str(rng.choice(["yes", "no"])),
        }
        for _ in range(300)
    ]
    return lw.Rule(metric, features=features, output_column="z"), rows


@pytest.mark.parametrize("metric", ["linf", "l1", "l2"])
def test_rate_at_any_multiple_of_tolerance_is_what_a_monitor_flags(metric):
    rule, rows = table_of(3, metric)
    found = lw.calibrate(rule, rows)
    assert found.rule == rule
    known = np.unique(found.distances[np.isfinite(found.distances) & (found.distances > 0)])
    assert len(known) > 20
    for epsilon in known[:: max(1, len(known) // 20)]:
        for one in (epsilon, float(np.nextafter(epsilon * (1 - 1e-8), 0))):
            verdicts = lw.Monitor(replace(rule, epsilon=float(one))).observe_many(rows)
            flagged = verdicts.violations.sum()
            assert flagged == round(found.rate(float(one)) * len(rows)), one
    assert 0 < found.rate(float(known[0])) < found.rate(float(known[-1]))


def test_what_must_match_contradicts_at_no_epsilon():
    rule = lw.Rule(
        features={"age": Feature("number", tolerance=5), "job": Feature("category")},
        output_column="z",
    )
    rows = [{"age": 30, "job": "nurse", "z": "no"}, {"age": 30, "job": "clerk", "z": "yes"}]
    found = lw.calibrate(rule, rows)
    assert found.distances.tolist() == [np.inf, np.inf] and found.rows.tolist() == [-1, -1]
    assert found.rate(1e9) == 0.0


def test_what_a_hunt_cannot_answer_is_refused():
    rule, rows = table_of(5, "linf")
    with pytest.raises(lw.BadRule, match="protected_must_differ is set"):
        lw.calibrate(replace(rule, protected_must_differ=True), rows)
    features = {**rule.features, "income": Feature("number", tolerance="10%", missing="match")}
    at = next(i for i, row in enumerate(rows) if row["income"] is None)
    with pytest.raises(lw.BadDecision, match=f"row {at} has a missing place that matches"):
        lw.calibrate(replace(rule, features=features), rows)
