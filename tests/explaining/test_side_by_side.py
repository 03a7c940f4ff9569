"""A pair of decisions side by side: readable, ordered by what differs, and safe to show."""

import datetime
import decimal
import json
import math
import re

import numpy as np
import pytest

import likewise as lw
from likewise import Feature
from likewise.explaining.pairs import measure_gap
from tests.support.lazily import pandas as pd
from tests.support.looping import each

RULE = lw.Rule(
    features={
        "id": Feature("key"),
        "job": Feature("category"),
        "age": Feature("number", tolerance=5),
        "income": Feature("number", tolerance="10%"),
        "grade": Feature("ordinal", order=["school", "college", "degree"], tolerance=2),
        "region": Feature("category", values=["north", "south"], mismatch=0.25),
        "debt": Feature("number", tolerance=100, missing="match"),
        "sex": Feature("protected"),
    },
    output_column="approved",
)
FIRST = {
    "id": "a1",
    "job": "nurse",
    "age": 41,
    "income": 2000.5,
    "grade": "college",
    "region": "north",
    "debt": None,
    "sex": "f",
    "approved": "no",
}
SECOND = FIRST | {
    "id": "b2",
    "age": 44,
    "income": 2040.51,
    "grade": "degree",
    "region": "south",
    "debt": 1234567,
    "sex": "m",
    "approved": "yes",
}
TEXT = """\
row 1 contradicts row 0, 0.6 away
          row 1    row 0
approved  yes      no       *
age       44       41       *
grade     degree   college  *
region    south    north    *
income    2040.51  2000.5   *
id        b2       a1       *
debt      1234567  missing  *
sex       m        f        *
job       nurse    nurse"""


def explained(*rows: dict, rule: lw.Rule = RULE) -> lw.Verdict:
    monitor = lw.Monitor(rule)
    return [monitor.observe(row) for row in rows][-1]


def test_text_of_a_pair_looks_as_documented():
    assert str(explained(FIRST, SECOND).explain()) == TEXT


