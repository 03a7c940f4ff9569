"""Messages hold records and their decisions, on the way from a source to a monitor.

Most messages are one JSON object each, all with the same names: their rows are held as columns.
Invariant: a message has at least one row; the rows of all messages follow each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from likewise.sources.protocol import Record
from likewise.tables.frames import ColumnTable
from likewise.tables.positions import Position

_BATCH_BYTES = 1 << 23


def next_poll_size(count: int, records: Sequence[Record], most: int) -> int:
    """Return how many records to ask for next: more than these, or fewer if these are large."""
    size = sum(len(record.body) for record in records)
    if size > _BATCH_BYTES:
        return max(1, count * _BATCH_BYTES // (2 * size))
    return min(most, 4 * count) if size < _BATCH_BYTES // 8 else count


class Message(NamedTuple):
    """Holds a record and the decisions in it."""

    record: Record
    rows: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Messages:
    """Holds messages in order; a slice of it holds some of them (monitor/bad_rows.py)."""

    records: Sequence[Record]
    table: ColumnTable | list[dict[str, Any]]
    """The rows of all of them."""
    counts: Sequence[int] | None = None
    """How many rows each message has; None: one each."""

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, part: slice) -> "Messages":
        if self.counts is None:
            return Messages(self.records[part], self.table[part])
        start, stop, _ = part.indices(len(self))
        stops = [0, *accumulate(self.counts)]
        rows = self.table[stops[start] : stops[stop]]
        return Messages(self.records[start:stop], rows, self.counts[start:stop])

    @property
    def first_row(self) -> dict[str, Any]:
        return self.table.row(0) if isinstance(self.table, ColumnTable) else self.table[0]

    @property
    def row_records(self) -> Sequence[Record]:
        """The record of each row."""
        if self.counts is None:
            return self.records
        pairs = zip(self.records, self.counts, strict=True)
        return [record for record, count in pairs for _ in range(count)]

    def sources_and_positions(self) -> tuple[str | list[str | None], list[Position | None]]:
        """Return source and position of each row, as a monitor takes them.

        The last row of a message carries its position.
        """
        sources: list[str | None] = []
        positions: list[Position | None] = []
        if self.counts is None:
            sources = [record.source for record in self.records]
            positions = [record.position for record in self.records]
            return self.records[0].source if len(set(sources)) == 1 else sources, positions
        for record, count in zip(self.records, self.counts, strict=True):
            nowhere = [None] * (count - 1)
            sources += [*nowhere, record.source]
            positions += [*nowhere, record.position]
        return sources, positions
