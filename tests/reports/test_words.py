"""A rule in words says what the rule says."""

import dataclasses
import re
from pathlib import Path

import pytest

import likewise as lw
from likewise import Feature
from likewise.reports.finding_words import describe_findings, describe_shares
from likewise.tables.printing import format_number, join_names, percent
from tests.support.looping import each
from tests.support.report_streams import RULE, found, people

RULES = sorted((Path(__file__).parents[2] / "examples" / "rules").glob("*.toml"))


def near(**changes):
    features = {"x": Feature("number", tolerance=5), **changes.pop("features", {})}
    return lw.Rule(features=features, output_column="z", **changes).explain().lines


@each(
    ("rule", "words"),
    [
        (lw.Rule("linf", 0.16), "no coordinate of their inputs differs by more than 0.16"),
        (lw.Rule("l1", 2), "the differences of their inputs' coordinates add up to at most 2"),
        (lw.Rule("l2", 7.5), "their inputs lie at most 7.5 apart (Euclidean distance)"),
        (lw.Rule("cosine", 0.1), "the cosine distance of their inputs is at most 0.1"),
        (lw.Rule("linf", 1, weights=[1, 2]), "each multiplied by its weight, is more than 1"),
        (lw.Rule("l1", 1, weights=[1, 2]), "each multiplied by its weight, add up to at most 1"),
        (lw.Rule("l2", 1, weights=[1, 2]), "weighted Euclidean distance"),
        (lw.Rule("cosine", 1, weights=[1, 2]), "weighted cosine distance"),
    ],
)
def test_likeness_of_vectors(rule, words):
    assert words in rule.explain().lines[0]


@pytest.mark.parametrize(
    ("compare", "words"),
    [
        ("within", "Only decisions of the same model are compared."),
        ("across", "Only decisions of different models are compared."),
    ],
)
def test_models_that_are_compared(compare, words):
    assert words in near(compare=compare)
    assert words in lw.Rule("linf", 1, compare=compare).explain().lines
    assert not any("model" in line for line in lw.Rule("linf", 1).explain().lines)


@each(
    ("feature", "epsilon", "words"),
    [
        (Feature("number", tolerance=5), 1, "at most 5 apart"),
        (Feature("number", tolerance=5), 2, "at most 10 apart"),
        (Feature("number", tolerance=0.25), 1, "at most 0.25 apart"),
        (Feature("number", tolerance=20_000), 1, "at most 20,000 apart"),
        (Feature("number", tolerance="10%"), 1, "within 10% of each other"),
        (Feature("number", tolerance="10%"), 2, "within 21% of each other"),
        (Feature("ordinal", order=["a", "b"]), 1, "at most 1 step apart, in the order a < b"),
        (Feature("ordinal", order=["a", "b"], tolerance=2), 1, "at most 2 steps apart"),
        (Feature("ordinal", order=list("abcdefghijk")), 1, "a < b < c < d < e < f < … < k"),
        (Feature("category"), 1, "the same"),
        (Feature("category", mismatch=0.5, values=["a", "b"]), 1, "may differ"),
        (Feature("category", mismatch=2, values=["a", "b"]), 1, "the same"),
        (Feature("category", missing="match"), 1, "the same; a missing value is near any other"),
        (
            Feature("number", tolerance=1, missing="mismatch"),
            1,
            "at most 1 apart; a missing value is near another missing value only",
        ),
    ],
)
def test_likeness_in_a_column(feature, epsilon, words):
    told = near(features={"c": feature}, epsilon=epsilon)
    assert told[0] == "Two decisions are similar if all of this holds:"
    line = next(one for one in told if one.startswith("- c: "))
    assert words in line


def test_likeness_summed_up_over_columns():
    features = {
        "p": Feature("number", tolerance="10%"),
        "o": Feature("ordinal", order=["a", "b"]),
        "c": Feature("category", mismatch=0.5, values=["a", "b"]),
    }
    told = near(features=features, metric="l1", epsilon=1.5)
    assert "add up to at most 1.5" in told[0]
    assert "- x: in units of 5" in told
    assert "- p: in units of 10% of the value" in told
    assert "- o: in units of 1 step, in the order a < b" in told
    assert "- c: the same, or a difference of 0.5" in told
    assert "root of the sum of squares" in near(metric="l2")[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "if their z is not the same."),
        ({"output": "number"}, "if their z differs at all."),
        ({"output": "number", "delta": 0.1}, "if their z differs by more than 0.1."),
    ],
)
def test_difference(changes, words):
    assert any(words in one for one in near(**changes))


