"""Puts the rows of a source in order of time.

A file in order is read once for its times, then chunk by chunk; other files, and pipes, are read
whole and sorted. With equal times the upper line comes first, or the lower one if the whole file
has the newest first.
Invariant: the times of the rows never fall; rows keep their places. One without a time is refused.
Cost: for a file in order, reading its times once more and one chunk; else all its rows.
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
    """Reads the chunks of a source in order of time, with their times.

    column  has the times
    reopen  opens the same file once more
    dates   the order of day and month, where the values do not show it
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
        """How the file had to be rearranged, once the first chunk was read."""

    def chunks(
        self, types: ColumnTypes, columns: Sequence[str], rows: int = ROWS
    ) -> Iterator[Chunk]:
        """Yield these columns, in order of time, at most `rows` rows at a time."""
        if self._source.is_rereadable and self._is_in_order(types, rows):
            yield from map(self.add_times, self._source.chunks(types, columns, rows))
            return
        chunks = list(map(self.add_times, self._source.chunks(types, columns, rows)))
        self.arrangement, whole = _sort_by_time(chunks)
        for start in range(0, max(len(whole), 1), rows):
            part = whole[start : start + rows]
            yield replace(part, refused=whole.refused) if start == 0 else part

    def _is_in_order(self, types: ColumnTypes, rows: int) -> bool:
        """Tell whether the lines are in order of time, oldest first."""
        last: np.datetime64 | None = None
        with self._reopen() as source:
            for chunk in map(self.add_times, source.chunks(types, [self._column], rows)):
                times = _times(chunk)
                if len(times) == 0:
                    continue
                if (last is not None and times[0] < last) or np.any(times[1:] < times[:-1]):
                    return False
                last = times[-1]
        return True

    def add_times(self, chunk: Chunk) -> Chunk:
        """Return a chunk with its times; rows without one are among the refused."""
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
        good = np.array([moment is not None for moment in moments], dtype=np.bool_)
        missing = f"{self._column!r} is missing, so it has no place in the order of time"
        reasons = dict.fromkeys(np.flatnonzero(~good).tolist(), (missing, "missing-value"))
        reasons |= {bad.at: (bad.why, "bad-time") for bad in unfit}
        refused = [
            RefusedRow(places[at], why, code, self._column) for at, (why, code) in reasons.items()
        ]
        times = np.array(
            [moment.replace(tzinfo=None) for moment in moments if moment is not None],
            dtype="datetime64[us]",
        )
        all_refused = sorted([*chunk.refused, *refused], key=lambda row: row.place)
        return Chunk(_filter_rows(chunk.table, good), chunk.places[good], tuple(all_refused), times)


def _sort_by_time(chunks: list[Chunk]) -> tuple[Arrangement, Chunk]:
    """Join chunks in order of time; say how they had to be rearranged."""
    times = np.concatenate([_times(chunk) for chunk in chunks])
    places = np.concatenate([chunk.places for chunk in chunks])
    refused = tuple(row for chunk in chunks for row in chunk.refused)
    table = join_tables([chunk.table for chunk in chunks])
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
