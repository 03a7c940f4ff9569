"""Which contradictions of a ledger are looked for: by time, model, group, review and distance.

The database's indexes propose rows; a group, which no hash covers, is compared with the record.

`rows` are all of them, in order. `page` is a few, the newest first or the nearest first: it follows
the table's own order, or the index of distances, and stops as soon as it has enough.

Cost of a page: the rows that it gives where nothing is filtered out. Filters are asked of at most
`STRIDE` verdicts at a time, and no further once `seconds` have passed; where it stopped is told.
"""

import math
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from likewise.ledger.protocol import Reading
from likewise.ledger.times import duration, microseconds
from likewise.values.errors import BadRule

STRIDE = {"newest": 100_000, "nearest": 30_000}
"""By order, how many verdicts are asked at a time whether they pass the filters: those that are
nearest lie scattered in the table, and cost more."""


_COLUMNS = "row, time, model, distance, review"


class Place(NamedTuple):
    """Where a page ends: the verdict that was looked at last."""

    row: int
    distance: float | None = None
    """Of its nearest witness; where the nearest come first."""


class SoughtPage(NamedTuple):
    """A few rows, and where to go on."""

    rows: list[int]
    next: Place | None
    """None: there are no more."""


def stretch(last: str | None, since: Any, until: Any) -> tuple[int | None, int | None]:
    """From when on, and until when, in microseconds since 1970; None for no limit."""
    begin = None if since is None else microseconds(since)
    end = None if until is None else microseconds(until)
    if last is None:
        return begin, end
    length = duration(last)
    if length is None or begin is not None or end is not None:
        raise BadRule(
            f'last is {last!r}; expected how long before now, such as "1 hour", and then neither'
            " since nor until",
            setting="last",
        )
    return clock.time_ns() // 1000 - length, None


@dataclass(frozen=True)
class Sought:
    """A query for rows with witnesses."""

    reader: Reading
    where: str
    values: tuple[Any, ...]
    begin: int = 0
    """No earlier row can pass: those before it are too old."""
    review: str | None = None
    """The disposition that is asked for, which has an index of its own; None: any, or none."""

    @classmethod
    def of(
        cls,
        reader: Reading,
        since: Any,
        until: Any,
        model: str | None,
        group: tuple[str, Any] | None,
        review: str | None,
        within: float | None,
        words: Mapping[str, Sequence[Any]],
    ) -> "Sought":
        parts: list[tuple[str, Any]] = []
        begin, end = stretch(None, since, until)
        first = 0
        if begin is not None:
            runs = reader.runs_since(begin)
            first = runs[0][0] if runs else reader.state().rows
            parts.append(("time >= ?", begin))
        if end is not None:
            parts.append(("time < ?", end))
        if model is not None:
            parts.append(("model = ?", reader.names("model").codes.get(model, -2)))
        if within is not None:
            parts.append(("distance <= ?", float(within)))
        if review == "open":
            parts.append(("review IS ?", None))
        elif review is not None:
            parts.append(("review = ?", review))
        if group is not None:
            code = _code(reader, group, words)
            member = (
                'EXISTS (SELECT 1 FROM member WHERE "column" = ? AND code = ?'
                " AND member.row = verdict.row)"
            )
            parts.append((member, (group[0], code)))
        where = "".join(f" AND {part}" for part, _ in parts)
        values: list[Any] = []
        for _, value in parts:
            values += value if isinstance(value, tuple) else (value,)
        return cls(reader, where, tuple(values), first, None if review == "open" else review)

    def rows(self, first: int, stop: int) -> list[int]:
        return self.reader.flagged_where(self.where, self.values, max(first, self.begin), stop)

    def page(
        self,
        order: str,
        first: int,
        stop: int,
        *,
        after: Place | None = None,
        limit: int = 50,
        seconds: float = 0.15,
    ) -> SoughtPage:
        """The next rows behind a place, from `first` up to `stop`.

        order   "newest": the highest row first; "nearest": the nearest witness first, and of equal
                ones the earlier row. Those whose distances were destroyed have none to be ordered
                by, and are not among the nearest.
        """
        first = max(first, self.begin)
        until = clock.monotonic() + seconds
        rows: list[int] = []
        while True:
            some, last = self._stride(order, first, stop, after, limit + 1 - len(rows))
            rows += some
            if len(rows) > limit:
                return SoughtPage(rows[:limit], place_of(self.reader, order, rows[limit - 1]))
            if last is None:
                return SoughtPage(rows, None)
            after = place_of(self.reader, order, last)
            if clock.monotonic() >= until:
                return SoughtPage(rows, after)

    def _stride(
        self, order: str, first: int, stop: int, after: Place | None, limit: int
    ) -> tuple[list[int], int | None]:
        """Rows among the next verdicts, and the last of these; None if no more follow them."""
        span: tuple[Any, ...]
        index = "NOT INDEXED WHERE" if order == "newest" else "INDEXED BY verdict_distance WHERE"
        reviewed: tuple[str, ...] = ()
        if self.review is not None:  # as many as people have written: these may be sorted
            index, reviewed = "INDEXED BY verdict_review WHERE review = ? AND", (self.review,)
        if order == "newest":
            span = (first, stop if after is None else min(stop, after.row))
            verdicts = f"verdict {index} row >= ? AND row < ? ORDER BY row DESC"
        else:
            distance = -math.inf if after is None or after.distance is None else after.distance
            span = (distance, distance, -1 if after is None else after.row, first, stop)
            verdicts = (
                f"verdict {index} distance >= ?"
                " AND (distance > ? OR row > ?) AND row >= ? AND row < ? ORDER BY distance, row"
            )
        span = (*reviewed, *span)
        stride = STRIDE[order]
        query = (
            f"SELECT row FROM (SELECT {_COLUMNS} FROM {verdicts} LIMIT {stride}) AS verdict"
            f" WHERE 1{self.where} LIMIT ?"
        )
        rows = [row for (row,) in self.reader.all(query, *span, *self.values, limit)]
        if len(rows) == limit:
            return rows, rows[-1]
        last = self.reader.all(f"SELECT row FROM {verdicts} LIMIT 1 OFFSET {stride - 1}", *span)
        return rows, last[0][0] if last else None


