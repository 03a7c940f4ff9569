"""Converts times to whole microseconds since 1970 in UTC, and back to text; reads durations.

A number is in seconds, text is ISO 8601; without a time zone it is UTC. A time in the future is
probably in another unit, and would empty a window, so it is refused (`MaxAhead`).
Not here: the order of day and month in a column of a file (sources/time_columns.py).
"""

import datetime
import math
import re
import time as clock
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.errors import BadRule, UnexpectedValue, WrongShape
from likewise.tables.normalize import require_list, short_repr

Digits: TypeAlias = Literal["seconds", "milliseconds"]
Times: TypeAlias = npt.NDArray[np.int64]
"""Microseconds since 1970."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MOST = 1 << 62
_MOST_YEARS = 100_000  # from 1970: farther away, NumPy's microseconds overflow
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_WRITTEN = re.compile(r"([0-9_,]+(?:\.[0-9]+)?) *(row|second|minute|hour|day)s?")
_OTHER_UNITS = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
_PLAUSIBLE = 631_152_000  # 1990: earlier times are unlikely
_SPACE_BEFORE_ZONE = re.compile(r"\s+(?=[-+]\d)")
_EXPECTED = "expected a datetime, ISO text, or seconds since 1970."


# Reading


def moment_of(value: Any) -> datetime.datetime | None:
    """Return a datetime, a date or ISO text as an aware datetime; None for anything else.

    Raises ValueError for text that is no time, and for a missing time of pandas.

    >>> moment_of("2026-01-31 10:30 +0200").isoformat()
    '2026-01-31T10:30:00+02:00'
    """
    if isinstance(value, str):
        text = value.strip().replace("/", "-")
        if text.endswith(("UTC", "GMT")):
            text = f"{text[:-3].rstrip()}+00:00"
        value = datetime.datetime.fromisoformat(_SPACE_BEFORE_ZONE.sub("", text))
    elif isinstance(value, datetime.datetime):
        if value != value:  # noqa: PLR0124 - pandas' NaT
            raise ValueError("a missing time")
    elif isinstance(value, datetime.date):
        value = datetime.datetime.combine(value, datetime.time())
    else:
        return None
    moment: datetime.datetime = value
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment


def to_microseconds(time: Any) -> int:
    """Return one time in microseconds; raise UnexpectedValue if it is no time."""
    if isinstance(time, np.generic):
        if time.dtype.kind == "M":
            return int(_convert_numpy(np.array([time]))[0])
        time = time.item()
    try:
        moment = moment_of(time)
    except ValueError:
        moment = None
    if moment is not None:
        return int((moment - _EPOCH) // datetime.timedelta(microseconds=1))
    number = isinstance(time, int | float) and not isinstance(time, bool)
    if not number or not abs(time) < _MOST / 1e6:
        raise UnexpectedValue(
            f"the time is {short_repr(time)}; {_EXPECTED}",
            advice=_unit_advice(time) if number else "",
        )
    rounded: int = round(time * 1_000_000)
    return rounded


def to_microseconds_each(times: Any, count: int) -> Times:
    """Return the times of a batch of `count` decisions in microseconds."""
    from_numpy = isinstance(times, np.ndarray) and times.dtype.kind == "M" and times.ndim == 1
    if not from_numpy:
        times = require_list(times, "the times", "a list, one for each decision")
    if len(times) != count:
        raise WrongShape(
            f"there are {count} decisions and {len(times)} times; expected one for each."
        )
    if from_numpy:
        return _convert_numpy(times)
    return np.array([to_microseconds(time) for time in times], np.int64)


def _convert_numpy(times: npt.NDArray[np.datetime64]) -> Times:
    years = times.astype("datetime64[Y]").astype(np.int64)
    bad = np.isnat(times) | (years > _MOST_YEARS) | (years < -_MOST_YEARS)
    if bad.any():
        raise UnexpectedValue(f"the time is {times[bad][0]!r}; {_EXPECTED}")
    return times.astype("datetime64[us]").astype(np.int64)


def guess_unit(seconds: float, first: float, last: float) -> str:
    """Return advice if a number, taken in another unit, would lie in a range; else ""."""
    for factor, unit in _OTHER_UNITS.items():
        if first * factor <= seconds <= last * factor:
            return f"were these {unit}? A number is in seconds: divide by {factor:,.0f}"
    return ""


def _unit_advice(seconds: float) -> str:
    advice = guess_unit(seconds, _PLAUSIBLE, clock.time() + _UNITS["day"])
    return f"{advice[0].upper()}{advice[1:]}." if advice else ""


# Writing


def iso_text(time: int) -> str:
    """Return a time as ISO 8601 in UTC, also for years beyond Python's datetime.

    >>> iso_text(1_769_855_400_000_000)
    '2026-01-31T10:30:00Z'
    """
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=time)
    except OverflowError:
        return f"{np.datetime64(time, 'us')}Z"
    return moment.isoformat().replace("+00:00", "Z")


def iso_text_of_seconds(seconds: float, digits: Digits = "milliseconds") -> str:
    """Return a time as ISO 8601 in UTC, to the second or the millisecond."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec=digits).replace("+00:00", "Z")


