"""Define verdicts that are to be written to a ledger, in arrays of equal length."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.ledger.verdict_facts import FactsArray
from likewise.tables.array_types import Rows

WITNESS = np.dtype([("row", "<i8"), ("input_distance", "<f8"), ("output_distance", "<f8")])


@dataclass(frozen=True)
class StoredWitnesses:
    """The stored witnesses of a run of decisions.

    The witnesses of one decision are stored in order of their rows: an order by distance must not
    outlive the distances, which an erasure destroys.
    """

    owners: Rows
    """The place in the run of the decision that each witness belongs to, ascending."""
    records: npt.NDArray[Any]
    """The witnesses, with dtype WITNESS."""

    def __len__(self) -> int:
        return len(self.owners)

    def of(self, owner: int) -> npt.NDArray[Any]:
        """Return the witnesses of one decision."""
        start, stop = np.searchsorted(self.owners, [owner, owner + 1])
        return self.records[start:stop]

    def part(self, start: int, stop: int) -> "StoredWitnesses":
        """Return those of the decisions from `start` up to `stop`, with owners counted from 0."""
        first, last = np.searchsorted(self.owners, [start, stop])
        return StoredWitnesses(self.owners[first:last] - start, self.records[first:last])

    def by_row(self) -> "StoredWitnesses":
        """Return them with the witnesses of each owner in order of their rows."""
        rows = self.records["row"]
        if len(rows) < 2 or ((np.diff(rows) > 0) | (np.diff(self.owners) > 0)).all():
            return self
        return self._sort(rows)

    def nearest_first(self) -> "StoredWitnesses":
        """Return them by distance for each owner, then by row; by row if no distance is left."""
        return self._sort(self.records["row"], self.records["input_distance"])

    def _sort(self, *columns: npt.NDArray[Any]) -> "StoredWitnesses":
        """Sort by owner, and then by columns, of which the last counts most."""
        order = np.lexsort((*columns, self.owners))
        return StoredWitnesses(self.owners[order], self.records[order])


NO_STORED_WITNESSES = StoredWitnesses(np.empty(0, np.int64), np.empty(0, WITNESS))


Word = tuple[str, int, Any]
"""Column ("" for outputs), code, value."""
Codes = npt.NDArray[np.int32]
NO_CODE = -1
"""Stands for no model, or no source."""


@dataclass
class EntryVerdicts:
    """Verdicts to be written, of rows from `first` on."""

    first: int
    firsts: Rows
    """The first row that each was compared with."""
    counts: Rows
    """How many witnesses each has, or NOT_JUDGED."""
    witnesses: StoredWitnesses
    """The nearest witnesses."""
    facts: FactsArray
    """Further facts of each verdict."""

    def __len__(self) -> int:
        return len(self.counts)

    def by_row(self) -> "EntryVerdicts":
        """Return them with the witnesses of each in order of their rows."""
        return replace(self, witnesses=self.witnesses.by_row())
