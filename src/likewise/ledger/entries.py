"""Decisions and verdicts on their way into a ledger, all arrays of one length."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.ledger.hashes import Bytes
from likewise.ledger.notes import Note
from likewise.ledger.verdict_facts import FactsArray
from likewise.tables.keys import Key
from likewise.tables.positions import Places
from likewise.tables.rows import Floats, Rows

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


Word = tuple[str, int, Any]
"""Column ("" for outputs), code, value."""
Codes = npt.NDArray[np.int32]
NO_CODE = -1
"""Stands for no model, or no source."""


@dataclass
class Judged:
    """Verdicts to be written, of rows from `first` on."""

    first: int
    firsts: Rows
    """The first row that each was compared with."""
    counts: Rows
    """Witnesses of each, or NOT_JUDGED."""
    witnesses: Kept
    """The nearest."""
    facts: FactsArray | None = None
    """What each says beside them; None: nothing."""

    def __len__(self) -> int:
        return len(self.counts)

    def by_row(self) -> "Judged":
        """The same, the witnesses of each in order of their rows."""
        return replace(self, witnesses=self.witnesses.by_row())


@dataclass
class Entries:
    """Decisions to be written, with their verdicts."""

    times: Rows
    inputs: Bytes
    outputs: Floats
    keys: list[Key] | None
    firsts: Rows
    counts: Rows
    """Witnesses of each, or NOT_JUDGED."""
    facts: FactsArray | None = None
    """What each verdict says beside its witnesses; None: nothing."""
    witnesses: Kept = NONE_KEPT
    """The nearest."""
    words: list[Word] = field(default_factory=list)
    """That occur here for the first time."""
    models: list[str | None] | None = None
    places: Places | None = None
    """Where each comes from."""
    notes: list[Note] = field(default_factory=list)
    """What is said of these decisions, or of those that they replace, in the same transaction."""
    waiting: bool = False
    """Whether the verdicts are still to come; firsts, counts and witnesses mean nothing then."""

    def __len__(self) -> int:
        return len(self.times)

    def judged(self, first: int) -> Judged:
        """The verdicts, of rows from `first` on, the witnesses of each in order of their rows."""
        found = self.witnesses.by_row() if len(self.witnesses.owners) else self.witnesses
        return Judged(first, self.firsts, self.counts, found, self.facts)
