"""Reads a column of times as moments, aware datetimes in UTC (`detect_form`, `TimeForm.parse`).

A column has one form, which its values decide together: ISO 8601, days with dots (31.01.2024), days
with strokes, or seconds since 1970. If no value shows whether 03/04/2024 has the day or the month
first, the caller must say it.
Invariant: a moment is what is written, to the microsecond; without a zone it is UTC, and a remark
says so. A value of another form is bad. Cost: about a microsecond for each value.
"""

import datetime
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.errors import BadFile
from likewise.sources.file_source import ROWS, DecisionFile
from likewise.sources.protocol import Chunk, ColumnTypes, RefusedRow, column_values, join_chunks
from likewise.sources.remarks import Remark, shorten
from likewise.tables.frames import is_missing
from likewise.tables.times import guess_unit, moment_of

DayOrder: TypeAlias = Literal["day-first", "month-first"]
DAY_ORDERS: tuple[DayOrder, ...] = ("day-first", "month-first")
EXPECTED = (
    "2024-01-31, 2024-01-31T10:00:00Z, 2024-01-31 10:00:00+02:00, 31.01.2024, 31/01/2024 10:00,"
    " 01/31/2024 or seconds since 1970"
)
_ISO = re.compile(r"\d{4}(-\d\d-\d\d|\d{4}|/\d\d/\d\d)([T ].*)?")
_ZONE = re.compile(r"(?:[Zz]|UTC|GMT|:\d\d(?:[.,]\d+)?\s*[-+]\d\d(?::?\d\d){0,2})$")
_CLOCK = (
    r"(?:[T ,]\s*(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s*([AaPp][Mm])?"
    r"\s*(Z|UTC|GMT|[-+]\d\d:?\d\d)?)?"
)
_DOTS = re.compile(r"(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})" + _CLOCK)
_STROKES = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})" + _CLOCK)
_SECONDS = re.compile(r"-?\d+(\.\d*)?")
_FIRST, _LAST = 1e8, 4_102_444_800.0  # seconds: 1973, below which numbers count, and 2100
_UTC = datetime.UTC


class BadTime(NamedTuple):
    """Says why a value is no time of its column's form."""

    at: int
    """The place of the value in its column."""
    why: str


@dataclass(frozen=True, slots=True)
class TimeForm:
    """Says how the times of one column are written, and reads them."""

    column: str
    form: Literal["ISO", "dots", "day-first", "month-first", "seconds"]
    remarks: tuple[Remark, ...] = ()

    def parse(self, values: Sequence[Any]) -> tuple[list[datetime.datetime | None], list[BadTime]]:
        """Return a moment for each value, None where it is missing or bad, and the bad values."""
        read = _READERS[self.form]
        moments: list[datetime.datetime | None] = []
        unfit: list[BadTime] = []
        for at, value in enumerate(values):
            if _is_empty(value):
                moments.append(None)
                continue
            try:
                moments.append(_convert_typed(value) or read(value))
            except (ValueError, OverflowError) as error:
                moments.append(None)
                unfit.append(BadTime(at, self._explain(value, error)))
        return moments, unfit

    def _explain(self, value: Any, error: Exception) -> str:
        why = f" ({error})" if isinstance(error, _NotATime) else ""
        shown = shorten(value) if isinstance(value, str) else repr(value)
        form = "" if self.form == "ISO" else f"; the column's first values are {_NAMES[self.form]}"
        return f"{self.column!r} is {shown}, which is no time{why}{form}. Expected {EXPECTED}"


class _NotATime(ValueError):
    """Says why a value is no time, in words for people."""


