"""What there is to tell of one monitor, from what was counted over time.

Pure: `step` takes what is remembered and what is new, and gives what is to be remembered and what
has changed. A condition holds or does not; there is at most one alert of each kind while it holds.

    violation_rate   the rate of contradictions in a window is outside its usual band
    burst            the monitor gave burst alarms
    same_input       a decision contradicts one with the same input, at distance 0
    losses           more decisions are known to be missing
    no_decisions     none has come for some time
    stale_head       decisions wait, and the end of the ledger's chain does not move

Burst, same_input and losses begin when a count grows and end when it has not grown for
`quiet_seconds`. A rate is judged when its window closes; where nothing can be concluded, a rate
alert stays as it is.
Not here: reading the counts (news.py), keeping and delivering (outbox.py, sending.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from likewise.service.alerts.usual_band import BandSettings, RateConclusion, RateWindow, conclude
from likewise.service.toml_tables import Count, NotNegative, Positive

AlertKind = Literal["violation_rate", "burst", "same_input", "losses", "no_decisions", "stale_head"]
KINDS: tuple[AlertKind, ...] = get_args(AlertKind)
Details = Mapping[str, Any]
"""Counts, rows and times; never values of people, and keys only if the settings say so."""


class Thresholds(BandSettings, frozen=True):
    """When something is worth an alert."""

    window_seconds: Positive = 3600.0
    """How long a window of the rate is."""
    windows: Count = 168
    """Earlier windows that make up what is usual."""
    quiet_seconds: NotNegative = 900.0
    """After so long without another one, an alert of a count ends."""
    no_decisions_seconds: NotNegative = 900.0
    """0: not told."""
    stale_head_seconds: NotNegative = 300.0
    """0: not told."""
    kinds: tuple[AlertKind, ...] = KINDS


@dataclass(frozen=True, slots=True)
class MonitorActivity:
    """What has come since the last time, of one monitor."""

    time: float
    """Seconds since 1970."""
    decisions: int = 0
    comparable: int = 0
    """Of those, how many had a like case; all of them where that is not asked."""
    violations: int = 0
    same_input: int = 0
    alarms: int = 0
    missing: int = 0
    """In all, not since the last time."""
    head: str = ""
    """The end of the chain; "" without a ledger."""
    waiting: bool = False
    """Whether a decision is under way, or answered and not yet on disk."""
    last_row: int | None = None
    """Of the latest that counts as same_input or alarm."""
    last_key: str | None = None


@dataclass(frozen=True, slots=True)
class ActiveCondition:
    """A condition that holds."""

    since: float
    latest: float
    """When its count grew last."""
    count: int = 0
    """By how much it grew since it began."""


@dataclass(frozen=True, slots=True)
class AlertState:
    """What is remembered of one monitor between two steps, and over restarts."""

    time: float = 0.0
    missing: int = 0
    last_decision: float = 0.0
    head: str = ""
    head_since: float = 0.0
    """Since when the head has not moved, or nothing has waited."""
    window: RateWindow | None = None
    earlier: tuple[RateWindow, ...] = ()
    """Closed windows with comparable decisions, oldest first."""
    rate: RateConclusion = field(
        default_factory=lambda: RateConclusion("cannot be concluded", "no window has closed yet")
    )
    holding: Mapping[str, ActiveCondition] = field(default_factory=dict)

    @property
    def durable_fields(self) -> tuple[Any, ...]:
        """All but the time that passes: what has to be on disk."""
        return self.missing, self.head, self.window, self.earlier, self.rate, self.holding


@dataclass(frozen=True, slots=True)
class AlertChange:
    """An alert begins, goes on with other details, or ends."""

    what: Literal["begun", "continued", "ended"]
    kind: AlertKind
    time: float
    details: Details = field(default_factory=dict)


def begin_state(time: float, *, missing: int, head: str) -> AlertState:
    """What is remembered of a monitor that is seen for the first time: nothing before now."""
    return AlertState(time, missing, time, head, time)


def advance(
    seen: AlertState, news: MonitorActivity, thresholds: Thresholds
) -> tuple[AlertState, list[AlertChange]]:
    """What is remembered after some news, and what has changed."""
    now = max(seen.time, news.time)  # a clock that was set back does not undo anything
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
    """Close the window if its time is over, and count the news in the one of now."""
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
    details = {
        "finding": rate.finding,
        "violations": rate.violations,
        "comparable": rate.comparable,
        "usual_violations": rate.usual_violations,
        "usual_comparable": rate.usual_comparable,
        "usual_low": rate.low,
        "usual_high": rate.high,
    }
    return _check_condition(
        "violation_rate", rate.finding != "usual", details, holding, now, tell=True
    )


def _check_count(
    kind: AlertKind,
    count: int,
    news: MonitorActivity,
    holding: dict[str, ActiveCondition],
    now: float,
    quiet_seconds: float,
) -> list[AlertChange]:
    """An alert that begins and goes on with a count, and ends when it no longer grows."""
    before = holding.get(kind)
    if count:
        since, so_far = (now, 0) if before is None else (before.since, before.count)
        holding[kind] = ActiveCondition(since, now, so_far + count)
        details: dict[str, Any] = {"count": so_far + count}
        if kind == "losses":
            details["missing"] = news.missing
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
    tell: bool = False,
) -> list[AlertChange]:
    """An alert that lasts as long as something is so.

    tell: whether an alert that goes on gets the new details
    """
    before = holding.get(kind)
    if holds and before is None:
        holding[kind] = ActiveCondition(now, now)
        return [AlertChange("begun", kind, now, details)]
    if holds and tell:
        return [AlertChange("continued", kind, now, details)]
    if before is not None and not holds:
        del holding[kind]
        return [AlertChange("ended", kind, now)]
    return []


def resume_state(seen: AlertState, time: float) -> AlertState:
    """After a restart: that nothing came while nobody could be asked is no news."""
    last = seen.last_decision if "no_decisions" in seen.holding else time
    since = seen.head_since if "stale_head" in seen.holding else time
    return replace(seen, last_decision=last, head_since=since)
