"""The nearest witnesses of a run of decisions, as a ledger keeps them: flat, by owner."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.values.witnesses import Rows

WITNESS = np.dtype([("row", "<i8"), ("input_distance", "<f8"), ("output_distance", "<f8")])


@dataclass(frozen=True)
class Kept:
    """Owners by their place in the run, ascending.

    Those of one owner are stored in order of their rows: an order by distance must not outlive the
    distances, which an erasure destroys.
    """

    owners: Rows
    found: npt.NDArray[Any]
    """As WITNESS."""

    def __len__(self) -> int:
        return len(self.owners)

    def of(self, owner: int) -> npt.NDArray[Any]:
        """The witnesses of one decision."""
        start, stop = np.searchsorted(self.owners, [owner, owner + 1])
        return self.found[start:stop]

    def part(self, start: int, stop: int) -> "Kept":
        """Those of the decisions from `start` up to `stop`, counted from there."""
        first, last = np.searchsorted(self.owners, [start, stop])
        return Kept(self.owners[first:last] - start, self.found[first:last])

    def by_row(self) -> "Kept":
        """The same, those of one owner in order of their rows."""
        rows = self.found["row"]
        if len(rows) < 2 or ((np.diff(rows) > 0) | (np.diff(self.owners) > 0)).all():
            return self
        return self._sorted(rows)

    def nearest_first(self) -> "Kept":
        """The same, those of one owner by distance, then by row; by row if no distance is left."""
        return self._sorted(self.found["row"], self.found["input_distance"])

    def _sorted(self, *columns: npt.NDArray[Any]) -> "Kept":
        """By owner, and then by columns, of which the last counts most."""
        order = np.lexsort((*columns, self.owners))
        return Kept(self.owners[order], self.found[order])


NONE_KEPT = Kept(np.empty(0, np.int64), np.empty(0, WITNESS))
