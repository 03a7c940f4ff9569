"""A rule that makes no sense is refused; one that does survives being written down."""

import dataclasses
import math
import re
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from tests.support.looping import each
from tests.support.refusals import raises

NAN, INF = float("nan"), float("inf")
BAD_FIELDS = {
    "metric unknown": {"metric": "manhattan"},
    "metric not text": {"metric": 2},
    "metric None": {"metric": None},
    "metric in capitals": {"metric": "LINF"},
    "metric by its usual name": {"metric": "Euclidean"},
    "epsilon zero": {"epsilon": 0.0},
    "epsilon negative": {"epsilon": -0.5},
    "epsilon infinite": {"epsilon": INF},
    "epsilon too small": {"epsilon": 1e-151},
    "epsilon too large": {"epsilon": 1e151},
    "epsilon text": {"epsilon": "0.1"},
    "epsilon None": {"epsilon": None},
    "epsilon a list": {"epsilon": [0.1]},
    "epsilon complex": {"epsilon": 1j},
    "delta negative": {"delta": -1e-9},
    "delta NaN": {"delta": NAN},
    "delta infinite": {"delta": INF},
    "delta text": {"delta": "much"},
    "delta of labels": {"delta": 1},
    "delta of probabilities, linf": {"output": "probabilities", "delta": 1.0},
    "delta of probabilities, tv": {"output": "probabilities", "output_metric": "tv", "delta": 1},
    "delta of probabilities, l1": {"output": "probabilities", "output_metric": "l1", "delta": 2},
    "delta of probabilities, l2": {"output": "probabilities", "output_metric": "l2", "delta": 1.5},
    "output unknown": {"output": "picture"},
    "output None": {"output": None},
    "output metric unknown": {"output": "probabilities", "output_metric": "kl"},
    "slack negative": {"slack": -1e-9},
    "slack above one": {"slack": 1.5},
    "slack NaN": {"slack": NAN},
    "slack text": {"slack": "some"},
    "storage unknown": {"storage": "float16"},
    "storage nonsense": {"storage": "bigger"},
    "storage None": {"storage": None},
    "weight negative": {"weights": [1.0, -2.5]},
    "weight NaN": {"weights": [1.0, NAN]},
    "weight infinite": {"weights": [1.0, INF]},
    "weight too small": {"weights": [1.0, 1e-101]},
    "weight too large": {"weights": [1.0, 1e101]},
    "weights all zero": {"weights": [0.0, 0.0]},
    "weights empty": {"weights": []},
    "weights a number": {"weights": 2.0},
    "weights a table": {"weights": [[1.0, 2.0]]},
    "weights ragged": {"weights": [[1.0, 2.0], [1.0]]},
    "weights text": {"weights": ["heavy", "light"]},
    "weights digits": {"weights": ["1", "2"]},
    "weights complex": {"weights": [1j, 1.0]},
    "weights a matrix": {"weights": np.eye(3)},
    "weights a column": {"weights": np.ones((3, 1))},
    "epsilon an array": {"epsilon": np.array([0.1])},
}


