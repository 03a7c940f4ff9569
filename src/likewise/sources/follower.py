"""Follows a stream, a file or standard input: polls, judges, reports; goes on after failures.

A batch is decoded, judged, stored as one transaction and reported to the sink, while the next one
is polled. Refusals are reported before later records are stored, so one may come twice, never none.
Invariant: every record is judged and stored once, refused, or recorded as lost in the chain, in one
transaction with its position. The ledger's positions are believed, not the source's.
Cost: two batches of records in memory.
"""

import time as clock
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.errors import BadFile, Unreachable
from likewise.monitor.batching import RejectedRow, describe_refusal, isolate_bad_rows
from likewise.sources.decoding import Decoder, UndecodedRecord
from likewise.sources.judge_messages import Messages, StreamJudge
from likewise.sources.protocol import Gap, PollResult, Record, Source, just_before
from likewise.sources.sinks import CallMonitor, Retry, Sink, StopRequested, call_directly
from likewise.tables.positions import Position, to_position_numbers
from likewise.verdict.losses import reason_at_least
from likewise.verdict.verdicts import Verdicts

_BATCH = 4096  # records polled, and so judged, together
_IDLE_SECONDS = 1.0  # a poll waits this long before the loop checks whether to stop
_PASSED_SECONDS = 30.0  # after which positions without decisions are stored


class GapFound(BadFile):
    """Says that records are gone, and that the policy is to stop there."""

    code = "gap-found"


@dataclass
class FollowerCounts:
    """Counts what became of the records so far."""

    rows: int = 0
    comparable: int = 0
    violations: int = 0
    alarms: int = 0
    repeated: int = 0
    bad: int = 0
    lost: int = 0
    at_least: bool = False
    """Whether more may be lost than `lost` says."""


