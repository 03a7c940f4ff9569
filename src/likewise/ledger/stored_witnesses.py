"""The nearest witnesses of a run of decisions, as a ledger keeps them: flat, by owner."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.values.verdicts import Rows

WITNESS = np.dtype([("row", "<i8"), ("input_distance", "<f8"), ("output_distance", "<f8")])


@dataclass(frozen=True)
class Kept:
    """Owners by their place in the run, ascending.

    Of one owner they stand as they are stored: in format 1 nearest first, in format 2 by row, since
    their order must not outlive distances that an erasure destroys.
    """

    owners: Rows
    found: npt.NDArray[Any]
    """As WITNESS."""

    @classmethod
    def none(cls) -> "Kept":
        return cls(np.empty(0, np.int64), np.empty(0, WITNESS))

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

    def as_bytes(self) -> Iterator[tuple[int, bytes]]:
        """Each owner that has some, and its witnesses as they are hashed."""
        starts = np.flatnonzero(np.diff(self.owners, prepend=-1))
        data, size = self.found.tobytes(), WITNESS.itemsize
        bounds = [*(starts * size).tolist(), len(data)]
        for owner, start, end in zip(
            self.owners[starts].tolist(), bounds[:-1], bounds[1:], strict=True
        ):
            yield owner, data[start:end]

    @property
    def places(self) -> Rows:
        """Of each among those of its owner, from 0 on."""
        starts = np.flatnonzero(np.diff(self.owners, prepend=-1))
        lengths = np.diff(np.append(starts, len(self.owners)))
        return np.arange(len(self.owners)) - np.repeat(starts, lengths)

    def cells(self, first: int) -> Iterator[tuple[Any, ...]]:
        """A row of the database for each; the run begins at row `first`."""
        columns = [(first + self.owners).tolist(), self.places.tolist()]
        columns += [self.found[name].tolist() for name in WITNESS.names or ()]
        return zip(*columns, strict=True)
