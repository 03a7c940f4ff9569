"""Verdicts on their way to a ledger: what is written of them beside the rows themselves."""

import time as clock
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.ledger.notes import Note
from likewise.ledger.stored import NOT_JUDGED
from likewise.ledger.stored_witnesses import WITNESS, Kept
from likewise.values.keys import Key
from likewise.values.positions import Places, joined_places
from likewise.values.verdicts import Rows, Verdict, Verdicts, Witnesses


@dataclass
class Pending:
    """Decisions that memory has taken, in order."""

    times: Rows
    keys: list[Key] | None
    firsts: Rows
    counts: Rows
    """Witnesses of each, or NOT_JUDGED."""
    kept: Kept
    models: list[str | None] | None = None
    """Which model made each; None if none is given for any."""
    missing: Rows | None = None
    comparable: npt.NDArray[np.bool_] | None = None
    notes: list[Note] = field(default_factory=list)
    places: Places | None = None
    """Where each comes from."""
    since: float = field(default_factory=clock.monotonic)

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def of(
        cls,
        times: Rows,
        keys: list[Key] | None,
        firsts: Rows,
        found: Verdict | Verdicts | None,
        *,
        witnesses: int,
        models: list[str | None] | None,
        places: Places | None = None,
        notes: Sequence[Note] = (),
    ) -> "Pending":
        """Decisions with what was found about them; None: they were not judged.

        witnesses: how many of the nearest are kept of each
        """
        said, kept = None, Kept.none()
        if found is None:
            counts = np.full(len(times), NOT_JUDGED)
        elif isinstance(found, Verdict):
            counts, kept = np.array([len(found.witnesses)]), kept_of_one(found, witnesses)
            said = None if found.comparable is None else np.array([found.comparable])
        else:
            counts, kept = found.counts, kept_of_many(found, witnesses)
            said = found.comparable
        missing = None
        if found is not None and found.missing:
            missing = np.full(len(times), found.missing)
        return cls(times, keys, firsts, counts, kept, models, missing, said, list(notes), places)

    def part(self, start: int, stop: int) -> "Pending":
        if start == 0 and stop == len(self):
            return self
        return Pending(
            self.times[start:stop],
            None if self.keys is None else self.keys[start:stop],
            self.firsts[start:stop],
            self.counts[start:stop],
            self.kept.part(start, stop),
            None if self.models is None else self.models[start:stop],
            None if self.missing is None else self.missing[start:stop],
            None if self.comparable is None else self.comparable[start:stop],
            self.notes if stop == len(self) else [],
            None if self.places is None else self.places.some(slice(start, stop)),
            self.since,
        )


@dataclass(frozen=True)
class Queue:
    """Decisions that memory has taken and the disk may not have yet. Replaced, never changed."""

    first: int
    """The row of the first."""
    stop: int
    """The row after the last."""
    words: dict[str, int]
    """By column: how many words there were when the last was taken."""
    _waiting: list[Pending] = field(default_factory=list)
    """Longer queues share it, so only the first `_many` belong to this one."""
    _many: int = 0

    def and_then(self, some: Pending, words: dict[str, int]) -> "Queue":
        del self._waiting[self._many :]  # of a call that was cut off right here
        self._waiting.append(some)
        return Queue(self.first, self.stop + len(some), words, self._waiting, self._many + 1)

    def written(self) -> "Queue":
        """The queue once all of it is on disk."""
        return Queue(self.stop, self.stop, self.words)

    def __bool__(self) -> bool:
        return self.stop > self.first

    @property
    def since(self) -> float:
        """When the first of them began to wait."""
        return self._waiting[0].since

    def joined(self) -> Pending:
        """All of them, one after the other."""
        several = self._waiting[: self._many]
        if len(several) == 1:
            return several[0]
        offsets = np.cumsum([0, *map(len, several)])
        owners = [one.kept.owners + at for at, one in zip(offsets, several, strict=False)]
        kept = Kept(np.concatenate(owners), np.concatenate([one.kept.found for one in several]))
        return Pending(
            np.concatenate([one.times for one in several]),
            _joined_lists([(one.keys, len(one)) for one in several]),
            np.concatenate([one.firsts for one in several]),
            np.concatenate([one.counts for one in several]),
            kept,
            _joined_lists([(one.models, len(one)) for one in several]),
            _joined_arrays([one.missing for one in several]),
            _joined_arrays([one.comparable for one in several]),
            [note for one in several for note in one.notes],
            joined_places([(one.places, len(one)) for one in several]),
            several[0].since,
        )


def _joined_lists(parts: list[tuple[list[Any] | None, int]]) -> list[Any] | None:
    """One after the other, None for each of those that have none."""
    if all(part is None for part, _ in parts):
        return None
    return [one for part, count in parts for one in part or [None] * count]


def _joined_arrays(parts: list[npt.NDArray[Any] | None]) -> npt.NDArray[Any] | None:
    """Of a monitor either all parts have them, or none has."""
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None


def kept_of_one(verdict: Verdict, most: int) -> Kept:
    """The nearest witnesses of a verdict."""
    found = verdict.witnesses
    if len(found) == 0 or most == 0:
        return Kept.none()
    if len(found) > most:
        found = found.some(np.sort(found.nearest_places(most)))
    return Kept(np.zeros(len(found), np.int64), _stored_as(found))


def kept_of_many(verdicts: Verdicts, most: int) -> Kept:
    """The nearest witnesses of each; the earlier row where equally near."""
    found, owners = verdicts.witnesses, verdicts.owners
    if len(found) == 0 or most == 0:
        return Kept.none()
    if np.diff(verdicts.offsets).max() > most:
        nearest = verdicts.are_nearest(most)
        found, owners = found.some(nearest), owners[nearest]
    return Kept(owners, _stored_as(found))


def _stored_as(found: Witnesses) -> npt.NDArray[Any]:
    kept = np.empty(len(found), WITNESS)
    kept["row"] = found.rows
    kept["input_distance"] = found.input_distances
    kept["output_distance"] = found.output_distances
    return kept
