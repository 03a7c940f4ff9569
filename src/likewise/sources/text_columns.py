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
from likewise.sources.chunk import Refused, Type, Types
from likewise.sources.missing_words import MissingWords, in_numbers
from likewise.sources.number_text import PLAIN, Decimal, NumberReading, Settled, examine, settle
from likewise.sources.remarks import Remark, shortened
from likewise.tables.normalize import EXACT

SAMPLE = 10_000
"""Rows from which it is known how numbers are written."""
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
_WHOLE = re.compile(r"\s*[-+]?0*(\d+)(\.0*)?\s*")
_SHOWN = 60


class TextColumns:
    """The columns of one file of text."""

    def __init__(self, sample: pl.DataFrame, decimal: Decimal | None = None) -> None:
        """sample: the first rows, as text"""
        self._settled = settle(
            {name: examine(_known(sample[name]), decimal) for name in sample.columns}
        )
        self._words = MissingWords()
        self._remarks: dict[str, Remark] = {}

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What is to be said of the columns read so far."""
        return (*self._remarks.values(), *self._words.remarks)

    def settled(self, column: str) -> Settled:
        """How a column is read if it holds numbers."""
        return self._settled.get(column, Settled(None))

    def remark(self, column: str, remark: Remark | None) -> None:
        """Add what is to be said of a column."""
        if remark is not None:
            self._remarks[column] = remark

    def count_missing(self, column: str, words: pl.Series) -> None:
        """Words among numbers that were taken as missing."""
        self._words.add_missing(column, words)

    def count_words(self, column: str, text: pl.Series) -> None:
        """A column of words, in which some may stand for nothing known."""
        self._words.add_kept(column, text)

    def prepare(self, types: Types, source: str) -> None:
        """Remark how columns of these types are read; raise BadFile where that is not clear."""
        for name, kind in types.items():
            settled = self.settled(name)
            if kind in ("number", "listed"):
                if settled.ambiguous and settled.remark is not None:
                    raise BadFile(
                        f"{source}: the column {name!r} can be read in two ways:"
                        f" {settled.remark.what}. {settled.remark.do}.",
                        path=source,
                    )
                self.remark(name, settled.remark)
            elif kind == "text":
                self.remark(name, words_for_numbers(name, settled, whole_too=False))

    def typed(
        self,
        frame: pl.DataFrame,
        lines: npt.NDArray[np.int64],
        types: Types,
        refused: list[Refused],
    ) -> tuple[pl.DataFrame, npt.NDArray[np.bool_]]:
        """The frame with columns as the rule wants them, without the rows where that fails."""
        good = np.ones(frame.height, dtype=np.bool_)
        columns = []
        for name in frame.columns:
            text, kind = frame[name], types.get(name, "text")
            if kind == "text" or text.dtype != pl.String:
                if text.dtype == pl.String and name in types:
                    self._words.add_kept(name, text)
                columns.append(text)
                continue
            reading = self.settled(name).reading or PLAIN
            bare, values = _converted(text, kind, reading)
            if values.null_count() > text.null_count():
                bad = values.is_null() & text.is_not_null() & (text.str.strip_chars() != "")
                nothing = bad & in_numbers(text)
                if nothing.any():
                    self._words.add_missing(name, text.filter(nothing))
                    bad = bad & ~nothing
                wrong = bad.to_numpy()
                for i in np.flatnonzero(wrong & good).tolist():
                    why = _not_a(kind, name, text[i], reading)
                    refused.append(Refused(int(lines[i]), why, "unexpected-value", name))
                good &= ~wrong
            if kind == "number" and values.is_nan().any():
                self._words.add_missing(name, text.filter(values.is_nan().fill_null(False)))
            for i in rounded(bare, values) if kind in ("number", "listed") else ():
                if good[i]:
                    why = _too_large(name, text[i])
                    refused.append(Refused(int(lines[i]), why, "rounded-number", name))
                    good[i] = False
            columns.append(values)
        typed = pl.DataFrame(columns)
        return (typed if good.all() else typed.filter(pl.Series(good))), good


def _known(text: pl.Series) -> pl.Series:
    """The values that are not missing."""
    if text.dtype != pl.String:
        return pl.Series(text.name, [], dtype=pl.String)
    known = text.drop_nulls()
    if known.cast(pl.Float64, strict=False).null_count() == 0:
        return known  # as almost always
    return known.filter(~in_numbers(known))


def words_for_numbers(column: str, settled: Settled, *, whole_too: bool) -> Remark | None:
    """A remark if a column that is read as words looks like numbers.

    whole_too: whether whole numbers, which may be codes that a rule lists, count as well
    """
    seen = settled.examined
    if settled.ambiguous:
        return settled.remark if whole_too or not seen.is_plain else None
    if not seen.values or 2 * seen.fitting <= seen.values:
        return None
    if not whole_too and (seen.is_plain and seen.tells is None):
        return None
    unfit = seen.values - seen.fitting
    if unfit:
        return Remark(
            f"most values look like numbers, and all are read as words, since {unfit:,} of"
            f" {seen.values:,} {'is none' if unfit == 1 else 'are none'}",
            column,
            seen.misfit,
            unfit,
            f"If it means that nothing is known, say --missing {shortened(seen.misfit or '')}; else"
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


def _converted(text: pl.Series, kind: Type, reading: NumberReading) -> tuple[pl.Series, pl.Series]:
    """The text as every program would write it, and its values."""
    if kind == "flag":
        lower = text.str.strip_chars().str.to_lowercase()
        known = pl.Series(["true", "false"])
        return text, (
            pl.select(pl.when(lower.is_in(known.implode())).then(lower == "true"))
            .to_series()
            .alias(text.name)
        )
    bare, numbers = numbers_in(text, reading)
    if kind == "listed":
        whole = numbers.cast(pl.Int64, strict=False)
        if (whole.cast(pl.Float64) == numbers).all() and whole.null_count() == numbers.null_count():
            return bare, whole
    return bare, numbers


def numbers_in(text: pl.Series, reading: NumberReading) -> tuple[pl.Series, pl.Series]:
    """The text as every program would write it, and its numbers; null where there is none."""
    bare = text if reading.plain else reading.bare(text)
    numbers = bare.cast(pl.Float64, strict=False)
    if numbers.null_count() > bare.null_count():
        numbers = bare.str.strip_chars().cast(pl.Float64, strict=False)
    if reading.plain and numbers.null_count() > bare.null_count():  # such as "- 1.5"
        numbers = numbers.fill_null(reading.bare(text).cast(pl.Float64, strict=False))
    return bare, numbers


def rounded(text: pl.Series, values: pl.Series) -> Iterator[int]:
    """Where a whole number in the text has become another one."""
    for i in np.flatnonzero((values.abs() >= EXACT).fill_null(False).to_numpy()).tolist():
        whole = _WHOLE.fullmatch(text[i])
        if whole and (len(whole[1]) > 16 or int(whole[1]) > EXACT):
            yield i


def _too_large(name: str, value: str) -> str:
    return (
        f"{name!r} is {_short(value.strip())[1:-1]}, a whole number beyond 2**53, which float64"
        " rounds to another; subtract an offset from such numbers, or name such codes as text in"
        " the rule"
    )


def _not_a(kind: Type, name: str, value: str, reading: NumberReading) -> str:
    expected = "true or false" if kind == "flag" else "a number"
    hint = ""
    if kind != "flag" and not reading.plain:
        expected += f" with {reading.words}, as in the file's first lines"
    if _DECIMAL_COMMA.fullmatch(value) and reading.decimal == ".":
        hint = f" (with a decimal point: {value.strip().replace(',', '.')}; or say --decimal comma)"
    elif len(value.strip()) <= 12:
        hint = f". If it means that nothing is known, say --missing {value.strip()!r}"
    return f"{name!r} is {_short(value)}; expected {expected}{hint}"


def _short(value: str) -> str:
    return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 1] + "…")
