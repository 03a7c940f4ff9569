"""Reads what a monitor has done since the last check: from its ledger, or from counts.

A ledger is read from the row after the last one checked, also after a restart, with the times of
the decisions. A monitor in memory has only counts. Ledgers do not store burst alarms, so both
listen to verdicts; an alarm in the last second before a kill may be lost.
Cost: a quarter of a microsecond per decision and two milliseconds per check, in a thread.
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

_CHUNK = 1 << 16  # rows that are read together


@dataclass
class VerdictSignals:
    """Collects what verdicts say as they are given; used on the event loop only."""

    alarms: int = 0
    same_input: int = 0
    row: int | None = None
    """Row of the latest verdict that counted."""
    alarm_row: int | None = None
    urgent: bool = False
    """Whether a verdict cannot wait for the next check."""

    def record(self, _: ServedMonitor, verdict: Verdict) -> None:
        """Count a verdict if it has an alarm, or a witness with the same input."""
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
        """Put back what was taken, since it could not be stored."""
        self.alarms += earlier.alarms
        self.same_input += earlier.same_input
        if self.row is None:
            self.row = earlier.row
        if self.alarm_row is None:
            self.alarm_row = earlier.alarm_row

    def take(self) -> "VerdictSignals":
        """Return what was collected since the last time, and start again from zero."""
        taken = replace(self, urgent=False)
        self.alarms = self.same_input = 0
        self.row = self.alarm_row = None
        self.urgent = False
        return taken


class LedgerActivitySource:
    """Reads the activity of a monitor from its ledger."""

    def __init__(self, served: ServedMonitor, window_seconds: float, *, keys: bool) -> None:
        self._served = served
        self._keys = keys
        self._window_microseconds = round(window_seconds * 1e6)

    def read_start(self) -> tuple[int, int, str]:
        """Return rows, decisions known to be missing, and the head, as they are on disk."""
        with closing(Ledger(self._served.monitor.ledger.path)) as ledger:
            state = ledger.reader.state()
            return state.judged, missing_in(ledger.reader.events("lost")), _head_text(ledger.head)

    def read_since(self, rows: int, signals: VerdictSignals) -> tuple[list[MonitorActivity], int]:
        """Return the activity since so many rows, and how many rows there are now."""
        waiting = self._served.waiting_rows > 0
        news: list[MonitorActivity] = []
        with closing(Ledger(self._served.monitor.ledger.path)) as ledger:
            reader = ledger.reader
            state = reader.state()
            missing = missing_in(reader.events("lost"))
            head = _head_text(ledger.head)
            start = max(rows, state.first)  # earlier rows have left the window unseen
            while start < state.judged:
                stop = min(state.judged, start + _CHUNK)
                decisions = reader.decisions(start, stop, keys=False, witnesses=False)
                same = reader.find_flagged(start, stop, " AND distance <= ?", (0.0,))
                news += self._split_by_window(decisions, np.array(same, np.int64))
                start = stop
            if self._keys and reader.has_keys():
                news = [self._add_key(one, ledger) for one in news]
        news = [replace(one, missing=missing, head=head) for one in news]
        if not waiting:
            waiting = self._served.monitor.rows > state.judged  # answered, and not on disk yet
        news.append(
            MonitorActivity(
                clock.time(),
                alarms=signals.alarms,
                missing=missing,
                head=head,
                waiting=waiting,
                last_row=signals.alarm_row,
                last_key=_find_key(self._served, signals.alarm_row),
            )
        )
        return news, max(rows, state.judged)

    def mark_saved(self) -> None:
        """Do nothing: the next call says from which row to read."""

    def _add_key(self, news: MonitorActivity, ledger: Ledger) -> MonitorActivity:
        if news.last_row is None:
            return news
        key = ledger.entry(news.last_row).key
        return replace(news, last_key=None if key is None else str(key))

    def _split_by_window(self, stored: StoredDecisions, same: Any) -> Iterator[MonitorActivity]:
        """Yield the activity of a run of rows, one for each window of time in it."""
        times = np.minimum(stored.times, clock.time_ns() // 1000)  # a client's clock may be ahead
        numbers = times // self._window_microseconds
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1)).tolist()
        for start, stop in zip(starts, [*starts[1:], len(stored)], strict=True):
            counts = stored.counts[start:stop]
            judged = counts != NOT_JUDGED
            flags = stored.facts["comparable"][start:stop]
            comparable = judged & (flags != 0)  # -1: not asked, so all of them count
            rows = same[(same >= stored.first + start) & (same < stored.first + stop)]
            yield MonitorActivity(
                float(times[stop - 1]) / 1e6,
                decisions=int(judged.sum()),
                comparable=int(comparable.sum()),
                violations=int((counts > 0).sum()),
                same_input=len(rows),
                last_row=int(rows[-1]) if len(rows) else None,
            )


class CountsActivitySource:
    """Reads the activity of a monitor in memory from what its service counts."""

    def __init__(self, served: ServedMonitor) -> None:
        self._served = served
        self._before = self._now = self._read_counts()

    def read_start(self) -> tuple[int, int, str]:
        return 0, self._served.monitor.missing_decisions, ""

    def read_since(self, rows: int, signals: VerdictSignals) -> tuple[list[MonitorActivity], int]:
        self._now = self._read_counts()
        decisions, comparable, violations = (
            new - old for new, old in zip(self._now, self._before, strict=True)
        )
        news = MonitorActivity(
            clock.time(),
            decisions=decisions,
            comparable=comparable if self._served.monitor.comparable else decisions,
            violations=violations,
            same_input=signals.same_input,
            alarms=signals.alarms,
            missing=self._served.monitor.missing_decisions,
            last_row=signals.row,
            last_key=_find_key(self._served, signals.row),
        )
        return [news], rows

    def mark_saved(self) -> None:
        self._before = self._now

    def _read_counts(self) -> tuple[int, int, int]:
        counts = self._served.counts
        return counts.decisions.total(), counts.comparable, counts.violations.total()


def make_activity_source(
    served: ServedMonitor, window_seconds: float, *, keys: bool
) -> LedgerActivitySource | CountsActivitySource:
    """Make the source that fits a monitor.

    keys: whether it says the key of the last decision that counts
    """
    if served.monitor.durable:
        return LedgerActivitySource(served, window_seconds, keys=keys)
    return CountsActivitySource(served)


def _find_key(served: ServedMonitor, row: int | None) -> str | None:
    """Return the key that a decision has now; None if it was erased."""
    key = None if row is None else served.monitor.past.keys([row])[0]
    return None if key is None else str(key)


def _head_text(head: Head) -> str:
    """Return a text that differs for different heads."""
    return f"{head.rows}.{head.events}.{head.link.hex()[:16]}"
