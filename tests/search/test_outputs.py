"""An output means the same, or is refused, alone, in a batch, in a table and joined with others."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import likewise as lw
from likewise.monitor.readers.protocol import Decision

VALUES = {
    "float": 0.5,
    "whole": 3,
    "Decimal": Decimal("0.5"),
    "Fraction": Fraction(1, 2),
    "list of one": [0.5],
    "tuple of one": (Decimal("0.5"),),
    "array of one": np.array([0.5]),
    "0-d array": np.array(0.5),
    "series of one": pd.Series([0.5]),
    "series of one, with another index": pd.Series([0.5], index=[9]),
    "series of one, of Polars": pl.Series([0.5]),
    "series of a flag": pd.Series([True], index=["a"]),
    "series of two": pd.Series([0.5, 0.5], index=[1, 2]),
    "float32": np.float32(0.1),
    "int8": np.int8(3),
    "uint64": np.uint64(2**53),
    "true": True,
    "NumPy's true": np.True_,
    "text": "0.5",
    "grouped text": "1_0",
    "bytes": b"1",
    "two": [0.5, 0.5],
    "none": [],
    "nested": [[0.5]],
    "complex": 1j,
    "duration": np.timedelta64(5, "ns"),
    "too large": 2**53 + 1,
    "too large in NumPy": np.int64(2**53 + 1),
    "too large Decimal": Decimal(2**53 + 1),
    "huge": 10**400,
    "more digits than Python writes": 10**5000,
    "Decimal NaN": Decimal("NaN"),
    "signalling NaN": Decimal("sNaN"),
    "NaN": float("nan"),
    "infinite": float("inf"),
}
VECTORS = lw.Rule(metric="linf", epsilon=0.1, output="number", delta=0.1)
TABLE = lw.Rule(
    epsilon=1,
    output="number",
    delta=0.1,
    features={"a": lw.Feature("number", tolerance=1)},
    output_column="z",
)


def alone(value):
    monitor = lw.Monitor(VECTORS)
    monitor.observe([0.0], value)
    return monitor


def in_batch(value):
    monitor = lw.Monitor(VECTORS)
    monitor.observe_many([[0.0], [9.0]], [value, 0.25])
    return monitor


def joined(value):
    monitor = lw.Monitor(VECTORS)
    answers = monitor.core.observe_each([Decision([float(9 * i)], value) for i in range(3)])
    for one in answers:
        if isinstance(one, lw.errors.BadDecision):
            raise one
    return monitor


def in_row(value):
    monitor = lw.Monitor(TABLE)
    monitor.observe({"a": 0.0, "z": value})
    return monitor


def in_column(value):
    monitor = lw.Monitor(TABLE)
    monitor.observe_many([{"a": 0.0, "z": value}, {"a": 9.0, "z": 0.25}])
    return monitor


WAYS = (alone, in_batch, joined, in_row, in_column)


def stored(way, value):
    try:
        return float(np.ravel(way(value).past.outputs(np.array([0])))[0])
    except lw.errors.BadDecision:
        return "refused"


@pytest.mark.parametrize("name", [name for name in VALUES if "of one" in name])
def test_what_holds_one_number_is_that_number(name):
    assert stored(alone, VALUES[name]) == 0.5


@pytest.mark.parametrize("name", VALUES)
def test_number_is_the_same_whichever_way_it_comes(name):
    answers = {way.__name__: stored(way, VALUES[name]) for way in WAYS}
    assert len(set(answers.values())) == 1, answers


@pytest.mark.parametrize(
    "half", [0.5, Decimal("0.5"), Fraction(1, 2), np.float32(0.5), True, "0.5"]
)
def test_probability_is_the_same_whichever_way_it_comes(half):
    rule = lw.Rule(metric="linf", epsilon=0.1, output="probabilities", delta=0.1)
    answers = set()
    for many in (False, True):
        monitor = lw.Monitor(rule)
        try:
            if many:
                monitor.observe_many([[0.0], [9.0]], [[half, 0.5], [0.5, 0.5]])
            else:
                monitor.observe([0.0], [half, 0.5])
            answers.add(str(np.ravel(monitor.past.outputs(np.array([0])))))
        except lw.errors.BadDecision:
            answers.add("refused")
    assert len(answers) == 1
