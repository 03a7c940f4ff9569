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
from likewise.ledger.stored import NOT_JUDGED, Decisions
from likewise.service.alerts.conditions import News
from likewise.service.served_monitor import Hosted
from likewise.verdict.verdicts import Verdict

_CHUNK = 1 << 16  # rows that are looked at together


@dataclass
class Heard:
    """What verdicts said as they were given; the event loop alone calls `hear` and `taken`."""

    alarms: int = 0
    same_input: int = 0
    row: int | None = None
    """Of the latest that was heard of."""
    alarm_row: int | None = None
    urgent: bool = False
    """Whether there is something that cannot wait for the next look."""

    def hear(self, _: Hosted, verdict: Verdict) -> None:
        same = bool(len(verdict.witnesses)) and bool((verdict.witnesses.input_distances == 0).any())
        if not (same or verdict.alarm):
            return
        self.alarms += bool(verdict.alarm)
        self.same_input += same
        self.row = verdict.row
        if verdict.alarm:
            self.alarm_row = self.row
        self.urgent = True

    def add(self, earlier: "Heard") -> None:
        """Have what was taken back, since it could not be kept."""
        self.alarms += earlier.alarms
        self.same_input += earlier.same_input
        if self.row is None:
            self.row = earlier.row
        if self.alarm_row is None:
            self.alarm_row = earlier.alarm_row

    def taken(self) -> "Heard":
        """What was heard since the last time."""
        since = replace(self, urgent=False)
        self.alarms = self.same_input = 0
        self.row = self.alarm_row = None
        self.urgent = False
        return since


class LedgerSource:
    """News of a monitor with a ledger."""

    def __init__(self, hosted: Hosted, window_seconds: float, *, keys: bool) -> None:
        self._hosted = hosted
        self._keys = keys
        self._window_microseconds = round(window_seconds * 1e6)

    def now(self) -> tuple[int, int, str]:
        """Rows, decisions known to be missing, and the head, as they are on disk."""
        with closing(Ledger(self._hosted.monitor.path)) as ledger:
            state = ledger.reader.state()
            return state.judged, missing_in(ledger.reader.events("lost")), _mark(ledger.head)

    def look(self, rows: int, heard: Heard) -> tuple[list[News], int]:
        """What has come since so many rows, and how many there are now."""
        waiting = self._hosted.waiting_rows > 0
        news: list[News] = []
        with closing(Ledger(self._hosted.monitor.path)) as ledger:
            reader = ledger.reader
            state = reader.state()
            beyond = state.judged
            with_missing = missing_in(reader.events("lost"))
            head = _mark(ledger.head)
            start = max(rows, state.first)  # those before have left the window unseen
            while start < beyond:
                stop = min(beyond, start + _CHUNK)
                some = reader.decisions(start, stop, keys=False, witnesses=False)
                same = reader.flagged_where(" AND distance <= ?", (0.0,), start, stop)
                news += self._by_window(some, np.array(same, np.int64))
                start = stop
            keyed = self._keys and reader.has_keys()
            news = [self._named(one, ledger) if keyed else one for one in news]
        news = [replace(one, missing=with_missing, head=head) for one in news]
        if not waiting:
            waiting = self._hosted.monitor.rows > beyond  # answered, and not on disk yet
        news.append(
            News(
                clock.time(),
                alarms=heard.alarms,
                missing=with_missing,
                head=head,
                waiting=waiting,
                last_row=heard.alarm_row,
                last_key=_key_of(self._hosted, heard.alarm_row),
            )
        )
        return news, max(rows, beyond)

    def kept(self) -> None:
        """What was looked at is on disk."""

    def _named(self, news: News, ledger: Ledger) -> News:
        if news.last_row is None:
            return news
        key = ledger.entry(news.last_row).key
        return replace(news, last_key=None if key is None else str(key))

    def _by_window(self, some: Decisions, same: Any) -> Iterator[News]:
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
            yield News(
                float(times[stop - 1]) / 1e6,
                decisions=int(judged.sum()),
                comparable=int(comparable.sum()),
                violations=int((counts > 0).sum()),
                same_input=len(here),
                last_row=int(here[-1]) if len(here) else None,
            )


class CountsSource:
    """News of a monitor in memory, from what its service counts."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted
        self._before = self._now = self._counted()

    def now(self) -> tuple[int, int, str]:
        return 0, self._hosted.monitor.missing, ""

    def look(self, rows: int, heard: Heard) -> tuple[list[News], int]:
        self._now = self._counted()
        decisions, comparable, violations = (
            new - old for new, old in zip(self._now, self._before, strict=True)
        )
        news = News(
            clock.time(),
            decisions=decisions,
            comparable=comparable if self._hosted.monitor.comparable else decisions,
            violations=violations,
            same_input=heard.same_input,
            alarms=heard.alarms,
            missing=self._hosted.monitor.missing,
            last_row=heard.row,
            last_key=_key_of(self._hosted, heard.row),
        )
        return [news], rows

    def kept(self) -> None:
        self._before = self._now

    def _counted(self) -> tuple[int, int, int]:
        counts = self._hosted.counts
        return (
            sum(counts.decisions.values()),
            counts.comparable,
            sum(counts.violations.values()),
        )


def source_of(hosted: Hosted, window_seconds: float, *, keys: bool) -> LedgerSource | CountsSource:
    """keys: whether news says the key of the last decision that it is about"""
    if hosted.monitor.durable:
        return LedgerSource(hosted, window_seconds, keys=keys)
    return CountsSource(hosted)


def _key_of(hosted: Hosted, row: int | None) -> str | None:
    """The key that a decision has now: none if it was erased."""
    key = None if row is None else hosted.monitor.past.keys([row])[0]
    return None if key is None else str(key)


def _mark(head: Head) -> str:
    """Tells two heads apart."""
    return f"{head.rows}.{head.events}.{head.link.hex()[:16]}"
