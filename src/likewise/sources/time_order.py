"""The rows of a source in order of time, whatever the order of its lines.

A file is looked through once for its times alone. If it is in order, it is then read as any file,
chunk by chunk; if not, it is read whole and sorted. A pipe cannot be read twice, so it is always
read whole. Rows keep their places in the file.

Of equal times the upper line comes first; where the whole file has the newest first, the lower one,
so that such a file gives what the same file turned upside down would give.

Invariant: the times of the rows that come out never fall. A row without a time has no place in the
order: it is refused, with the reason.
Cost: for a file in order, another look at it and one chunk; else all its rows.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.sources.chunk import Chunk, ColumnTypes, RefusedRow, Table, join_tables
from likewise.sources.file_source import ROWS, DecisionFile
from likewise.sources.time_columns import DayOrder, TimeForm, detect_form

Times: TypeAlias = npt.NDArray[np.datetime64]
Arrangement: TypeAlias = Literal["as it is", "newest first", "sorted"]
AS_IT_IS: Arrangement = "as it is"
NEWEST_FIRST: Arrangement = "newest first"
SORTED: Arrangement = "sorted"


class TimeOrderedSource:
    """A source whose chunks come in order of time, and have times.

    column  the times
    again   opens the same file once more
    dates   the order of day and month, where the values do not tell
    """

    def __init__(
        self,
        source: DecisionFile,
        column: str,
        *,
        reopen: Callable[[], AbstractContextManager[DecisionFile]],
        dates: DayOrder | None = None,
    ) -> None:
        self._source = source
        self._column = column
        self._reopen = reopen
        self._dates = dates
        self.form: TimeForm | None = None
        """How times are written, once the first were read."""
        self.arrangement: Arrangement = AS_IT_IS
        """What was done with the file, once the first rows were given."""

    def chunks(
        self, types: ColumnTypes, columns: Sequence[str], rows: int = ROWS
    ) -> Iterator[Chunk]:
        """The wanted columns, in order of time, so many rows at a time at most."""
        if self._source.is_rereadable and self._is_in_order(types, rows):
            yield from self._add_times_to_all(self._source, types, columns, rows)
            return
        read = list(self._add_times_to_all(self._source, types, columns, rows))
        whole = _sort_by_time(read)
        self.arrangement = whole[0]
        for start in range(0, max(len(whole[1]), 1), rows):
            part = whole[1][start : start + rows]
            yield replace(part, refused=whole[1].refused) if start == 0 else part

    def _is_in_order(self, types: ColumnTypes, rows: int) -> bool:
        """Whether the lines are in order of time, oldest first."""
        last: np.datetime64 | None = None
        with self._reopen() as source:
            for chunk in self._add_times_to_all(source, types, [self._column], rows):
                times = chunk.times
                if times is None or len(times) == 0:
                    continue
                if (last is not None and times[0] < last) or np.any(times[1:] < times[:-1]):
                    return False
                last = times[-1]
        return True

    def _add_times_to_all(
        self, source: DecisionFile, types: ColumnTypes, wanted: Sequence[str], rows: int
    ) -> Iterator[Chunk]:
        """Chunks with times; rows without one are among the refused."""
        for chunk in source.chunks(types, wanted, rows):
            yield self.add_times(chunk)

    def add_times(self, chunk: Chunk) -> Chunk:
        """A chunk with its times; rows without one are among the refused."""
        values, places = _values(chunk.table, self._column), chunk.places.tolist()
        if self.form is None:
            self.form = detect_form(
                values,
                column=self._column,
                source=self._source.name,
                unit=self._source.unit,
                places=places,
                dates=self._dates,
            )
        moments, unfit = self.form.parse(values)
        why = {one.at: one.why for one in unfit}
        good = np.array([moment is not None for moment in moments], dtype=np.bool_)
        refused = [
            RefusedRow(places[at], why[at], "bad-time", self._column)
            if at in why
            else RefusedRow(
                places[at], self._describe_missing_time(), "missing-value", self._column
            )
            for at in np.flatnonzero(~good).tolist()
        ]
        times = np.array(
            [moment.replace(tzinfo=None) for moment in moments if moment is not None],
            dtype="datetime64[us]",
        )
        together = sorted([*chunk.refused, *refused], key=lambda one: one.place)
        return Chunk(_filter_rows(chunk.table, good), chunk.places[good], tuple(together), times)

    def _describe_missing_time(self) -> str:
        return f"{self._column!r} is missing, so it has no place in the order of time"


def _sort_by_time(read: list[Chunk]) -> tuple[Arrangement, Chunk]:
    """All rows in order of time, and what had to be done for it."""
    times = np.concatenate([_times(chunk) for chunk in read])
    places = np.concatenate([chunk.places for chunk in read])
    refused = tuple(one for chunk in read for one in chunk.refused)
    table = join_tables([chunk.table for chunk in read])
    later = times[1:] > times[:-1]
    earlier = times[1:] < times[:-1]
    if not earlier.any():
        return AS_IT_IS, Chunk(table, places, refused, times)
    if not later.any():
        order = np.arange(len(times))[::-1]
        arrangement = NEWEST_FIRST
    else:
        order = np.argsort(times, kind="stable")
        arrangement = SORTED
    return arrangement, Chunk(_take_rows(table, order), places[order], refused, times[order])


def _times(chunk: Chunk) -> Times:
    assert chunk.times is not None
    return chunk.times


def _values(table: Table, column: str) -> list[Any]:
    if isinstance(table, list):
        return [row.get(column) for row in table]
    return table[column].to_list() if len(table) else []


def _filter_rows(table: Table, chosen: npt.NDArray[np.bool_]) -> Table:
    return table if chosen.all() else _take_rows(table, np.flatnonzero(chosen))


def _take_rows(table: Table, rows: npt.NDArray[np.int64]) -> Table:
    if isinstance(table, list):
        return [table[i] for i in rows.tolist()]
    return table[rows]
