"""Groups compared: the numbers are those of a plain pandas recomputation."""

import json
from typing import Any

import numpy as np
import pytest

import likewise as lw
from likewise import Feature
from likewise.explaining.compare_groups import compare_groups
from likewise.explaining.members import MOST_GROUPS
from likewise.verdict.group_effects import OTHERS, GroupEffects
from tests.support.group_oracle import side_by_side
from tests.support.lazily import pandas as pd
from tests.support.looping import each
from tests.support.refusals import raises

FEATURES = {
    "x": Feature("number", tolerance=2),
    "c": Feature("category", missing="match"),
    "sex": Feature("protected", missing="mismatch"),
    "race": Feature("protected", missing="mismatch", values=["a", "b", "c", "never"]),
}


def people(n: int, seed: int, kind: str) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    outputs = ("yes", "no", "perhaps") if kind == "label" else (0.0, 0.1, 0.3, 1.5, -2.0)
    return [
        {
            "x": one_of(*range(40)),
            "c": one_of("u", "v", "w", None),
            "sex": one_of("f", "m", "m", None),
            "race": one_of("a", "b", "c", None),
            "z": one_of(*outputs),
        }
        for _ in range(n)
    ]


def all_near(rows: list[dict[str, Any]]) -> np.ndarray:
    table = pd.DataFrame(rows)
    x, c = table["x"].to_numpy(float), table["c"].to_numpy(object)
    missing = pd.isna(c)
    same = (c[:, None] == c[None]) | missing[:, None] | missing[None]
    return (np.abs(x[:, None] - x[None]) <= 2) & same


def goodness(rows: list[dict[str, Any]], favourable: Any) -> pd.Series:
    outputs = pd.Series([row["z"] for row in rows])
    if favourable in ("high", "low"):
        return outputs if favourable == "high" else -outputs
    return (outputs == favourable).astype(float)


def rule_for(favourable: Any, **settings: Any) -> lw.Rule:
    kind = "number" if favourable in ("high", "low") else "label"
    given = {"features": FEATURES, "output_column": "z", "output": kind, "favourable": favourable}
    return lw.Rule(**given, delta=0.2 if kind == "number" else 0.0, **settings)


@each("favourable", ["yes", "no", "high", "low"])
@each("differ", [False, True])
def test_groups_are_those_of_a_plain_recomputation(favourable, differ):
    rule = rule_for(favourable, protected_must_differ=differ)
    rows = people(260, seed=3, kind=rule.output)
    monitor = lw.Monitor(rule)
    monitor.observe_many(rows)
    near, score = all_near(rows), goodness(rows, favourable)
    compared = compare_groups(monitor.past, range(len(rows)), shuffles=20)
    assert [one.column for one in compared] == ["sex", "race"]
    assert [len(one.comparisons) for one in compared] == [1, 3]
    sign = -1 if favourable == "low" else 1
    for groups in compared:
        group = pd.Series([row[groups.column] for row in rows])
        assert groups.without_group == int(group.isna().sum()) > 10
        sizes = group.value_counts()
        assert {one.value: one.decisions for one in groups.groups} == dict(sizes)
        for one in groups.groups:
            assert one.favourable == pytest.approx(sign * score[group == one.value].mean())
            assert one.people == one.decisions
        for pair in groups.comparisons:
            for mine, theirs, less in (
                (pair.one, pair.other, pair.one_less),
                (pair.other, pair.one, pair.other_less),
            ):
                names = mine.group.value, theirs.group.value
                told = side_by_side(near, group, score, *names, rule.delta)
                assert pair.pairs == told["pairs"] > 100
                assert less == told["less"] > 10
                assert (mine.comparable, mine.got_less) == (told["comparable"], told["got_less"])
                assert 0 < mine.got_less < mine.comparable <= mine.group.decisions
                assert mine.favourable == pytest.approx(sign * told["favourable"])
                assert mine.gap == pytest.approx(told["gap"])
                assert mine.similar_favourable == pytest.approx(sign * told["like"])
            assert pair.neither_less == pair.pairs - pair.one_less - pair.other_less > 0


@pytest.mark.parametrize("favourable", ["yes", "low"])
def test_groups_do_not_depend_on_the_order_of_decisions(favourable):
    rule = rule_for(favourable)
    rows = [row | {"c": row["c"] or "w"} for row in people(400, seed=5, kind=rule.output)]
    told = []
    for order in (rows, rows[::-1], sorted(rows, key=str)):
        monitor = lw.Monitor(rule)
        monitor.observe_many(order)
        told.append([one.to_dict() for one in compare_groups(monitor.past, range(len(rows)))])
    assert told[0] == told[1] == told[2]
    assert any(one["test"] for one in told[0][0]["comparisons"])


