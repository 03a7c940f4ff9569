"""What comes of a changed rule equals what all pairs say, for every change of every column."""

import dataclasses
import json

import numpy as np
import pytest

import likewise as lw
from likewise.monitor import sensitivity
from likewise.reports.sensitivity_section import lines_of
from likewise.rule.variation import CHANGE_KINDS
from tests.support import varied_oracle
from tests.support.lazily import pandas as pd
from tests.support.lazily import polars as pl
from tests.support.refusals import raises
from tests.support.varied_oracle import COMPARED, N, expected, people, rule_of


def counts(varied):
    base = varied.baseline
    found = {(None, None): (base.comparable, base.violations)}
    for one in varied.variants:
        assert (one.column, one.how) not in found
        found[one.column, one.how] = (one.comparable, one.violations)
    return found


@pytest.mark.long
@pytest.mark.parametrize("must_differ", [False, True])
@pytest.mark.parametrize("metric", ["linf", "l1", "l2"])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_change_comes_to_what_all_pairs_say(seed, metric, must_differ):
    rows = people(seed)
    rule = rule_of(rows, seed, metric, must_differ)
    found = lw.vary(rule, rows)
    by_hand = expected(rule, rows)
    assert counts(found) == by_hand
    assert (found.decisions, found.given_count, found.unchanged) == (N, N, ())
    # Categories that must match are only ignored; the test cannot pass on nothing.
    assert ("home", "halved") not in by_hand and ("job", "halved") in by_hand
    assert 0 < by_hand[None, None][1] < by_hand[None, None][0] < N
    assert len(set(by_hand.values())) > 9


@pytest.mark.long
def test_any_kind_of_table_gives_the_same():
    rows = people(3)
    rule = rule_of(rows, 3)
    found = counts(lw.vary(rule, rows))
    outputs = [row["z"] for row in rows]
    inputs = [{name: row[name] for name in row if name != "z"} for row in rows]
    assert counts(lw.vary(rule, pl.DataFrame(rows))) == found
    assert counts(lw.vary(rule, pd.DataFrame(rows).astype(object), threads=1)) == found
    assert counts(lw.vary(rule, inputs, outputs)) == found
    assert counts(lw.vary(rule, inputs, pd.Series(outputs, index=range(5, N + 5)))) == found


def test_columns_stand_together_in_order_of_their_effect():
    rows = people(4)
    found = lw.vary(rule_of(rows, 4), rows)
    columns = list(dict.fromkeys(one.column for one in found.variants))
    assert sorted(columns) == sorted(COMPARED)
    base = found.baseline
    effects = [
        max(
            max(abs(one.comparable - base.comparable), abs(one.violations - base.violations))
            for one in found.variants
            if one.column == column
        )
        for column in columns
    ]
    assert effects == sorted(effects, reverse=True) and effects[0] > effects[-1]
    together = [one.column for one in found.variants]
    assert together == sorted(together, key=columns.index)
    prevented = [one.comparable for one in found.rank_blocking_columns()]
    assert prevented == sorted(prevented, reverse=True) and len(prevented) == len(COMPARED)


def test_several_columns_are_changed_as_one():
    rows = people(5)
    rule = rule_of(rows, 5)
    together = {"where": ["home", "region"], "money": ["income", "months"]}
    found = counts(lw.vary(rule, rows, together=together))
    outputs = [row["z"] for row in rows]
    for how in CHANGE_KINDS:
        by_hand = rule
        for name in together["money"]:
            by_hand = varied_oracle.changed(by_hand, name, how)
        assert found["money", how] == varied_oracle.outcome(by_hand, rows, outputs)
    by_hand = varied_oracle.changed(
        varied_oracle.changed(rule, "home", "ignored"), "region", "ignored"
    )
    assert found["where", "ignored"] == varied_oracle.outcome(by_hand, rows, outputs)
    assert ("where", "halved") not in found and ("home", "ignored") not in found


@pytest.mark.long
def test_some_changes_alone_can_be_asked_for():
    rows = people(6)
    rule = rule_of(rows, 6)
    whole = counts(lw.vary(rule, rows))
    assert counts(lw.vary(rule, rows, changes=())) == {(None, None): whole[None, None]}
    ignored = counts(lw.vary(rule, rows, changes=("ignored",)))
    assert ignored == {k: v for k, v in whole.items() if k[1] in (None, "ignored")}


