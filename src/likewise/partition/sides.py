"""Numbers for what the pairs of a cell are about, which mean the same in every cell.

Sides of a pair are told apart by the values that are compared, as they stand in the file, and the
output; without features by the vectors that are compared. (A monitor tells them apart by its
vectors. The two agree, but for values so near that their logarithms are the same number.)
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.explaining.comparing import protected_columns
from likewise.intake.binding import Binding
from likewise.partition.stable import mixed, stable_codes, stable_column
from likewise.reports.clearest import WITHIN
from likewise.values.past import Past
from likewise.values.verdicts import Rows

_ONE = np.uint64(1)


@dataclass(frozen=True, eq=False)
class StableSides:
    """Sides of pairs of rows that a monitor has, in the order of a frame."""

    binding: Binding
    frame: pl.DataFrame
    past: Past

    def classes(self, later: Rows, earlier: Rows) -> Rows:
        classes = np.full(len(later), WITHIN, dtype=np.int64)
        for number, name in reversed(list(enumerate(protected_columns(self.binding.rule)))):
            mine = stable_codes(self.past.codes(name, later))
            theirs = stable_codes(self.past.codes(name, earlier))
            apart = (mine != theirs) & (mine >= 0) & (theirs >= 0)
            both = [np.full(len(mine), number), np.minimum(mine, theirs), np.maximum(mine, theirs)]
            classes[apart] = (mixed(both, len(mine)) >> _ONE).astype(np.int64)[apart]
        return classes

    def values(self, rows: Rows) -> npt.NDArray[np.uint64]:
        rule = self.binding.rule
        if rule.features is None:
            assert self.binding.output_column is not None
            vectors = self.past.points(rows).vectors.reshape(len(rows), -1).astype(np.float64)
            columns = [_bits(vectors[:, j]) for j in range(vectors.shape[1])]
            columns.append(column_numbers(self.frame[self.binding.output_column][rows]))
        else:
            output = rule.output_column or ()
            names = [name for name, one in rule.features.items() if one.measured]
            names += [output] if isinstance(output, str) else list(output)
            columns = [column_numbers(self.frame[name][rows]) for name in names]
        return mixed(columns, len(rows))

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
