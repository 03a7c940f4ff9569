"""A number is what is written, whichever way: every style is read back, digit for digit."""

from decimal import Decimal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from likewise.sources.number_text import NumberReading, examine, looks_like_number, settle_columns
from likewise.sources.text_columns import parse_numbers
from tests.support.lazily import polars as pl
from tests.support.looping import each
from tests.support.strategies import examples

AMOUNTS = st.lists(
    st.decimals(min_value=-(10**9), max_value=10**9, places=2, allow_nan=False), min_size=1
)
STYLES = st.tuples(
    st.sampled_from([(".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "),
                     (".", "'"), (",", "'"), (".", "’"), (",", "\u202f")]),
    st.sampled_from(["{}", "{} €", "€{}", "$ {}", "CHF {}", "{}EUR", "{} %", "{}%"]),
    st.sampled_from(["-{}", "({})", "{}-", "- {}"]),
)  # fmt: skip


def written(amount, decimal, group, around, less):
    text = f"{abs(amount):,.2f}".replace(",", "\0").replace(".", decimal).replace("\0", group)
    text = around.format(text)
    return less.format(text) if amount < 0 else text


@settings(max_examples=examples(200))
@given(amounts=AMOUNTS, style=STYLES)
def test_numbers_are_read_back_from_every_style(amounts, style):
    (decimal, group), around, less = style
    texts = [written(amount, decimal, group, around, less) for amount in amounts]
    column = pl.Series("x", texts)
    settled = settle_columns({"x": examine(column)})["x"]
    assert settled.reading is not None, (texts, settled)
    _, numbers = parse_numbers(column, settled.reading)
    assert numbers.to_list() == [float(amount) for amount in amounts]


@pytest.mark.long
@settings(max_examples=examples(200))
@given(amounts=AMOUNTS, style=STYLES, other=st.sampled_from([".", ","]))
def test_number_in_another_style_is_no_number(amounts, style, other):
    """What does not fit the reading is nothing, never another number."""
    (decimal, group), around, less = style
    assume(decimal != other)
    reading = settle_columns({"x": examine(pl.Series("x", [written(a, decimal, group, around, less)
                                                   for a in amounts]))})["x"].reading  # fmt: skip
    foreign = pl.Series("x", [written(a, other, "", around, less) for a in amounts])
    _, numbers = parse_numbers(foreign, reading)
    assert numbers.to_list() == [None] * len(amounts)


@given(st.lists(st.integers(1, 999).flatmap(
    lambda a: st.integers(0, 999).map(lambda b: f"{a},{b:03}")), min_size=1))  # fmt: skip
@settings(max_examples=examples(50))
def test_two_readings_are_never_chosen_from(texts):
    settled = settle_columns({"x": examine(pl.Series("x", texts))})["x"]
    assert settled.reading is None and settled.is_ambiguous
    point, comma = settled.examined.readings
    for reading, divisor in ((point, 1), (comma, 1000)):
        _, numbers = parse_numbers(pl.Series("x", texts), reading)
        meant = [float(Decimal(text.replace(",", "")) / divisor) for text in texts]
        assert numbers.to_list() == meant
    for sign, reading in ((".", point), (",", comma)):
        assert settle_columns({"x": examine(pl.Series("x", texts), sign)})["x"].reading == reading


def test_column_that_allows_two_readings_follows_what_the_others_tell():
    def reading(**columns):
        examined = {name: examine(pl.Series(name, values)) for name, values in columns.items()}
        settled = settle_columns(examined)["x"]
        return settled.reading and settled.reading.decimal

    unclear = ["1,234", "5,678"]
    assert reading(x=unclear) is None
    assert reading(x=unclear, y=["0,5"]) == ","
    assert reading(x=unclear, y=["0.5"]) == "."
    assert reading(x=unclear, y=["1,234.5"]) == "."
    assert reading(x=unclear, y=["0.5"], z=["0,5"]) is None
    assert reading(x=unclear, y=["9,876"]) is None
    assert reading(x=[*unclear, "0,5"], y=["0.5"]) == ","  # it tells itself
    assert reading(x=["1.234"]) == "."
    assert reading(x=["1.234"], y=["0,5"]) == ","
    assert reading(x=["1.234"], y=["0,5"], z=["0.5"]) == "."


@each("texts", [
    ["1,23,4"], ["1.23.4"], ["12,34,567"], ["1,234.567,8"], ["1 23"], ["--5"], ["(5"], ["5)"],
    ["(-5)"], ["-5-"], ["€5$"], ["5 %%"], ["5 km"], ["0x10"], ["1_000"], ["1,5", "1.5"],
    ["5 €", "5 $"], ["5 %", "5"], ["1'234 567"], ["1'234", "1 234"], ["old"], ["2024-01-31"],
    ["31.01.2024"], ["12:30"], ["€"], ["%"], ["-"], [","], ["0,123,456"],
])  # fmt: skip
def test_what_fits_no_reading_has_none(texts):
    assert settle_columns({"x": examine(pl.Series("x", texts))})["x"].reading is None


@each("text, number", [
    ("1e5", 1e5), ("1,5e3", 1500.0), ("+5", 5.0), (",5", 0.5), (" 7 ", 7.0), ("-$5.25", -5.25),
    ("$-5.25", -5.25), ("US$ 1,234.50", 1234.5), ("1.234.567", 1234567.0), ("5 zł", 5.0),
])  # fmt: skip
def test_number_alone(text, number):
    column = pl.Series("x", [text])
    reading = settle_columns({"x": examine(column)})["x"].reading
    assert parse_numbers(column, reading)[1].to_list() == [number]
    assert looks_like_number(text)


def test_plain_numbers_have_the_plain_reading_and_no_remark():
    for texts in (["1", "2"], ["0.5", "-1e-3"], ["007"], ["1.5", "1.234"], ["inf"], [" 5 "]):
        settled = settle_columns({"x": examine(pl.Series("x", texts))})["x"]
        assert settled.reading == NumberReading() and settled.remark is None