# Vectors


@pytest.mark.parametrize("metric", ["linf", "l1", "l2"])
def test_coordinates_with_names_are_changed_one_by_one(metric):
    random = np.random.default_rng(7)
    x = random.integers(0, 9, (N, 4)).astype(float)
    z = random.choice(["yes", "no"], N).tolist()
    weights = (1.0, 0.25, 2.0, 0.0)
    parts = np.abs(x[:, None] - x)
    power = 2 if metric == "l2" else 1

    def apart(weights):
        return varied_oracle.together(
            metric, np.array([parts[..., j] * w ** (1 / power) for j, w in enumerate(weights)])
        )

    epsilon = float(np.sort(apart(weights)[np.tril_indices(N, -1)])[N])
    rule = lw.Rule(metric, epsilon, weights=weights)
    found = lw.vary(rule, x, z, columns=["a", "b", "c", "d"])
    differ = np.array(z)[:, None] != np.array(z)
    assert {one.column for one in found.variants} == {"a", "b", "c"}  # d has no weight
    for (name, how), counted in counts(found).items():
        changed = list(weights)
        if name is not None:
            factor = {"ignored": 0.0, "halved": 2.0**power, "doubled": 0.5**power}[how]
            changed["abcd".index(name)] *= factor
        near = (apart(changed) <= epsilon * varied_oracle.SLACK) & np.tri(N, k=-1, dtype=bool)
        assert counted == (near.any(axis=1).sum(), (near & differ).any(axis=1).sum()), (name, how)
    assert len(set(counts(found).values())) > 5
    (b,) = (one for one in found.variants if one.column == "b" and one.how == "doubled")
    assert b.change.original == pytest.approx(epsilon / 0.25 ** (1 / power))
    assert b.tolerance == pytest.approx(2 * b.change.original)


def test_epsilon_is_changed_where_coordinates_have_no_names_or_are_many():
    random = np.random.default_rng(8)
    x, z = random.random((N, 3)), random.integers(0, 2, N)
    rule = lw.Rule("linf", 0.1)
    gaps = np.abs(x[:, None] - x).max(axis=2) + 9 * np.triu(np.ones((N, N)))
    differ = z[:, None] != z
    by_hand = {
        epsilon: (near.any(axis=1).sum(), (near & differ).any(axis=1).sum())
        for epsilon in (0.05, 0.1, 0.2)
        for near in [gaps <= epsilon]
    }
    for found in (lw.vary(rule, x, z), lw.vary(rule, x, z, columns=list("abc"), most_columns=2)):
        assert counts(found) == {
            (None, None): by_hand[0.1],
            (None, "halved"): by_hand[0.05],
            (None, "doubled"): by_hand[0.2],
        }
    ignored = lw.vary(lw.Rule("cosine", 0.01), x, z, columns=list("abc"))
    assert [one.how for one in ignored.variants] == ["ignored"] * 3


@pytest.mark.parametrize("timed", [False, True])
def test_a_decision_that_has_no_direction_without_a_column_is_left_out_there_and_counted(timed):
    random = np.random.default_rng(8)
    x = random.integers(0, 3, (N, 3)).astype(float)
    x = x[x.any(axis=1)]
    z = random.choice(["yes", "no"], len(x)).tolist()
    more = {"times": 61 * np.arange(len(x)), "within": "50 minutes"} if timed else {}
    more["models"] = random.choice(["a", "b"], len(x)).tolist()
    rule = lw.Rule("cosine", 0.01, compare="within")
    found = lw.vary(rule, x, z, columns=list("abc"), **more)
    lengths = np.linalg.norm(x, axis=1)
    assert found.baseline.without_direction == 0 and found.decisions == len(x)
    models = np.array(more["models"])
    pairs = (np.array(z)[:, None] != np.array(z)), models[:, None] == models
    earlier = np.tri(len(x), k=-1, dtype=bool)
    if timed:
        earlier &= np.arange(len(x))[:, None] - np.arange(len(x)) < 50
    for one in found.variants:
        some = x * [name != one.column for name in "abc"]
        lengths = np.linalg.norm(some, axis=1)
        there = lengths > 0
        outer = np.where(there[:, None] & there, lengths[:, None] * lengths, np.inf)
        near = (1 - some @ some.T / outer <= 0.01 * varied_oracle.SLACK) & earlier & pairs[1]
        assert one.outcome.without_direction == (~there).sum() > 0
        assert one.comparable == near.any(axis=1).sum() > 0
        assert one.violations == (near & pairs[0]).any(axis=1).sum() > 0
        told = one.to_dict()
        assert told["without_direction"] == one.outcome.without_direction
    assert all("zero" in line.after for line in lines_of(found)[1:])