def detect_form(
    values: Sequence[Any],
    *,
    column: str,
    source: str,
    unit: str = "row",
    places: Sequence[int] | None = None,
    dates: DayOrder | None = None,
) -> TimeForm:
    """Detect the form of most of a column's first values; raise BadFile if none can be read.

    source, unit, places   what messages call the file, and where in it each value is
    dates                  the order of 03/04/2024, where the values do not show it

    >>> values = ["31.01.2024", "01.02.2024 09:30"]
    >>> detect_form(values, column="time", source="the table").parse(values)[0][1].isoformat()
    '2024-02-01T09:30:00+00:00'
    """
    present = [value for value in values if not _is_empty(value)]
    texts = [value.strip() for value in present if isinstance(value, str)]
    if not texts:
        naive = next(filter(_is_naive, present), None)
        form: Any = "seconds" if any(map(_is_number, present)) else "ISO"
        return TimeForm(column, form, _remarks(column, form, [], naive, len(present)))
    counts = {name: sum(map(fits, texts)) for name, fits in _FITS.items()}
    form = max(counts, key=lambda name: counts[name])
    if counts[form] == 0:
        first = next(i for i, text in enumerate(values) if isinstance(text, str) and text.strip())
        where = first + 1 if places is None else int(places[first])
        raise BadFile(
            f"{source}, {unit} {where:,}: the column {column!r} cannot be read as times: it has"
            f" {shorten(values[first])}. Expected {EXPECTED}. Mend the column, or name another.",
            path=source,
        )
    if form == "strokes":
        form = _detect_day_order(texts, column, source, dates)
    return TimeForm(column, form, _remarks(column, form, texts, None, len(present)))


def _detect_day_order(
    texts: list[str], column: str, source: str, dates: DayOrder | None
) -> DayOrder:
    """Detect whether the day or the month comes first; raise BadFile if nothing shows it."""
    if dates is not None:
        return dates
    matches = [match for match in map(_STROKES.fullmatch, texts) if match]
    days = next((match[0] for match in matches if int(match[1]) > 12), None)
    months = next((match[0] for match in matches if int(match[2]) > 12), None)
    if days is not None and months is not None:
        raise BadFile(
            f"{source}: in the column {column!r} stand {shorten(days)}, where the day comes"
            f" first, and {shorten(months)}, where the month does; expected one order. Mend the"
            " column, or say --dates day-first or --dates month-first: what does not fit is then a"
            " bad row.",
            path=source,
        )
    if days is None and months is None:
        raise BadFile(
            f"{source}: the column {column!r} has times such as {shorten(matches[0][0])}, and no"
            " value tells whether the day or the month comes first. Say --dates day-first or"
            " --dates month-first.",
            path=source,
        )
    return "day-first" if days is not None else "month-first"


def _remarks(
    column: str, form: str, texts: list[str], naive: Any, count: int
) -> tuple[Remark, ...]:
    remarks = []
    if form in DAY_ORDERS:
        other = DAY_ORDERS[form == DAY_ORDERS[0]]
        remarks.append(
            Remark(
                f"times are read {form.replace('-', ' ')}",
                column,
                texts[0],
                count,
                f"If the other order is meant, say --dates {other}",
            )
        )
    bare = [text for text in texts if not _ZONE.search(text)] if form != "seconds" else []
    if bare or naive is not None:
        remarks.append(
            Remark(
                "times without a zone are taken as UTC",
                column,
                bare[0] if bare else str(naive),
                len(bare) or count,
                "If another zone is meant, write it behind the times, such as +02:00",
            )
        )
    return tuple(remarks)


# One value


