"""One card of a pair, wherever it is shown."""

import html

import pytest

import likewise as lw
from likewise.explaining.pairs import DecisionOrigin, pair_card
from likewise.reports.document import pair_cards
from likewise.reports.selected_pairs import WorstPair

RULE = lw.Rule(
    features={
        "id": lw.Feature("key"),
        "age": lw.Feature("number", tolerance=5),
        "job": lw.Feature("category"),
        "sex": lw.Feature("protected", labels={"f": "woman <b>"}),
        **{f"c{i}": lw.Feature("category") for i in range(10)},
    },
    output_column="approved",
)
SAME = {f"c{i}": "same" for i in range(10)}
FIRST = {"id": "a<1>", "age": 41, "job": "n", "sex": "f", "approved": "<i>no</i>", **SAME}
SECOND = {"id": "b2", "age": 44, "job": "n", "sex": "m", "approved": "yes", **SAME}


@pytest.fixture(scope="module")
def pair():
    monitor = lw.Monitor(RULE)
    monitor.observe(FIRST, model="v1 & <2>")
    (pair,) = monitor.observe(SECOND, model="v2").explain().pairs
    return pair


def test_report_and_notebook_show_the_same_card(pair):
    card = pair_card(pair, RULE)
    assert card in pair._repr_html_()
    assert pair_card(pair, RULE, anchor="pair-1") in pair_cards([WorstPair(pair)], RULE)
    assert pair.card() == card


def test_a_card_shows_both_sides_what_differs_and_what_does_not(pair):
    card = pair_card(pair, RULE)
    for words in (
        "Row 1 contradicts row 0",
        "At distance 0.6, where up to 1 counts as similar.",
        "60% of the tolerance",
        html.escape("v1 & <2>"),
        html.escape("a<1>"),
        html.escape("woman <b>"),
        "The same in both: c7, c8 and c9.",
        '<span class="gap">protected</span>',
    ):
        assert words in card, words
    assert card.index("&lt;i&gt;no") < card.index(">yes<"), "the earlier one is on the left"
    assert "<i>" not in card and "<b>" not in card


def test_a_card_of_a_checked_decision_says_this_one():
    monitor = lw.Monitor(RULE)
    monitor.observe(FIRST)
    (pair,) = monitor.check(SECOND).explain().pairs
    card = pair_card(pair, RULE)
    assert "<h3>This one contradicts row 0</h3>" in card
    assert '<th scope="col">now<span class="gap">this one</span>' in card


def test_a_card_says_when_and_where(pair):
    later = DecisionOrigin(time="2026-01-03 10:00:00", ignored=(("note", "<u>"),))
    earlier = DecisionOrigin(time="2026-01-01", ignored=(("note", None),))
    card = pair_card(pair, RULE, later=later, earlier=earlier)
    assert '<time datetime="2026-01-03T10:00:00Z"><span class="when">2026-01-03</span>' in card
    assert "</span> 10:00:00</time> UTC" in card
    assert "1 column that the rule ignores" in card and "&lt;u&gt;" in card


def test_outputs_are_shown_by_their_labels_in_cards_and_text():
    rule = lw.Rule(
        features={"age": lw.Feature("number", tolerance=5)},
        output_column="risk",
        output_labels={"1": "high risk", "0": "low risk"},
    )
    monitor = lw.Monitor(rule)
    monitor.observe({"age": 40, "risk": 1})
    (pair,) = monitor.observe({"age": 41, "risk": 0}).explain().pairs
    for text in (str(pair), pair_card(pair, rule)):
        assert text.index("low risk") and text.index("high risk")
    assert pair.to_dict()["columns"][0]["decision"] == 0
    monitor = lw.Monitor(lw.Rule(epsilon=1, output_labels={"a": "granted"}))
    monitor.observe([0.0], "a")
    assert "granted" in str(monitor.observe([0.0], "b").explain())


def test_a_card_says_how_many_similar_cases_disagree():
    rule = lw.Rule(
        features={"age": lw.Feature("number", tolerance=5)},
        output_column="risk",
        output_labels={"1": "declined"},
    )
    monitor = lw.Monitor(rule, support=True)
    monitor.load([{"age": 40, "risk": risk} for risk in [0, 1, *[0] * 39]])
    (pair,) = monitor.observe({"age": 41, "risk": 0}).explain().pairs
    sentence = "1 of 41 earlier similar cases was declined."
    assert sentence in pair_card(pair, rule) and str(pair).endswith(sentence)
    assert pair.to_dict()["support"] == {"near": 41, "agree": 40}
    pair = monitor.observe({"age": 41, "risk": 1}).explain(1).pairs[0]
    assert pair.describe_support() == "41 of 42 earlier similar cases were answered differently."
