"""The first sentences of a report say what the numbers say, and no more."""

import re
from dataclasses import replace

import pytest

import likewise as lw
from likewise import Feature
from likewise.explaining.agreement import Agreement, Conclusion
from likewise.reports.finding_words import describe_findings
from likewise.reports.headline import describe_agreement, format_index
from likewise.reports.report_page import render_page
from tests.support.report_streams import RULE, found, people

MEASURED = Agreement(
    comparable=2_900,
    like_pairs=150_000,
    disagreeing_pairs=12_000,
    disagreement=0.144,
    expected=0.196,
    index=0.2653,
    low=0.2149,
    high=0.3151,
    null_sd=0.011,
    index_within_categories=0.14,
    opposed_by_most=199,
    opposed_of=2_228,
    opposed_expected=245.6,
    opposed_clearly=142,
    effective=412.0,
    how=Conclusion("measured", ""),
    hubs=24,
)
TOO_FEW = replace(
    MEASURED,
    comparable=12,
    **dict.fromkeys(["index", "low", "high", "null_sd", "index_within_categories"]),
    opposed_by_most=0,
    opposed_of=0,
    how=Conclusion("too-few", "12 decisions have a similar case, and 30 are needed."),
)


def test_headline_gives_index_beside_chance_then_opposed_then_pairs():
    rule = lw.Rule(features={"sector": Feature("category")}, output_column="z")
    assert describe_agreement(MEASURED, rule).sentences == [
        "Take a decision at random, then one of its similar cases: 14.4% disagree. Had the same"
        " answers been dealt at random among these cases: 19.6%. Agreement index 0.27 (95% interval"
        " 0.21 to 0.32): 0 is dice, 1 is always the same answer.",
        "Similar cases agree more often than answers dealt at random would.",
        "Dealt only among cases with the same sector, the index is 0.14.",
        "199 of 2,228 decisions with at least 5 similar cases are opposed by most of them (dealt at"
        " random: 246); 142 clearly (95% interval above half). This is a list to look into, not a"
        " rate of errors.",
        "24 of 2,900 decisions with a similar case together are in half of all pairs that"
        " disagree.",
        "There are 150,000 pairs of similar cases; 12,000 of them disagree.",
    ]


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.01, 0.1, "agree more often than"),
        (-0.05, 0.1, "cannot be told from answers dealt at random"),
        (0.0, 0.1, "cannot be told from answers dealt at random"),
        (-0.2, -0.1, "agree less often than"),
    ],
)
def test_headline_claims_agreement_only_where_the_interval_excludes_chance(low, high, words):
    sentences = describe_agreement(replace(MEASURED, low=low, high=high), RULE).sentences
    assert words in sentences[1]


def test_headline_without_an_interval_claims_nothing():
    bare = replace(MEASURED, low=None, high=None)
    first, second, *_ = describe_agreement(bare, RULE).sentences
    assert "Agreement index 0.27: 0 is dice" in first and "interval" not in first
    assert "random would" not in second and "cannot be told" not in second


def test_headline_says_why_nothing_can_be_concluded():
    headline = describe_agreement(TOO_FEW, RULE)
    assert not headline.is_concluded and headline.big == "–"
    assert headline.sentences[0] == (
        "How far similar cases agree cannot be concluded: 12 decisions have a similar case, and 30"
        " are needed."
    )
    assert not any("%" in one or "opposed" in one for one in headline.sentences)


def test_nobody_is_opposed_in_words():
    nobody = replace(MEASURED, opposed_by_most=0, opposed_of=1, opposed_clearly=0)
    assert (
        "None of 1 decision with at least 5 similar cases is opposed by most of them (dealt at"
        " random: 246)."
    ) in describe_agreement(nobody, RULE).opposed


@pytest.mark.parametrize(
    ("index", "text"),
    [(0.2714, "0.27"), (-0.004, "0.00"), (-0.05, "-0.05"), (0.99991, "0.9999"), (1.0, "1")],
)
def test_index_is_never_rounded_to_always_the_same(index, text):
    assert format_index(index) == text


@pytest.fixture(scope="module")
def findings():
    return replace(found(RULE, people(200, seed=1)), agreement=MEASURED)


def test_shares_of_contradictions_come_last(findings):
    sentences = describe_findings(findings)
    assert sentences[0].startswith("Take a decision at random")
    places = [i for i, one in enumerate(sentences) if "contradict an earlier one" in one]
    pairs = next(i for i, one in enumerate(sentences) if one.startswith("There are 150,000"))
    assert places and min(places) > pairs


def test_page_begins_with_the_index_and_what_it_does_not_show(findings):
    page = render_page(findings)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    order = [
        page.index('<p class="big">0.27'),
        page.index("Take a decision at random"),
        page.index("are opposed by most of them"),
        page.index("What this does not show"),
        page.index("What counts as"),
        page.index("of the comparable decisions ("),
    ]
    assert order == sorted(order)
    assert "2,900 of 200" in text  # the tile shows both counts


def test_page_says_why_there_is_no_index(findings):
    page = render_page(replace(findings, agreement=TOO_FEW))
    top = page[page.index("<header") : page.index("</header>")]
    assert 'class="hero nothing"' in top and '<p class="big">–' in top
    assert "12 decisions have a similar case, and 30 are needed." in top


def test_json_has_agreement_hubs_and_what_is_not_shown(findings):
    values = findings.to_dict()
    assert values["agreement"]["how"] == {"code": "measured", "sentence": ""}
    assert "hubs" not in values["agreement"]
    assert values["hubs"] == {"decisions": 24, "of_pairs": 0.5}
    assert all(one.keys() == {"code", "sentence"} for one in values["not_shown"])
