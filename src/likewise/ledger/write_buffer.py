"""Hold decisions and verdicts in memory until they are written to a ledger.

A single decision is a batch of one: everything that waits has the same shape.
"""

import time as clock
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.ledger.entries import (
    NO_STORED_WITNESSES,
    WITNESS,
    EntryVerdicts,
    StoredWitnesses,
    Word,
)
from likewise.ledger.hashes import Bytes
from likewise.ledger.notes import LedgerNote
from likewise.ledger.stored import NOT_JUDGED
from likewise.ledger.verdict_facts import FACTS, FactsArray, facts_of_many, stored_facts
from likewise.tables.array_types import Floats, Rows
from likewise.tables.keys import Key
from likewise.tables.positions import SourcePositions, join_positions
from likewise.verdict.verdicts import Verdict, Verdicts


@dataclass
class UnwrittenDecisions:
    """Decisions that are remembered but not written yet, in order."""

    times: Rows
    keys: list[Key] | None
    firsts: Rows
    counts: Rows
    """How many witnesses each has, or NOT_JUDGED."""
    witnesses: StoredWitnesses
    facts: FactsArray
    """Further facts of each verdict."""
    models: list[str | None] | None = None
    """Which model made each; None if none is given for any."""
    notes: list[LedgerNote] = field(default_factory=list)
    places: SourcePositions | None = None
    """Where each comes from."""
    since: float = field(default_factory=clock.monotonic)

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def of_one(
        cls,
        times: Rows,
        keys: list[Key] | None,
        first: int,
        found: Verdict,
        *,
        witnesses: int,
        models: list[str | None] | None,
        places: SourcePositions | None = None,
    ) -> "UnwrittenDecisions":
        """Return a single decision with its verdict.

        witnesses: how many of the nearest are stored
        """
        stored = NO_STORED_WITNESSES
        rows, near, far = found.witnesses.columns()
        count = len(rows)
        if count > witnesses:
            nearest = np.sort(near.argsort(kind="stable")[:witnesses])
            rows, near, far = rows[nearest], near[nearest], far[nearest]
        if len(rows):
            stored = StoredWitnesses(np.zeros(len(rows), np.int64), _as_stored(rows, near, far))
        return cls(
            times,
            keys,
            np.array([first]),
            np.array([count]),
            stored,
            np.array([stored_facts(found.context)], FACTS),
            models,
            [],
            places,
        )

    @classmethod
    def of(
        cls,
        times: Rows,
        keys: list[Key] | None,
        firsts: Rows,
        found: Verdicts | None,
        *,
        witnesses: int,
        models: list[str | None] | None,
        places: SourcePositions | None = None,
        notes: Sequence[LedgerNote] = (),
    ) -> "UnwrittenDecisions":
        """Return decisions with their verdicts, which are None if they were not judged.

        witnesses: how many of the nearest are stored for each
        """
        stored = NO_STORED_WITNESSES
        if found is None:
            counts = np.full(len(times), NOT_JUDGED)
        else:
            counts, stored = found.counts, select_nearest(found, witnesses)
        facts = facts_of_many(found, len(times))
        return cls(times, keys, firsts, counts, stored, facts, models, list(notes), places)

    @classmethod
    def join(cls, parts: "Sequence[UnwrittenDecisions]") -> "UnwrittenDecisions":
        """Return all parts joined in order."""
        if len(parts) == 1:
            return parts[0]
        offsets = np.cumsum([0, *map(len, parts)])
        flagged = [
            (at, part.witnesses) for at, part in zip(offsets, parts, strict=False) if part.witnesses
        ]
        stored = NO_STORED_WITNESSES
        if flagged:
            stored = StoredWitnesses(
                np.concatenate([witnesses.owners + at for at, witnesses in flagged]),
                np.concatenate([witnesses.records for _, witnesses in flagged]),
            )
        return cls(
            np.concatenate([part.times for part in parts]),
            _join_lists([(part.keys, len(part)) for part in parts]),
            np.concatenate([part.firsts for part in parts]),
            np.concatenate([part.counts for part in parts]),
            stored,
            np.concatenate([part.facts for part in parts]),
            _join_lists([(part.models, len(part)) for part in parts]),
            [note for part in parts for note in part.notes],
            join_positions([(part.places, len(part)) for part in parts]),
            parts[0].since,
        )

    def part(self, start: int, stop: int) -> "UnwrittenDecisions":
        return UnwrittenDecisions(
            self.times[start:stop],
            None if self.keys is None else self.keys[start:stop],
            self.firsts[start:stop],
            self.counts[start:stop],
            self.witnesses.part(start, stop),
            self.facts[start:stop],
            None if self.models is None else self.models[start:stop],
            self.notes if stop == len(self) else [],
            None if self.places is None else self.places.select(slice(start, stop)),
            self.since,
        )


