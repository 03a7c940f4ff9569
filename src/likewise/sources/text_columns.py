"""Columns of text become what a rule says they are: numbers, true or false, or words.

How numbers are written (number_text.py) is settled once, from the first SAMPLE rows; what a column
holds is never settled here, since a rule says it.

Invariant: a value that is none of its column's kind, or is written in another way than the column's
first values, has its row refused with its line. Nothing becomes a word because it is no number.
Cost: plain numbers cost one cast.
"""

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.errors import BadFile
from likewise.sources.chunk import ColumnType, ColumnTypes, RefusedRow
from likewise.sources.missing_words import MissingWords, find_missing_words
from likewise.sources.number_text import (
    PLAIN,
    ColumnReading,
    Decimal,
    NumberReading,
    examine,
    settle_columns,
)
from likewise.sources.remarks import Remark, shorten
from likewise.tables.normalize import MAX_EXACT_INT

SAMPLE = 10_000
"""Rows from which it is known how numbers are written."""
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
_WHOLE = re.compile(r"\s*[-+]?0*(\d+)(\.0*)?\s*")
_SHOWN = 60


class TextColumns:
    """The columns of one file of text."""

    def __init__(self, sample: pl.DataFrame, decimal: Decimal | None = None) -> None:
        """sample: the first rows, as text"""
        self._readings = settle_columns(
            {name: examine(_drop_missing(sample[name]), decimal) for name in sample.columns}
        )
        self._words = MissingWords()
        self._remarks: dict[str, Remark] = {}

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What is to be said of the columns read so far."""
        return (*self._remarks.values(), *self._words.remarks)

    def get_column_reading(self, column: str) -> ColumnReading:
        """How a column is read if it holds numbers."""
        return self._readings.get(column, ColumnReading(None))

    def remark(self, column: str, remark: Remark | None) -> None:
        """Add what is to be said of a column."""
        if remark is not None:
            self._remarks[column] = remark

    def count_missing(self, column: str, words: pl.Series) -> None:
        """Words among numbers that were taken as missing."""
        self._words.add_missing(column, words)

    def count_words(self, column: str, text: pl.Series) -> None:
        """A column of words, in which some may stand for nothing known."""
        self._words.add_kept_words(column, text)

    def prepare(self, types: ColumnTypes, source: str) -> None:
        """Remark how columns of these types are read; raise BadFile where that is not clear."""
        for name, kind in types.items():
            settled = self.get_column_reading(name)
            if kind in ("number", "listed"):
                if settled.is_ambiguous and settled.remark is not None:
                    raise BadFile(
                        f"{source}: the column {name!r} can be read in two ways:"
                        f" {settled.remark.what}. {settled.remark.do}.",
                        path=source,
                    )
                self.remark(name, settled.remark)
            elif kind == "text":
                self.remark(name, remark_on_words(name, settled, whole_too=False))

    def convert(
        self,
        frame: pl.DataFrame,
        lines: npt.NDArray[np.int64],
        types: ColumnTypes,
        refused: list[RefusedRow],
    ) -> tuple[pl.DataFrame, npt.NDArray[np.bool_]]:
        """The frame with columns as the rule wants them, without the rows where that fails."""
        good = np.ones(frame.height, dtype=np.bool_)
        columns = []
        for name in frame.columns:
            text, kind = frame[name], types.get(name, "text")
            if kind == "text" or text.dtype != pl.String:
                if text.dtype == pl.String and name in types:
                    self._words.add_kept_words(name, text)
                columns.append(text)
                continue
            reading = self.get_column_reading(name).reading or PLAIN
            bare, values = _convert_column(text, kind, reading)
            if values.null_count() > text.null_count():
                bad = values.is_null() & text.is_not_null() & (text.str.strip_chars() != "")
                nothing = bad & find_missing_words(text)
                if nothing.any():
                    self._words.add_missing(name, text.filter(nothing))
                    bad = bad & ~nothing
                wrong = bad.to_numpy()
                for i in np.flatnonzero(wrong & good).tolist():
                    why = _describe_wrong_type(kind, name, text[i], reading)
                    refused.append(RefusedRow(int(lines[i]), why, "unexpected-value", name))
                good &= ~wrong
            if kind == "number" and values.is_nan().any():
                self._words.add_missing(name, text.filter(values.is_nan().fill_null(False)))
            for i in find_rounded(bare, values) if kind in ("number", "listed") else ():
                if good[i]:
                    why = _describe_too_large(name, text[i])
                    refused.append(RefusedRow(int(lines[i]), why, "rounded-number", name))
                    good[i] = False
            columns.append(values)
        typed = pl.DataFrame(columns)
        return (typed if good.all() else typed.filter(pl.Series(good))), good


def _drop_missing(text: pl.Series) -> pl.Series:
    """The values that are not missing."""
    if text.dtype != pl.String:
        return pl.Series(text.name, [], dtype=pl.String)
    known = text.drop_nulls()
    if known.cast(pl.Float64, strict=False).null_count() == 0:
        return known  # as almost always
    return known.filter(~find_missing_words(known))


def remark_on_words(column: str, settled: ColumnReading, *, whole_too: bool) -> Remark | None:
    """A remark if a column that is read as words looks like numbers.

    whole_too: whether whole numbers, which may be codes that a rule lists, count as well
    """
    seen = settled.examined
    if settled.is_ambiguous:
        return settled.remark if whole_too or not seen.is_plain else None
    if not seen.values or 2 * seen.fitting <= seen.values:
        return None
    if not whole_too and (seen.is_plain and seen.shown_decimal is None):
        return None
    unfit = seen.values - seen.fitting
    if unfit:
        return Remark(
            f"most values look like numbers, and all are read as words, since {unfit:,} of"
            f" {seen.values:,} {'is none' if unfit == 1 else 'are none'}",
            column,
            seen.misfit,
            unfit,
            f"If it means that nothing is known, say --missing {shorten(seen.misfit or '')}; else"
            " mend it",
        )
    if settled.reading is None:
        return Remark(
            "the values look like numbers and are read as words, since they are not written in one"
            " way",
            column,
            seen.example,
            seen.values,
            "Write all of them alike: one decimal sign, one currency, percent signs everywhere or"
            " nowhere",
        )
    return Remark(
        "the values look like numbers and are read as words, as the rule says",
        column,
        seen.example,
        seen.values,
        'If numbers are meant, say kind = "number" and a tolerance in the rule',
    )


def _convert_column(
    text: pl.Series, kind: ColumnType, reading: NumberReading
) -> tuple[pl.Series, pl.Series]:
    """The text as every program would write it, and its values."""
    if kind == "flag":
        lower = text.str.strip_chars().str.to_lowercase()
        known = pl.Series(["true", "false"])
        return text, (
            pl.select(pl.when(lower.is_in(known.implode())).then(lower == "true"))
            .to_series()
            .alias(text.name)
        )
    bare, numbers = parse_numbers(text, reading)
    if kind == "listed":
        whole = numbers.cast(pl.Int64, strict=False)
        if (whole.cast(pl.Float64) == numbers).all() and whole.null_count() == numbers.null_count():
            return bare, whole
    return bare, numbers


def parse_numbers(text: pl.Series, reading: NumberReading) -> tuple[pl.Series, pl.Series]:
    """The text as every program would write it, and its numbers; null where there is none."""
    bare = text if reading.is_plain else reading.normalize(text)
    numbers = bare.cast(pl.Float64, strict=False)
    if numbers.null_count() > bare.null_count():
        numbers = bare.str.strip_chars().cast(pl.Float64, strict=False)
    if reading.is_plain and numbers.null_count() > bare.null_count():  # such as "- 1.5"
        numbers = numbers.fill_null(reading.normalize(text).cast(pl.Float64, strict=False))
    return bare, numbers


def find_rounded(text: pl.Series, values: pl.Series) -> Iterator[int]:
    """Where a whole number in the text has become another one."""
    for i in np.flatnonzero((values.abs() >= MAX_EXACT_INT).fill_null(False).to_numpy()).tolist():
        whole = _WHOLE.fullmatch(text[i])
        if whole and (len(whole[1]) > 16 or int(whole[1]) > MAX_EXACT_INT):
            yield i


def _describe_too_large(name: str, value: str) -> str:
    return (
        f"{name!r} is {_shorten(value.strip())[1:-1]}, a whole number beyond 2**53, which float64"
        " rounds to another; subtract an offset from such numbers, or name such codes as text in"
        " the rule"
    )


def _describe_wrong_type(kind: ColumnType, name: str, value: str, reading: NumberReading) -> str:
    expected = "true or false" if kind == "flag" else "a number"
    hint = ""
    if kind != "flag" and not reading.is_plain:
        expected += f" with {reading.description}, as in the file's first lines"
    if _DECIMAL_COMMA.fullmatch(value) and reading.decimal == ".":
        hint = f" (with a decimal point: {value.strip().replace(',', '.')}; or say --decimal comma)"
    elif len(value.strip()) <= 12:
        hint = f". If it means that nothing is known, say --missing {value.strip()!r}"
    return f"{name!r} is {_shorten(value)}; expected {expected}{hint}"


def _shorten(value: str) -> str:
    return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 1] + "…")
