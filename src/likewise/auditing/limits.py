"""Limits what an audit may find, for schedulers and tests."""

from dataclasses import dataclass
from typing import Any

from likewise.errors import BadRule
from likewise.explaining.agreement import FEWEST_SIMILAR
from likewise.reports.findings import Findings
from likewise.tables.printing import percent

MEASURES = {
    "any-pair": "of all decisions are in a contradicting pair (in any order)",
    "later": "of all decisions contradict an earlier one",
    "comparable": "of the comparable decisions contradict an earlier one",
    "disagreement": "of the similar cases of a decision disagree with it, on average",
    "opposed": f"of the decisions with at least {FEWEST_SIMILAR} similar cases are opposed by most",
}


@dataclass(frozen=True)
class AuditLimits:
    """Limits what an audit may find, as --max-rate, --max-rate-of and --min-index say."""

    max_rate: float | None = None
    """None: no limit."""
    measure: str = "any-pair"
    """Which share is limited, a name in MEASURES."""
    min_index: float | None = None
    """The least lower limit of the agreement index; None: no limit."""

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise BadRule(
                f"max_rate_of (--max-rate-of) is {self.measure!r}; expected {', '.join(MEASURES)}",
                setting="max_rate_of",
            )

    def _counts(self, findings: Findings) -> tuple[int, int] | None:
        """Return how many decisions the limited share counts, and of how many; None: a mean."""
        agreement = findings.agreement
        if self.measure == "disagreement":
            return None
        if self.measure == "opposed":
            return (agreement.opposed_by_most, agreement.opposed_of) if agreement else (0, 0)
        if self.measure == "comparable":
            return findings.violations, findings.with_earlier or 0
        flagged = findings.in_any_pair if self.measure == "any-pair" else findings.violations
        return flagged, findings.rows

    def rate(self, findings: Findings) -> float | None:
        """Return the share that is limited; None where it has no meaning."""
        if findings.nothing_compared:
            return None
        counts = self._counts(findings)
        if counts is None:
            return None if findings.agreement is None else findings.agreement.disagreement
        return counts[0] / counts[1] if counts[1] else None

    def check(self, findings: Findings) -> list[tuple[bool | None, str]]:
        """Say of each limit whether it is kept, None if that cannot be told, and why."""
        checks: list[tuple[bool | None, str]] = []
        if self.max_rate is not None:
            rate = self.rate(findings)
            kept = None if rate is None else rate <= self.max_rate
            checks.append((kept, self._describe_rate(findings, rate)))
        if self.min_index is not None:
            low = None if findings.agreement is None else findings.agreement.low
            kept = None if low is None else low >= self.min_index
            checks.append((kept, self._describe_index(findings, low)))
        return checks

    def is_kept(self, findings: Findings) -> bool | None:
        """Tell whether all limits are kept; None if none is broken and one cannot be told."""
        kept = [one for one, _ in self.check(findings)]
        return False if False in kept else None if None in kept else True

    def _describe_rate(self, findings: Findings, rate: float | None) -> str:
        assert self.max_rate is not None
        if rate is None and not findings.nothing_compared:
            return "there are too few similar cases, so --max-rate says nothing."
        if rate is None:
            return (
                "nothing could be compared, so --max-rate says nothing. Loosen the rule, as the"
                " summary says, until similar cases are found."
            )
        counts = self._counts(findings)
        of = "" if counts is None else f": {counts[0]:,} of {counts[1]:,}"
        than = "within" if rate <= self.max_rate else "more than"
        return (
            f"{percent(rate)} {MEASURES[self.measure]}{of}, {than} the"
            f" {percent(self.max_rate)} that --max-rate allows."
        )

    def _describe_index(self, findings: Findings, low: float | None) -> str:
        assert self.min_index is not None
        if low is None:
            why = "" if findings.agreement is None else f" {findings.agreement.how.sentence}"
            return f"the agreement index cannot be told, so --min-index says nothing.{why}"
        than = "at least" if low >= self.min_index else "less than"
        return (
            f"The agreement index is at least {low:.3f} (the lower limit of its 95 % interval),"
            f" {than} the {self.min_index:g} that --min-index asks for."
        )

    def to_dict(self, findings: Findings) -> dict[str, Any]:
        """Return the limits, the limited rate, and whether a limit is exceeded."""
        is_kept = self.is_kept(findings)
        return {
            "max_rate": self.max_rate,
            "max_rate_of": self.measure,
            "limited_rate": self.rate(findings),
            "min_index": self.min_index,
            "limit_exceeded": None if is_kept is None else not is_kept,
        }
