"""What findings do not show is said from the data at hand."""

from dataclasses import replace

import numpy as np
import pytest

import likewise as lw
from likewise import Feature
from likewise.reports.evidence import JudgingOrder
from likewise.reports.not_shown import (
    RepeatedRows,
    find_repeated,
    is_birth_date,
    list_caveats,
)
from likewise.reports.totals import stable_column
from tests.reports.test_headline import MEASURED, TOO_FEW
from tests.support.report_streams import RULE


def caveats(rule=RULE, agreement=MEASURED, order=None, repeated=None):
    order = order or JudgingOrder()
    return {one.code: one.sentence for one in list_caveats(rule, 3_000, agreement, order, repeated)}


def test_cause_and_clearance_are_always_denied():
    for rule in (RULE, lw.Rule(epsilon=1)):
        for agreement in (None, MEASURED, TOO_FEW):
            assert {"cause", "clearance", "order", "unrecorded"} <= caveats(rule, agreement).keys()


def test_decisions_without_a_similar_case_are_counted():
    assert "about the 100 of 3,000 decisions" in caveats()["clearance"]
    whole = replace(MEASURED, comparable=3_000)
    assert "Nothing follows" not in caveats(agreement=whole)["clearance"]


def test_smallest_index_is_2_8_standard_deviations_of_the_null():
    assert "an index below about 0.03" in caveats()["smallest-index"]  # 2.8 * 0.011
    assert "smallest-index" not in caveats(agreement=TOO_FEW)
    why = conclusion("no-spread", "The spread has no formula here.")
    unknown = replace(MEASURED, null_sd=None, how=why)
    assert "The spread has no formula here." in caveats(agreement=unknown)["smallest-index"]


def conclusion(code, sentence):
    return replace(MEASURED.how, code=code, sentence=sentence)


def test_columns_are_named():
    said = caveats()
    assert "still differ in x, by" in said["balance"]
    assert "such as note," in said["unrecorded"]
    assert "no difference by sex and race" in said["groups"]
    assert "no protected column is declared" in caveats(lw.Rule(epsilon=1))["groups"]
    categories = lw.Rule(features={"c": Feature("category")}, output_column="z")
    assert "the same values in all compared columns" in caveats(categories)["balance"]


def test_order_says_what_earlier_means():
    assert "no time column" in caveats()["order"]
    assert "40 have the same time" in caveats(order=JudgingOrder("made", ties=40))["order"]


def test_persons_are_asked_for_unless_declared():
    repeated = RepeatedRows(0.37, 0.002, ("dob",))
    assert (
        "37.0% of rows share all compared columns and dob with another row (by chance 0.2%):"
        " declare a person column"
    ) in caveats(repeated=repeated)["repeated-persons"]
    assert "repeated-persons" not in caveats(repeated=RepeatedRows(0.37, 0.365, ("dob",)))
    assert "12.0% of rows are the same" in caveats(repeated=RepeatedRows(0.12, 0.0))["persons"]
    features = {**RULE.features, "who": Feature("person", missing="mismatch")}
    declared = replace(RULE, features=features)
    assert not {"persons", "repeated-persons"} & caveats(declared, repeated=repeated).keys()


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("dob", True),
        ("DOB", True),
        ("birth_date", True),
        ("dateOfBirth", True),
        ("date of birth", True),
        ("Geburtsdatum", True),
        ("birthplace", False),
        ("doberman", False),
        ("applied", False),
    ],
)
def test_birth_dates_are_known_by_name(name, is_one):
    assert is_birth_date(name) == is_one


def test_repeated_rows_are_those_that_plain_counting_finds():
    rng = np.random.default_rng(4)
    rule = lw.Rule(features={"x": Feature("number", tolerance=1)}, output_column="z")
    monitor = lw.Monitor(rule)
    x, births = rng.integers(0, 9, 400), rng.integers(0, 30, 400)
    x[200:250], births[200:250] = x[:50], births[:50]
    monitor.load([{"x": int(one), "z": "yes"} for one in x])
    dates = [None if one == 0 else f"1980-01-{one:02}" for one in births.tolist()]
    found = find_repeated(monitor.past, range(400), {"dob": stable_column(dates)})
    both = list(zip(x.tolist(), dates, strict=True))
    expected = [two for two in both if two[1] is not None and both.count(two) > 1]
    assert found.share == len(expected) / 400 and 0 < found.by_chance < found.share
    alone = find_repeated(monitor.past, range(400))
    assert alone.share == sum(x.tolist().count(one) > 1 for one in x.tolist()) / 400
    monitor.close()
