"""An alert, its summary in words, and its JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

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
        return f"{self.monitor}: {_SUMMARIES[self.kind](self.details)}"

    def to_body(self) -> AlertBody:
        """Make the JSON that GET …/alerts answers."""
        return AlertBody(
            self.id,
            self.kind,
            self.monitor,
            self.severity,
            self.status,
            self.summary,
            dict(self.details),
            iso_text_of_seconds(self.started),
            None if self.ended is None else iso_text_of_seconds(self.ended),
            None if self.acknowledged is None else iso_text_of_seconds(self.acknowledged),
            self.acknowledged_by,
        )


def _rate(details: Mapping[str, Any]) -> str:
    violations, comparable = details["violations"], details["comparable"]
    low, high = details["usual_low"], details["usual_high"]
    return (
        f"{violations:,} of {comparable:,} comparable decisions contradict an earlier one"
        f" ({violations / comparable:.2%}), {details['finding']} what is usual"
        f" ({low:.2%} to {high:.2%}, from {details['usual_violations']:,} of"
        f" {details['usual_comparable']:,})"
    )


def _burst(details: Mapping[str, Any]) -> str:
    return f"{details['count']:,} burst alarms{_at(details)}"


def _same_input(details: Mapping[str, Any]) -> str:
    count = details["count"]
    say = "decisions contradict" if count != 1 else "decision contradicts"
    return f"{count:,} {say} an earlier one with the very same input{_at(details)}"


def _losses(details: Mapping[str, Any]) -> str:
    return (
        f"{details['count']:,} more decisions are missing, {details['missing_decisions']:,} in all"
    )


def _no_decisions(details: Mapping[str, Any]) -> str:
    return f"no decision for {details['seconds']:,.0f} s"


def _stale_head(details: Mapping[str, Any]) -> str:
    return f"decisions wait, and nothing has reached the ledger for {details['seconds']:,.0f} s"


def _at(details: Mapping[str, Any]) -> str:
    if "row" not in details:
        return ""
    key = f", key {details['key']!r}" if "key" in details else ""
    return f" (the last at row {details['row']}{key})"


_SUMMARIES = {
    "violation_rate": _rate,
    "burst": _burst,
    "same_input": _same_input,
    "losses": _losses,
    "no_decisions": _no_decisions,
    "stale_head": _stale_head,
}