@each("fields", BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_rule_that_makes_no_sense_is_refused(fields):
    with raises(lw.errors.BadRule) as error:
        lw.Rule(**{"metric": "linf", "epsilon": 0.1, **fields})
    *_, named = fields  # the others are there for it to be wrong
    assert error.value.setting.startswith(named.removesuffix("s")), "such as weight 1"


def test_rule_needs_an_epsilon():
    with raises(lw.errors.BadRule):
        lw.Rule("linf")
    with raises(lw.errors.BadRule):
        lw.Rule("linf", NAN)


def test_rule_has_the_promised_defaults():
    rule = lw.Rule(epsilon=0.16)
    assert (rule.metric, rule.epsilon, rule.weights) == ("linf", 0.16, None)
    assert (rule.output, rule.delta, rule.output_metric) == ("label", 0.0, "linf")
    assert (rule.slack, rule.storage) == (None, "auto")
    assert rule == lw.Rule("linf", 0.16)


def test_rule_takes_metric_and_epsilon_by_position_and_the_rest_by_name():
    assert lw.Rule("l2", 0.5).metric == "l2"
    with pytest.raises(TypeError):
        lw.Rule("l2", 0.5, [1.0, 2.0])


@pytest.mark.parametrize("field", ["metric", "epsilon", "weights", "delta", "slack", "storage"])
def test_rule_never_changes(field):
    rule = lw.Rule("linf", 0.1, weights=[1.0, 2.0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(rule, field, getattr(rule, field))
    with pytest.raises(TypeError):
        rule.weights[0] = 5.0


def test_rule_keeps_its_own_copy_of_weights():
    weights = np.array([1.0, 2.0])
    rule = lw.Rule("linf", 0.1, weights=weights)
    weights[:] = 9.0
    assert list(rule.weights) == [1.0, 2.0]


def test_equal_rules_are_equal_and_have_equal_hashes():
    rules = [lw.Rule("l2", 1, weights=w) for w in ([1, 2], (1.0, 2.0), np.array([1.0, 2.0]))]
    assert rules[0] == rules[1] == rules[2]
    assert len(set(rules)) == 1
    assert rules[0] != lw.Rule("l2", 1, weights=[1, 3])
    assert rules[0] != lw.Rule("l2", 1)


@each(
    "fields",
    [
        {"epsilon": 1},
        {"epsilon": np.float32(0.5)},
        {"epsilon": np.int64(3)},
        {"epsilon": 1e-150},
        {"epsilon": 1e150},
        {"slack": 0},
        {"slack": 1},
        {"weights": [0, 1e-100, 1e100]},
        {"weights": np.array([1, 2], dtype=np.uint8)},
        {"delta": 5e-324, "output": "number"},
        {"output": "probabilities", "output_metric": "tv", "delta": 0.999},
        {"output": "probabilities", "output_metric": "l1", "delta": 1.999},
        {"delta": 0.999},
    ],
    ids=str,
)
def test_rule_at_the_edge_of_sense_is_accepted_and_survives_toml(fields):
    rule = lw.Rule(**{"epsilon": 0.1, **fields})
    assert lw.Rule.from_toml(rule.to_toml()) == rule
    assert type(rule.epsilon) is float


def test_monitor_gives_back_its_rule():
    rule = lw.Rule("l1", 0.1, weights=[1.0, 2.0])
    assert lw.Monitor(rule).rule == rule


def in_range(low: float, high: float) -> st.SearchStrategy[float]:
    odd = [0.1 + 0.2, 1 / 3, 8 / 255, 1e22, 1e-7, 123456789.123456789, math.pi, 1.0]
    return st.floats(low, high) | st.sampled_from([x for x in odd if low <= x <= high])


@given(
    metric=st.sampled_from(["linf", "l1", "l2", "cosine"]),
    epsilon=in_range(1e-150, 1e150),
    weights=st.none() | st.lists(st.just(0.0) | in_range(1e-100, 1e100), min_size=1).filter(any),
    output=st.sampled_from(["label", "number", "probabilities"]),
    delta=in_range(0.0, 1.7e308),
    output_metric=st.sampled_from(["linf", "l1", "l2", "tv"]),
    slack=st.none() | in_range(0.0, 1.0),
    storage=st.sampled_from(["auto", "float64", "float32", "int8", "uint16", "int64", "uint64"]),
)
def test_rule_survives_being_written_as_toml(**fields):
    if fields["output"] != "number":
        fields["delta"] %= 1.0
    if fields["output"] != "probabilities":
        fields["output_metric"] = "linf"
    rule = lw.Rule(**fields)
    text = rule.to_toml()
    tomllib.loads(text)  # is TOML for everyone, not only for us
    again = lw.Rule.from_toml(text)
    assert again == rule
    assert again.to_toml() == text
    for name, value in fields.items():
        assert getattr(again, name) == (tuple(value) if isinstance(value, list) else value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("epsilon = 0.1\nmetric = [", "toml"),
        ('metric = "linf"', "epsilon"),
        ('metric = "linf"\nepsilon = 0.1\nepsilom = 0.2', "epsilom"),
        ('metric = "linf"\nepsilon = -3.5', r"-3\.5"),
        ('metric = "linf"\nepsilon = "0.1"', r"0\.1"),
        ('metric = "linf"\nepsilon = nan', "nan"),
        ('metric = "linf"\nepsilon = 0.1\nweights = "heavy"', "weight"),
    ],
    ids=["not TOML", "no epsilon", "a misspelt field", "negative", "text", "NaN", "bad weights"],
)
def test_toml_that_is_no_rule_is_refused(text, says):
    with pytest.raises(lw.errors.BadRule) as error:
        lw.Rule.from_toml(text)
    assert re.search(says, str(error.value), re.IGNORECASE), str(error.value)


def test_hand_written_toml_is_read_with_defaults_and_integers():
    rule = lw.Rule.from_toml('metric = "l1"\nepsilon = 2\nweights = [1, 0, 2.5]\n')
    assert rule == lw.Rule("l1", 2.0, weights=[1.0, 0.0, 2.5])


@pytest.mark.parametrize(
    ("setting", "given", "meant"),
    [
        ("metric", "euclidean", "l2"),
        ("metric", "Linf", "linf"),
        ("metric", "cityblock", "l1"),
        ("metric", "chebyshev", "linf"),
        ("metric", "cosin", "cosine"),
        ("output", "classification", "label"),
        ("output", "Number", "number"),
        ("output", "probability", "probabilities"),
        ("output_metric", "total_variation", "tv"),
        ("output_metric", "manhattan", "l1"),
        ("storage", "Float32", "float32"),
        ("compare", "accross", "across"),
    ],
)
def test_a_value_that_is_called_otherwise_is_suggested(setting, given, meant):
    with raises(lw.errors.BadRule, setting=setting, text=False) as refused:
        lw.Rule(**{"epsilon": 0.1, setting: given})
    assert str(refused.value).endswith(f"; did you mean {meant!r}?")


def test_other_names_in_a_rule_and_of_an_index_are_suggested():
    for setting, called, meant in (
        ("kind", "categorical", "category"),
        ("kind", "numeric", "number"),
        ("kind", "Protected", "protected"),
        ("missing", "Reject", "reject"),
    ):
        with raises(lw.errors.BadRule, setting=setting, text=False) as refused:
            lw.Feature(**{"kind": "number", setting: called})
        assert str(refused.value).endswith(f"; did you mean {meant!r}?")
    with raises(lw.errors.BadRule):
        lw.Rule.from_toml("epsilom = 1")
    with raises(lw.errors.BadRule, setting="index", text=False) as refused:
        lw.Monitor(lw.Rule("linf", 0.1), index="KD-Tree")
    assert str(refused.value).endswith("; did you mean 'kdtree'?")
    with raises(lw.errors.BadRule, setting="metric", text=False) as refused:
        lw.Rule("hamming", 0.1)
    assert "did you mean" not in str(refused.value)


# Files


def test_a_rule_is_loaded_from_a_file(tmp_path):
    rule = lw.Rule("l1", 0.25, weights=[1, 2])
    path = tmp_path / "rule.toml"
    path.write_text("\ufeff" + rule.to_toml(), encoding="utf-8")
    assert lw.Rule.load(path) == lw.Rule.load(str(path)) == rule


def test_what_is_wrong_with_a_file_names_it(tmp_path):
    path = tmp_path / "rule.toml"
    with raises(lw.errors.BadFile, path=str(path)):
        lw.Rule.load(path)
    with raises(lw.errors.BadFile, path=str(tmp_path)):
        lw.Rule.load(tmp_path)
    path.write_bytes(b"epsilon = \xff")
    with raises(lw.errors.BadFile, path=str(path)):
        lw.Rule.load(path)
    path.write_text("epsilon = -1")
    with raises(lw.errors.BadRule, setting="epsilon"):
        lw.Rule.load(path)
    for text in (path, b"epsilon = 1", None):
        with raises(lw.errors.BadRule):
            lw.Rule.from_toml(text)
