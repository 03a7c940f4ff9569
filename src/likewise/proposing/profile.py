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

from likewise.tables.array_types import Floats, Rows
from likewise.tables.frames import Column, is_missing, read_number_column
from likewise.tables.normalize import is_rounded, require_list

SAMPLE_ROWS = 100_000
"""A rule is proposed from so many rows, the first."""
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
