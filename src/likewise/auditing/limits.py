"""Limits the share of contradictions that an audit may find, for schedulers and tests."""

from dataclasses import dataclass
from typing import Any

from likewise.errors import BadRule
from likewise.reports.findings import Findings
from likewise.tables.printing import percent

MEASURES = {
    "any-pair": "of all decisions are in a contradicting pair (in any order)",
    "later": "of all decisions contradict an earlier one",
    "comparable": "of the comparable decisions contradict an earlier one",
}


@dataclass(frozen=True)
class MaxRate:
    """Limits the share of contradictions, as --max-rate and --max-rate-of say."""

    share: float | None = None
    """None: no limit."""
    measure: str = "any-pair"
    """Which share is limited, a name in MEASURES."""

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise BadRule(
                f"max_rate_of (--max-rate-of) is {self.measure!r}; expected {', '.join(MEASURES)}",
                setting="max_rate_of",
            )

    def rate(self, findings: Findings) -> float | None:
        """Return the share that is limited; None where it has no meaning."""
        if findings.nothing_compared:
            return None
        rates = {
            "any-pair": findings.rate_in_any_pair,
            "later": findings.rate,
            "comparable": findings.rate_among_comparable,
        }
        return rates[self.measure]

    def is_kept(self, findings: Findings) -> bool | None:
        """Tell whether the limit is kept; None if that cannot be said."""
        if self.share is None:
            return True
        rate = self.rate(findings)
        return None if rate is None else rate <= self.share

    def describe(self, findings: Findings) -> str:
        """Describe the share beside its limit."""
        assert self.share is not None
        rate = self.rate(findings)
        if rate is None:
            return (
                "nothing could be compared, so --max-rate says nothing. Loosen the rule, as the"
                " summary says, until similar cases are found."
            )
        than = "within" if rate <= self.share else "more than"
        flagged = findings.in_any_pair if self.measure == "any-pair" else findings.violations
        total = findings.comparable if self.measure == "comparable" else findings.rows
        return (
            f"{percent(rate)} {MEASURES[self.measure]}: {flagged:,} of {total or 0:,}, {than} the"
            f" {percent(self.share)} that --max-rate allows."
        )

    def to_dict(self, findings: Findings) -> dict[str, Any]:
        """Return the limit, its measure, the limited rate, and whether it is over the limit."""
        is_kept = self.is_kept(findings)
        return {
            "max_rate": self.share,
            "max_rate_of": self.measure,
            "limited_rate": self.rate(findings),
            "limit_exceeded": None if is_kept is None else not is_kept,
        }
