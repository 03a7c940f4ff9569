"""Verdicts on their way to a ledger: what is written of them beside the rows themselves.

A decision that comes alone is a batch of one: everything that waits has the same shape.
"""

import time as clock
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.ledger.entries import NO_STORED_WITNESSES, WITNESS, StoredWitnesses
from likewise.ledger.notes import LedgerNote
from likewise.ledger.stored import NOT_JUDGED
from likewise.ledger.verdict_facts import FACTS, FactsArray, facts_of_many, stored_facts
from likewise.tables.keys import Key
from likewise.tables.positions import SourcePositions, join_positions
from likewise.tables.rows import Floats, Rows
from likewise.verdict.verdicts import Verdict, Verdicts


@dataclass
class UnwrittenDecisions:
    """Decisions that memory has taken, in order."""

    times: Rows
    keys: list[Key] | None
    firsts: Rows
    counts: Rows
    """Witnesses of each, or NOT_JUDGED."""
    witnesses: StoredWitnesses
    facts: FactsArray
    """What each verdict says beside its witnesses."""
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
        """Return a single decision with what was found about it.

        witnesses: how many of the nearest are kept
        """
        kept = NO_STORED_WITNESSES
        rows, near, far = found.witnesses.columns()
        count = len(rows)
        if count > witnesses:
            nearest = np.sort(near.argsort(kind="stable")[:witnesses])
            rows, near, far = rows[nearest], near[nearest], far[nearest]
        if len(rows):
            kept = StoredWitnesses(np.zeros(len(rows), np.int64), _as_stored(rows, near, far))
        return cls(
            times,
            keys,
            np.array([first]),
            np.array([count]),
            kept,
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
        """Return decisions with what was found about them; None: they were not judged.

        witnesses: how many of the nearest are kept of each
        """
        kept = NO_STORED_WITNESSES
        if found is None:
            counts = np.full(len(times), NOT_JUDGED)
        else:
            counts, kept = found.counts, select_nearest(found, witnesses)
        facts = facts_of_many(found, len(times))
        return cls(times, keys, firsts, counts, kept, facts, models, list(notes), places)

    @classmethod
    def join(cls, several: "Sequence[UnwrittenDecisions]") -> "UnwrittenDecisions":
        """Return all of them, one after the other."""
        if len(several) == 1:
            return several[0]
        offsets = np.cumsum([0, *map(len, several)])
        flagged = [
            (at, one.witnesses) for at, one in zip(offsets, several, strict=False) if one.witnesses
        ]
        kept = NO_STORED_WITNESSES
        if flagged:
            owners = [one.owners + at for at, one in flagged]
            kept = StoredWitnesses(
                np.concatenate(owners), np.concatenate([one.records for _, one in flagged])
            )
        return cls(
            np.concatenate([one.times for one in several]),
            _join_lists([(one.keys, len(one)) for one in several]),
            np.concatenate([one.firsts for one in several]),
            np.concatenate([one.counts for one in several]),
            kept,
            np.concatenate([one.facts for one in several]),
            _join_lists([(one.models, len(one)) for one in several]),
            [note for one in several for note in one.notes],
            join_positions([(one.places, len(one)) for one in several]),
            several[0].since,
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


@dataclass(frozen=True)
class WriteQueue:
    """Decisions that memory has taken and the disk may not have yet. Replaced, never changed."""

    first: int
    """The row of the first."""
    stop: int
    """The row after the last."""
    words: dict[str, int]
    """By column: how many words there were when the last was taken."""
    _waiting: list[UnwrittenDecisions] = field(default_factory=list)
    """Longer queues share it, so only the first `_many` belong to this one."""
    _many: int = 0

    def append(self, some: UnwrittenDecisions, words: dict[str, int]) -> "WriteQueue":
        del self._waiting[self._many :]  # of a call that was cut off right here
        self._waiting.append(some)
        return WriteQueue(
            self.first, self.stop + len(some.times), words, self._waiting, self._many + 1
        )

    def after_write(self) -> "WriteQueue":
        """The queue once all of it is on disk."""
        return WriteQueue(self.stop, self.stop, self.words)

    def __bool__(self) -> bool:
        return self.stop > self.first

    @property
    def since(self) -> float:
        """When the first of them began to wait."""
        return self._waiting[0].since

    def join_all(self) -> UnwrittenDecisions:
        """All of them, one after the other."""
        return UnwrittenDecisions.join(self._waiting[: self._many])


def _join_lists(parts: list[tuple[list[Any] | None, int]]) -> list[Any] | None:
    """One after the other, None for each of those that have none."""
    if all(part is None for part, _ in parts):
        return None
    return [one for part, count in parts for one in part or [None] * count]


def select_nearest(verdicts: Verdicts, most: int) -> StoredWitnesses:
    """The nearest witnesses of each; the earlier row where equally near."""
    found, owners = verdicts.witnesses, verdicts.owners
    if len(found) == 0 or most == 0:
        return NO_STORED_WITNESSES
    if np.diff(verdicts.offsets).max() > most:
        nearest = verdicts.mark_nearest(most)
        found, owners = found.select(nearest), owners[nearest]
    return StoredWitnesses(owners, _as_stored(*found.columns()))


def _as_stored(rows: Rows, near: Floats, far: Floats) -> npt.NDArray[Any]:
    kept = np.empty(len(rows), WITNESS)
    kept["row"], kept["input_distance"], kept["output_distance"] = rows, near, far
    return kept
