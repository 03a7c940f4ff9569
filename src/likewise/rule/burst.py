"""The declaration of a burst: so many near inputs in a short time that they raise an alarm.

Someone who probes a model for flaws sends an input again and again, each time changed a little. All
answers may be consistent; the number of near-duplicates is the sign.
Invariant: a burst is frozen, and checked when it is made.
Not here: how near inputs are counted (search/engine/near_pairs.py).
"""

from dataclasses import dataclass

from likewise.errors import BadRule
from likewise.tables.setting_checks import check_whole_number


@dataclass(frozen=True, slots=True)
class Burst:
    """Counts the near inputs among the last decisions, and says how many raise an alarm.

    last    how many decisions back: row r is compared with rows r - last to r - 1. Forgotten rows
            are not replaced by earlier ones.
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
        object.__setattr__(self, "last", check_whole_number("last", self.last))
        if self.alarm is None:
            return
        object.__setattr__(self, "alarm", check_whole_number("alarm", self.alarm))
        if self.alarm > self.last:
            raise BadRule(
                f"alarm is {self.alarm} and last is {self.last}; expected an alarm of at most"
                f" {self.last}, since there are never more neighbours than decisions compared",
                setting="alarm",
            )

    def __str__(self) -> str:
        alarm = "no alarm" if self.alarm is None else f"alarm from {self.alarm:,} neighbours on"
        return f"near inputs among the last {self.last:,} decisions are counted, {alarm}"
