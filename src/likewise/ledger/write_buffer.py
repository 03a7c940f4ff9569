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


@dataclass(slots=True)
class PendingDecision:
    """A single decision that memory has taken. Arrays are made of many of these at once."""

    times: Rows
    """Of the one decision."""
    key: Key
    first: int
    count: int
    witnesses: npt.NDArray[Any] | None
    """Those that are kept, as WITNESS; None if there are none."""
    model: str | None
    missing: int
    comparable: bool | None
    places: Places | None
    since: float

    def __len__(self) -> int:
        return 1

    @classmethod
    def of(
        cls,
        times: Rows,
        keys: list[Key] | None,
        first: int,
        found: Verdict,
        *,
        witnesses: int,
        models: list[str | None] | None,
        places: Places | None = None,
    ) -> "PendingDecision":
        """A decision with what was found about it.

        witnesses: how many of the nearest are kept
        """
        named, beside = found.witnesses, found.beside
        count = len(named)
        return cls(
            times,
            None if keys is None else keys[0],
            first,
            count,
            _nearest(named, witnesses) if count and witnesses else None,
            None if models is None else models[0],
            beside.missing,
            beside.comparable,
            places,
            clock.monotonic(),
        )


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
        found: Verdicts | None,
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
        else:
            counts, kept = found.counts, kept_of_many(found, witnesses)
            said = found.comparable
        missing = None
        if found is not None and found.missing:
            missing = np.full(len(times), found.missing)
        return cls(times, keys, firsts, counts, kept, models, missing, said, list(notes), places)

    @classmethod
    def of_singles(cls, singles: Sequence[PendingDecision]) -> "Pending":
        """Several single decisions, in order."""
        flagged = [(i, one.witnesses) for i, one in enumerate(singles) if one.witnesses is not None]
        kept = Kept.none()
        if flagged:
            owners = np.repeat([i for i, _ in flagged], [len(named) for _, named in flagged])
            kept = Kept(owners, np.concatenate([named for _, named in flagged]))
        missing = [single.missing for single in singles]
        said = [single.comparable for single in singles]
        return cls(
            np.concatenate([single.times for single in singles]),
            _unless_none([single.key for single in singles]),
            np.array([single.first for single in singles]),
            np.array([single.count for single in singles]),
            kept,
            _unless_none([single.model for single in singles]),
            np.array(missing) if any(missing) else None,
            None if said[0] is None else np.array(said, np.bool_),
            [],
            joined_places([(single.places, 1) for single in singles]),
            singles[0].since,
        )

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
    _waiting: list[Pending | PendingDecision] = field(default_factory=list)
    """Longer queues share it, so only the first `_many` belong to this one."""
    _many: int = 0

    def and_then(self, some: Pending | PendingDecision, words: dict[str, int]) -> "Queue":
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
        several = _with_singles_joined(self._waiting[: self._many])
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


def _with_singles_joined(waiting: list[Pending | PendingDecision]) -> list[Pending]:
    """The same decisions, those that came one by one put together."""
    several: list[Pending] = []
    singles: list[PendingDecision] = []
    for some in waiting:
        if isinstance(some, PendingDecision):
            singles.append(some)
            continue
        if singles:
            several.append(Pending.of_singles(singles))
            singles = []
        several.append(some)
    return [*several, Pending.of_singles(singles)] if singles else several


def _unless_none(values: list[Any]) -> list[Any] | None:
    """None if there is none but None."""
    return None if all(value is None for value in values) else values


def _joined_lists(parts: list[tuple[list[Any] | None, int]]) -> list[Any] | None:
    """One after the other, None for each of those that have none."""
    if all(part is None for part, _ in parts):
        return None
    return [one for part, count in parts for one in part or [None] * count]


def _joined_arrays(parts: list[npt.NDArray[Any] | None]) -> npt.NDArray[Any] | None:
    """Of a monitor either all parts have them, or none has."""
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None


def _nearest(found: Witnesses, most: int) -> npt.NDArray[Any]:
    """The nearest witnesses of a verdict."""
    if len(found) > most:
        found = found.some(np.sort(found.nearest_places(most)))
    return _stored_as(found)


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
