"""Bursts in an audit: how many decisions raised an alarm, the first, the most neighbours."""

from typing import Any

import numpy as np

from likewise.rules.burst import Burst
from likewise.values.verdicts import Verdicts


class Alarms:
    """Of a stream: how many decisions raised an alarm, the first of them, the most neighbours."""

    def __init__(self, burst: Burst) -> None:
        self._burst = burst
        self.count = self.most = 0
        self.first: int | None = None

    def add(self, verdicts: Verdicts) -> None:
        raised = np.flatnonzero(verdicts.alarms)
        if len(raised) and self.first is None:
            self.first = int(verdicts.rows[raised[0]])
        self.count += len(raised)
        if verdicts.neighbours is not None:
            self.most = max(self.most, int(verdicts.neighbours.max(initial=0)))

    def told(self, place: str) -> str:
        """In words; `place` is where the first stands."""
        among = f"among the {self._burst.last:,} decisions before"
        if self._burst.alarm is None:
            return f"At most {self.most:,} near inputs {among}"
        if self.count == 0:
            return (
                f"No alarm: at most {self.most:,} near inputs {among}, below {self._burst.alarm:,}"
            )
        return (
            f"Alarms: {self.count:,}, first at {place}; up to {self.most:,} near inputs {among},"
            f" where {self._burst.alarm:,} raise one"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "last": self._burst.last,
            "alarm": self._burst.alarm,
            "most_neighbours": self.most,
            "alarms": self.count,
            "first_alarm": self.first,
        }
