"""Count the decisions of a ledger in a period of time, and their verdicts.

Cost: only the runs of rows whose latest decision lies in the period are read.
"""

from dataclasses import dataclass

import numpy as np

from likewise.ledger.stored import NOT_JUDGED, StoredDecisions


@dataclass(frozen=True)
class LedgerStats:
    """Counts of decisions, with their denominators."""

    decisions: int = 0
    judged: int = 0
    """Decisions that were judged, not only remembered."""
    comparability_known: int = 0
    """Decisions of which it is known whether they could be compared with anything."""
    comparable: int = 0
    """How many of those could be compared."""
    violations: int = 0
    """Decisions that contradict an earlier one."""
    missing_decisions: int = 0
    """Decisions that were known to be missing when the last of them was judged."""
    since: int | None = None
    """Begin of the period in microseconds since 1970; None for no limit."""
    until: int | None = None

    @property
    def rate(self) -> float | None:
        """The share of judged decisions that contradict an earlier one; None if there are none."""
        return self.violations / self.judged if self.judged else None

    @property
    def rate_among_comparable(self) -> float | None:
        """The share of comparable decisions that contradict an earlier one.

        None if none could be compared, or if that is not known of all of them.
        """
        is_known = self.comparability_known == self.judged
        return self.violations / self.comparable if is_known and self.comparable else None

    def and_then(self, chunk: StoredDecisions) -> "LedgerStats":
        """Return the counts with further decisions, as far as they lie in the period."""
        within = np.ones(len(chunk), np.bool_)
        if self.since is not None:
            within &= chunk.times >= self.since
        if self.until is not None:
            within &= chunk.times < self.until
        counts = chunk.counts[within]
        asked, missing = chunk.facts["comparable"][within], chunk.facts["missing_decisions"][within]
        return LedgerStats(
            self.decisions + len(counts),
            self.judged + int((counts != NOT_JUDGED).sum()),
            self.comparability_known + int((asked >= 0).sum()),
            self.comparable + int((asked > 0).sum()),
            self.violations + int((counts > 0).sum()),
            int(missing[-1]) if len(missing) else self.missing_decisions,
            self.since,
            self.until,
        )