def readable_time(moment: datetime.datetime | np.datetime64) -> str:
    """Return a moment as text for people; without the time of day if that is midnight.

    It may lie beyond the year 9999.
    """
    return str(np.asarray(moment, "datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")


def describe_age(seconds: float) -> str:
    """Return how long ago that is, in words.

    >>> describe_age(4.2), describe_age(200), describe_age(90_000)
    ('4 seconds ago', '3 minutes ago', '25 hours ago')
    """
    for size, name in ((86_400 * 3, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        unit = 86_400 if name == "day" else size
        if seconds >= size:
            many = int(seconds // unit)
            return f"{many:,} {name}{'s' if many > 1 else ''} ago"
    return "just now"


# Durations


def amount_in(given: Any) -> tuple[float, str] | None:
    """Return the number and the unit of text such as "30 days"; None if it is no such text."""
    match = _WRITTEN.fullmatch(given.strip()) if isinstance(given, str) else None
    if match is None:
        return None
    try:
        return float(match[1].replace("_", "").replace(",", "")), match[2]
    except ValueError:  # nothing but commas
        return None


def duration(given: Any) -> int | None:
    """Return the microseconds of text such as "90 minutes"; None if it is no such text."""
    amount = amount_in(given)
    if amount is None or amount[1] == "row":
        return None
    length = amount[0] * _UNITS[amount[1]] * 1e6
    return round(length) if length < _MOST else None


@dataclass(frozen=True)
class MaxAhead:
    """How far a time may be ahead of the clock.

    >>> MaxAhead.of("5 minutes").microseconds
    300000000
    """

    text: str
    microseconds: int | None
    """None: without a limit."""

    @classmethod
    def of(cls, given: Any) -> "MaxAhead":
        """Read text such as "5 minutes", a number of seconds, or "any"."""
        if given == "any":
            return cls("any", None)
        length = duration(given)
        if length is not None:
            return cls(given.strip(), length)
        try:
            seconds = math.nan if isinstance(given, bool) else float(given)
        except (TypeError, ValueError, OverflowError):
            seconds = math.nan
        if not 0 <= seconds * 1e6 < _MOST:
            raise BadRule(
                f"max_ahead is {given!r}; expected how far a time may be ahead of the clock, such"
                ' as "5 minutes", "24 hours" or 300 (seconds), or "any"',
                setting="max_ahead",
            )
        return cls(f"{seconds:g} seconds", round(seconds * 1e6))

    def check(self, times: Times) -> None:
        """Raise UnexpectedValue at the first of these times that is too far ahead of the clock."""
        if self.microseconds is None or len(times) == 0:
            return
        now = clock.time_ns() // 1000
        if times.max() <= now + self.microseconds:
            return
        at = int(np.argmax(times > now + self.microseconds))
        time = int(times[at])
        raise UnexpectedValue(
            f"the time is {iso_text(time)}, and this machine's clock says {iso_text(now)};"
            f" expected at most {self.text} ahead of it.",
            place=at if len(times) > 1 else None,
            advice=_unit_advice(time / 1e6) or "If it is meant, allow it with max_ahead.",
        )
