"""Rules with features: written as TOML, named by a fingerprint, refused where that makes sense."""

import copy
import datetime
import pickle
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from likewise import Feature
from tests.support.looping import each
from tests.support.refusals import raises

WRITTEN = """
metric = "linf"

[output]
column = "score"
kind = "number"
delta = 0.5
favourable = "low"

[features.age]
kind = "number"
tolerance = 5

[features.income]
kind = "number"
tolerance = "10%"
missing = "mismatch"

[features.education]
kind = "ordinal"
order = ["school", "college", "degree"]

[features.job]
kind = "category"
missing = "match"

[features.region]
kind = "category"
values = ["north", "south"]
mismatch = 0.5

[features.sex]
kind = "protected"

[features.id]
kind = "key"

[features.note]
kind = "ignore"
"""
FEATURES = {
    "age": Feature("number", tolerance=5),
    "income": Feature("number", tolerance="10%", missing="mismatch"),
    "education": Feature("ordinal", order=["school", "college", "degree"], tolerance=1),
    "job": Feature("category", missing="match"),
    "region": Feature("category", values=["north", "south"], mismatch=0.5),
    "sex": Feature("protected"),
    "id": Feature("key"),
    "note": Feature("ignore"),
}
MEANT = lw.Rule(
    features=FEATURES, output_column="score", output="number", delta=0.5, favourable="low"
)
FINGERPRINT = "1c0774a80377d98872c13d9b1ae2586a51620cbfcb81520895997909949b42ba"


def small(**settings) -> lw.Rule:
    given = {"features": {"x": Feature("number", tolerance=1)}, "output_column": "z"}
    return lw.Rule(**(given | settings))


def again(rule: lw.Rule) -> lw.Rule:
    text = rule.to_toml()
    tomllib.loads(text)  # is TOML for everyone, not only for us
    back = lw.Rule.from_toml(text)
    assert back == rule
    assert back.to_toml() == text
    assert back.fingerprint == rule.fingerprint
    assert list(back.features) == list(rule.features)
    return back


# Reading and writing


def test_rule_is_read_as_it_was_meant():
    rule = lw.Rule.from_toml(WRITTEN)
    assert rule == MEANT
    assert rule.epsilon == 1.0
    again(rule)


def test_output_table_means_what_the_settings_mean():
    text = '[output]\ncolumn = ["no", "yes"]\nmetric = "tv"\ndelta = 0.1\n'
    text += '[features.x]\nkind = "number"\ntolerance = 1\n'
    rule = lw.Rule.from_toml(text)
    assert (rule.output, rule.output_metric, rule.delta) == ("probabilities", "tv", 0.1)
    assert rule.output_column == ("no", "yes")
    again(rule)


def test_output_column_may_stand_without_a_table():
    text = 'output_column = "z"\n[features.x]\nkind = "number"\ntolerance = 1\n'
    assert lw.Rule.from_toml(text) == small()


def test_features_may_be_given_as_plain_dictionaries():
    assert small(features={"x": {"kind": "number", "tolerance": 1}}) == small()


HOSTILE = [
    "",
    " ",
    'say "hi"',
    "it's",
    "back\\slash",
    "\\u0041",
    "two\nlines",
    "cr\rlf\r\n",
    "tab\t",
    "a.b.c",
    "a]b[c",
    "# comment",
    "= 3",
    "é ø 猫 🐈",
    "\x00\x01\x1f",
    "\x7f",
    "\x80\x9f\u2028\ufeff",
    "true",
    "1",
    "nan",
    '"""',
    "'''",
]


@each("text", HOSTILE, ids=ascii)
def test_rule_survives_hostile_names_and_values(text):
    rule = lw.Rule(
        features={
            text: Feature("ordinal", order=[text, "other"]),
            "c": Feature("category", values=["x" + text, text], mismatch=1),
            "p": Feature("protected", values=[text]),
        },
        output_column=text + "!",
        favourable=text,
    )
    back = again(rule)
    assert back.features[text].order == (text, "other")
    assert (back.output_column, back.favourable) == (text + "!", text)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = words | st.integers() | st.floats(allow_nan=False) | st.booleans()


