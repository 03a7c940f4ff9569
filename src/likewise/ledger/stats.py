"""How many decisions a ledger has of a stretch of time, and what became of them.

Cost: the runs of rows whose latest decision lies in the stretch are read, and no others.
"""

from dataclasses import dataclass

import numpy as np

from likewise.ledger.stored import NOT_JUDGED, StoredDecisions


@dataclass(frozen=True)
class LedgerStats:
    """Counts of decisions, with their denominators."""

    decisions: int = 0
    judged: int = 0
    """Those that were not only remembered."""
    asked: int = 0
    """Those of which it is known whether they could be compared with anything."""
    comparable: int = 0
    """Of those, how many could be."""
    violations: int = 0
    """Decisions that contradict an earlier one."""
    missing: int = 0
    """Decisions that were known to be missing when the last of them was judged."""
    since: int | None = None
    """In microseconds since 1970, if only decisions from then on are counted."""
    until: int | None = None

    @property
    def rate(self) -> float | None:
        """The share of judged decisions that contradict an earlier one; None if there are none."""
        return self.violations / self.judged if self.judged else None

    @property
    def comparable_rate(self) -> float | None:
        """The share of comparable decisions that do; None if none could be compared, or if it is
        not known of all of them."""
        known = self.asked == self.judged
        return self.violations / self.comparable if known and self.comparable else None

    def and_then(self, some: StoredDecisions) -> "LedgerStats":
        """With further decisions, those of them that lie in the stretch of time."""
        there = np.ones(len(some), np.bool_)
        if self.since is not None:
            there &= some.times >= self.since
        if self.until is not None:
            there &= some.times < self.until
        counts = some.counts[there]
        asked, missing = some.facts["comparable"][there], some.facts["missing"][there]
        return LedgerStats(
            self.decisions + len(counts),
            self.judged + int((counts != NOT_JUDGED).sum()),
            self.asked + int((asked >= 0).sum()),
            self.comparable + int((asked > 0).sum()),
            self.violations + int((counts > 0).sum()),
            int(missing[-1]) if len(missing) else self.missing,
            self.since,
            self.until,
        )
