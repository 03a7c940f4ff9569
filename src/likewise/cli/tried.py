"""What came out when a proposed rule was tried, in sentences and as data.

Invariant: a share of contradictions never stands without the count of what could be compared.
"""

from dataclasses import dataclass
from typing import Any

from likewise.cli.loosening import Loosened
from likewise.monitors.varied import Outcome
from likewise.values.printing import percent


@dataclass(frozen=True)
class Prevented:
    """How many more decisions would be comparable if a column, or family, were ignored."""

    column: str
    columns: tuple[str, ...]
    more: int


@dataclass(frozen=True)
class Tried:
    """What came out when the rule was tried."""

    trial: Outcome
    before: Outcome
    """Of the rule as it was proposed at first; the same unless it was loosened."""
    prevented: tuple[Prevented, ...]
    """By each column, of those rows whose pairs were looked at; most first."""
    looked_at: int
    whole: bool
    """Whether the trial had all rows of the table."""

    def sentences(self) -> list[str]:
        """For people."""
        first = "" if self.whole else "the first "
        found = self.trial
        rows = f"{first}{found.decisions:,} rows"
        if found.rate is None:
            lines = [
                f"Tried on {rows}: NOTHING COULD BE COMPARED, so nothing follows. No decision has"
                " an earlier one about a like case. Widen tolerances, or leave columns out."
            ]
        else:
            verb = "contradicts" if found.contradicting == 1 else "contradict"
            lines = [
                f"Tried on {rows}: {found.comparable:,} decisions ({percent(found.share)}) had an"
                f" earlier like case; {found.contradicting:,} of those ({percent(found.rate)})"
                f" {verb} one."
            ]
        if self.before is not self.trial:
            lines.append(
                f"As first proposed the rule compared {self.before.comparable:,}: it was loosened."
            )
        most = self.prevented[0] if self.prevented else None
        if most is not None and most.more:
            part = "the first " * (bool(first) or self.looked_at < found.decisions)
            lines.append(
                f"The column that prevents most comparisons: {most.column!r}; without it"
                f" {most.more:,} more of {part}{self.looked_at:,} rows."
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""

        def told(one: Outcome) -> dict[str, Any]:
            return {
                "decisions": one.decisions,
                "comparable": one.comparable,
                "contradicting": one.contradicting,
            }

        prevented = [
            {"column": one.column, "columns": list(one.columns), "more": one.more}
            for one in self.prevented
        ]
        most = prevented[0] if prevented and prevented[0]["more"] else None
        return {
            **told(self.trial),
            "rate": self.trial.rate,
            "first_proposed": told(self.before),
            "prevents_most": most,
            "prevented": prevented,
            "looked_at": self.looked_at,
        }


def tried_of(found: Loosened, rows: int) -> Tried:
    """What a rule that was tried, and perhaps loosened, came to; rows: of the whole table."""
    varied = found.varied
    prevented = tuple(
        Prevented(one.column or "", one.change.columns, one.comparable - varied.as_it_is.comparable)
        for one in varied.preventing()
    )
    whole = found.trial.decisions == rows
    return Tried(found.trial, found.before, prevented, varied.decisions, whole)
