"""Decisions and verdicts on their way into a ledger, all arrays of one length."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.ledger.hashes import Bytes
from likewise.ledger.notes import Note
from likewise.ledger.stored_witnesses import NONE_KEPT, Kept
from likewise.ledger.verdict_facts import FactsArray
from likewise.values.keys import Key
from likewise.values.positions import Places
from likewise.values.witnesses import Floats, Rows

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
