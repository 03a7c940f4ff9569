"""Violating pairs by group: counted as a slow oracle counts them, in both directions."""

import re
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

import likewise as lw
from likewise import Feature

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

    outputs = ("yes", "no", "perhaps") if kind == "label" else (0.0, 0.25, 1.5, -2.0)
    return [
        {
            "x": one_of(*range(12)),
            "c": one_of("u", "v", None),
            "sex": one_of("f", "m", "m", None),
            "race": one_of("a", "b", "c", None),
            "z": one_of(*outputs),
        }
        for _ in range(n)
    ]


def goodness(favourable: Any, output: Any) -> float:
    if favourable in ("high", "low"):
        return output if favourable == "high" else -output
    return float(output == favourable)


def counted(rows: list[dict], verdicts: lw.Verdicts, column: str, favourable: Any) -> tuple:
    """Pairs by (group that lost, group that won), and how many have no loser or no group."""
    pairs, undecided = Counter(), 0
    for verdict in verdicts:
        for witness in verdict.witnesses:
            mine, other = rows[verdict.row], rows[witness.row]
            a, b = goodness(favourable, mine["z"]), goodness(favourable, other["z"])
            if a == b or mine[column] is None or other[column] is None:
                undecided += 1
            elif a < b:
                pairs[mine[column], other[column]] += 1
            else:
                pairs[other[column], mine[column]] += 1
    return pairs, undecided


@pytest.mark.parametrize("column", ["sex", "race"])
@pytest.mark.parametrize("favourable", ["yes", "no", "high", "low"])
@pytest.mark.parametrize("differ", [False, True])
def test_groups_are_counted_as_a_slow_oracle_counts_them(column, favourable, differ):
    kind = "label" if favourable in ("yes", "no") else "number"
    rule = lw.Rule(
        features=FEATURES,
        output_column="z",
        output=kind,
        favourable=favourable,
        delta=0.0 if kind == "label" else 0.3,
        protected_must_differ=differ,
    )
    rows = people(250, seed=3, kind=kind)
    verdicts = lw.Monitor(rule).observe_many(rows)
    groups = verdicts.by_group(column)
    pairs, undecided = counted(rows, verdicts, column, favourable)
    assert dict(groups.pairs) == dict(pairs)
    assert groups.undecided == undecided
    assert sum(groups.pairs.values()) + groups.undecided == verdicts.pairs
    assert all(count > 10 for count in pairs.values()) and len(pairs) >= 4
    for (loser, winner), count in pairs.items():
        assert groups.lost(loser, winner) == groups.lost(loser, to=winner) == count
    assert groups.lost("never", "a") == 0
    assert dict(groups.decisions) == Counter(row[column] for row in rows if row[column] is not None)
    for group, share in groups.favourable.items():
        outputs = [row["z"] for row in rows if row[column] == group]
        expected = [one == favourable for one in outputs] if kind == "label" else outputs
        assert share == pytest.approx(np.mean(expected))


SMALL = lw.Rule(
    features={"x": Feature("number", tolerance=1), "sex": Feature("protected", missing="mismatch")},
    output_column="z",
    favourable="yes",
)


def small(*rows: tuple[Any, Any]) -> lw.Verdicts:
    return lw.Monitor(SMALL).observe_many([{"x": 1, "sex": sex, "z": z} for sex, z in rows])


def test_loser_may_come_before_the_winner_or_after():
    assert dict(small(("f", "no"), ("m", "yes")).by_group("sex").pairs) == {("f", "m"): 1}
    assert dict(small(("m", "yes"), ("f", "no")).by_group("sex").pairs) == {("f", "m"): 1}
    assert dict(small(("f", "yes"), ("m", "no")).by_group("sex").pairs) == {("m", "f"): 1}
    assert dict(small(("f", "yes"), ("f", "no")).by_group("sex").pairs) == {("f", "f"): 1}


def test_pairs_without_a_loser_or_a_group_are_counted_apart():
    groups = small(("f", "no"), ("m", "never"), (None, "yes")).by_group("sex")
    assert (dict(groups.pairs), groups.undecided) == ({}, 3)
    assert dict(groups.decisions) == {"f": 1, "m": 1}


