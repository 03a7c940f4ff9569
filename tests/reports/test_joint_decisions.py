"""Decisions of two pasts, put together: near are those that are near in one monitor with both."""

import numpy as np
import pytest

import likewise as lw
from likewise.explaining.compare_sides import compare_sides
from likewise.reports.evidence import Evidence, build_provenance
from likewise.reports.joint_decisions import join_decisions
from likewise.reports.judged_history import HistoryTally
from tests.support.looping import each

FEATURES = {
    "amount": {"kind": "number", "tolerance": 10},
    "income": {"kind": "number", "tolerance": "10%", "missing": "match"},
    "debt": {"kind": "number", "tolerance": "10%", "missing": "mismatch"},
    "grade": {"kind": "ordinal", "order": ["a", "b", "c", "d"], "tolerance": 1},
    "city": {"kind": "category"},
    "job": {"kind": "category", "missing": "match"},
    "home": {"kind": "category", "mismatch": 0.5, "values": ["rent", "own", "other"]},
    "who": {"kind": "person", "missing": "mismatch"},
    "sex": {"kind": "protected"},
}


def rows_of(seed, many):
    rng = np.random.default_rng(seed)

    def draw(values, missing=0.0):
        return [
            None if rng.random() < missing else values[i]
            for i in rng.integers(0, len(values), many)
        ]

    columns = {
        "amount": rng.integers(0, 40, many).tolist(),
        "income": draw([-100.0, 100.0, 105.0, 0.0], 0.2),
        "debt": draw([50.0, 54.0, -50.0], 0.1),
        "grade": draw(["a", "b", "c", "d"]),
        "city": draw(["Rome", "Oslo", 7]),
        "job": draw(["cook", "judge"], 0.3),
        "home": draw(["rent", "own", "other"]),
        "who": draw([f"p{i}" for i in range(many)], 0.1),
        "sex": draw(["f", "m"]),
        "z": draw(["yes", "no", "later"]),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def history(rule, rows, **more):
    monitor, tally = lw.Monitor(rule, comparable=True), HistoryTally()
    tally.add(monitor.observe_many(rows), np.arange(len(rows)))
    computed = build_provenance(Evidence("x"), monitor.rule, monitor.explain(), None)
    return tally.history("x", monitor.past, computed, keys=None, **more)


def table_rule(metric, **more):
    features = {**FEATURES, **more}
    return lw.Rule(metric=metric, features=features, output_column="z")


def near_pairs(points):
    """All pairs of rows that are near, both ways."""
    near = np.equal.outer(points.point_of, points.point_of)
    for later, earlier in points.pairs():
        for one, other in zip(later.tolist(), earlier.tolist(), strict=True):
            near |= np.outer(points.point_of == one, points.point_of == other)
            near |= np.outer(points.point_of == other, points.point_of == one)
    return near


@each("metric", ["linf", "l1", "l2"])
@each("seed", range(2))
def test_near_are_those_that_one_monitor_of_both_finds_near(metric, seed):
    rows = rows_of(seed, 240)
    rule = table_rule(metric)
    joint = join_decisions(history(rule, rows[:130]), history(rule, rows[130:]), np.arange(240))
    both = history(rule, rows).past
    alone = lw.Monitor(table_rule(metric, who={"kind": "ignore"}), comparable=True)
    verdicts = alone.observe_many([{**row, "z": i} for i, row in enumerate(rows)])
    expected = np.eye(240, dtype=bool)
    expected[verdicts.owners, verdicts.witnesses.rows] = True
    expected |= expected.T
    assert (near_pairs(joint.points) == expected).all() and expected.sum() > 300
    labels = both.codes("", np.arange(240))
    same = np.equal.outer(labels.codes, labels.codes)
    differ = joint.answers.differ(joint.answers.ranks[:, None], joint.answers.ranks)
    assert (differ == ~same).all()
    who = [row["who"] for row in rows]
    assert ((joint.person < 0) == [one is None for one in who]).all()
    for i in range(0, 240, 7):
        same = [joint.person[j] == joint.person[i] for j in range(240)]
        assert same == [one == who[i] for one in who]


def test_numbers_are_in_tolerances():
    rows = rows_of(3, 50)
    rule = table_rule("l2")
    joint = join_decisions(history(rule, rows[:20]), history(rule, rows[20:]), np.arange(50))
    assert joint.columns == ("amount", "income", "debt", "grade")
    plain = {name: [row[name] for row in rows] for name in joint.columns}
    assert joint.numbers[:, 0] == pytest.approx(np.array(plain["amount"]) / 10)
    assert joint.numbers[:, 3] == pytest.approx([ord(one) - ord("a") for one in plain["grade"]])
    income = np.array(plain["income"], float)
    with np.errstate(divide="ignore"):
        steps = np.where(income == 0, 0.0, np.log(np.abs(income)) / np.log(1.1))
    assert joint.numbers[:, 1] == pytest.approx(steps, nan_ok=True)
    vectors = np.random.default_rng(0).random((40, 3))
    rule = lw.Rule("linf", 0.2, weights=[1, 2, 0])
    sides = []
    for part in (vectors[:20], vectors[20:]):
        monitor, tally = lw.Monitor(rule, comparable=True), HistoryTally()
        tally.add(monitor.observe_many(part, [1] * 20), np.arange(20))
        computed = build_provenance(Evidence("x"), monitor.rule, monitor.explain(), None)
        sides.append(tally.history("x", monitor.past, computed, keys=None))
    joint = join_decisions(*sides, np.arange(40))
    assert joint.columns == ("x0", "x1", "x2")
    assert joint.numbers == pytest.approx(vectors * [5, 10, 0])


def test_a_comparison_does_not_depend_on_the_order_of_lines():
    rows = rows_of(5, 900)
    rule = table_rule("linf", amount={"kind": "number", "tolerance": 30})
    found = []
    for seed in (None, 1, 2):
        parts = [rows[:500], rows[500:]]
        if seed is not None:
            rng = np.random.default_rng(seed)
            parts = [[part[i] for i in rng.permutation(len(part))] for part in parts]
        joint = join_decisions(*(history(rule, part) for part in parts), np.arange(900))
        found.append(compare_sides(joint, shuffles=200))
    assert found[0].test is not None and found[0].effect.adjusted is not None
    assert found[0] == found[1] == found[2]


def test_inputs_of_different_shapes_cannot_be_joined():
    sides = []
    for width in (2, 3):
        monitor, tally = lw.Monitor(lw.Rule("linf", 0.2), comparable=True), HistoryTally()
        tally.add(monitor.observe_many(np.zeros((4, width)), [1] * 4), np.arange(4))
        computed = build_provenance(Evidence("x"), monitor.rule, monitor.explain(), None)
        sides.append(tally.history("x", monitor.past, computed, keys=None))
    assert join_decisions(*sides, np.arange(8)) is None