class Follower:
    """Reads a source into a monitor.

    sink            takes verdicts, and records that cannot be judged
    gaps            "lost" or "stop": what happens to records that are gone (address.py)
    format          of the records, as for Decoder
    tell            shows a line to people
    call_monitor    how the monitor is called
    on_refused      called for each record that cannot be judged
    """

    def __init__(
        self,
        source: Source,
        judge: StreamJudge,
        sink: Sink,
        *,
        tell: Callable[[str], None],
        gaps: str = "lost",
        format: str = "auto",
        call_monitor: CallMonitor = call_directly,
        on_refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._judge = judge
        self._sink = sink
        self._gaps = gaps
        self._decoder = Decoder(format, in_order=sink.in_order)
        self._retry = Retry(tell)
        self._call_monitor = call_monitor
        self._on_refused = on_refused
        # Records up to these positions are judged, refused or lost; the ledger has the others.
        self._read_positions: dict[str, Position] = {}
        self._stored_positions: dict[str, Position] = {}
        self._stored_since = clock.monotonic()
        self.counts = FollowerCounts()
        self.is_connected = False
        self.is_behind = True
        """Whether more records may wait, since the last poll returned a full batch."""
        self.caught_up_at: float | None = None
        """When no records waited for the last time, by the monotonic clock."""

    def stop(self) -> None:
        """End after the current batch; signal handlers and other threads may call it."""
        self._retry.stopped = True

    def run(self) -> None:
        """Follow the source until it ends or `stop` is called."""
        positions = self._call_monitor(self._judge.positions, 0)
        self._read_positions = {
            name: at for name, at in positions.items() if self._source.owns(name)
        }
        self._stored_positions = dict(self._read_positions)
        self._sink.begin(self._judge, self._retry, self._call_monitor)
        with ThreadPoolExecutor(1, thread_name_prefix="likewise-poll") as polling:
            self._follow(polling)
        self._store_progress(0.0)

    def _follow(self, polling: ThreadPoolExecutor) -> None:
        self._seek()
        ahead: Future[PollResult] = polling.submit(self._source.poll, _BATCH, _IDLE_SECONDS)
        while not self._retry.stopped:
            try:
                polled = ahead.result()
            except Unreachable as error:
                self._wait_until_back(error)
                ahead = polling.submit(self._source.poll, _BATCH, _IDLE_SECONDS)
                continue
            if not polled.ended and not self._retry.stopped:
                ahead = polling.submit(self._source.poll, _BATCH, _IDLE_SECONDS)
            if polled.records:
                self._retry.reset_pause()
            self.is_behind = len(polled.records) == _BATCH
            self._process(polled)
            if not self.is_behind:
                self.caught_up_at = clock.monotonic()
            if polled.ended:
                return

    # Reconnecting

    def _seek(self) -> None:
        try:
            self._source.seek(self._read_positions)
            self.is_connected = True
        except Unreachable as error:
            self._wait_until_back(error)

    def _wait_until_back(self, error: Unreachable) -> None:
        """Try again, with growing pauses, until the source is back."""
        self.is_connected = False
        self.is_connected = self._retry.retry_until_back(
            lambda: self._source.seek(self._read_positions), error
        )

    # One batch

    def _process(self, polled: PollResult) -> None:
        try:
            for gap in polled.gaps:
                self._handle_gap(gap)
            for part in self._decoder.decode(polled.records, self._judge.number_columns):
                if isinstance(part, UndecodedRecord):
                    self._refuse(part.record, part.why, part.code)
                else:
                    self._judge_all(part)
            self._sink.flush()
        except StopRequested:
            return
        sources = {record.source for record in polled.records}
        starts = polled.positions.keys() - self._read_positions.keys() - sources
        self._read_positions |= polled.positions
        self._store_progress(0.0 if starts else _PASSED_SECONDS)

    def _judge_all(self, messages: Messages) -> None:
        for outcome in isolate_bad_rows(messages, self._judge_messages):
            if isinstance(outcome, RejectedRow):
                error = outcome.error
                self._refuse(outcome.rows.records[0], describe_refusal(error), error.code)
            else:
                self._report_verdicts(outcome.rows, outcome.answer)

    def _judge_messages(self, messages: Messages) -> Verdicts:
        rows = len(messages.table)
        verdicts: Verdicts = self._call_monitor(lambda: self._judge.judge(messages), rows)
        return verdicts

    def _report_verdicts(self, messages: Messages, verdicts: Verdicts) -> None:
        """Count verdicts, and hand them to the sink."""
        known = verdicts.repeated
        repeated, fresh = int(known.sum()), ~known
        counts = self.counts
        counts.rows += len(verdicts) - repeated
        counts.repeated += repeated
        counts.violations += int(verdicts.violations[fresh].sum())
        counts.alarms += int(verdicts.alarms[fresh].sum())
        if verdicts.comparable is not None:
            counts.comparable += int(verdicts.comparable[fresh].sum())
        if self._judge.stores_positions:
            self._note_stored(messages, known)
        self._sink.take(messages, verdicts)

    def _note_stored(self, messages: Messages, known: Any) -> None:
        """Note the positions that were stored: those of messages whose last row was new."""
        records = messages.records
        if known.any():
            counts = [1] * len(messages) if messages.counts is None else messages.counts
            last = np.cumsum(counts) - 1
            pairs = zip(records, known[last], strict=True)
            records = [record for record, is_known in pairs if not is_known]
        if records:
            self._stored_positions |= {record.source: record.position for record in records}
            self._stored_since = clock.monotonic()

    def _refuse(self, record: Record, why: str, code: str) -> None:
        self.counts.bad += 1
        self._on_refused()
        self._sink.refuse(record, why, code)

    # Gaps and progress

    def _handle_gap(self, gap: Gap) -> None:
        """Record in the chain that records are gone, or raise GapFound."""
        if self._gaps == "stop":
            raise GapFound(
                f"{gap.why}. Nothing was stored behind that. To go on, and have them counted as"
                ' lost, let gaps be "lost".'
            )
        count = 1 if gap.count is None else gap.count
        self._retry.tell(f"{gap.why}: {'some' if gap.count is None else count} decisions are lost.")
        monitor = self._judge.monitor
        reason = f"gone from {gap.source} before it was read"[:200]
        if gap.count is None:
            reason = reason_at_least(f"gone from {gap.source}")
            self.counts.at_least = True
        before = just_before(gap.before)
        where: dict[str, Any] = {}
        if monitor.durable and to_position_numbers(before) > to_position_numbers(gap.after):
            where = {"source": gap.source, "position": before}
        self._call_monitor(lambda: monitor.record_loss(count, reason, **where), 0)
        self.counts.lost += count
        if where:
            self._read_positions[gap.source] = self._stored_positions[gap.source] = before

    def _store_progress(self, seconds: float) -> None:
        """Store how far the source was read, if only bad messages came for `seconds`."""
        waited = clock.monotonic() - self._stored_since
        if not self._judge.stores_positions or waited < seconds:
            return
        self._stored_since = clock.monotonic()
        ahead = {
            name: position
            for name, position in self._read_positions.items()
            if name not in self._stored_positions
            or to_position_numbers(position) > to_position_numbers(self._stored_positions[name])
        }
        if ahead:
            self._call_monitor(lambda: self._judge.monitor.ledger.skip_positions(ahead), 0)
            self._stored_positions |= ahead
