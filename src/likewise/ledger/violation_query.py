"""Search for contradictions of a ledger: by time, model, group, review, distance and output.

Cost of a page: the rows that it returns if no filter excludes any. Filters are applied to at most
`STRIDE` verdicts at a time, until `seconds` have passed; the page says where the search stopped.
Not here: filters that no index supports or no hash covers (an output, a group), which
`Ledger.violations_page` applies to records.
"""

import math
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import BadRule
from likewise.ledger.protocol import FormatReader
from likewise.tables.normalize import short_repr
from likewise.tables.times import duration, to_microseconds

STRIDE = {"oldest": 100_000, "newest": 100_000, "nearest": 30_000}
"""To how many verdicts filters are applied at a time, by order: the nearest lie scattered in the
table, and cost more."""
_COLUMNS = "row, time, model, distance, review"


class PageCursor(NamedTuple):
    """Marks the end of a page: the verdict that was compared last."""

    row: int
    distance: float | None = None
    """The distance of its nearest witness, if the nearest come first."""


class RowPage(NamedTuple):
    """A few rows, and where the next page begins."""

    rows: list[int]
    next: PageCursor | None
    """None if there are no more rows."""


def stretch(last: str | None, since: Any, until: Any) -> tuple[int | None, int | None]:
    """Return begin and end of a period in microseconds since 1970; None for no limit."""
    begin = None if since is None else to_microseconds(since)
    end = None if until is None else to_microseconds(until)
    if last is None:
        return begin, end
    length = duration(last)
    if length is None or begin is not None or end is not None:
        raise BadRule(
            f'last is {short_repr(last)}; expected how long before now, such as "1 hour", and then'
            " neither since nor until",
            setting="last",
        )
    return clock.time_ns() // 1000 - length, None


@dataclass(frozen=True)
class ViolationQuery:
    """Filters for contradictions; without any, all of them."""

    order: str = "oldest"
    """"oldest" or "newest" row first, or "nearest" witness first (the earlier row if equal), which
    leaves out those whose distances were destroyed."""
    since: Any = None
    """Only decisions from that time on."""
    until: Any = None
    """Only decisions before that time."""
    model: str | None = None
    group: tuple[str, Any] | None = None
    """Only decisions with that value in a protected column: ("sex", "f")."""
    review: str | None = None
    """Only those whose last review has that disposition; "open" if there is none."""
    within: float | None = None
    """Only those with a witness at most that far away."""
    output: str | None = None
    """Only decisions with that output, as text (`to_query_text`)."""


@dataclass(frozen=True)
class ViolationSearch:
    """Finds the rows of a query by the database's indexes."""

    reader: FormatReader
    where: str
    values: tuple[Any, ...]
    begin: int = 0
    """Rows before this one are too old."""
    review: str | None = None
    """The disposition in the query, which has an index of its own; None for any, or none."""

    @classmethod
    def of(
        cls,
        reader: FormatReader,
        query: ViolationQuery,
        words: Mapping[str, Sequence[Any]],
    ) -> "ViolationSearch":
        parts: list[tuple[str, Any]] = []
        model, group, review = query.model, query.group, query.review
        begin, end = stretch(None, query.since, query.until)
        first = 0
        if begin is not None:
            runs = reader.runs_since(begin)
            first = runs[0][0] if runs else reader.state().rows
            parts.append(("time >= ?", begin))
        if end is not None:
            parts.append(("time < ?", end))
        if model is not None:
            parts.append(("model = ?", reader.names("model").codes.get(model, -2)))
        if query.within is not None:
            parts.append(("distance <= ?", float(query.within)))
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
        return self.reader.find_flagged(max(first, self.begin), stop, self.where, self.values)

    def page(
        self,
        order: str,
        first: int,
        stop: int,
        *,
        after: PageCursor | None = None,
        limit: int = 50,
        seconds: float = 0.15,
    ) -> RowPage:
        """Return the next rows behind a cursor, from `first` up to `stop`.

        The search follows the table's order, or the index of distances, and stops as soon as it
        has enough.
        """
        first = max(first, self.begin)
        until = clock.monotonic() + seconds
        rows: list[int] = []
        while True:
            more, last = self._stride(order, first, stop, after, limit + 1 - len(rows))
            rows += more
            if len(rows) > limit:
                return RowPage(rows[:limit], place_of(self.reader, order, rows[limit - 1]))
            if last is None:
                return RowPage(rows, None)
            after = place_of(self.reader, order, last)
            if clock.monotonic() >= until:
                return RowPage(rows, after)

    def _stride(
        self, order: str, first: int, stop: int, after: PageCursor | None, limit: int
    ) -> tuple[list[int], int | None]:
        """Return rows among the next verdicts, and the last of these; None if no more follow."""
        span: tuple[Any, ...]
        index = "INDEXED BY verdict_distance WHERE" if order == "nearest" else "NOT INDEXED WHERE"
        reviewed: tuple[str, ...] = ()
        if self.review is not None:  # as many as people have written: these may be sorted
            index, reviewed = "INDEXED BY verdict_review WHERE review = ? AND", (self.review,)
        if order == "oldest":
            span = (first if after is None else max(first, after.row + 1), stop)
            verdicts = f"verdict {index} row >= ? AND row < ? ORDER BY row"
        elif order == "newest":
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


def place_of(reader: FormatReader, order: str, row: int) -> PageCursor:
    """Return the cursor of a row with witnesses, from which the next page continues."""
    if order != "nearest":
        return PageCursor(row)
    return PageCursor(row, reader.all("SELECT distance FROM verdict WHERE row = ?", row)[0][0])


def find_rows_naming(
    reader: FormatReader, row: int, after: int, limit: int, seconds: float
) -> RowPage:
    """Return rows after `after` that have `row` among their stored witnesses."""
    until = clock.monotonic() + seconds
    pattern = np.int64(row).tobytes()
    span = "verdict NOT INDEXED WHERE row > ? ORDER BY row"
    stride = STRIDE["newest"]
    rows: list[int] = []
    while True:
        query = (
            f"SELECT row, witnesses FROM (SELECT row, witnesses FROM {span} LIMIT {stride})"
            " WHERE instr(witnesses, ?) > 0 LIMIT ?"
        )
        matches = reader.all(query, after, pattern, limit + 1)
        rows += [match for match, blob in matches if row in np.frombuffer(blob, "<i8")]
        if len(rows) > limit:
            return RowPage(rows[:limit], PageCursor(rows[limit - 1]))
        if len(matches) > limit:  # but some only had the bytes at another place
            after = matches[-1][0]
        else:
            last = reader.all(f"SELECT row FROM {span} LIMIT 1 OFFSET {stride - 1}", after)
            if not last:
                return RowPage(rows, None)
            after = last[0][0]
        if clock.monotonic() >= until:
            return RowPage(rows, PageCursor(after))


def _code(reader: FormatReader, group: tuple[str, Any], words: Mapping[str, Sequence[Any]]) -> int:
    """Return the code of a protected column's value; one that no row has if it never occurs."""
    column, value = group
    feature: Any = (reader.rule.features or {}).get(column)
    if feature is None or feature.kind != "protected":
        raise BadRule(f"{column!r} is no protected column of this ledger's rule.")
    listed = feature.order or feature.values
    values = list(words.get(column, ()) if listed is None else listed)
    return values.index(value) if value in values else -2
