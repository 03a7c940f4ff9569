"""How many near inputs in a short time are too many: a run of near-duplicates, whatever came out.

Someone who searches for a flaw of a model from outside asks about one input again and again, each
time changed a little. Every answer may be consistent with the others; that there are so many of
them is the sign.

A burst is a frozen value, checked when it is made. Not here: how they are counted
(search/engine/neighbour_count.py).
"""

import operator
from dataclasses import dataclass
from typing import Any

from likewise.errors import BadRule


@dataclass(frozen=True, slots=True)
class Burst:
    """Count the near inputs among the last decisions, and raise an alarm from so many on.

    last    how many decisions back: row r is compared with rows r - last to r - 1. Forgotten rows
            are missing from them, and no earlier ones take their place.
    alarm   how many neighbours raise an alarm; None: they are only counted.

    >>> import likewise as lw
    >>> monitor = lw.Monitor(lw.Rule("linf", 0.1), burst=lw.Burst(last=1000, alarm=3))
    >>> for step in range(4):
    ...     verdict = monitor.observe([0.50 + step / 100, 0.30], "no")
    >>> verdict.neighbours, verdict.alarm, verdict.violation
    (3, True, False)
    """

    last: int
    alarm: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", _whole("last", self.last))
        if self.alarm is None:
            return
        object.__setattr__(self, "alarm", _whole("alarm", self.alarm))
        if self.alarm > self.last:
            raise BadRule(
                f"alarm is {self.alarm} and last is {self.last}; expected an alarm of at most"
                f" {self.last}, since there are never more neighbours than decisions looked at",
                setting="alarm",
            )

    def __str__(self) -> str:
        alarm = "no alarm" if self.alarm is None else f"alarm from {self.alarm:,} neighbours on"
        return f"near inputs among the last {self.last:,} decisions are counted, {alarm}"


def _whole(name: str, value: Any) -> int:
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise BadRule(f"{name} is {value!r}; expected a whole number from 1", setting=name)
    return number