def place_of(reader: Reading, order: str, row: int) -> Place:
    """The place of a row with witnesses, to go on behind it."""
    if order == "newest":
        return Place(row)
    return Place(row, reader.all("SELECT distance FROM verdict WHERE row = ?", row)[0][0])


def naming(reader: Reading, row: int, after: int, limit: int, seconds: float) -> SoughtPage:
    """Rows behind `after` whose kept witnesses have a row among them."""
    until = clock.monotonic() + seconds
    sought = np.int64(row).tobytes()
    span = "verdict NOT INDEXED WHERE row > ? ORDER BY row"
    stride = STRIDE["newest"]
    rows: list[int] = []
    while True:
        query = (
            f"SELECT row, witnesses FROM (SELECT row, witnesses FROM {span} LIMIT {stride})"
            " WHERE instr(witnesses, ?) > 0 LIMIT ?"
        )
        some = reader.all(query, after, sought, limit + 1)
        rows += [found for found, blob in some if row in np.frombuffer(blob, "<i8")]
        if len(rows) > limit:
            return SoughtPage(rows[:limit], Place(rows[limit - 1]))
        full = len(some) > limit  # of which some only looked like it
        last = (
            [(some[-1][0],)]
            if full
            else reader.all(f"SELECT row FROM {span} LIMIT 1 OFFSET {stride - 1}", after)
        )
        if not last:
            return SoughtPage(rows, None)
        after = last[0][0]
        if clock.monotonic() >= until:
            return SoughtPage(rows, Place(after))


def _code(reader: Reading, group: tuple[str, Any], words: Mapping[str, Sequence[Any]]) -> int:
    """The code of a value of a protected column; one that no row has, if it never occurs."""
    column, value = group
    feature: Any = (reader.rule.features or {}).get(column)
    if feature is None or feature.kind != "protected":
        raise BadRule(f"{column!r} is no protected column of this ledger's rule.")
    listed = feature.order or feature.values
    known = list(words.get(column, ()) if listed is None else listed)
    return known.index(value) if value in known else -2
