"""How much of the past is kept: everything, so many decisions, or so much time.

>>> Window.of("10000 rows").rows
10000
>>> Window.of("24 hours").microseconds
86400000000
"""

import re
from dataclasses import dataclass

import numpy as np

from likewise.errors import BadRule
from likewise.types import Rows

_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_WRITTEN = re.compile(r"([0-9_,]+(?:\.[0-9]+)?) *(row|second|minute|hour|day)s?")


@dataclass(frozen=True)
class Window:
    """The last `rows` decisions, or those of the last `microseconds`; neither: everything."""

    text: str = "all"
    rows: int | None = None
    microseconds: int | None = None

    @classmethod
    def of(cls, given: str) -> "Window":
        """From words: "all", "10000 rows", "90 minutes", "24 hours", "30 days"."""
        match = _WRITTEN.fullmatch(given.strip()) if isinstance(given, str) else None
        if given == "all":
            return cls()
        if match is not None:
            number = float(match[1].replace("_", "").replace(",", ""))
            if match[2] == "row" and number >= 1 and number.is_integer():
                return cls(f"{int(number)} rows", rows=int(number))
            if match[2] != "row" and number > 0:
                return cls(given.strip(), microseconds=round(number * _UNITS[match[2]] * 1e6))
        raise BadRule(
            f'window is {given!r}; expected "all", or how much to keep, such as "100000 rows",'
            ' "90 minutes", "24 hours" or "30 days"'
        )

    def firsts(self, first_row: int, times: Rows, known: Rows, known_first: int) -> Rows:
        """The first row that each of a run of decisions is compared with.

        times are the run's own, `known` those of the rows from known_first up to it: the window of
        a decision begins at the first of them that is no older than the latest time allows.
        """
        count = len(times)
        if self.rows is not None:
            return np.maximum(np.arange(first_row, first_row + count) - self.rows, 0)
        if self.microseconds is None:
            return np.zeros(count, np.int64)
        latest = np.maximum.accumulate(np.concatenate([known, times]))
        oldest = latest[len(known) :] - self.microseconds
        # `latest` only grows; a row at place i is too old for a decision if all up to it are.
        return known_first + np.searchsorted(latest, oldest, side="left")
