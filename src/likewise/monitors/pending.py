"""Verdicts on their way to a ledger: what is written of them beside the rows themselves."""

import time as clock
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.history.ledger.chain import WITNESS, Key
from likewise.types import Rows, Verdict, Verdicts

Kept = dict[int, npt.NDArray[Any]]
"""The nearest witnesses by place, as WITNESS."""


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
            {i - start: one for i, one in self.kept.items() if start <= i < stop},
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
        {
            int(offset) + i: kept
            for offset, one in zip(offsets, several, strict=False)
            for i, kept in one.kept.items()
        },
        several[0].since,
    )


def kept_of_one(verdict: Verdict, most: int) -> Kept:
    """The nearest witnesses of a verdict."""
    if not verdict.violation or most == 0:
        return {}
    nearest = [
        (one.row, one.input_distance, one.output_distance)
        for one in verdict.witnesses.nearest(most)
    ]
    return {0: np.array(nearest, WITNESS)}


def kept_of_many(verdicts: Verdicts, most: int) -> Kept:
    """The nearest witnesses of each; the earlier row first where equally near."""
    found = verdicts.witnesses
    if len(found) == 0 or most == 0:
        return {}
    owners = np.repeat(np.arange(len(verdicts)), verdicts.counts)
    order = np.lexsort((found.rows, found.input_distances, owners))
    place = np.arange(len(found)) - verdicts.offsets[owners]
    order = order[place < most]
    kept = np.zeros(len(order), WITNESS)
    kept["row"] = found.rows[order]
    kept["input_distance"] = found.input_distances[order]
    kept["output_distance"] = found.output_distances[order]
    starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
    return dict(zip(owners[order][starts].tolist(), np.split(kept, starts[1:]), strict=True))
