"""An alert, its summary in words, and its JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from likewise.service.body_types import copy_fields
from likewise.tables.times import iso_text_of_seconds

_SEVERITY = {"burst": "critical", "same_input": "critical", "stale_head": "critical"}


class AlertBody(Struct):
    """An alert in JSON."""

    id: str
    kind: str
    monitor: str
    severity: str
    status: str
    summary: str
    details: dict[str, Any]
    started: str
    ended: str | None
    acknowledged: str | None
    acknowledged_by: str | None


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition of a monitor that holds, or held."""

    id: str
    kind: str
    monitor: str
    started: float
    """Seconds since 1970, like all times here."""
    ended: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    acknowledged: float | None = None
    acknowledged_by: str | None = None

    @property
    def name(self) -> str:
        """The name for Alertmanager, such as LikewiseViolationRate."""
        return f"Likewise{self.kind.title().replace('_', '')}"

    @property
    def severity(self) -> str:
        return _SEVERITY.get(self.kind, "warning")

    @property
    def status(self) -> str:
        return "firing" if self.ended is None else "resolved"

    @property
    def summary(self) -> str:
        """In words, with every rate beside its denominator."""
        details: dict[str, Any] = {**self.details, "last": _describe_last(self.details)}
        if "comparable" in details:
            details["rate"] = details["violations"] / details["comparable"]
        if "count" in details:
            one = details["count"] == 1
            details["contradict"] = "decision contradicts" if one else "decisions contradict"
        return f"{self.monitor}: {_SUMMARIES[self.kind].format_map(details)}"

    def to_body(self) -> AlertBody:
        """Make the JSON that GET …/alerts answers."""
        times = {"started": self.started, "ended": self.ended, "acknowledged": self.acknowledged}
        texts = {
            name: None if time is None else iso_text_of_seconds(time)
            for name, time in times.items()
        }
        return copy_fields(AlertBody, self, details=dict(self.details), **texts)


def _describe_last(details: Mapping[str, Any]) -> str:
    """Return where the last decision that counts is, if that is known."""
    if "row" not in details:
        return ""
    key = f", key {details['key']!r}" if "key" in details else ""
    return f" (the last at row {details['row']}{key})"


_SUMMARIES = {
    "violation_rate": (
        "{violations:,} of {comparable:,} comparable decisions contradict an earlier one"
        " ({rate:.2%}), {finding} what is usual ({usual_low:.2%} to {usual_high:.2%}, from"
        " {usual_violations:,} of {usual_comparable:,})"
    ),
    "burst": "{count:,} burst alarms{last}",
    "same_input": "{count:,} {contradict} an earlier one with the very same input{last}",
    "losses": "{count:,} more decisions are missing, {missing_decisions:,} in all",
    "no_decisions": "no decision for {seconds:,.0f} s",
    "stale_head": "decisions wait, and nothing has reached the ledger for {seconds:,.0f} s",
}
