"""Decides which alerts of a monitor begin, go on or end; `advance` is a pure function.

violation_rate is judged when a window closes, and stays as it is if nothing can be concluded.
burst, same_input (a contradiction at distance 0) and losses begin when a count grows, and end
`quiet_seconds` later. no_decisions and stale_head (the ledger's chain does not grow) last as long
as they hold. Not here: reading counts (news.py), storing (outbox.py) and sending (sending.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from likewise.service.alerts.usual_band import BandSettings, RateConclusion, RateWindow, conclude
from likewise.service.toml_tables import Count, NotNegative, Positive

AlertKind = Literal["violation_rate", "burst", "same_input", "losses", "no_decisions", "stale_head"]
KINDS: tuple[AlertKind, ...] = get_args(AlertKind)
Details = Mapping[str, Any]
"""Counts, rows and times; never values of people, and keys only if the settings allow it."""


class Thresholds(BandSettings, frozen=True):
    """Says when an alert begins and ends."""

    window_seconds: Positive = 3600.0
    """Length of a window of the rate."""
    windows: Count = 168
    """Earlier windows that define the usual rate."""
    quiet_seconds: NotNegative = 900.0
    """An alert of a count ends when the count has not grown for so long."""
    no_decisions_seconds: NotNegative = 900.0
    """0 switches the alert off."""
    stale_head_seconds: NotNegative = 300.0
    """0 switches the alert off."""
    kinds: tuple[AlertKind, ...] = KINDS


@dataclass(frozen=True, slots=True)
class MonitorActivity:
    """Counts what one monitor did since the last time."""

    time: float
    """Seconds since 1970."""
    decisions: int = 0
    comparable: int = 0
    """How many of the decisions had a similar case; all of them where that is not asked."""
    violations: int = 0
    same_input: int = 0
    alarms: int = 0
    missing: int = 0
    """Missing decisions in all, not since the last time."""
    head: str = ""
    """The end of the chain; "" without a ledger."""
    waiting: bool = False
    """Whether a decision is in the queue, or answered and not yet on disk."""
    last_row: int | None = None
    """Row of the latest decision that counts as same_input or alarm."""
    last_key: str | None = None


@dataclass(frozen=True, slots=True)
class ActiveCondition:
    """A condition that holds."""

    since: float
    latest: float
    """When its count last grew."""
    count: int = 0
    """How much the count has grown since the condition began."""


@dataclass(frozen=True, slots=True)
class AlertState:
    """The state of one monitor between two steps, and over restarts."""

    time: float = 0.0
    missing: int = 0
    last_decision: float = 0.0
    head: str = ""
    head_since: float = 0.0
    """When the head last moved, or when nothing was waiting."""
    window: RateWindow | None = None
    earlier: tuple[RateWindow, ...] = ()
    """Closed windows with comparable decisions, oldest first."""
    rate: RateConclusion = field(
        default_factory=lambda: RateConclusion("cannot be concluded", "no window has closed yet")
    )
    holding: Mapping[str, ActiveCondition] = field(default_factory=dict)

    @property
    def durable_fields(self) -> tuple[Any, ...]:
        """What has to be on disk: everything but the times that change at every step."""
        return self.missing, self.head, self.window, self.earlier, self.rate, self.holding


@dataclass(frozen=True, slots=True)
class AlertChange:
    """Says that an alert begins, goes on with other details, or ends."""

    what: Literal["begun", "continued", "ended"]
    kind: AlertKind
    time: float
    details: Details = field(default_factory=dict)


def begin_state(time: float, *, missing: int, head: str) -> AlertState:
    """Make the state of a monitor that is seen for the first time."""
    return AlertState(time, missing, time, head, time)


def advance(
    seen: AlertState, news: MonitorActivity, thresholds: Thresholds
) -> tuple[AlertState, list[AlertChange]]:
    """Return the state after some news, and the alerts that changed."""
    now = max(seen.time, news.time)  # a clock that was set back undoes nothing
    holding = dict(seen.holding)
    changes: list[AlertChange] = []
    after = _advance_window(seen, news, now, thresholds)
    if after.rate is not seen.rate:
        changes += _check_rate(after.rate, holding, now)
    grown: dict[AlertKind, int] = {
        "burst": news.alarms,
        "same_input": news.same_input,
        "losses": max(0, news.missing - seen.missing),
    }
    for kind, count in grown.items():
        changes += _check_count(kind, count, news, holding, now, thresholds.quiet_seconds)
    last = now if news.decisions else seen.last_decision
    moved = news.head != seen.head or not news.waiting
    head_since = now if moved else seen.head_since
    for kind, since, limit in (
        ("no_decisions", last, thresholds.no_decisions_seconds),
        ("stale_head", head_since, thresholds.stale_head_seconds),
    ):
        holds = limit > 0 and now - since > limit
        details = {"seconds": round(now - since, 3)}
        changes += _check_condition(kind, holds, details, holding, now)
    after = replace(
        after,
        time=now,
        missing=max(seen.missing, news.missing),
        last_decision=last,
        head=news.head,
        head_since=head_since,
        holding=holding,
    )
    return after, [change for change in changes if change.kind in thresholds.kinds]


def _advance_window(
    seen: AlertState, news: MonitorActivity, now: float, thresholds: Thresholds
) -> AlertState:
    """Close the window if its time is over, and count the news in the current window."""
    number = int(now // thresholds.window_seconds)
    window, earlier, rate = seen.window or RateWindow(number), seen.earlier, seen.rate
    if number > window.number:
        rate = conclude(window, earlier, thresholds)
        if window.comparable:
            earlier = (*earlier, window)[-thresholds.windows :]
        window = RateWindow(number)
    counted = RateWindow(
        window.number, window.comparable + news.comparable, window.violations + news.violations
    )
    return replace(seen, window=counted, earlier=earlier, rate=rate)


def _check_rate(
    rate: RateConclusion, holding: dict[str, ActiveCondition], now: float
) -> list[AlertChange]:
    if rate.finding == "cannot be concluded":
        return []
    is_unusual = rate.finding != "usual"
    return _check_condition(
        "violation_rate", is_unusual, rate.details(), holding, now, updates=True
    )


def _check_count(
    kind: AlertKind,
    count: int,
    news: MonitorActivity,
    holding: dict[str, ActiveCondition],
    now: float,
    quiet_seconds: float,
) -> list[AlertChange]:
    """Begin, update or end an alert that lasts as long as a count grows."""
    before = holding.get(kind)
    if count:
        since, total = (now, count) if before is None else (before.since, before.count + count)
        holding[kind] = ActiveCondition(since, now, total)
        details: dict[str, Any] = {"count": total}
        if kind == "losses":
            details["missing_decisions"] = news.missing
        elif news.last_row is not None:
            details["row"] = news.last_row
            if news.last_key is not None:
                details["key"] = news.last_key
        return [AlertChange("begun" if before is None else "continued", kind, now, details)]
    if before is not None and now - before.latest >= quiet_seconds:
        del holding[kind]
        return [AlertChange("ended", kind, now)]
    return []


def _check_condition(
    kind: AlertKind,
    holds: bool,
    details: Details,
    holding: dict[str, ActiveCondition],
    now: float,
    *,
    updates: bool = False,
) -> list[AlertChange]:
    """Begin or end an alert that lasts as long as a condition holds.

    updates: whether an alert that goes on gets the new details
    """
    before = holding.get(kind)
    if holds and before is None:
        holding[kind] = ActiveCondition(now, now)
        return [AlertChange("begun", kind, now, details)]
    if holds and updates:
        return [AlertChange("continued", kind, now, details)]
    if before is not None and not holds:
        del holding[kind]
        return [AlertChange("ended", kind, now)]
    return []


def resume_state(seen: AlertState, time: float) -> AlertState:
    """Resume after a restart; the time while the service was down counts for no alert."""
    last = seen.last_decision if "no_decisions" in seen.holding else time
    since = seen.head_since if "stale_head" in seen.holding else time
    return replace(seen, last_decision=last, head_since=since)