def _is_empty(value: Any) -> bool:
    return is_missing(value) or (isinstance(value, str) and not value.strip())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_naive(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is None


def _convert_typed(value: Any) -> datetime.datetime | None:
    """Convert a value that has a type of its own; return None for text."""
    if isinstance(value, str):
        return None
    moment = _moment_from_seconds(float(value)) if _is_number(value) else moment_of(value)
    if moment is None:
        raise _NotATime(f"it is of type {type(value).__name__}")
    return moment.astimezone(_UTC)


def _parse_iso(text: str) -> datetime.datetime:
    moment = moment_of(text) if _ISO.fullmatch(text.strip()) else None
    if moment is None:
        raise ValueError(text)
    return moment.astimezone(_UTC)


def _parse_day(pattern: re.Pattern[str], day: int, month: int, text: str) -> datetime.datetime:
    """Parse a day, and perhaps a time, by a pattern in which day and month have these places."""
    match = pattern.fullmatch(text.strip())
    if match is None:
        raise ValueError
    hour, minute, second = (int(match[at] or 0) for at in (4, 5, 6))
    if match[8]:
        if not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + 12 * (match[8].lower() == "pm")
    micro = int(f"{match[7] or ''}000000"[:6])
    moment = datetime.datetime(
        int(match[3]), int(match[month]), int(match[day]), hour, minute, second, micro
    )
    return _parse_iso(moment.isoformat() + (match[9] or ""))


def _parse_seconds(text: str) -> datetime.datetime:
    if not _SECONDS.fullmatch(text.strip()):
        raise ValueError(text)
    return _moment_from_seconds(float(text))


def _moment_from_seconds(seconds: float) -> datetime.datetime:
    if not math.isfinite(seconds) or not _FIRST <= seconds < _LAST:
        likely_unit = guess_unit(seconds, _FIRST, _LAST)
        raise _NotATime(likely_unit or "as seconds since 1970 it is not between 1973 and 2100")
    return datetime.datetime.fromtimestamp(seconds, _UTC)


_READERS: dict[str, Callable[[Any], datetime.datetime]] = {
    "ISO": _parse_iso,
    "dots": partial(_parse_day, _DOTS, 1, 2),
    "day-first": partial(_parse_day, _STROKES, 1, 2),
    "month-first": partial(_parse_day, _STROKES, 2, 1),
    "seconds": _parse_seconds,
}
_NAMES = {
    "dots": "days with dots, such as 31.01.2024",
    "day-first": "read day first, such as 31/01/2024",
    "month-first": "read month first, such as 01/31/2024",
    "seconds": "seconds since 1970",
}
_FITS: dict[str, Callable[[str], bool]] = {
    "ISO": lambda text: _ISO.fullmatch(text) is not None,
    "dots": lambda text: _DOTS.fullmatch(text) is not None,
    "strokes": lambda text: _STROKES.fullmatch(text) is not None,
    "seconds": lambda text: _SECONDS.fullmatch(text) is not None and float(text) >= _FIRST,
}


Times: TypeAlias = npt.NDArray[np.datetime64]
Arrangement: TypeAlias = Literal["as it is", "newest first", "sorted"]
AS_IT_IS: Arrangement = "as it is"
NEWEST_FIRST: Arrangement = "newest first"
SORTED: Arrangement = "sorted"


# Puts the rows of a source in order of time.
# A file in order is read once for its times, then chunk by chunk; other files, and pipes, are read
# whole and sorted. With equal times the upper line comes first, or the lower one if the whole file
# has the newest first.
# Invariant: the times of the rows never fall; rows keep their places. One without a time is
# refused.
# Cost: for a file in order, reading its times once more and one chunk; else all its rows.


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
        values, places = column_values(chunk.table, self._column), chunk.places.tolist()
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
        kept = chunk if good.all() else chunk.take(np.flatnonzero(good))
        return replace(kept, refused=tuple(all_refused), times=times)


def _sort_by_time(chunks: list[Chunk]) -> tuple[Arrangement, Chunk]:
    """Join chunks in order of time; say how they had to be rearranged."""
    whole = join_chunks(chunks)
    times = _times(whole)
    if not (times[1:] < times[:-1]).any():
        return AS_IT_IS, whole
    if not (times[1:] > times[:-1]).any():
        return NEWEST_FIRST, whole.take(np.arange(len(times))[::-1])
    return SORTED, whole.take(np.argsort(times, kind="stable"))


def _times(chunk: Chunk) -> Times:
    assert chunk.times is not None
    return chunk.times
