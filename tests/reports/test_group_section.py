"""The part of the page about groups: what is supported, what is not, and every denominator."""

import dataclasses

import pytest

from likewise.reports.group_section import (
    difference,
    group_section,
    group_sentences,
    how_compared,
    p_value,
)
from likewise.verdict.group_effects import (
    Group,
    GroupComparison,
    GroupEffects,
    GroupSide,
    ShuffleTest,
)
from tests.support import hostile_text
from tests.support.report_streams import RULE, SCORES, found, people
from tests.support.strict_html import read_strictly


def side(name: str, *, gap: float | None = 0.1, in_test: int = 200) -> GroupSide:
    return GroupSide(Group(name, name, 1_000, 900, 0.5), 300, 290, 0.52, 0.62, 26, 25, gap, in_test)


def column(*tests: ShuffleTest | None, name: str = "sex", **changes: object) -> GroupEffects:
    compared = tuple(
        GroupComparison(side(f"a{i}"), side(f"b{i}", gap=-0.1), 8_000, 566, 12, test)
        for i, test in enumerate(tests)
    )
    groups = tuple(one.one.group for one in compared) + tuple(one.other.group for one in compared)
    made = GroupEffects(name, "share", True, groups, compared, 0, 0, 0, 0, None, 7, 1.0)
    return dataclasses.replace(made, **changes)


SURE = ShuffleTest(0.12, -0.03, 0.04, 0.001, 0.002, 1_000, 150)
CHANCE = ShuffleTest(0.02, -0.03, 0.04, 0.3, 0.6, 1_000, 150)


def text_of(*columns: GroupEffects) -> str:
    return " ".join(" ".join(read_strictly(group_section(columns, None)).texts).split())


def test_sentence_names_only_what_is_supported():
    assert group_sentences([column(SURE, CHANCE, None)]) == [
        "By sex: a0 got the favourable answer less often than similar b0, by 12.0 percentage points"
        " (chance alone: -3.0 to 4.0)."
    ]
    assert group_sentences([column(CHANCE), column(CHANCE, None, name="race")]) == [
        "By sex and race: no difference between similar cases of two groups goes beyond chance."
    ]
    assert group_sentences([column(None)]) == [
        "By sex: too few similar cases across groups to conclude anything."
    ]
    assert group_sentences([column()]) == group_sentences([]) == []
    assert group_sentences([column(SURE, SURE, SURE)])[2:] == [
        "By sex: 1 more comparison goes beyond chance."
    ]


def test_section_shows_every_comparison_with_its_denominators():
    told = text_of(column(SURE, CHANCE, None))
    for words in (
        "Who got less",
        "a0 and b0 : 8,000 similar pairs. a0 got less in 566, b0 in 12, neither in 7,422.",
        "Difference 12.0 points, by chance -3.0 to 4.0 points; p = 0.001, corrected 0.002:"
        " beyond chance.",
        "p = 0.30, corrected 0.60: not beyond chance.",
        "a2 and b2 : 8,000 similar pairs.",
        "Too few to conclude anything.",
        "have a similar case in the other group",
    ):
        assert words in told.replace("\xa0", " "), words
    assert "per 1,000" not in told and "about as long" not in told


def test_section_folds_away_what_is_long():
    document = group_section([column(*[CHANCE] * 30)], None)
    assert "22 more comparisons" in document and "The first 8 of 30 tested comparisons" in document
    assert document.count("<tbody>") == 30


def test_section_says_what_cannot_be_compared():
    (pair,) = column(None).comparisons
    apart = dataclasses.replace(pair, pairs=0, one_less=0, other_less=0)
    told = text_of(column(None, comparisons=(apart,)))
    assert "No decision has a similar case in another group: nothing follows." in told
    alone = column(None, comparisons=(), groups=(pair.one.group,))
    assert "All decisions are a0 : there is nothing to compare." in text_of(alone)
    assert group_section([column()], None) == group_section([], None) == ""
    assert "no favourable output" in group_section([], "the rule has no favourable output")


def test_section_says_who_takes_no_part():
    told = text_of(
        column(
            CHANCE,
            without_group=1,
            forgotten=2,
            inconsistent=3,
            pooled=40,
            sampled=0.25,
            person="who",
        )
    )
    for words in (
        "1 decision has no group and takes no part.",
        "2 decisions are forgotten and take no part.",
        "3 people are in several groups and take no part.",
        "The 40 smallest groups are compared as one: all others.",
        "a random 25.0% of the distinct inputs was used (seed 7).",
        "26 (25 people)",
    ):
        assert words in told, words


def test_how_it_was_computed_states_seed_shuffles_and_correction():
    told = how_compared([column(SURE, CHANCE), column(None, name="race")])
    for words in ("seed 7", "1,000 times", "for 2 comparisons", "fewer than 10 decisions"):
        assert words in told, words
    assert "shuffled" not in how_compared([column(None)])
    assert how_compared([column()]) == how_compared([]) == ""


@pytest.mark.parametrize(
    ("rule", "kind"), [(RULE, "label"), (SCORES, "number")], ids=["labels", "numbers"]
)
def test_section_of_a_stream_is_whole(rule, kind):
    findings = found(rule, people(400, seed=2, kind=kind))
    reader = read_strictly(group_section(findings.groups, None))
    assert reader.seen.count("svg") == 4
    told = " ".join(reader.texts)
    assert ("mean output" in told) == (kind == "number")
    assert ("points" in told) == (kind == "label")


def test_hostile_names_stay_text():
    findings = found(hostile_text.rule(), hostile_text.rows())
    reader = read_strictly(group_section(findings.groups, None))
    assert not {"script", "img", "iframe"} & set(reader.seen)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (0.123, "12.3 points"),
        (-0.0044, "-0.44 points"),
        (0.0, "0.0 points"),
        (1e-5, "0.001 points"),
    ],
)
def test_differences_of_shares_are_in_points(value, says):
    assert difference(column(), value) == says


def test_differences_of_numbers_are_in_their_own_unit():
    means = column(outcome="mean")
    assert difference(means, -1234.5678) == "-1,230"
    assert difference(means, 0.31234) == "0.312"


def test_p_values_are_never_nothing():
    assert [p_value(p) for p in (1.0, 0.1234, 0.0456, 0.00099)] == [
        "1.00",
        "0.12",
        "0.046",
        "0.00099",
    ]
