"""`--max-rate`: the largest share of contradicting decisions with which an audit ends well.

Invariant: what is said names the share that was limited, with its count and what it is a share of.
Where nothing could be compared the limit is neither kept nor passed.
"""

from dataclasses import dataclass
from typing import Any

from likewise.cli.endings import Stop
from likewise.reports.findings import Findings
from likewise.values.printing import percent

MEASURES = {
    "any-pair": "of all decisions are in a contradicting pair (in any order)",
    "later": "of all decisions contradict an earlier one",
    "comparable": "of the comparable decisions contradict an earlier one",
}


@dataclass(frozen=True)
class Limit:
    """A share, and of what; None: no limit."""

    share: float | None
    of: str

    def __post_init__(self) -> None:
        if self.of not in MEASURES:
            raise Stop(f"--max-rate-of is {self.of!r}; expected {', '.join(MEASURES)}.")

    def rate(self, found: Findings) -> float | None:
        """The share that is limited; None where it has no meaning."""
        if found.nothing_compared:
            return None
        rates = {
            "any-pair": found.rate_in_any_pair,
            "later": found.rate,
            "comparable": found.rate_among_comparable,
        }
        return rates[self.of]

    def kept(self, found: Findings) -> bool | None:
        """Whether the limit is kept; None if that cannot be said."""
        if self.share is None:
            return True
        rate = self.rate(found)
        return None if rate is None else rate <= self.share

    def words(self, found: Findings) -> str:
        """The share beside its limit."""
        assert self.share is not None
        rate = self.rate(found)
        if rate is None:
            return (
                "nothing could be compared, so --max-rate says nothing. Loosen the rule, as the"
                " summary says, until like cases are found."
            )
        than = "within" if rate <= self.share else "more than"
        some, many = self._counts(found)
        return (
            f"{percent(rate)} {MEASURES[self.of]}: {some:,} of {many:,}, {than} the"
            f" {percent(self.share)} that --max-rate allows."
        )

    def _counts(self, found: Findings) -> tuple[int, int]:
        some = found.in_any_pair if self.of == "any-pair" else found.flagged
        return some, (found.comparable or 0) if self.of == "comparable" else found.rows

    def to_dict(self, found: Findings) -> dict[str, Any]:
        """For JSON: the limit, what it is of, that rate, and whether it was passed."""
        kept = self.kept(found)
        return {
            "max_rate": self.share,
            "max_rate_of": self.of,
            "limited_rate": self.rate(found),
            "over": None if kept is None else not kept,
        }
