"""Labels name values for people, and change nothing else."""

import pickle

import pytest

import likewise as lw
from likewise import Feature
from likewise.rule.value_names import name_value
from tests.support.refusals import raises

TOML = """
[output]
column = "z"
favourable = 1
labels = {"1" = "approved", "0" = "declined"}
[features.x]
kind = "number"
tolerance = 1
[features.sex]
kind = "protected"
labels = {"1.0" = "women", "2.0" = "men"}
"""
PLAIN = "\n".join(line for line in TOML.splitlines() if not line.startswith("labels"))


def test_labels_survive_toml_and_pickle():
    rule = lw.Rule.from_toml(TOML)
    assert rule.features["sex"].labels == (("1.0", "women"), ("2.0", "men"))
    assert rule.output_labels == (("1", "approved"), ("0", "declined"))
    assert lw.Rule.from_toml(rule.to_toml()) == rule == pickle.loads(pickle.dumps(rule))
    assert hash(rule) == hash(lw.Rule.from_toml(rule.to_toml()))
    assert "The output that everyone wants: approved." in rule.explain().lines


def test_labels_are_no_part_of_a_fingerprint():
    labelled, plain = lw.Rule.from_toml(TOML), lw.Rule.from_toml(PLAIN)
    assert labelled != plain
    assert labelled.fingerprint == plain.fingerprint
    assert labelled.is_same_except_models(plain)


def test_a_ledger_goes_on_with_other_labels(tmp_path):
    row = {"x": 1, "sex": 1.0, "z": 1}
    with lw.open(tmp_path / "ledger", lw.Rule.from_toml(PLAIN)) as ledger:
        ledger.observe(row)
    with lw.open(tmp_path / "ledger", lw.Rule.from_toml(TOML)) as ledger:
        verdicts = ledger.observe_many([row | {"z": 0}, row | {"sex": 2.0}])
        assert [one.name for one in verdicts.by_group("sex").groups] == ["women", "men"]


@pytest.mark.parametrize("value", [1, 1.0, "1.0", True])
def test_a_number_is_named_however_it_is_written(value):
    assert name_value((("1.0", "women"),), value) == "women"
    assert name_value((("01", "women"),), "1") == "women"


@pytest.mark.parametrize("value", ["one", None, 2, "nan", float("nan"), ()])
def test_a_value_without_a_label_stays_what_it_is(value):
    assert name_value((("1.0", "women"), ("x", "y")), value) is value
    assert name_value(None, value) is value


@pytest.mark.parametrize(
    "labels",
    [
        {},
        "women",
        {"1": 7},
        {"1": " "},
    ],
)
def test_labels_that_are_no_names_are_refused(labels):
    with raises(lw.errors.BadRule):
        Feature("protected", labels=labels)
    with raises(lw.errors.BadRule):
        lw.Rule(epsilon=1, output_labels=labels)


def test_labels_are_for_protected_columns():
    with raises(lw.errors.BadRule):
        Feature("number", tolerance=1, labels={"1": "one"})