@dataclass
class Entries:
    """Decisions to be written, with what a record holds beside them."""

    decisions: UnwrittenDecisions
    inputs: Bytes
    outputs: Floats
    words: list[Word] = field(default_factory=list)
    """Words that occur here for the first time."""
    waiting: bool = False
    """Whether the verdicts are still to come; those of `decisions` mean nothing then."""

    def to_verdicts(self, first: int) -> EntryVerdicts:
        """Return the verdicts of rows from `first` on, the witnesses of each by row."""
        own = self.decisions
        witnesses = own.witnesses.by_row() if len(own.witnesses.owners) else own.witnesses
        return EntryVerdicts(first, own.firsts, own.counts, witnesses, own.facts)


@dataclass(frozen=True)
class WriteQueue:
    """Decisions that may not be on disk yet. A queue is replaced, never changed."""

    first: int
    """The row of the first."""
    stop: int
    """The row after the last."""
    words: dict[str, int]
    """By column: how many words there were when the last was added."""
    _waiting: list[UnwrittenDecisions] = field(default_factory=list)
    """Longer queues share it, so only the first `_part_count` belong to this one."""
    _part_count: int = 0

    def append(self, part: UnwrittenDecisions, words: dict[str, int]) -> "WriteQueue":
        del self._waiting[self._part_count :]  # left by a call that was interrupted right here
        self._waiting.append(part)
        stop = self.stop + len(part.times)
        return WriteQueue(self.first, stop, words, self._waiting, self._part_count + 1)

    def after_write(self) -> "WriteQueue":
        """Return the queue as it is once all of it is on disk."""
        return WriteQueue(self.stop, self.stop, self.words)

    def __bool__(self) -> bool:
        return self.stop > self.first

    @property
    def since(self) -> float:
        """When the first of them began to wait."""
        return self._waiting[0].since

    def join_all(self) -> UnwrittenDecisions:
        """Return all of them as one batch."""
        return UnwrittenDecisions.join(self._waiting[: self._part_count])


def _join_lists(parts: list[tuple[list[Any] | None, int]]) -> list[Any] | None:
    """Join lists; None stands for as many times None as the count beside it."""
    if all(part is None for part, _ in parts):
        return None
    return [value for part, count in parts for value in part or [None] * count]


def select_nearest(verdicts: Verdicts, most: int) -> StoredWitnesses:
    """Return the nearest witnesses of each verdict; the earlier row if equally near."""
    witnesses, owners = verdicts.witnesses, verdicts.owners
    if len(witnesses) == 0 or most == 0:
        return NO_STORED_WITNESSES
    if np.diff(verdicts.offsets).max() > most:
        nearest = verdicts.mark_nearest(most)
        witnesses, owners = witnesses.select(nearest), owners[nearest]
    return StoredWitnesses(owners, _as_stored(*witnesses.columns()))


def _as_stored(rows: Rows, near: Floats, far: Floats) -> npt.NDArray[Any]:
    records = np.empty(len(rows), WITNESS)
    records["row"], records["input_distance"], records["output_distance"] = rows, near, far
    return records