def test_columns_that_differ_come_first_and_the_farthest_apart_before_the_others():
    (pair,) = explained(FIRST, SECOND).explain().pairs
    gaps = [pair.gaps.get(name, 0.0) for name in pair.columns[1:] if pair.differs(name)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[:3] == [0.6, 0.5, 0.25]
    differs = [pair.differs(name) for name in pair.columns]
    assert differs == sorted(differs, reverse=True)
    assert pair.columns[0] == "approved"


def test_largest_gap_is_the_distance_of_the_pair():
    rng = np.random.default_rng(0)
    monitor = lw.Monitor(RULE)
    pairs = 0
    for i in range(200):
        row = {
            "id": i,
            "job": "nurse",
            "age": int(rng.integers(30, 40)),
            "income": float(rng.integers(1000, 1200)),
            "grade": str(rng.choice(["school", "college", "degree"])),
            "region": str(rng.choice(["north", "south"])),
            "debt": [None, 10.0, 60.0][int(rng.integers(3))],
            "sex": "f",
            "approved": str(rng.choice(["yes", "no"])),
        }
        for pair in monitor.observe(row).explain(5).pairs:
            assert max(pair.gaps.values()) == pytest.approx(pair.witness.input_distance, abs=1e-11)
            pairs += 1
    assert pairs > 200


@each(
    ("feature", "a", "b", "expected"),
    [
        (Feature("number", tolerance=5), 1, 11, 2.0),
        (Feature("number", tolerance=5), 1, None, math.inf),
        (Feature("number", tolerance=5, missing="match"), 1, None, 0.0),
        (Feature("number", tolerance=5, missing="mismatch"), None, None, 0.0),
        (Feature("number", tolerance="10%"), 110, 100, 1.0),
        (Feature("number", tolerance="10%"), 1e-200, 1.1e-200, 1.0),
        (Feature("number", tolerance="10%"), 0, 1, math.inf),
        (Feature("number", tolerance="10%"), -1, 1, math.inf),
        (Feature("number", tolerance="10%"), -1e-200, 1e-200, math.inf),
        (Feature("ordinal", order=["a", "b", "c"], tolerance=2), "a", "c", 1.0),
        (Feature("category"), "a", "b", math.inf),
        (Feature("category", values=["a", "b"], mismatch=0.3), "a", "b", 0.3),
        (Feature("category", values=["a", "b"], mismatch=0.3, missing="mismatch"), "a", None, 0.3),
    ],
    ids=str,
)
def test_gap_is_what_the_rule_says(feature, a, b, expected):
    assert measure_gap(feature, a, b) == measure_gap(feature, b, a) == pytest.approx(expected)
    assert measure_gap(feature, a, a) == 0.0


# As data


def test_dictionary_is_strict_json_and_says_what_the_text_says():
    side_by_side = explained(FIRST, SECOND).explain()
    read = json.loads(json.dumps(side_by_side.to_dict(), allow_nan=False))
    assert read == side_by_side.to_dict()
    assert read["witnesses"] == 1
    (pair,) = read["pairs"]
    assert (pair["row"], pair["witness"], pair["output_distance"]) == (1, 0, 1.0)
    assert pair["input_distance"] == pytest.approx(0.6)
    in_text = [line.split()[0] for line in TEXT.splitlines()[2:]]
    assert [column["column"] for column in pair["columns"]] == in_text
    assert pair["columns"][0] == {
        "column": "approved",
        "decision": "yes",
        "witness": "no",
        "differs": True,
        "gap": None,
    }
    assert pair["columns"][1]["gap"] == pytest.approx(0.6)


@each(
    "value",
    [
        datetime.date(2020, 1, 1),
        pd.Timestamp("2020"),
        decimal.Decimal("1.5"),
        b"raw",
        (1, 2),
        np.int64(5),
        np.float32(0.5),
        np.bool_(True),
        math.inf,
        frozenset({1}),
    ],
    ids=repr,
)
def test_dictionary_is_strict_json_whatever_a_category_is(value):
    features = {"x": Feature("number", tolerance=1), "c": Feature("category")}
    rule = lw.Rule(features=features, output_column="z")
    row = {"x": 1, "c": value}
    verdict = explained(row | {"z": value}, row | {"z": "other"}, rule=rule)
    json.dumps(verdict.explain().to_dict(), allow_nan=False)
    assert "row 1 contradicts row 0" in str(verdict.explain())


# What comes from the data is escaped

HOSTILE = "<script>alert(\"x\" & 'y')</script>"


def test_html_escapes_every_name_and_value():
    features = {HOSTILE: Feature("category"), "x": Feature("number", tolerance=1)}
    rule = lw.Rule(features=features, output_column="<b>out</b>")
    row = {HOSTILE: HOSTILE, "x": 1}
    side_by_side = explained(
        row | {"<b>out</b>": "&amp;<i>"}, row | {"<b>out</b>": HOSTILE}, rule=rule
    ).explain()
    html = side_by_side._repr_html_()
    assert "<script" not in html and "<b>" not in html and "<i>" not in html
    html = html.partition("</style>")[2]
    assert html.count("&lt;script&gt;alert(&#34;x&#34; &amp; &#39;y&#39;)&lt;/script&gt;") == 4
    assert "&amp;amp;&lt;i&gt;" in html
    tags = set(re.findall(r"</?(\w+)", html))
    assert tags == {
        *("div", "article", "h3", "p", "span", "bdi"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }


@pytest.mark.parametrize("value", ["two\nlines", "\x1b[31mred", "tab\there", "\r", "\u202e"])
def test_text_keeps_to_its_lines_whatever_a_value_is(value):
    features = {value: Feature("category"), "x": Feature("number", tolerance=1)}
    rule = lw.Rule(features=features, output_column="z")
    row = {value: value, "x": 1}
    text = str(explained(row | {"z": value}, row | {"z": "other"}, rule=rule).explain())
    assert len(text.splitlines()) == 5
    assert text.replace("\n", "").isprintable()
    assert repr(value) in text


# Which pairs are shown


def crowd(n: int) -> lw.Monitor:
    features = {"x": Feature("number", tolerance=1000), "c": Feature("category", missing="match")}
    monitor = lw.Monitor(lw.Rule(features=features, output_column="z"))
    monitor.load([{"x": n - i, "c": "a", "z": "yes"} for i in range(n)])
    return monitor


def test_nearest_witnesses_are_shown_and_the_rest_counted():
    verdict = crowd(1500).check({"x": 501, "c": "a", "z": "no"})
    shown = verdict.explain(4)
    assert [pair.witness.row for pair in shown.pairs] == [999, 998, 1000, 997]
    assert (shown.witnesses, len(verdict.witnesses)) == (1500, 1500)
    assert str(shown).endswith("\n\nand 1,496 more")
    assert shown._repr_html_().endswith("<p>and 1,496 more</p>")
    assert len(verdict.explain().pairs) == 3
    every = verdict.explain(1500)
    assert len(every.pairs) == 1500 and "more" not in str(every).splitlines()[-1]
    assert "more" not in every._repr_html_()


def test_nothing_to_show_says_so():
    shown = crowd(3).check({"x": 1, "c": "a", "z": "yes"}).explain()
    assert str(shown) == "nothing contradicts it"
    assert shown._repr_html_() == "<p>nothing contradicts it</p>"
    assert shown.to_dict() == {"witnesses": 0, "pairs": []}


def test_checked_decision_shows_values_never_seen_before():
    monitor = crowd(3)
    monitor.observe({"x": 1, "c": None, "z": "yes"})
    shown = monitor.check({"x": 2.25, "c": "never seen", "z": "never said"}).explain()
    assert str(shown) == (
        "this one contradicts row 3, 0.00125 away\n"
        "   this one    row 3\n"
        "z  never said  yes      *\n"
        "x  2.25        1        *\n"
        "c  never seen  missing  *"
    )
    assert shown.to_dict()["pairs"][0]["row"] is None
    assert "<h3>This one contradicts row 3</h3>" in shown._repr_html_()
    later = monitor.observe({"x": 2, "c": "something else", "z": "no"}).explain()
    assert "never seen" not in str(later), "a check was remembered"
    assert "never seen" in str(shown), "what was shown has changed"


def test_forgotten_witness_has_lost_its_values_and_is_still_counted():
    monitor = lw.Monitor(RULE)
    monitor.observe(FIRST)
    verdict = monitor.observe(SECOND)
    monitor.forget([0])
    shown = verdict.explain()
    assert shown.witnesses == 1
    for gone in ("nurse  nurse", "a1", "41", "2000.5", "college", "north"):
        assert gone not in str(shown) + shown._repr_html_()
    assert set(shown.pairs[0].other.values()) == {None}
    json.dumps(shown.to_dict(), allow_nan=False)
    assert not monitor.check({**SECOND, "id": "c3"}).violation


def test_forgotten_decision_of_its_own_has_lost_its_values():
    monitor = lw.Monitor(RULE)
    monitor.observe(FIRST)
    verdict = monitor.observe(SECOND)
    monitor.forget([1])
    assert set(verdict.explain().pairs[0].mine.values()) == {None}
    json.dumps(verdict.explain().to_dict(), allow_nan=False)


def test_verdicts_of_a_table_can_be_explained():
    verdicts = lw.Monitor(RULE).observe_many(pd.DataFrame([FIRST, SECOND]))
    assert str(verdicts[1].explain()) == TEXT
    assert str(verdicts[-1].explain()) == TEXT
    assert [verdict.violation for verdict in verdicts] == [False, True]
    assert str(verdicts[0].explain()) == "nothing contradicts it"


def test_probabilities_are_shown_column_by_column():
    rule = lw.Rule(
        features={"x": Feature("number", tolerance=1)},
        output="probabilities",
        output_column=["no", "yes"],
        delta=0.2,
    )
    monitor = lw.Monitor(rule)
    monitor.observe({"x": 1, "no": 0.5, "yes": 0.5})
    for told in (monitor.check, monitor.observe):
        text = str(told({"x": 1, "no": 0.25, "yes": 0.75}).explain())
        assert [line.split() for line in text.splitlines()[2:]] == [
            ["no", "0.25", "0.5", "*"],
            ["yes", "0.75", "0.5", "*"],
            ["x", "1", "1"],
        ]
    apart = monitor.check({"x": 1}, [0.1, 0.9]).explain()
    json.dumps(apart.to_dict(), allow_nan=False)