def test_where_no_decision_has_a_direction_nothing_is_compared():
    found = lw.vary(lw.Rule("cosine", 0.1), [[1.0, 0.0], [2.0, 0.0]], [0, 1], columns=["a", "b"])
    outcomes = {one.column: one.outcome for one in found.variants}
    assert (outcomes["a"].comparable, outcomes["a"].without_direction) == (0, 2)
    assert (outcomes["b"].comparable, outcomes["b"].without_direction) == (1, 0)


def test_the_only_column_cannot_be_ignored():
    rule = lw.Rule(features={"a": lw.Feature("number", tolerance=1)}, output_column="z")
    rows = [{"a": i / 2, "z": i % 2} for i in range(5)]
    assert [one.how for one in lw.vary(rule, rows).variants] == ["halved", "doubled"]


# Embedders


def test_a_model_embeds_each_text_once():
    asked = []

    def embed(texts):
        asked.extend(texts)
        return np.array([[len(text), text.count("a")] for text in texts], dtype=float)

    random = np.random.default_rng(9)
    texts = ["a" * int(k) + "b" * int(m) for k, m in random.integers(0, 5, (60, 2))]
    rows = [
        {"text": text, "age": int(age), "z": int(z)}
        for text, age, z in zip(
            texts, random.integers(0, 9, 60), random.integers(0, 2, 60), strict=True
        )
    ]
    rule = lw.Rule(
        "l2",
        features={
            "text": lw.Feature("text", embed=embed, tolerance=2),
            "age": lw.Feature("number", tolerance=2),
        },
        output_column="z",
    )
    rule.embedders()["text"].embedding.find_vector_type()
    asked.clear()
    found = lw.vary(rule, rows)
    assert len(asked) <= 60
    vectors = np.array([[len(t), t.count("a")] for t in texts], dtype=float)
    ages = np.array([row["age"] for row in rows], dtype=float)
    squares = ((vectors[:, None] - vectors) ** 2).sum(axis=2), (ages[:, None] - ages) ** 2
    for (name, how), counted in counts(found).items():
        factor = {None: 1.0, "ignored": 0.0, "halved": 2.0, "doubled": 0.5}[how]
        scale = [0.5 * (factor if name == one else 1.0) for one in ("text", "age")]
        apart = np.sqrt(squares[0] * scale[0] ** 2 + squares[1] * scale[1] ** 2)
        near = (apart <= varied_oracle.SLACK) & np.tri(60, k=-1, dtype=bool)
        assert counted[0] == near.any(axis=1).sum(), (name, how)
    asked.clear()
    alone = lw.vary(lw.Rule("l2", 1.0, embed=embed), texts, [row["z"] for row in rows])
    assert len(asked) <= 62 and [one.how for one in alone.variants] == ["halved", "doubled"]


# Bounds


@pytest.mark.long
def test_of_many_decisions_the_first_are_looked_at():
    rows = people(10)
    rule = rule_of(rows, 10)
    found = lw.vary(rule, rows, most_rows=120)
    assert (found.decisions, found.given_count) == (120, N)
    assert counts(found) == expected(rule, rows, 120) == counts(lw.vary(rule, rows[:120]))


