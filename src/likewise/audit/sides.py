"""Numbers for values, and for sides of pairs, which mean the same in every cell and process.

A monitor gives labels and categories codes in the order in which they come, so the codes of two
cells cannot be compared. These numbers can: equal values have equal numbers, and different ones
different numbers, but for one case in 2**63.

Sides of a pair are told apart by the values that are compared, as they stand in the file, and the
output; without features by the vectors that are compared. (A monitor tells them apart by its
vectors. The two agree, but for values so near that their logarithms are the same number.)
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.explaining.past import Past
from likewise.reports.clearest import classes_across
from likewise.sources.binding import Binding
from likewise.tables.frames import is_missing
from likewise.tables.rows import Rows
from likewise.verdict.past_rows import CodedColumn

_ONE = np.uint64(1)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_POSITIVE = (1 << 63) - 1


def stable_number(value: Any) -> int:
    """A number from 0 to 2**63 - 1 for a label, a category or a key."""
    return int.from_bytes(hashlib.blake2b(_text(value), digest_size=8).digest()) & _POSITIVE


def _text(value: Any) -> bytes:
    """Equal exactly for values that Python holds equal: 1, 1.0 and True are."""
    if isinstance(value, bool | float) and float(value).is_integer():
        value = int(value)
    kind = "number" if isinstance(value, int | float) else type(value).__name__
    return f"{kind}:{value!r}".encode("utf-8", "surrogatepass")


def stable_codes(coded: CodedColumn) -> npt.NDArray[np.int64]:
    """For codes the numbers of what they stand for; -1 stays."""
    different, which = np.unique(coded.codes, return_inverse=True)
    numbers = [-1 if code < 0 else stable_number(coded.values[code]) for code in different.tolist()]
    return np.array(numbers, np.int64)[which]


def stable_column(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    """The numbers of values, -1 where one is missing."""
    known: dict[Any, int] = {}
    for value in dict.fromkeys(values):
        known[value] = -1 if is_missing(value) else stable_number(value)
    return np.fromiter((known[value] for value in values), np.int64, len(values))


def mix_columns(columns: Sequence[npt.NDArray[np.int64]], count: int) -> npt.NDArray[np.uint64]:
    """One number for several of each row, in their order."""
    total = np.zeros(count, np.uint64)
    for column in columns:
        total = (total ^ column.astype(np.uint64)) * _FACTOR
        total ^= total >> np.uint64(29)
    return total


@dataclass(frozen=True, eq=False)
class StableSides:
    """Sides of pairs of rows that a monitor has, in the order of a frame."""

    binding: Binding
    frame: pl.DataFrame
    past: Past

    def classes(self, later: Rows, earlier: Rows) -> Rows:
        def number_class(number: int, one: Rows, other: Rows) -> Rows:
            columns = [np.full(len(one), number), one, other]
            return (mix_columns(columns, len(one)) >> _ONE).astype(np.int64)

        return classes_across(self.past, later, earlier, stable_codes, number_class)

    def values(self, rows: Rows) -> npt.NDArray[np.uint64]:
        rule = self.binding.rule
        if rule.features is None:
            assert self.binding.output_column is not None
            vectors = self.past.points(rows).vectors.reshape(len(rows), -1).astype(np.float64)
            columns = [_bits(vectors[:, j]) for j in range(vectors.shape[1])]
            columns.append(column_numbers(self.frame[self.binding.output_column][rows]))
        else:
            output = rule.output_column or ()
            names = [name for name, one in rule.features.items() if one.is_compared]
            names += [output] if isinstance(output, str) else list(output)
            columns = [column_numbers(self.frame[name][rows]) for name in names]
        return mix_columns(columns, len(rows))

    def people(self, rows: Rows) -> Rows:
        person = self.binding.rule.person_column
        if person is None:
            return np.full(len(rows), -1, np.int64)
        return stable_column(self.frame[person][rows].to_list())


def column_numbers(column: pl.Series) -> npt.NDArray[np.int64]:
    """A number for each value of a column: the same for the same value in every cell."""
    if column.dtype.is_numeric():
        return _bits(column.cast(pl.Float64).fill_null(np.nan).to_numpy())
    return stable_column(column.to_list())


def _bits(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """0.0 and -0.0 are the same, and so are all that are no number."""
    plain = np.where(np.isnan(numbers), np.nan, numbers + 0.0)
    return np.ascontiguousarray(plain).view(np.int64)
