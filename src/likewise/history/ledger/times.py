"""Times as a ledger keeps them: whole microseconds since 1970, in UTC.

A number is in seconds, text is ISO 8601; without a time zone, UTC is meant.
"""

import datetime
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.errors import BadDecision
from likewise.types import Rows

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MOST = 1 << 62


def microseconds(time: Any) -> int:
    """One time; raise BadDecision if it is none."""
    if isinstance(time, np.generic):
        if time.dtype.kind == "M" and not np.isnat(time):
            return int(time.astype("datetime64[us]").astype(np.int64))
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
        raise BadDecision(
            f"the time is {time!r}; expected a datetime, ISO text, or seconds since 1970."
            " Nothing was stored."
        )
    microseconds_: int = round(time * 1_000_000)
    return microseconds_


def all_microseconds(times: Sequence[Any] | np.ndarray[Any, Any], count: int) -> Rows:
    """One for each decision of a batch."""
    if len(times) != count:
        raise BadDecision(
            f"there are {count} decisions and {len(times)} times; expected one for each. Nothing"
            " was stored."
        )
    if isinstance(times, np.ndarray) and times.dtype.kind == "M" and not np.isnat(times).any():
        return times.astype("datetime64[us]").astype(np.int64)
    return np.array([microseconds(time) for time in times], np.int64)


def shown(time: int) -> str:
    """ISO 8601."""
    return (_EPOCH + datetime.timedelta(microseconds=time)).isoformat().replace("+00:00", "Z")