SMALL = lw.Rule(
    features={"x": Feature("number", tolerance=1), "sex": Feature("protected", missing="mismatch")},
    output_column="z",
    favourable="yes",
)


def small(*rows: tuple[Any, Any], rule: lw.Rule = SMALL, x: float = 1) -> lw.Verdicts:
    return lw.Monitor(rule).observe_many([{"x": x, "sex": sex, "z": z} for sex, z in rows])


def test_numbers_of_a_small_table_are_those_counted_by_hand():
    groups = small(("f", "no"), ("m", "yes"), ("m", "no"), ("f", "yes"), (None, "no")).by_group(
        "sex"
    )
    pair = groups.find_comparison("m", "f")
    assert pair is groups.find_comparison("f", "m")
    assert (pair.pairs, pair.one_less, pair.other_less, pair.neither_less) == (4, 1, 1, 2)
    assert (pair.one.comparable, pair.one.got_less, pair.one.gap) == (2, 1, 0.0)
    assert groups.without_group == 1 and pair.test is None
    assert groups.find_comparison("f", "nobody") is None


def test_text_names_pairs_denominators_and_what_cannot_be_concluded():
    verdicts = small(("f", "no"), ("m", "yes"), ("m", "yes"), ("f", "yes"), (None, "no"))
    assert str(verdicts.by_group("sex")) == (
        "who got less, by sex: 4 decisions\n"
        "  f and m: 4 similar pairs; f got less in 2, m in 0, neither in 2\n"
        "    2 of 2 f have a similar case among m: favourable 0.5, their similar cases 1;"
        " 1 got less than some\n"
        "    2 of 2 m have a similar case among f: favourable 1, their similar cases 0.5;"
        " 0 got less than some\n"
        "    too few to conclude anything\n"
        "  1 decision has no group and takes no part"
    )


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "who got less, by sex: 0 decisions"),
        ([("f", "yes"), ("f", "no")], "all of them are f: nothing to compare"),
        ([(None, "yes"), (None, "no")], "2 decisions have no group"),
    ],
)
def test_nothing_to_compare_is_said(rows, says):
    groups = small(*rows).by_group("sex")
    assert groups.comparisons == () and says in str(groups)


def test_groups_without_like_cases_are_told_apart_from_equal_ones():
    monitor = lw.Monitor(SMALL)
    monitor.observe_many(
        [{"x": 1, "sex": "f", "z": "no"}] * 30 + [{"x": 9, "sex": "m", "z": "yes"}] * 30
    )
    groups = compare_groups(monitor.past, range(60))[0]
    pair = groups.comparisons[0]
    assert (pair.pairs, pair.one.comparable, pair.one.favourable, pair.one.gap) == (
        0,
        0,
        None,
        None,
    )
    assert pair.test is None and pair.conclusion == "nothing to compare"
    assert "no similar pair" in str(groups)


def test_batch_is_compared_with_all_before_it_and_nothing_after():
    monitor = lw.Monitor(SMALL)
    monitor.observe_many([{"x": 1, "sex": "f", "z": "no"}, {"x": 1, "sex": "m", "z": "yes"}])
    later = monitor.observe_many(pd.DataFrame({"x": [9, 1], "sex": ["f", "m"], "z": ["no", "yes"]}))
    monitor.observe({"x": 1, "sex": "f", "z": "no"})
    groups = later.by_group("sex")
    assert {one.value: one.decisions for one in groups.groups} == {"f": 2, "m": 2}
    assert groups.comparisons[0].pairs == 2


def test_forgotten_decisions_take_no_part_and_are_counted():
    monitor = lw.Monitor(SMALL)
    verdicts = monitor.observe_many(
        [
            {"x": 1, "sex": sex, "z": z}
            for sex, z in [("f", "no"), ("m", "yes"), ("m", "no"), ("f", "no")]
        ]
    )
    monitor.forget([0])
    groups = verdicts.by_group("sex")
    assert groups.forgotten == 1
    assert {one.value: one.decisions for one in groups.groups} == {"m": 2, "f": 1}
    assert groups.find_comparison("f", "m").pairs == 2
    monitor.forget([1, 2, 3])
    assert verdicts.by_group("sex").forgotten == 4


