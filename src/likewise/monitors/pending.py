"""Verdicts on their way to a ledger: what is written of them beside the rows themselves."""

import time as clock
from dataclasses import dataclass, field

import numpy as np

from likewise.history.ledger.chain import Key
from likewise.history.ledger.kept import WITNESS, Kept
from likewise.types import Rows, Verdict, Verdicts


@dataclass
class Pending:
    """Decisions that memory has taken, in order."""

    times: Rows
    keys: list[Key] | None
    firsts: Rows
    counts: Rows | None
    """None: not judged."""
    kept: Kept
    since: float = field(default_factory=clock.monotonic)

    def __len__(self) -> int:
        return len(self.times)

    def part(self, start: int, stop: int) -> "Pending":
        if start == 0 and stop == len(self):
            return self
        return Pending(
            self.times[start:stop],
            None if self.keys is None else self.keys[start:stop],
            self.firsts[start:stop],
            None if self.counts is None else self.counts[start:stop],
            self.kept.part(start, stop),
            self.since,
        )


def joined(several: list[Pending]) -> Pending:
    """One after the other; either all were judged, or there is one."""
    if len(several) == 1:
        return several[0]
    offsets = np.cumsum([0, *map(len, several)])
    keys: list[Key] | None = None
    if any(one.keys is not None for one in several):
        keys = [key for one in several for key in one.keys or [None] * len(one)]
    return Pending(
        np.concatenate([one.times for one in several]),
        keys,
        np.concatenate([one.firsts for one in several]),
        np.concatenate([one.counts for one in several if one.counts is not None]),
        Kept(
            np.concatenate(
                [one.kept.owners + at for at, one in zip(offsets, several, strict=False)]
            ),
            np.concatenate([one.kept.found for one in several]),
        ),
        several[0].since,
    )


def kept_of_one(verdict: Verdict, most: int) -> Kept:
    """The nearest witnesses of a verdict."""
    if not verdict.violation or most == 0:
        return Kept.none()
    nearest = [
        (one.row, one.input_distance, one.output_distance)
        for one in verdict.witnesses.nearest(most)
    ]
    return Kept(np.zeros(len(nearest), np.int64), np.array(nearest, WITNESS))


def kept_of_many(verdicts: Verdicts, most: int) -> Kept:
    """The nearest witnesses of each; the earlier row first where equally near."""
    found = verdicts.witnesses
    if len(found) == 0 or most == 0:
        return Kept.none()
    owners = np.repeat(np.arange(len(verdicts)), verdicts.counts)
    order = np.lexsort((found.input_distances, owners))  # stable, and rows are in order
    place = np.arange(len(found)) - verdicts.offsets[owners]
    order = order[place < most]
    kept = np.zeros(len(order), WITNESS)
    kept["row"] = found.rows[order]
    kept["input_distance"] = found.input_distances[order]
    kept["output_distance"] = found.output_distances[order]
    return Kept(owners[order], kept)
