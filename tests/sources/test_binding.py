"""A rule bound to columns: what is read, what a monitor is given, and what does not fit."""

from dataclasses import replace

import numpy as np
import pytest

import likewise as lw
from likewise import Feature
from likewise.sources.binding import bind_features, bind_vectors, make_judge
from likewise.sources.protocol import Chunk
from tests.support.lazily import polars as pl
from tests.support.refusals import raises

TABLE_RULE = lw.Rule(
    features={
        "id": Feature("key"),
        "age": Feature("number", tolerance=1),
        "grade": Feature("ordinal", order=[1, 2, 3], tolerance=1),
        "note": Feature("ignore"),
    },
    output_column="z",
)
VECTOR_RULE = lw.Rule("linf", 0.5)
NAMES = {"source": "d.csv", "rule_name": "r.toml"}
VECTOR_NAMES = {**NAMES, "named_by": "the request"}


def chunk(table):
    return Chunk(table, np.arange(1, len(table) + 1))


def test_features_are_bound_to_the_columns_that_they_use():
    binding = bind_features(TABLE_RULE, ["note", "age", "id", "grade", "z"], **NAMES)
    assert binding.columns == ("id", "age", "grade", "z")
    assert binding.types["age"] == "number"
    assert binding.types["grade"] == "listed"
    assert binding.types["z"] == "text"
    assert binding.key == "id"


@pytest.mark.parametrize(
    ("columns", "unfit"),
    [
        (["id", "age", "z"], ("grade",)),
        (["id"], ("age", "grade", "z")),
        (["id", "age", "grade", "z", "a b"], ("a b",)),
    ],
)
def test_columns_that_do_not_fit_are_the_fault_of_the_data(columns, unfit):
    with raises(lw.errors.BadTable, path="d.csv", columns=unfit):
        bind_features(TABLE_RULE, columns, **NAMES)


def test_columns_that_the_rule_does_not_know_are_not_read_where_it_says_so():
    rule = replace(TABLE_RULE, extra="ignore")
    binding = bind_features(rule, ["id", "age", "grade", "z", "other"], **NAMES)
    assert binding.columns == ("id", "age", "grade", "z")


def test_vectors_are_all_columns_but_the_output():
    binding = bind_vectors(VECTOR_RULE, ["a", "z", "b", "c"], "z", ignore=["c"], **VECTOR_NAMES)
    assert (binding.inputs, binding.output_column) == (("a", "b"), "z")
    rows = [{"a": 1.0, "b": 2.0, "z": "x"}, {"a": 3.0, "b": 4.0, "z": "y"}]
    for table in (rows, pl.DataFrame(rows)):
        inputs, outputs = binding.arguments(table)
        assert inputs.tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert list(outputs) == ["x", "y"]
    inputs, output = binding.arguments_of_row(rows[1])
    assert (inputs.tolist(), output) == ([3.0, 4.0], "y")


@pytest.mark.parametrize(
    ("rule", "columns", "error"),
    [
        (VECTOR_RULE, ["a"], lw.errors.BadTable),
        (VECTOR_RULE, ["z"], lw.errors.BadTable),
        (lw.Rule("linf", 1, weights=(1, 2)), ["a", "z"], lw.errors.WrongShape),
        (lw.Rule("linf", 1, output="probabilities"), ["a", "z"], lw.errors.BadRule),
    ],
)
def test_vectors_that_cannot_be_read_are_told_by_whose_fault_it_is(rule, columns, error):
    with raises(error):
        bind_vectors(rule, columns, "z", **VECTOR_NAMES)


@pytest.mark.parametrize("frame", [False, True], ids=["rows", "frame"])
def test_column_beside_is_read_and_not_judged(frame):
    binding = bind_vectors(VECTOR_RULE, ["a", "z"], "z", **VECTOR_NAMES).with_extra_columns(["t"])
    assert binding.columns == ("a", "z", "t")
    rows = [{"a": 1.0, "z": "x", "t": "monday"}]
    inputs, _ = binding.arguments(pl.DataFrame(rows) if frame else rows)
    assert inputs.tolist() == [[1.0]]


def test_column_beside_that_the_rule_knows_is_judged_too():
    binding = bind_features(TABLE_RULE, ["id", "age", "grade", "z"], **NAMES).with_extra_columns(
        ["age"]
    )
    assert binding.columns == ("id", "age", "grade", "z")
    assert binding.extra_columns == ()


def test_monitor_judges_what_the_binding_gives_it_with_further_settings():
    binding = bind_vectors(VECTOR_RULE, ["a", "z"], "z", **VECTOR_NAMES)
    judge = make_judge(
        lw.Monitor(VECTOR_RULE), binding, lambda rows: {"keys": rows.places.tolist()}
    )
    verdicts = judge(chunk([{"a": 0.0, "z": "x"}, {"a": 0.1, "z": "y"}]))
    assert verdicts.keys == (1, 2)
    assert verdicts[1].witness_keys == (1,)