@given(
    names=st.lists(words, min_size=2, max_size=5, unique=True),
    order=st.lists(values, min_size=1, max_size=5, unique=True),
    favourable=values,
    tolerance=st.floats(1e-100, 1e100) | st.floats(1e-6, 1e6).map(lambda p: f"{p!r}%"),
)
def test_rule_survives_any_names_and_values(names, order, favourable, tolerance):
    output, *rest = names
    features = {name: Feature("ordinal", order=order) for name in rest}
    features[rest[0]] = Feature("number", tolerance=tolerance)
    again(lw.Rule(features=features, output_column=output, favourable=favourable))


@each(
    "value",
    [
        True,
        False,
        3,
        -0.5,
        1e22,
        2**70,
        float("inf"),
        datetime.date(2020, 2, 29),
        datetime.datetime(2020, 2, 29, 12, 30, 0, 5),
        datetime.datetime(2020, 2, 29, tzinfo=datetime.UTC),
        datetime.time(12, 30),
        np.int64(7),
        np.float32(0.5),
        np.bool_(True),
        np.str_("yes"),
    ],
    ids=repr,
)
def test_favourable_and_values_may_be_whatever_toml_holds(value):
    back = again(small(favourable=value))
    assert back.favourable == value
    if isinstance(value, np.generic):
        assert type(small(favourable=value).favourable) is type(value.item())
    features = {"x": Feature("ordinal", order=[value, "other"])}
    assert again(small(features=features)).features["x"].order == (value, "other")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda rule: pickle.loads(pickle.dumps(rule))])
def test_copy_of_a_rule_is_the_same_rule(copied):
    for rule in (MEANT, small(), lw.Rule("l2", 0.1, weights=[1, 2])):
        same = copied(rule)
        assert same == rule
        assert (hash(same), same.fingerprint) == (hash(rule), rule.fingerprint)
        assert type(same.features) is type(rule.features)


def test_features_of_a_rule_never_change():
    given = {"x": Feature("number", tolerance=1)}
    rule = small(features=given)
    given["y"] = Feature("category")
    assert list(rule.features) == ["x"]
    with pytest.raises(TypeError):
        rule.features["y"] = Feature("category")


# The fingerprint


def test_fingerprint_is_the_same_for_ever():
    assert MEANT.fingerprint == FINGERPRINT, "histories and reports name rules by it"


def test_fingerprint_is_the_same_whatever_the_order_of_features():
    backwards = lw.Rule(
        features=dict(reversed(FEATURES.items())),
        output_column="score",
        output="number",
        delta=0.5,
        favourable="low",
    )
    assert list(backwards.features) != list(MEANT.features)
    assert backwards == MEANT
    assert (backwards.fingerprint, hash(backwards)) == (MEANT.fingerprint, hash(MEANT))


def test_fingerprint_changes_with_anything():
    protected = {"x": Feature("number", tolerance=1), "sex": Feature("protected")}
    columns = {
        "tolerance": Feature("number", tolerance=2),
        "percent": Feature("number", tolerance="1%"),
        "missing": Feature("number", tolerance=1, missing="match"),
        "kind": Feature("category"),
        "order": Feature("ordinal", order=["a", "b"]),
        "order turned": Feature("ordinal", order=["b", "a"]),
        "values": Feature("category", values=["a", "b"]),
        "mismatch": Feature("category", values=["a", "b"], mismatch=1),
    }
    rules = [
        small(),
        small(metric="l1"),
        small(metric="l2"),
        small(epsilon=2),
        small(slack=0),
        small(favourable="yes"),
        small(favourable=True),
        small(favourable="True"),
        small(favourable=1),
        small(output_column="y"),
        small(output="number"),
        small(output="number", delta=1),
        small(output="probabilities", output_column=["p", "q"]),
        small(output="probabilities", output_column=["p", "q"], output_metric="tv"),
        small(features={"y": Feature("number", tolerance=1)}),
        small(features=protected),
        small(features=protected, protected_must_differ=True),
        *(small(features={"x": feature}) for feature in columns.values()),
        lw.Rule(epsilon=1),
    ]
    assert len({rule.fingerprint for rule in rules}) == len(rules)


