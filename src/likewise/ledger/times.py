"""Times as a ledger keeps them: whole microseconds since 1970, in UTC.

A number is in seconds, text is ISO 8601; without a time zone, UTC is meant. A time from the future
is most likely in another unit, and would empty a window: it is refused (`Ahead`).
"""

import datetime
import math
import re
import time as clock
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.values.errors import BadRule, UnexpectedValue, WrongShape
from likewise.values.verdicts import Rows

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MOST = 1 << 62
_MOST_YEARS = 100_000  # from 1970: further away, NumPy's microseconds run over
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_WRITTEN = re.compile(r"([0-9_,]+(?:\.[0-9]+)?) *(row|second|minute|hour|day)s?")
_OTHER_UNITS = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
_PLAUSIBLE = 631_152_000  # 1990: the year from which on a time is likely


def microseconds(time: Any) -> int:
    """One time; raise BadDecision if it is none."""
    if isinstance(time, np.generic):
        if time.dtype.kind == "M":
            return int(_of_numpy(np.array([time]))[0])
        time = time.item()
    if isinstance(time, str):
        try:
            time = datetime.datetime.fromisoformat(time)
        except ValueError:
            time = None
    if isinstance(time, datetime.datetime):
        if time.tzinfo is None:
            time = time.replace(tzinfo=datetime.UTC)
        return int((time - _EPOCH) // datetime.timedelta(microseconds=1))
    number = isinstance(time, int | float) and not isinstance(time, bool)
    if not number or not math.isfinite(time) or abs(time) * 1e6 >= _MOST:
        raise UnexpectedValue(
            f"the time is {time!r}; expected a datetime, ISO text, or seconds since 1970.",
            advice=_unit_hint(time) if number else "",
        )
    microseconds_: int = round(time * 1_000_000)
    return microseconds_


def all_microseconds(times: Sequence[Any] | np.ndarray[Any, Any], count: int) -> Rows:
    """One for each decision of a batch."""
    if len(times) != count:
        raise WrongShape(
            f"there are {count} decisions and {len(times)} times; expected one for each."
        )
    if isinstance(times, np.ndarray) and times.dtype.kind == "M":
        return _of_numpy(times)
    return np.array([microseconds(time) for time in times], np.int64)


def _of_numpy(times: np.ndarray[Any, Any]) -> Rows:
    years = times.astype("datetime64[Y]").astype(np.int64)
    bad = np.isnat(times) | (years > _MOST_YEARS) | (years < -_MOST_YEARS)
    if bad.any():
        raise UnexpectedValue(
            f"the time is {times[bad][0]!r}; expected a datetime, ISO text, or seconds since 1970."
        )
    return times.astype("datetime64[us]").astype(np.int64)


def shown(time: int) -> str:
    """ISO 8601, also of a year that Python's datetime does not know."""
    try:
        moment = (_EPOCH + datetime.timedelta(microseconds=time)).isoformat()
    except OverflowError:
        return f"{np.datetime64(time, 'us')}Z"
    return moment.replace("+00:00", "Z")


# Durations


def amount_in(given: Any) -> tuple[float, str] | None:
    """A number and what it counts, such as "row" or "day"; None if it is no such text."""
    match = _WRITTEN.fullmatch(given.strip()) if isinstance(given, str) else None
    if match is None:
        return None
    try:
        return float(match[1].replace("_", "").replace(",", "")), match[2]
    except ValueError:  # nothing but commas
        return None


def duration(given: Any) -> int | None:
    """Microseconds of text such as "90 minutes"; None if it is no such text."""
    amount = amount_in(given)
    if amount is None or amount[1] == "row":
        return None
    length = amount[0] * _UNITS[amount[1]] * 1e6
    return round(length) if length < _MOST else None


@dataclass(frozen=True)
class Ahead:
    """How far a time that is given may be ahead of the clock.

    >>> Ahead.of("5 minutes").microseconds
    300000000
    """

    text: str
    microseconds: int | None
    """None: as far as it likes."""

    @classmethod
    def of(cls, given: Any) -> "Ahead":
        """From words, as for a window; from seconds; or "any"."""
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

    def check(self, times: Rows) -> None:
        """Raise BadDecision at the first of these times that is too far ahead of the clock."""
        if self.microseconds is None or len(times) == 0:
            return
        now = clock.time_ns() // 1000
        if times.max() <= now + self.microseconds:
            return
        at = int(np.argmax(times > now + self.microseconds))
        time = int(times[at])
        raise UnexpectedValue(
            f"the time is {shown(time)}, and this machine's clock says {shown(now)};"
            f" expected at most {self.text} ahead of it.",
            place=at if len(times) > 1 else None,
            advice=_unit_hint(time / 1e6) or "If it is meant, allow it with max_ahead.",
        )


def _unit_hint(seconds: float) -> str:
    """Which unit was most likely meant, where seconds make no sense."""
    latest = clock.time() + _UNITS["day"]
    for factor, unit in _OTHER_UNITS.items():
        if _PLAUSIBLE <= seconds / factor <= latest:
            return f"Were these {unit}? A number is in seconds: divide by {factor:,.0f}."
    return ""
