"""Profiles a column: its values, how many are different, and whether they are numbers.

Invariant: places line up with the rows of the table; missing ones are NaN in `numbers`, -1 in
`codes`.
Cost: one pass over the values; numbers and codes are made when first asked for.
Not here: what follows from it (column_proposal.py, output_column.py, tolerances.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl

from likewise.sources.file_source import DecisionFile
from likewise.sources.protocol import RefusedRow, Table, join_tables
from likewise.sources.remarks import Remark, find_missing_words
from likewise.sources.text_columns import (
    SAMPLE,
    TextColumns,
    find_rounded,
    parse_numbers,
    remark_on_words,
)
from likewise.tables.array_types import Floats, Rows
from likewise.tables.frames import Column, is_missing, read_number_column
from likewise.tables.normalize import is_rounded, require_list

About: TypeAlias = Literal[
    "output", "truth", "decision", "score", "leak", "index", "identifier", "text", "constant",
    "empty", "nested", "rounded", "time", "weight", "protected", "age", "proxy", "family", "code",
    "count", "loosened",
]  # fmt: skip


# Notes on columns: one for each thing in a proposal that a person should look at.
# Invariant: names and values from the data are in `columns`, or in the text as their repr; whoever
# shows a note has to escape it.


@dataclass(frozen=True)
class ColumnNote:
    """Says something about one column or several."""

    about: About
    columns: tuple[str, ...]
    text: str

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {"about": self.about, "columns": list(self.columns), "text": self.text}


# Reads the first rows of a file for a proposal; text columns become numbers if all values are.
# Audits do not guess types (sources/delimited.py says why); proposals do, and a person reads the
# result. A column that is text only because of a few values gets a remark.


def first_rows(source: DecisionFile, most: int) -> tuple[Table, list[RefusedRow]]:
    """Read the first rows of a file, with text that is all numbers as numbers; and rejected rows.

    All rows have all columns: what a line of JSON leaves out is missing.
    """
    tables: list[Table] = []
    refused: list[RefusedRow] = []
    count = 0
    for chunk in source.chunks({}, source.columns, most):
        tables.append(chunk.table[: most - count])
        refused += chunk.refused
        count += len(tables[-1])
        if count >= most:
            break
    whole = join_tables(tables)
    if isinstance(whole, list):
        names = dict.fromkeys([*source.columns, *(name for row in whole for name in row)])
        return [{name: row.get(name) for name in names} for row in whole], refused
    text = source.text
    if text is None:
        return whole, refused
    guessed = [_guess_numbers(whole[name], text) for name in whole.columns]
    return whole.with_columns(guessed), refused


def _guess_numbers(values: pl.Series, text: TextColumns) -> pl.Series:
    """Convert a column to numbers if all values are; else add a remark if it looks like numbers."""
    if values.dtype != pl.String:
        return values
    name, settled = values.name, text.get_column_reading(values.name)
    if settled.reading is None:
        text.remark(name, remark_on_words(name, settled, whole_too=True))
        text.words.add_kept_words(name, values)
        return values
    bare, numbers = parse_numbers(values, settled.reading)
    if numbers.null_count() > values.null_count() or numbers.is_nan().any():
        nothing = find_missing_words(values)
        unfit = numbers.is_null() & values.is_not_null() & ~nothing
        unfit = unfit & (values.str.strip_chars() != "")
        if unfit.any():
            text.remark(name, _remark_late_word(values, unfit))
            text.words.add_kept_words(name, values)
            return values
        if nothing.any():
            text.words.add_missing(name, values.filter(nothing))
            numbers = numbers.to_frame().select(pl.when(~nothing).then(pl.col(name))).to_series()
    whole = bare.str.strip_chars().cast(pl.Int64, strict=False)
    if whole.null_count() > numbers.null_count():
        many_digits = next(find_rounded(bare, numbers), None)
        if many_digits is not None:
            text.remark(name, _remark_long_number(values, many_digits))
            return values
    text.remark(name, settled.remark)
    return whole if whole.null_count() == numbers.null_count() else numbers


def _remark_late_word(values: pl.Series, unfit: pl.Series) -> Remark:
    count = int(unfit.sum())
    return Remark(
        f"the first {SAMPLE:,} values are numbers, and all are read as words, since {count:,} of"
        f" {len(values):,} {'is' if count == 1 else 'are'} none",
        values.name,
        values.filter(unfit)[0],
        count,
        "If it means a missing value, name it with --missing; else correct it",
    )


def _remark_long_number(values: pl.Series, at: int) -> Remark:
    """Remark that numbers of many digits stay text, since float64 would change them."""
    what = "whole numbers of many digits are read as words, since float64 would round them"
    return Remark(what, values.name, values[at])


@dataclass(frozen=True, eq=False)
class Profile:
    """Describes the values of one column."""

    name: str
    values: list[Any]
    known: list[Any]
    """The values that are not missing."""
    different: frozenset[Any]
    """The distinct known values; empty if they are not comparable."""
    comparable: bool
    """Whether values can be compared: each can be hashed, as text or a number, not a list."""
    numeric: bool

    @classmethod
    def of(cls, name: str, column: Column) -> "Profile":
        values = require_list(column)
        if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
            known = values
        else:
            known = [value for value in values if not is_missing(value)]
        try:
            different = frozenset(known)
        except TypeError:
            return cls(name, values, known, frozenset(), comparable=False, numeric=False)
        numeric = bool(different) and all(map(_is_number, different))
        return cls(name, values, known, different, comparable=True, numeric=numeric)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def has_missing(self) -> bool:
        return len(self.known) < len(self.values)

    @property
    def unique(self) -> bool:
        """Whether every row has another value."""
        return len(self.different) == len(self.values)

    @cached_property
    def whole(self) -> bool:
        """Whether all are whole numbers, whatever their type."""
        return self.numeric and all(map(_is_whole, self.different))

    @cached_property
    def is_mostly_rounded(self) -> bool:
        """Whether most of its values are whole numbers beyond 2**53, which float64 rounds."""
        return 2 * sum(map(is_rounded, self.known)) > len(self.known)

    @property
    def is_measurable(self) -> bool:
        """Whether its values are numbers that can be compared as float64."""
        return self.numeric and not self.is_mostly_rounded

    @cached_property
    def numbers(self) -> Floats:
        """NaN where missing, or where float64 would round a whole number."""
        exact = [None if is_rounded(one) else one for one in self.values]
        return read_number_column(self.name, exact)

    @cached_property
    def codes(self) -> Rows:
        """A number for each different value, in their order of appearance."""
        seen: dict[Any, int] = {}
        codes = [
            -1 if is_missing(value) else seen.setdefault(value, len(seen)) for value in self.values
        ]
        return np.array(codes, dtype=np.int64)

    @property
    def binary(self) -> bool:
        """Whether it has the values 0 and 1, or true and false, and no others."""
        return self.comparable and len(self.different) == 2 and self.different == {0, 1}


def profiles_of(columns: Mapping[str, Column]) -> dict[str, Profile]:
    """Profile all columns, by name, in the order of the table."""
    return {name: Profile.of(name, column) for name, column in columns.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) or float(value).is_integer()
