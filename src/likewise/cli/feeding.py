"""A file through a monitor, chunk by chunk; rows that cannot be judged are found and counted.

Invariant: the rows judged are the good rows of the file, in its order; every other row is counted.
Cost: a chunk with a bad row is read about twice; with many, once more for each halving.
Not here: which rows of a chunk are bad (intake/sifting.py).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from likewise.cli.endings import DATA, Stop
from likewise.intake.binding import Binding
from likewise.intake.sifting import Judged, Unfit, reason, sifted
from likewise.sources.chunk import Chunk, Places, Refused
from likewise.sources.files import Source

SHOWN = 10
_HOPELESS = 100  # rows, all of them bad, after which it is the file and not its rows
AnswerT = TypeVar("AnswerT")


@dataclass
class Refusals:
    """Bad rows: how many, and the first few."""

    source: Source
    skip: bool
    count: int = 0
    first: list[Refused] = field(default_factory=list)

    def add(self, row: Refused) -> None:
        """Count it, or end here."""
        if not self.skip:
            raise Stop(
                f"{self.source.place(row.place)}: {row.why.rstrip('.')}. To leave out such rows:"
                " --on-bad-row skip.",
                DATA,
            )
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(row)


def feed(
    source: Source, binding: Binding, judge: Callable[[Chunk], AnswerT], bad: Refusals
) -> Iterator[Judged[Chunk, AnswerT]]:
    """The parts of a file that were judged together."""
    good, total = 0, 0
    for chunk in source.chunks(binding.types, binding.wanted):
        for row in chunk.refused:
            bad.add(row)
        total += len(chunk.refused)
        for part in _parts(len(chunk), few_first=good == 0):
            some = chunk[part]
            for outcome in sifted(some, judge):
                if isinstance(outcome, Unfit):
                    bad.add(refused(outcome))
                else:
                    good += len(outcome.rows)
                    yield outcome
            total += len(some)
            if good == 0 and total >= _HOPELESS:
                break
        if good == 0 and total >= _HOPELESS:
            break
    if good == 0 and total:
        first = bad.first[0]
        raise Stop(
            f"{source.name}: none of the first {total:,} rows can be used. The first,"
            f" {source.unit} {first.place:,}: {first.why}",
            DATA,
        )
    if total == 0:
        raise Stop(f"{source.name} has a header and no rows; expected decisions.", DATA)


def _parts(count: int, few_first: bool) -> list[slice]:
    """All at once; or a few first, lest every row of a file is tried that does not fit at all."""
    few = min(count, _HOPELESS) if few_first else 0
    return [part for part in (slice(0, few), slice(few, count)) if part.stop > part.start]


def refused(row: Unfit[Chunk]) -> Refused:
    """Where a bad row stands, and what is wrong with it."""
    return Refused(int(row.rows.places[0]), reason(row.error))


class PlaceOf:
    """Where each row of the history stood in the file, kept as stretches without gaps."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._gaps: list[int] = []
        self._rows = 0

    def add(self, places: Places) -> None:
        """The next rows, in their order."""
        gaps = places - np.arange(self._rows, self._rows + len(places))
        before = self._gaps[-1] if self._gaps else None
        changes = np.flatnonzero(np.diff(gaps, prepend=gaps[:1] - 1)).tolist()
        for at in changes:
            if at or int(gaps[at]) != before:
                self._starts.append(self._rows + at)
                self._gaps.append(int(gaps[at]))
        self._rows += len(places)

    def __call__(self, rows: Places) -> Places:
        which = np.searchsorted(np.array(self._starts), rows, side="right") - 1
        return np.asarray(rows + np.array(self._gaps, dtype=np.int64)[which])