def test_of_many_columns_fewer_decisions_are_looked_at_and_the_first_columns(monkeypatch):
    monkeypatch.setattr(sensitivity, "LEAST_ROWS", 50)
    monkeypatch.setattr(sensitivity, "MOST_CELLS", 100 * 10 * 7 + 1)  # ten columns, seven rules
    rows = people(11)
    rule = rule_of(rows, 11)
    found = lw.vary(rule, rows, most_columns=2)
    assert found.decisions == 100 and found.unchanged == tuple(COMPARED[2:])
    by_hand = expected(rule, rows, 100)
    assert counts(found) == {k: by_hand[k] for k in by_hand if k[0] in (None, "income", "debt")}


def test_of_a_very_wide_rule_fewer_columns_are_changed(monkeypatch):
    monkeypatch.setattr(sensitivity, "LEAST_ROWS", 100)
    monkeypatch.setattr(
        sensitivity, "MOST_CELLS", 100 * 10 * 3 * 2 + 1
    )  # two columns in three ways
    rows = people(11)
    rule = rule_of(rows, 11)
    found = lw.vary(rule, rows)
    assert found.decisions == 100 and found.unchanged == tuple(COMPARED[2:])
    by_hand = expected(rule, rows, 100)
    assert counts(found) == {k: by_hand[k] for k in by_hand if k[0] in (None, "income", "debt")}


@pytest.mark.long
def test_while_there_are_too_many_pairs_fewer_decisions_are_looked_at(monkeypatch):
    rows = people(12)
    rule = rule_of(rows, 12)
    monkeypatch.setattr(sensitivity, "_ROWS_PER_CALL", (7, 16))
    monkeypatch.setattr(sensitivity, "_MOST_PAIRS_PER_CALL", 900)
    whole = lw.vary(rule, rows)
    assert counts(whole) == expected(rule, rows)
    rules = [rule, *(one.change.rule for one in whole.variants)]

    def pairs(count):
        return sum(lw.Monitor(one).observe_many(rows[:count]).pairs for one in rules)

    monkeypatch.setattr(sensitivity, "MOST_PAIRS", pairs(N))
    assert lw.vary(rule, rows).decisions == N
    monkeypatch.setattr(sensitivity, "MOST_PAIRS", pairs(N) // 6)
    found = lw.vary(rule, rows)
    assert N // 8 < found.decisions <= N // 2
    assert pairs(found.decisions) <= pairs(N) // 6
    assert counts(found) == expected(rule, rows, found.decisions)


def test_no_decision_and_one_compare_nothing():
    rule = rule_of(people(1), 1)
    for some in ([], people(1)[:1]):
        found = lw.vary(rule, some)
        assert (found.decisions, found.given_count) == (len(some), len(some))
        assert set(counts(found).values()) == {(0, 0)}
        assert found.baseline.rate_among_comparable is None and found.baseline.share == 0.0


# What comes back


def test_results_are_frozen_and_become_json():
    rows = people(13)
    found = lw.vary(rule_of(rows, 13), rows)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.given_count = 0
    told = json.loads(json.dumps(found.to_dict()))
    assert told["decisions"] == N and told["comparable"] == found.baseline.comparable
    assert len(told["variants"]) == len(found.variants)
    (halved,) = (
        one for one in told["variants"] if (one["column"], one["change"]) == ("debt", "halved")
    )
    assert (halved["tolerance"], halved["original"], halved["columns"]) == ("5%", "10%", ["debt"])
    assert halved["rate_among_comparable"] == halved["violations"] / halved["comparable"]


def test_what_cannot_be_varied_is_said():
    rows = people(1)
    rule = rule_of(rows, 1)
    with raises(lw.errors.BadRule, setting="changes"):
        lw.vary(rule, rows, changes=("tripled",))
    with raises(lw.errors.BadRule):
        lw.vary("linf", rows)
    with raises(lw.errors.WrongShape):
        lw.vary(lw.Rule("linf", 1), [[0.0], [1.0], [2.0]], [0, 1])
    with raises(lw.errors.MissingColumn, column="income", place=0):
        lw.vary(rule, [{name: row[name] for name in row if name != "income"} for row in rows])
    with raises(lw.errors.BadRule, setting="columns"):
        lw.vary(lw.Rule("linf", 1, weights=[1, 2]), [[0.0, 1.0]], [0], columns=["a"])
