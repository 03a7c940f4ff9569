"""Turns columns of text into what a rule says they are: numbers, true or false, or words.

How numbers are written (number_text.py) is detected once, from the first SAMPLE rows; what a column
holds is never detected, since a rule says it.
Invariant: a value that does not fit its column's type, or is written in another way than the
column's first values, has its row refused with its line. No number silently becomes a word.
Cost: plain numbers cost one cast.
"""

import re
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.errors import BadFile
from likewise.sources.number_text import (
    PLAIN,
    ColumnReading,
    Decimal,
    NumberReading,
    examine,
    settle_columns,
)
from likewise.sources.protocol import Chunk, ColumnType, ColumnTypes, RefusedRow
from likewise.sources.remarks import MissingWords, Remark, find_missing_words, shorten
from likewise.tables.normalize import MAX_EXACT_INT

SAMPLE = 10_000
"""Rows from which it is known how numbers are written."""
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
_WHOLE = re.compile(r"\s*[-+]?0*(\d+)(\.0*)?\s*")
_SHOWN = 60


class TextColumns:
    """Reads the columns of one file of text."""

    def __init__(self, sample: pl.DataFrame, decimal: Decimal | None = None) -> None:
        """Detect how numbers are written in `sample`, the first rows as text."""
        self._readings = settle_columns(
            {name: examine(_drop_missing(sample[name]), decimal) for name in sample.columns}
        )
        self.words = MissingWords()
        """The words for missing values in the columns read so far."""
        self._remarks: dict[str, Remark] = {}

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What was noticed in the columns read so far."""
        return (*self._remarks.values(), *self.words.remarks)

    def get_column_reading(self, column: str) -> ColumnReading:
        """Return how a column is read if it holds numbers."""
        return self._readings.get(column, ColumnReading(None))

    def remark(self, column: str, remark: Remark | None) -> None:
        """Set the remark about a column."""
        if remark is not None:
            self._remarks[column] = remark

    def prepare(self, types: ColumnTypes, columns: Iterable[str], source: str) -> None:
        """Remark how these columns are read; raise BadFile where that is not clear."""
        for name in columns:
            kind, settled = types.get(name), self.get_column_reading(name)
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
        """Convert the columns of a frame to their types; return it without rows where that fails.

        The second value says which rows of `frame` are in it.
        """
        good = np.ones(frame.height, dtype=np.bool_)
        columns = []
        for name in frame.columns:
            text, kind = frame[name], types.get(name, "text")
            if kind == "text" or text.dtype != pl.String:
                if text.dtype == pl.String and name in types:
                    self.words.add_kept_words(name, text)
                columns.append(text)
                continue
            reading = self.get_column_reading(name).reading or PLAIN
            bare, values = _convert_column(text, kind, reading)
            if values.null_count() > text.null_count():
                bad = values.is_null() & text.is_not_null() & (text.str.strip_chars() != "")
                nothing = bad & find_missing_words(text)
                if nothing.any():
                    self.words.add_missing(name, text.filter(nothing))
                    bad = bad & ~nothing
                wrong = bad.to_numpy()
                for i in np.flatnonzero(wrong & good).tolist():
                    why = _describe_wrong_type(kind, name, text[i], reading)
                    refused.append(RefusedRow(int(lines[i]), why, "unexpected-value", name))
                good &= ~wrong
            if kind == "number" and values.is_nan().any():
                self.words.add_missing(name, text.filter(values.is_nan().fill_null(False)))
            for i in find_rounded(bare, values) if kind in ("number", "listed") else ():
                if good[i]:
                    why = _describe_too_large(name, text[i])
                    refused.append(RefusedRow(int(lines[i]), why, "rounded-number", name))
                    good[i] = False
            columns.append(values)
        typed = pl.DataFrame(columns)
        return (typed if good.all() else typed.filter(pl.Series(good))), good

    def make_chunk(
        self,
        frames: Iterable[tuple[pl.DataFrame, npt.NDArray[np.int64]]],
        types: ColumnTypes,
        refused: list[RefusedRow],
    ) -> Chunk:
        """Convert frames, each with the places of its rows, and join them to one chunk."""
        tables, places = [pl.DataFrame()], [np.empty(0, dtype=np.int64)]
        for frame, lines in frames:
            table, good = self.convert(frame, lines, types, refused)
            tables.append(table)
            places.append(lines[good])
        refused.sort(key=lambda row: row.place)
        table = pl.concat(tables[1:] or tables, how="vertical_relaxed")
        return Chunk(table, np.concatenate(places), tuple(refused))


def _drop_missing(text: pl.Series) -> pl.Series:
    """Return the values that are not missing."""
    if text.dtype != pl.String:
        return pl.Series(text.name, [], dtype=pl.String)
    present = text.drop_nulls()
    if present.cast(pl.Float64, strict=False).null_count() == 0:
        return present  # as almost always
    return present.filter(~find_missing_words(present))


def remark_on_words(column: str, settled: ColumnReading, *, whole_too: bool) -> Remark | None:
    """Return a remark if a column that is read as words looks like numbers.

    whole_too   whether whole numbers, which may be codes that a rule lists, count as well
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
    """Return the text as programs write it, and its values."""
    if kind == "flag":
        lower = text.str.strip_chars().str.to_lowercase()
        is_flag = lower.is_in(pl.Series(["true", "false"]).implode())
        flags = pl.select(pl.when(is_flag).then(lower == "true")).to_series()
        return text, flags.alias(text.name)
    bare, numbers = parse_numbers(text, reading)
    if kind == "listed":
        whole = numbers.cast(pl.Int64, strict=False)
        if (whole.cast(pl.Float64) == numbers).all() and whole.null_count() == numbers.null_count():
            return bare, whole
    return bare, numbers


def parse_numbers(text: pl.Series, reading: NumberReading) -> tuple[pl.Series, pl.Series]:
    """Return the text as programs write it, and its numbers; null where there is none."""
    bare = text if reading.is_plain else reading.normalize(text)
    numbers = bare.cast(pl.Float64, strict=False)
    if numbers.null_count() > bare.null_count():
        numbers = bare.str.strip_chars().cast(pl.Float64, strict=False)
    if reading.is_plain and numbers.null_count() > bare.null_count():  # such as "- 1.5"
        numbers = numbers.fill_null(reading.normalize(text).cast(pl.Float64, strict=False))
    return bare, numbers


def find_rounded(text: pl.Series, values: pl.Series) -> Iterator[int]:
    """Yield where a whole number in the text has become another one."""
    for i in np.flatnonzero((values.abs() >= MAX_EXACT_INT).fill_null(False).to_numpy()).tolist():
        whole = _WHOLE.fullmatch(text[i])
        if whole and (len(whole[1]) > 16 or int(whole[1]) > MAX_EXACT_INT):
            yield i


def _describe_too_large(name: str, value: str) -> str:
    number = shorten(value.strip(), _SHOWN)[1:-1]
    return (
        f"{name!r} is {number}, a whole number beyond 2**53, which float64"
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
    return f"{name!r} is {shorten(value, _SHOWN)}; expected {expected}{hint}"