@pytest.mark.parametrize("metric", ["linf", "l1", "l2", "tv"])
def test_difference_of_probabilities(metric):
    rule = lw.Rule(epsilon=1, output="probabilities", output_metric=metric, delta=0.2)
    assert "differ" in rule.explain().lines[1] and "by more than 0.2" in rule.explain().lines[1]


def test_notes_say_what_else_holds():
    told = dataclasses.replace(RULE, protected_must_differ=True).explain().lines
    assert "sex and race are protected: they do not affect whether decisions are similar." in told
    assert "Only pairs that differ in a protected column count." in told
    assert "Ignored: note." in told
    assert "The output that everyone wants: yes." in told
    told = near(output="number", favourable="low")
    assert "The lower output is the better one to get." in told


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_every_compared_column_of_an_example_is_told(path):
    rule = lw.Rule.from_toml(path.read_text(encoding="utf-8"))
    told = rule.explain().lines
    for name, feature in rule.features.items():
        if feature.is_compared:
            assert any(name in re.split(r", | and |: |- ", one) for one in told if one[0] == "-")
    assert all(one.rstrip().endswith((".", ":")) or one.startswith("- ") for one in told)


def test_many_columns_of_one_condition_are_told_together():
    features = {f"c{i}": Feature("category") for i in range(80)}
    told = [one for one in near(features=features) if one.startswith("- ")]
    assert told[0] == "- x: at most 5 apart"
    assert told[1].startswith("- c0, c1, c2") and told[1].endswith("and 20 more: the same")


def test_findings_in_words():
    rows = people(200, seed=1)
    findings = found(RULE, rows)
    assert describe_findings(findings)[0].startswith("Take a decision at random")
    first, second, third, fourth, *_ = shares = describe_shares(findings)
    assert describe_findings(findings)[-len(shares) :] == shares
    flagged, comparable = findings.violations, findings.with_earlier
    share = percent(flagged / comparable)
    assert first == (
        f"{share} of the comparable decisions ({flagged} of {comparable}) contradict an earlier"
        f" one about a similar case; that is {percent(flagged / 200)} of all 200."
    )
    assert second.startswith(f"{comparable} of 200 decisions (")
    assert second.endswith(
        f"; the other {200 - comparable} had none, so nothing follows about them."
    )
    assert third.startswith(f"{findings.margins.identical:,} decisions contradict an earlier one")
    assert fourth.startswith(f"{findings.in_any_pair} of 200 decisions (")
    assert describe_findings(found(RULE, rows[:1])) == [
        "Nothing could be compared, so nothing follows: none of 1 decision had an earlier similar"
        " case."
    ]
    alike = [{**rows[0], "id": i} for i in range(2)]
    assert describe_shares(found(RULE, alike)) == [
        "None of 1 comparable decision contradicts an earlier one about a similar case.",
        "1 of 2 decisions (50.0%) had an earlier similar case to be compared with; the other 1 had"
        " none, so nothing follows about it.",
    ]
    unknown = describe_shares(found(RULE, rows, comparable=False))
    assert unknown[0] == (
        f"{flagged} of 200 decisions ({percent(flagged / 200)}) contradict an earlier one about a"
        " similar case. How many had an earlier similar case was not counted."
    )
    assert describe_findings(found(RULE, [])) == ["There were no decisions to look at."]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"),
        (1, "100%"),
        (0.5, "50.0%"),
        (0.123456, "12.3%"),
        (0.00012, "0.012%"),
        (0.9996, "99.96%"),
        (0.9999999, "almost 100%"),
    ],
)
def test_shares_are_never_rounded_to_nothing_or_all(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"), [(5.0, "5"), (1234567.0, "1,234,567"), (0.1, "0.1"), (1e-9, "1e-09")]
)
def test_figures_are_as_people_write_them(value, text):
    assert format_number(value) == text


def test_lists_end_with_and():
    assert join_names(["a"]) == "a"
    assert join_names(["a", "b", "c"]) == "a, b and c"
    assert join_names(range(20), 3) == "0, 1, 2 and 17 more"
