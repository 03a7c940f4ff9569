"""What a feature's settings mean, and which of them make no sense."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from likewise import Feature
from tests.support.looping import each
from tests.support.refusals import raises

NAN, INF = float("nan"), float("inf")
WORDS = ["low", "middle", "high"]
EVERY_SETTING = {
    "tolerance": 2.0,
    "order": WORDS,
    "mismatch": 0.5,
    "values": WORDS,
    "missing": "mismatch",
    "labels": {"1.0": "women"},
}
SAYS_SOMETHING = {
    "number": {"tolerance", "missing"},
    "ordinal": {"order", "tolerance", "missing"},
    "category": {"mismatch", "values", "missing"},
    "protected": {"values", "missing", "labels"},
    "key": set(),
    "ignore": set(),
}
NEEDED = {"number": {"tolerance": 5}, "ordinal": {"order": WORDS}}

BAD = {
    "kind unknown": {"kind": "numeric"},
    "kind None": {"kind": None},
    "missing unknown": {"kind": "category", "missing": "skip"},
    "protected that matches": {"kind": "protected", "missing": "match"},
    "number without tolerance": {"kind": "number"},
    "ordinal without order": {"kind": "ordinal"},
    "mismatch without values": {"kind": "category", "mismatch": 1},
    "order empty": {"kind": "ordinal", "order": []},
    "order text": {"kind": "ordinal", "order": "abc"},
    "order an array": {"kind": "ordinal", "order": np.array(["a", "b"])},
    "order twice": {"kind": "ordinal", "order": ["a", "b", "a"]},
    "order with a hole": {"kind": "ordinal", "order": ["a", None]},
    "values with NaN": {"kind": "category", "values": [1.0, NAN]},
    "values of lists": {"kind": "category", "values": [[1], [2]]},
    "values 1 and True": {"kind": "category", "values": [1, True]},
    "percent of an ordinal": {"kind": "ordinal", "order": WORDS, "tolerance": "10%"},
}
for bad in (0, -1, NAN, INF, 1e101, 1e-101, True, [5], 1j, 10**400):
    BAD[f"tolerance {str(bad)[:9]}"] = {"kind": "number", "tolerance": bad}
    BAD[f"mismatch {str(bad)[:9]}"] = {"kind": "category", "values": WORDS, "mismatch": bad}
for bad in ("", "%", "5", "ten%", "0%", "-5%", "nan%", "inf%", "1e7%", "1e-7%", "10%%"):
    BAD[f"tolerance {bad!r}"] = {"kind": "number", "tolerance": bad}


@each("settings", BAD.values(), ids=BAD)
def test_feature_that_makes_no_sense_is_refused(settings):
    with raises(lw.errors.BadRule):
        Feature(**settings)
    with raises(lw.errors.BadRule):
        Feature.of("c,d", settings)


@each("kind", SAYS_SOMETHING)
@each("setting", EVERY_SETTING)
def test_setting_is_refused_where_it_says_nothing(kind, setting):
    settings = {**NEEDED.get(kind, {}), setting: EVERY_SETTING[setting]}
    if setting == "mismatch" and kind == "category":
        settings["values"] = WORDS
    if setting in SAYS_SOMETHING[kind]:
        assert Feature(kind, **settings).kind == kind
        return
    says = f"{setting} is given, which says nothing for kind {kind!r}; expected "
    with raises(lw.errors.BadRule) as error:
        Feature(kind, **settings)
    expected = str(error.value).removeprefix(says).split(", ")
    assert set(expected) == SAYS_SOMETHING[kind] or expected == ["no settings"]


@pytest.mark.parametrize(
    "given",
    [
        5,
        "number",
        {"tolerance": 5},
        {"kind": "number", "tolerence": 5},
    ],
    ids=["a number", "text", "no kind", "misspelt"],
)
def test_feature_of_what_is_none_names_the_column(given):
    with raises(lw.errors.BadRule):
        Feature.of("age", given)


GOOD = [
    {"kind": "number", "tolerance": 5.0},
    {"kind": "number", "tolerance": "10%", "missing": "match"},
    {"kind": "ordinal", "order": WORDS, "tolerance": 1.0},
    {"kind": "ordinal", "order": [1, 2.5, "x", False], "tolerance": 0.5, "missing": "mismatch"},
    {"kind": "category"},
    {"kind": "category", "missing": "match"},
    {"kind": "category", "values": WORDS, "mismatch": 0.25},
    {"kind": "protected", "values": ["f", "m"], "missing": "mismatch"},
    {"kind": "key"},
    {"kind": "ignore"},
]


@each("settings", GOOD, ids=str)
def test_feature_gives_back_its_settings(settings):
    feature = Feature(**settings)
    assert feature.to_dict() == settings
    assert Feature.of("c", feature.to_dict()) == feature
    assert Feature.of("c", feature) is feature
    assert hash(Feature(**settings)) == hash(feature)
    assert pickle.loads(pickle.dumps(feature)) == copy.deepcopy(feature) == feature


def test_features_that_differ_are_not_equal():
    features = [Feature(**settings) for settings in GOOD]
    assert len(set(features)) == len(features)


def test_feature_keeps_its_own_copy_of_lists():
    order = ["a", "b"]
    feature = Feature("ordinal", order=order)
    order.append("c")
    assert feature.order == ("a", "b")
    assert feature.tolerance == 1.0


def test_numbers_of_numpy_become_plain_ones():
    feature = Feature("ordinal", order=list(np.array([3, 5])), tolerance=np.float32(2))
    assert [type(value) for value in feature.order] == [int, int]
    assert (type(feature.tolerance), feature.tolerance) == (float, 2.0)
    assert Feature("number", tolerance=np.int64(5)) == Feature("number", tolerance=5)


@each(
    ("given", "kept"),
    [
        ("10%", "10%"),
        ("10.0%", "10%"),
        ("1e1%", "10%"),
        (" 10 %", "10%"),
        ("+010.50%", "10.5%"),
        ("0.1%", "0.1%"),
        ("1000000%", "1000000%"),
        ("0.000001%", "1e-06%"),
        ("33.333333333333336%", "33.3333333333333%"),
    ],
)
def test_percentage_is_kept_in_one_way_of_writing(given, kept):
    assert Feature("number", tolerance=given).tolerance == kept
    assert Feature("number", tolerance=kept).tolerance == kept


def test_only_what_is_measured_takes_part_in_the_distance():
    measured = {settings["kind"] for settings in GOOD if Feature(**settings).is_compared}
    assert measured == {"number", "ordinal", "category"}


# What a relative tolerance means


def distance(a: float, b: float, tolerance: str) -> float:
    """Of two values that lie in a history, infinite if they are beyond any radius."""
    features = {"x": Feature("number", tolerance=tolerance)}
    monitor = lw.Monitor(lw.Rule(epsilon=1e6, features=features, output_column="z"))
    monitor.observe({"x": a, "z": 0})
    found = monitor.check({"x": b, "z": 1}).witnesses
    return float(found.input_distances[0]) if len(found) else INF


@each(
    ("a", "b", "expected"),
    [
        (100, 110, 1.0),
        (100, 90, math.log(100 / 90) / math.log(1.1)),  # 90 is more than 10 % from 100
        (100, 121, 2.0),
        (-100, -110, 1.0),
        (1e-300, 1.1e-300, 1.0),
        (1e300, 1.1e300, 1.0),
        (7, 7, 0.0),
        (0, 0, 0.0),
        (0.0, -0.0, 0.0),
        (0, 5e-324, INF),
        (0, 100, INF),
        (1, -1, INF),
        (1e-300, -1e-300, INF),
    ],
)
def test_relative_tolerance_is_a_ratio(a, b, expected):
    assert distance(a, b, "10%") == pytest.approx(expected, abs=1e-11)
    assert distance(b, a, "10%") == pytest.approx(expected, abs=1e-11)


nonzero = st.floats(1e-6, 1e6) | st.floats(-1e6, -1e-6)


@given(a=nonzero, b=nonzero, percent=st.sampled_from([1, 10, 100]))
def test_relative_tolerance_is_symmetric_and_blind_to_the_unit(a, b, percent):
    near = distance(a, b, f"{percent}%")
    assert near == distance(b, a, f"{percent}%") == distance(-a, -b, f"{percent}%")
    assert near == pytest.approx(distance(100 * a, 100 * b, f"{percent}%"), abs=1e-9)
    if (a > 0) == (b > 0):
        small, large = sorted([abs(a), abs(b)])
        assert (near <= 1 + 1e-9) == (large <= small * (1 + percent / 100) * (1 + 1e-10))
    else:
        assert near == INF