def test_text_names_losers_winners_and_base_rates():
    verdicts = small(("f", "no"), ("m", "yes"), ("m", "yes"), ("f", "yes"), (None, "no"))
    assert str(verdicts.by_group("sex")) == (
        "violating pairs by sex\n"
        "  f got less than a like m: 2\n"
        "  f got less than a like f: 1\n"
        "  f: 50.0% of all decisions, favourable 0.5\n"
        "  m: 50.0% of all decisions, favourable 1\n"
        "  3 pairs without a better output or a known group"
    )


@pytest.mark.parametrize("rows", [[], [("f", "yes")], [("f", "yes"), ("m", "yes")]])
def test_nothing_found_counts_nothing(rows):
    groups = small(*rows).by_group("sex")
    assert (dict(groups.pairs), groups.undecided) == ({}, 0)
    assert sum(groups.decisions.values()) == len(rows)


def test_base_rates_are_of_the_whole_history_and_pairs_of_the_batch():
    monitor = lw.Monitor(SMALL)
    monitor.observe_many([{"x": 1, "sex": "f", "z": "no"}, {"x": 1, "sex": "m", "z": "yes"}])
    later = monitor.observe_many(pd.DataFrame({"x": [9, 1], "sex": ["f", "m"], "z": ["no", "yes"]}))
    groups = later.by_group("sex")
    assert dict(groups.pairs) == {("f", "m"): 1}
    assert dict(groups.decisions) == {"f": 2, "m": 2}
    assert dict(groups.favourable) == {"f": 0.0, "m": 1.0}


def test_forgotten_decisions_belong_to_no_group():
    monitor = lw.Monitor(SMALL)
    verdicts = monitor.observe_many(
        [{"x": 1, "sex": sex, "z": z} for sex, z in [("f", "no"), ("m", "yes"), ("m", "no")]]
    )
    monitor.forget([0])
    groups = verdicts.by_group("sex")
    assert (dict(groups.pairs), groups.undecided) == ({("m", "m"): 1}, 1)
    assert dict(groups.decisions) == {"m": 2}
    assert dict(groups.favourable) == {"m": 0.5}


@pytest.mark.parametrize("favourable", [True, 1, 1.0, np.int64(1)])
def test_favourable_output_is_compared_as_python_compares(favourable):
    rule = lw.Rule(features=SMALL.features, output_column="z", favourable=favourable)
    for z in ([0, 1], [False, True], np.array([0, 1], dtype=np.uint8), pd.Series([0.0, 1.0])):
        table = [{"x": 1, "sex": "f"}, {"x": 1, "sex": "m"}]
        groups = lw.Monitor(rule).observe_many(table, z).by_group("sex")
        assert dict(groups.pairs) == {("f", "m"): 1}


@pytest.mark.parametrize(
    ("settings", "column", "says"),
    [
        ({}, "x", "'x' is not a protected column of this rule"),
        ({}, "z", "'z' is not a protected column of this rule"),
        ({}, "nobody", "'nobody' is not a protected column of this rule"),
        ({"favourable": None}, "sex", "the rule has no favourable output; say which label"),
        (
            {"output": "number", "favourable": None},
            "sex",
            "favourable is None; expected 'high' or 'low'",
        ),
        (
            {"output": "number", "favourable": 1},
            "sex",
            "favourable is 1; expected 'high' or 'low'",
        ),
        (
            {"output": "probabilities", "output_column": ["p", "q"]},
            "sex",
            "groups are counted for labels and numbers, and the output is probabilities",
        ),
    ],
    ids=str,
)
def test_groups_that_cannot_be_counted_say_why(settings, column, says):
    given = {"features": SMALL.features, "output_column": "z", "favourable": "yes"} | settings
    rule = lw.Rule(**given)
    outputs = {"p": 0.5, "q": 0.5} if rule.output == "probabilities" else {"z": 1.0}
    verdicts = lw.Monitor(rule).observe_many([{"x": 1, "sex": "f", **outputs}])
    with pytest.raises(lw.BadRule, match=re.escape(says)):
        verdicts.by_group(column)