@pytest.mark.long
def test_many_groups_are_compared_as_the_largest_and_all_others():
    rng = np.random.default_rng(1)
    place = [f"g{min(int(rng.exponential(14)), 59):02}" for _ in range(3_000)]
    rows = [{"x": i % 7, "sex": g, "z": "yes" if i % 3 else "no"} for i, g in enumerate(place)]
    monitor = lw.Monitor(SMALL)
    monitor.observe_many(rows)
    groups = compare_groups(monitor.past, range(len(rows)), shuffles=20)[0]
    sizes = pd.Series(place).value_counts()
    assert len(sizes) > 50
    assert len(groups.groups) == MOST_GROUPS + 1 and groups.pooled == len(sizes) - MOST_GROUPS
    assert len(groups.comparisons) == MOST_GROUPS * (MOST_GROUPS + 1) // 2
    others = next(one for one in groups.groups if one.value is OTHERS)
    assert others.name == "all others"
    assert sum(one.decisions for one in groups.groups) == 3_000
    assert (
        sorted(one.decisions for one in groups.groups if one is not others)
        == sorted(sizes.to_list(), reverse=True)[:MOST_GROUPS][::-1]
    )
    tested = [one.test for one in groups.comparisons if one.test]
    assert all(test.shuffles >= 40 * len(tested) for test in tested)  # Holm can be passed at all


def test_one_group_too_many_is_not_pooled_alone():
    rows = [{"x": 1, "sex": f"g{i % (MOST_GROUPS + 1)}", "z": "yes"} for i in range(60)]
    monitor = lw.Monitor(SMALL)
    monitor.observe_many(rows)
    groups = compare_groups(monitor.past, range(60))[0]
    assert groups.pooled == 0 and len(groups.groups) == MOST_GROUPS + 1


def test_labels_name_groups_and_change_no_number():
    labelled = lw.Rule(
        features=dict(SMALL.features)
        | {"sex": Feature("protected", missing="mismatch", labels={"1.0": "women", 2: "men"})},
        output_column="z",
        favourable="yes",
    )
    rows = [(1.0, "no"), (2.0, "yes"), (1.0, "yes"), (3.0, "no")]
    plain, named = (small(*rows, rule=rule).by_group("sex") for rule in (SMALL, labelled))
    assert [one.name for one in named.groups] == ["women", "men", "3"]
    assert [one.value for one in named.groups] == [one.value for one in plain.groups]
    assert "women and men: 2 similar pairs" in str(named)


def test_dictionary_is_plain_json():
    groups = small(("f", "no"), ("m", "yes")).by_group("sex")
    told = json.loads(json.dumps(groups.to_dict()))
    assert told["column"] == "sex" and told["comparisons"][0]["one"]["group"] == "f"
    assert told["comparisons"][0]["test"] is None
    assert told["comparisons"][0]["pairs"] == 1


@pytest.mark.parametrize("favourable", [True, 1, 1.0, np.int64(1)])
def test_favourable_output_is_compared_as_python_compares(favourable):
    rule = lw.Rule(features=SMALL.features, output_column="z", favourable=favourable)
    for z in ([0, 1], [False, True], np.array([0, 1], dtype=np.uint8), pd.Series([0.0, 1.0])):
        table = [{"x": 1, "sex": "f"}, {"x": 1, "sex": "m"}]
        pair = lw.Monitor(rule).observe_many(table, z).by_group("sex").comparisons[0]
        assert (pair.one.group.value, pair.one_less, pair.other_less) == ("f", 1, 0)


def test_too_many_like_pairs_are_looked_at_in_part_and_that_is_said():
    rng = np.random.default_rng(2)
    rows = [
        {"x": x, "sex": "f" if i % 2 else "m", "z": "yes" if i % 3 else "no"}
        for i, x in enumerate(rng.uniform(0, 20, 600).tolist())
    ]
    monitor = lw.Monitor(SMALL)
    monitor.observe_many(rows)
    whole, part = (
        compare_groups(monitor.past, range(600), most_pairs=most)[0] for most in (10**6, 3_000)
    )
    assert whole.sampled == 1.0 and part.sampled in (0.5, 0.25)
    assert sum(one.decisions for one in whole.groups) == 600
    kept = sum(one.decisions for one in part.groups)
    assert 0.7 * part.sampled < kept / 600 < 1.3 * part.sampled
    assert isinstance(part, GroupEffects) and part.comparisons[0].pairs < 3_000
    assert part == compare_groups(monitor.past, range(600), most_pairs=3_000)[0]


@pytest.mark.parametrize(
    ("settings", "column"),
    [
        ({}, "x"),
        ({}, "z"),
        ({}, "nobody"),
        ({"favourable": None}, "sex"),
        ({"output": "number", "favourable": None}, "sex"),
        ({"output": "number", "favourable": 1}, "sex"),
        ({"output": "probabilities", "output_column": ["p", "q"]}, "sex"),
    ],
    ids=str,
)
def test_groups_that_cannot_be_counted_say_why(settings, column):
    given = {"features": SMALL.features, "output_column": "z", "favourable": "yes"} | settings
    rule = lw.Rule(**given)
    outputs = {"p": 0.5, "q": 0.5} if rule.output == "probabilities" else {"z": 1.0}
    verdicts = lw.Monitor(rule).observe_many([{"x": 1, "sex": "f", **outputs}])
    with raises(lw.errors.BadRule):
        verdicts.by_group(column)
