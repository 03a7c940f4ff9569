"""A file through a monitor, chunk by chunk; rows that cannot be judged are found and counted.

Invariant: the rows judged are the good rows of the file, in its order or in order of time; every
other row is counted, by the kind of its reason.
Cost: a chunk with a bad row is read about twice; with many, once more for each halving.
Not here: which rows of a chunk are bad (intake/sifting.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from likewise.intake.binding import Binding
from likewise.intake.refused_rows import RefusedRows, refused_row
from likewise.intake.sifting import Judged, Unfit, sifted
from likewise.sources.chunk import Chunk, Places, Refused, Types
from likewise.sources.files import DecisionFile
from likewise.sources.remarks import Remark
from likewise.values.errors import BadFile

_HOPELESS = 100  # rows, all of them bad, after which it is the file and not its rows
AnswerT = TypeVar("AnswerT")


class ReadFrom(Protocol):
    """A file, or several, as messages speak of them."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def remarks(self) -> Sequence[Remark]: ...

    def place(self, number: int) -> str: ...


class Chunks(Protocol):
    """Rows of a file: all of them or some, in some order."""

    def chunks(self, types: Types, wanted: Sequence[str]) -> Iterator[Chunk]: ...


@dataclass
class Refusals:
    """Bad rows of a source: the first one ends the command, unless they are skipped."""

    source: ReadFrom
    skip: bool
    rows: RefusedRows = field(default_factory=RefusedRows)

    @property
    def count(self) -> int:
        return self.rows.count

    @property
    def first(self) -> list[Refused]:
        return self.rows.first

    def kinds(self) -> list[tuple[Refused, int]]:
        return self.rows.kinds()

    def add(self, row: Refused) -> None:
        """Count it, or end here."""
        if not self.skip:
            raise BadFile(
                f"{self.source.place(row.place)}: {row.why.rstrip('.')}. To leave out such rows:"
                " --on-bad-row skip.",
                path=self.source.name,
            )
        self.rows.add(row)


def feed(
    source: DecisionFile,
    binding: Binding,
    judge: Callable[[Chunk], AnswerT],
    bad: Refusals,
    rows: Chunks | None = None,
) -> Iterator[Judged[Chunk, AnswerT]]:
    """The parts of a file that were judged together: `rows`, or all of them as its lines stand."""
    good, total = 0, 0
    for chunk in (rows or source).chunks(binding.types, binding.wanted):
        for row in chunk.refused:
            bad.add(row)
        total += len(chunk.refused)
        for part in _parts(len(chunk), few_first=good == 0):
            some = chunk[part]
            for outcome in sifted(some, judge):
                if isinstance(outcome, Unfit):
                    bad.add(refused_row(outcome))
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
        raise BadFile(
            f"{source.name}: none of the first {total:,} rows can be used. The first,"
            f" {source.unit} {first.place:,}: {first.why}",
            path=source.name,
        )
    if total == 0:
        raise BadFile(
            f"{source.name} has a header and no rows; expected decisions.", path=source.name
        )


def _parts(count: int, few_first: bool) -> list[slice]:
    """All at once; or a few first, lest every row of a file is tried that does not fit at all."""
    few = min(count, _HOPELESS) if few_first else 0
    return [part for part in (slice(0, few), slice(few, count)) if part.stop > part.start]


class PlaceOf:
    """Where each row of the history stood in the file, kept as stretches without gaps.

    Cost: sixteen bytes for each stretch; rows that were sorted are stretches of one row.
    """

    def __init__(self) -> None:
        self._starts: Places = np.zeros(64, np.int64)
        self._gaps: Places = np.zeros(64, np.int64)
        self._stretches = self._rows = 0

    def add(self, places: Places) -> None:
        """The next rows, in their order."""
        gaps = places - np.arange(self._rows, self._rows + len(places))
        before = self._gaps[self._stretches - 1] if self._stretches else gaps[:1] - 1
        at = np.flatnonzero(np.diff(gaps, prepend=before))
        stop = self._stretches + len(at)
        while stop > len(self._starts):
            self._starts = np.concatenate([self._starts, np.zeros_like(self._starts)])
            self._gaps = np.concatenate([self._gaps, np.zeros_like(self._gaps)])
        self._starts[self._stretches : stop] = self._rows + at
        self._gaps[self._stretches : stop] = gaps[at]
        self._stretches = stop
        self._rows += len(places)

    def __call__(self, rows: Places) -> Places:
        starts, gaps = self._starts[: self._stretches], self._gaps[: self._stretches]
        return np.asarray(rows + gaps[np.searchsorted(starts, rows, side="right") - 1])
