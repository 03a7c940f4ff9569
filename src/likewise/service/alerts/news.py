"""Where news of a monitor comes from.

A ledger is read itself: what is on disk is what counts, whoever was answered, and after a restart
it goes on with the row after the last that was looked at, at the times at which decisions were
made. A monitor in memory has nothing to go back to; its counts are read. Burst alarms are not
kept by a ledger, so both hear of them as they happen: one that was given in the last second
before a kill may go untold.

Cost: a quarter of a microsecond a decision and two milliseconds a look, in a thread.
"""

import time as clock
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likewise.ledger.heads import Head
from likewise.ledger.ledger import Ledger
from likewise.ledger.loss_events import missing_in
from likewise.ledger.stored import NOT_JUDGED, StoredDecisions
from likewise.service.alerts.conditions import MonitorActivity
from likewise.service.served_monitor import ServedMonitor
from likewise.verdict.verdicts import Verdict

_CHUNK = 1 << 16  # rows that are looked at together


@dataclass
class VerdictSignals:
    """What verdicts said as they were given; the event loop alone calls `hear` and `taken`."""

    alarms: int = 0
    same_input: int = 0
    row: int | None = None
    """Of the latest that was heard of."""
    alarm_row: int | None = None
    urgent: bool = False
    """Whether there is something that cannot wait for the next look."""

    def record(self, _: ServedMonitor, verdict: Verdict) -> None:
        same = bool(len(verdict.witnesses)) and bool((verdict.witnesses.input_distances == 0).any())
        if not (same or verdict.alarm):
            return
        self.alarms += bool(verdict.alarm)
        self.same_input += same
        self.row = verdict.row
        if verdict.alarm:
            self.alarm_row = self.row
        self.urgent = True

    def put_back(self, earlier: "VerdictSignals") -> None:
        """Have what was taken back, since it could not be kept."""
        self.alarms += earlier.alarms
        self.same_input += earlier.same_input
        if self.row is None:
            self.row = earlier.row
        if self.alarm_row is None:
            self.alarm_row = earlier.alarm_row

    def take(self) -> "VerdictSignals":
        """What was heard since the last time."""
        since = replace(self, urgent=False)
        self.alarms = self.same_input = 0
        self.row = self.alarm_row = None
        self.urgent = False
        return since


class LedgerActivitySource:
    """News of a monitor with a ledger."""

    def __init__(self, hosted: ServedMonitor, window_seconds: float, *, keys: bool) -> None:
        self._hosted = hosted
        self._keys = keys
        self._window_microseconds = round(window_seconds * 1e6)

    def read_start(self) -> tuple[int, int, str]:
        """Rows, decisions known to be missing, and the head, as they are on disk."""
        with closing(Ledger(self._hosted.monitor.path)) as ledger:
            state = ledger.reader.state()
            return state.judged, missing_in(ledger.reader.events("lost")), _head_text(ledger.head)

    def read_since(self, rows: int, signals: VerdictSignals) -> tuple[list[MonitorActivity], int]:
        """What has come since so many rows, and how many there are now."""
        waiting = self._hosted.waiting_rows > 0
        news: list[MonitorActivity] = []
        with closing(Ledger(self._hosted.monitor.path)) as ledger:
            reader = ledger.reader
            state = reader.state()
            beyond = state.judged
            with_missing = missing_in(reader.events("lost"))
            head = _head_text(ledger.head)
            start = max(rows, state.first)  # those before have left the window unseen
            while start < beyond:
                stop = min(beyond, start + _CHUNK)
                some = reader.decisions(start, stop, keys=False, witnesses=False)
                same = reader.find_flagged_where(" AND distance <= ?", (0.0,), start, stop)
                news += self._split_by_window(some, np.array(same, np.int64))
                start = stop
            keyed = self._keys and reader.has_keys()
            news = [self._add_key(one, ledger) if keyed else one for one in news]
        news = [replace(one, missing=with_missing, head=head) for one in news]
        if not waiting:
            waiting = self._hosted.monitor.rows > beyond  # answered, and not on disk yet
        news.append(
            MonitorActivity(
                clock.time(),
                alarms=signals.alarms,
                missing=with_missing,
                head=head,
                waiting=waiting,
                last_row=signals.alarm_row,
                last_key=_find_key(self._hosted, signals.alarm_row),
            )
        )
        return news, max(rows, beyond)

    def mark_saved(self) -> None:
        """What was looked at is on disk."""

    def _add_key(self, news: MonitorActivity, ledger: Ledger) -> MonitorActivity:
        if news.last_row is None:
            return news
        key = ledger.entry(news.last_row).key
        return replace(news, last_key=None if key is None else str(key))

    def _split_by_window(self, some: StoredDecisions, same: Any) -> Iterator[MonitorActivity]:
        """The news of a run of rows, one for each window of time in it."""
        times = np.minimum(some.times, clock.time_ns() // 1000)  # a client's clock may be ahead
        numbers = times // self._window_microseconds
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1)).tolist()
        for start, stop in zip(starts, [*starts[1:], len(some)], strict=True):
            counts = some.counts[start:stop]
            judged = counts != NOT_JUDGED
            asked = some.facts["comparable"][start:stop]
            comparable = judged & (asked != 0)  # -1: not asked, so all of them count
            here = same[(same >= some.first + start) & (same < some.first + stop)]
            yield MonitorActivity(
                float(times[stop - 1]) / 1e6,
                decisions=int(judged.sum()),
                comparable=int(comparable.sum()),
                violations=int((counts > 0).sum()),
                same_input=len(here),
                last_row=int(here[-1]) if len(here) else None,
            )


class CountsActivitySource:
    """News of a monitor in memory, from what its service counts."""

    def __init__(self, hosted: ServedMonitor) -> None:
        self._hosted = hosted
        self._before = self._now = self._read_counts()

    def read_start(self) -> tuple[int, int, str]:
        return 0, self._hosted.monitor.missing, ""

    def read_since(self, rows: int, signals: VerdictSignals) -> tuple[list[MonitorActivity], int]:
        self._now = self._read_counts()
        decisions, comparable, violations = (
            new - old for new, old in zip(self._now, self._before, strict=True)
        )
        news = MonitorActivity(
            clock.time(),
            decisions=decisions,
            comparable=comparable if self._hosted.monitor.comparable else decisions,
            violations=violations,
            same_input=signals.same_input,
            alarms=signals.alarms,
            missing=self._hosted.monitor.missing,
            last_row=signals.row,
            last_key=_find_key(self._hosted, signals.row),
        )
        return [news], rows

    def mark_saved(self) -> None:
        self._before = self._now

    def _read_counts(self) -> tuple[int, int, int]:
        counts = self._hosted.counts
        return (
            sum(counts.decisions.values()),
            counts.comparable,
            sum(counts.violations.values()),
        )


def make_activity_source(
    hosted: ServedMonitor, window_seconds: float, *, keys: bool
) -> LedgerActivitySource | CountsActivitySource:
    """keys: whether news says the key of the last decision that it is about"""
    if hosted.monitor.durable:
        return LedgerActivitySource(hosted, window_seconds, keys=keys)
    return CountsActivitySource(hosted)


def _find_key(hosted: ServedMonitor, row: int | None) -> str | None:
    """The key that a decision has now: none if it was erased."""
    key = None if row is None else hosted.monitor.past.keys([row])[0]
    return None if key is None else str(key)


def _head_text(head: Head) -> str:
    """Tells two heads apart."""
    return f"{head.rows}.{head.events}.{head.link.hex()[:16]}"
