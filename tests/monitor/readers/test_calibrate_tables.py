"""Calibration of rules with features: the curve is what monitors flag, whatever the columns."""

from dataclasses import replace

import numpy as np
import pytest

import likewise as lw
from likewise import Feature
from tests.support.looping import each
from tests.support.refusals import raises

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


def plain_distances(rows: list[dict], metric: str, tolerance: float) -> list[float]:
    """To the nearest earlier row of the same job with another output, by plain arithmetic."""
    found = []
    for i, row in enumerate(rows):
        gaps = [
            (abs(row["a"] - other["a"]) / tolerance, abs(row["b"] - other["b"]) / tolerance)
            for other in rows[:i]
            if other["job"] == row["job"] and other["z"] != row["z"]
        ]
        norms = {"linf": max, "l1": sum, "l2": lambda pair: np.hypot(*pair)}
        found.append(min(map(norms[metric], gaps), default=np.inf))
    return found


@each("missing", ["reject", "match"])
@each("tolerance", [1e-45, 1e-3, 1.0])
@each("metric", ["linf", "l1", "l2"])
def test_distances_of_many_tolerances_are_right(metric, tolerance, missing):
    """Whatever must match is farther away still, however far the rest is."""
    rng = np.random.default_rng(17)
    features = {
        "a": Feature("number", tolerance=tolerance),
        "b": Feature("number", tolerance=tolerance, missing=missing),
        "job": Feature("category", missing=missing),
    }
    rule = lw.Rule(metric, features=features, output_column="z")
    rows = [
        {
            "a": float(rng.choice([0, 1, 5_000, 1e6]) * rng.random()),
            "b": float(rng.integers(-20_000, 20_000)),
            "job": f"job {rng.integers(30)}",
            "z": str(rng.choice(["yes", "no"])),
        }
        for _ in range(300)
    ]
    found = lw.calibrate(rule, rows)
    expected = np.array(plain_distances(rows, metric, tolerance))
    np.testing.assert_allclose(found.distances, expected, rtol=1e-12)
    assert (found.rows >= 0).tolist() == np.isfinite(expected).tolist()
    far = np.sort(expected[np.isfinite(expected)])
    assert far[-1] > 4_097 and len(far) > 200
    for epsilon in (far[len(far) // 2], far[-1]):
        if epsilon < 1e45:  # beyond, a monitor of tables refuses the rule
            verdicts = lw.Monitor(replace(rule, epsilon=float(epsilon))).observe_many(rows)
            assert verdicts.violations.sum() == round(found.rate(float(epsilon)) * len(rows))


@pytest.mark.parametrize("metric", ["linf", "l1", "l2"])
def test_distances_beyond_every_epsilon_hide_no_nearer_one(metric):
    features = {"a": Feature("number", tolerance=1), "job": Feature("category")}
    rule = lw.Rule(metric, features=features, output_column="z")
    rows = [
        {"a": a, "job": job, "z": z}
        for a, job, z in [
            (1.7e308, "nurse", "no"),
            (-1.7e308, "nurse", "yes"),  # farther than a float can say
            (-1.7e308, "cook", "no"),
            (1e149, "cook", "yes"),
            (2e149, "cook", "no"),
            (2e149, "nurse", "yes"),
        ]
    ]
    found = lw.calibrate(rule, rows)
    assert found.rows.tolist()[4] == 3 and found.distances[4] == pytest.approx(1e149, rel=1e-12)
    assert found.rate(1e150) == 1 / 6  # of all epsilons that a rule may have, the largest


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
    with raises(lw.errors.BadRule):
        lw.calibrate(replace(rule, protected_must_differ=True), rows)
    features = {**rule.features, "income": Feature("number", tolerance="10%", missing="match")}
    at = next(i for i, row in enumerate(rows) if row["income"] is None)
    with raises(lw.errors.BadDecision, place=at):
        lw.calibrate(replace(rule, features=features), rows)