# What is refused

SEX = {"x": Feature("number", tolerance=1), "sex": Feature("protected")}
BAD = {
    "features a list": {"features": ["x"]},
    "a feature a number": {"features": {"x": 5}},
    "no features": {"features": {}},
    "nothing measured": {"features": {"sex": Feature("protected"), "id": Feature("key")}},
    "two keys": {"features": {**SEX, "a": Feature("key"), "b": Feature("key")}},
    "weights": {"weights": [1.0]},
    "cosine": {"metric": "cosine"},
    "storage": {"storage": "float32"},
    "nobody protected": {"protected_must_differ": True},
    "protected_must_differ text": {"features": SEX, "protected_must_differ": "yes"},
    "output a feature": {"output_column": "x"},
    "no output": {"output_column": None},
    "output a number": {"output_column": 5},
    "outputs of numbers": {"output": "probabilities", "output_column": [5, 6]},
    "two labels": {"output_column": ["y", "z"]},
    "one probability": {"output": "probabilities", "output_column": "p"},
    "no probabilities": {"output": "probabilities", "output_column": []},
    "no columns of probabilities": {"output": "probabilities", "output_column": None},
    "one probability twice": {"output": "probabilities", "output_column": ["p", "q", "p"]},
    "favourable a tuple": {"favourable": (1, 2)},
    "output column without features": {"features": None, "epsilon": 1},
    "protected without features": {
        "features": None,
        "epsilon": 1,
        "output_column": None,
        "protected_must_differ": True,
    },
    "epsilon negative": {"epsilon": -1},
    "metric unknown": {"metric": "gower"},
}


@each("settings", BAD.values(), ids=BAD)
def test_rule_that_makes_no_sense_is_refused(settings):
    with raises(lw.errors.BadRule):
        small(**settings)


@each(
    "text",
    [
        '[output]\ncolumm = "z"\n',
        "features = 3\n",
        '[features]\nx = "number"\n',
        "[features.x]\ntolerance = 1\n",
        '[features.x]\nkind = "number"\ntolerance = nan\n',
        '[feature.x]\nkind = "number"\n',
        '[features.x]\nkind = "number"\ntolerance = 1\n',
        "[features.x]\nkind = ",
    ],
)
def test_toml_that_is_no_rule_is_refused(text):
    with raises(lw.errors.BadRule):
        lw.Rule.from_toml(text)


# Large radii


@each("metric", ["linf", "l1", "l2"])
@each("epsilon", [1e-3, 1.0, 5000.0, 1e12])
@each("missing", ["reject", "mismatch", "match"])
def test_what_must_match_is_near_within_no_radius(metric, epsilon, missing):
    features = {
        "x": Feature("number", tolerance=1),
        "c": Feature("category", missing=missing),
        "r": Feature("number", tolerance="50%", missing=missing),
    }
    rule = lw.Rule(metric, epsilon, features=features, output_column="z")
    monitor = lw.Monitor(rule)
    monitor.load([{"x": 1, "c": f"c{i}", "r": 2.0, "z": "yes"} for i in range(50)])
    assert monitor.check({"x": 1, "c": "c7", "r": 2.0, "z": "no"}).witnesses.rows.tolist() == [7]
    for c, r in (("new", 2.0), ("c7", -2.0), ("c7", 0.0)):
        assert not monitor.check({"x": 1, "c": c, "r": r, "z": "no"}).violation


def test_names_that_are_no_unicode_are_refused():
    with raises(lw.errors.BadRule):
        lw.Rule(features={"age\udcff": Feature("number", tolerance=1)}, output_column="z")
