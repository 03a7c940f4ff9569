"""A time means the same, or is refused, whatever holds it, alone and in a batch."""

import datetime
from decimal import Decimal

import numpy as np
import pytest

from likewise.errors import BadDecision
from likewise.tables.times import iso_text, to_microseconds, to_microseconds_each
from tests.support.lazily import pandas as pd
from tests.support.lazily import polars as pl
from tests.support.lazily import pyarrow as pa
from tests.support.looping import each

DAY = datetime.datetime(2024, 1, 31, tzinfo=datetime.UTC)
MICROSECONDS = 1_706_659_200_000_000
HOLDERS = {
    "list": lambda one: [one],
    "tuple": lambda one: (one,),
    "array": lambda one: np.array([one]),
    "objects": lambda one: np.array([one], object),
    "pandas": lambda one: pd.Series([one], index=[7]),
    "Polars": lambda one: pl.Series([one]),
    "Arrow": lambda one: pa.array([one]),
    "Arrow in parts": lambda one: pa.chunked_array([pa.array([one])]),
}


def read(given, holder):
    try:
        held = HOLDERS[holder](given)
    except Exception:  # what this library cannot hold
        return None
    try:
        return int(to_microseconds_each(held, 1)[0])
    except BadDecision:
        return "refused"


@each("given", [
    DAY, DAY.replace(tzinfo=None), DAY.date(), "2024-01-31", "2024/01/31", "2024-01-31 00:00 UTC",
    "2024-01-31T02:00:00 +02:00", 1_706_659_200, 1_706_659_200.0, np.int64(1_706_659_200),
    np.datetime64("2024-01-31"), np.datetime64("2024-01-31", "ns"),
])  # fmt: skip
def test_time_is_the_same_in_whatever_holds_it(given):
    assert to_microseconds(given) == MICROSECONDS
    assert {read(given, holder) for holder in HOLDERS} <= {MICROSECONDS, None}


@each("given", [
    None, "", "soon", float("nan"), float("inf"), 10**20, 10**309, True, Decimal(1),
    np.datetime64("NaT"), datetime.time(1), datetime.timedelta(1), np.timedelta64(1, "s"),
    b"2024-01-31", "x" * 5000,
], ids=lambda one: repr(type(one)))  # fmt: skip
def test_what_is_no_time_is_refused_in_whatever_holds_it(given):
    with pytest.raises(BadDecision):
        to_microseconds(given)
    assert {read(given, holder) for holder in HOLDERS} <= {"refused", None}


def test_missing_time_of_pandas_is_refused_and_one_of_more_digits_than_python_writes():
    with pytest.raises(BadDecision):
        to_microseconds(10**5000)
    with pytest.raises(BadDecision):
        to_microseconds(pd.NaT)
    with pytest.raises(BadDecision):
        to_microseconds_each(pd.Series([pd.NaT]), 1)


@pytest.mark.parametrize("given", [1_706_659_200.5, "0001-01-01", "9999-12-31T23:59:59.999999Z"])
def test_time_that_was_written_is_read_back(given):
    assert to_microseconds(iso_text(to_microseconds(given))) == to_microseconds(given)
