"""How a watch went, for people and as JSON."""

import os
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from likewise.ledger.ledger import Ledger
from likewise.ledger.losses import is_at_least
from likewise.values.printing import missing_in_words, percent


def lost_at_least(ledger: str | os.PathLike[str]) -> bool:
    """Whether more may be missing from a ledger than its chain counts."""
    with closing(Ledger(ledger)) as opened:
        return is_at_least(opened.events())


@dataclass
class WatchCounts:
    """What came of decisions."""

    rows: int = 0
    flagged: int = 0
    comparable: int = 0
    alarms: int = 0
    known: int = 0
    bad: int = 0
    missing: int = 0
    at_least: bool = False
    """Whether more may be missing than is known."""

    def told(self, unit: str = "line") -> str:
        """In words; `unit` is what could not be judged."""
        alarms = f", {self.alarms:,} raise an alarm" if self.alarms else ""
        known = f", {self.known:,} that the ledger had already" if self.known else ""
        units = unit if self.bad == 1 else f"{unit}s"
        bad = f", {self.bad:,} {units} that could not be judged" if self.bad else ""
        decisions = f"{self.rows:,} decision{'s' * (self.rows != 1)}"
        missing = missing_in_words(self.missing, at_least=self.at_least)
        return f"{decisions}{self._compared()}{alarms}{known}{bad}{missing}"

    def _compared(self) -> str:
        """How many could be compared, and how many of these contradict."""
        if self.rows and not self.comparable:
            return (
                ": none had an earlier like case, so nothing could be compared, and nothing follows"
            )
        share = f" ({percent(self.flagged / self.comparable)})" if self.comparable else ""
        return (
            f", {self.comparable:,} with an earlier like case, {self.flagged:,} of them{share}"
            " contradict an earlier one"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "comparable": self.comparable,
            "flagged": self.flagged,
            "alarms": self.alarms,
            "known": self.known,
            "bad_rows": self.bad,
            "missing": self.missing,
        }
