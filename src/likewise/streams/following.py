"""Follows a source: polls, judges, tells; and goes on after whatever goes away and comes back.

One round: a batch of records is decoded, judged and stored with its positions as one transaction,
and its verdict lines are sent. Meanwhile the next batch is polled, and no further one: if the
ledger or the target is slow, records wait at the server.

A message that cannot be decoded or judged is sent to the dead letters, with the reason, before any
later message is stored: from then on a restart would not read it again. So a dead letter may come
twice, and none is missing. The same holds for verdict lines: after a restart the target says which
row it holds last, and the ledger has the others.

Invariant: every record is judged and stored once, or is a dead letter; or it is told as lost, in
the chain, in one transaction with the position behind it. What the source says of itself is never
believed over the ledger.
Bound: two batches of records.
"""

import base64
import json
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np

from likewise.intake.sifting import Unfit, reason, sifted
from likewise.intake.verdict_bodies import verdict_bodies
from likewise.intake.verdict_json import stored_answer
from likewise.ledger.ledger import Ledger
from likewise.sources.protocol import Gap, Polled, Record, Source, just_before
from likewise.streams.decoding import Decoder, Undecoded
from likewise.streams.judging import StreamJudge
from likewise.streams.messages import Messages
from likewise.streams.targets import LineTarget
from likewise.values.errors import BadFile, Unreachable
from likewise.values.losses import reason_at_least
from likewise.values.positions import Position, numbers_of
from likewise.values.verdicts import Rows, Verdicts

_BATCH = 4096  # records polled, and so judged, together
_IDLE_SECONDS = 1.0  # a poll waits so long, and then looks whether to stop
_PASSED_SECONDS = 30.0  # after which positions without decisions are chained
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_encode = msgspec.json.Encoder().encode
_T = TypeVar("_T")
Call = Callable[[Callable[[], Any], int], Any]
"""How the monitor is called: what is to be done, and how many decisions that is."""


def at_once(call: Callable[[], _T], rows: int) -> _T:
    """The call is made where it stands."""
    return call()


class GapFound(BadFile):
    """Records are gone, and the policy is to stop there."""

    code = "gap-found"


@dataclass
class StreamCounts:
    """What came of the records so far."""

    rows: int = 0
    comparable: int = 0
    flagged: int = 0
    alarms: int = 0
    known: int = 0
    bad: int = 0
    lost: int = 0
    at_least: bool = False
    """Whether more may be lost than `lost` says."""


@dataclass(frozen=True)
class FollowSettings:
    """How a source is followed."""

    gaps: str = "lost"
    witnesses: int = 10
    """Told in a verdict line."""
    format: str = "auto"


class Follower:
    """Reads a source into a monitor.

    target  takes verdict lines; None: nobody wants them
    dead    takes messages that cannot be judged
    tell    told in a line each what a person should know
    call    how the monitor is called
    buried  told of each message that cannot be judged
    """

    def __init__(
        self,
        source: Source,
        judge: StreamJudge,
        settings: FollowSettings,
        *,
        target: LineTarget | None,
        dead: LineTarget | None,
        tell: Callable[[str], None],
        call: Call = at_once,
        buried: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._judge = judge
        self._settings = settings
        self._decoder = Decoder(settings.format)
        self._target = target
        self._dead = dead
        self._tell = tell
        self._call = call
        self._buried = buried
        self._stopped = False
        self._at: dict[str, Position] = {}  # records up to here are judged, dead or told as lost
        self._stored: dict[str, Position] = {}  # as the ledger has it
        self._stored_since = clock.monotonic()
        self._pause = _FIRST_PAUSE  # before the other side is tried again
        self.counts = StreamCounts()
        self.is_connected = False
        self.is_behind = True
        """Whether more may wait than was taken: the last poll gave as much as it may."""
        self.at_end: float | None = None
        """When nothing waited last, by the monotonic clock."""

    def stop(self) -> None:
        """End after what is in hand; may be called by a signal's handler, or another thread."""
        self._stopped = True

    def run(self) -> None:
        """Follow the source until it ends or `stop` is called."""
        monitor = self._judge.monitor
        if monitor.durable:
            positions = self._call(lambda: monitor.positions, 0)
            self._stored = {name: at for name, at in positions.items() if self._source.owns(name)}
            self._at = dict(self._stored)
            self._send_what_is_missing()
        with ThreadPoolExecutor(1, thread_name_prefix="likewise-poll") as polling:
            self._follow(polling)
        self._pass_on(0.0)

    def _follow(self, polling: ThreadPoolExecutor) -> None:
        self._seek()
        ahead: Future[Polled] = polling.submit(self._source.poll, _BATCH, _IDLE_SECONDS)
        while not self._stopped:
            try:
                polled = ahead.result()
            except Unreachable as error:
                self._away(error)
                ahead = polling.submit(self._source.poll, _BATCH, _IDLE_SECONDS)
                continue
            if not polled.ended and not self._stopped:
                ahead = polling.submit(self._source.poll, _BATCH, _IDLE_SECONDS)
            if polled.records:
                self._pause = _FIRST_PAUSE
            self.is_behind = len(polled.records) == _BATCH
            self._take(polled)
            if not self.is_behind:
                self.at_end = clock.monotonic()
            if polled.ended:
                return

    # The other side goes away and comes back

    def _seek(self) -> None:
        try:
            self._source.seek(self._at)
            self.is_connected = True
        except Unreachable as error:
            self._away(error)

    def _away(self, error: Unreachable) -> None:
        """Try until the source is back, with growing pauses.

        They grow on if it fails again before it gave anything: so a source that answers, but gives
        nothing, is told of every few seconds at most.
        """

        def back() -> None:
            self._source.seek(self._at)

        self.is_connected = False
        self.is_connected = self._until_back(back, error)

    def _until_back(self, call: Callable[[], None], error: Unreachable) -> bool:
        """Repeat a call until it is made; not so if it is time to stop."""
        self._tell(f"{error} Trying again.")
        since = clock.monotonic()
        while not self._stopped:
            clock.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            try:
                call()
            except Unreachable:
                continue
            self._tell(f"it is back, after {clock.monotonic() - since:.1f} s.")
            return True
        return False

    def _send(
        self,
        target: LineTarget,
        lines: Sequence[bytes],
        made_again: Callable[[], Sequence[bytes]] | None = None,
    ) -> None:
        """Have a target keep lines; wait while it is away. Raises _Ending if told to stop then.

        made_again: makes the lines once more, since they may tell of what was erased meanwhile
        """
        try:
            target.send(lines)
        except Unreachable as error:
            again = made_again or (lambda: lines)
            if not self._until_back(lambda: target.send(again()), error):
                raise _Ending from None
            self._pause = _FIRST_PAUSE

    # One batch

    def _take(self, polled: Polled) -> None:
        try:
            for gap in polled.gaps:
                self._lose(gap)
            for part in self._decoder.decoded(polled.records, self._judge.numbers):
                if isinstance(part, Undecoded):
                    self._bury(part.record, part.why)
                else:
                    self._judge_all(part)
        except _Ending:
            return
        begun = polled.positions.keys() - self._at.keys() - {one.source for one in polled.records}
        self._at |= polled.positions
        self._pass_on(0.0 if begun else _PASSED_SECONDS)

    def _judge_all(self, messages: Messages) -> None:
        for outcome in sifted(messages, self._judged):
            if isinstance(outcome, Unfit):
                self._bury(outcome.rows.records[0], reason(outcome.error))
            else:
                self._told(outcome.rows, outcome.answer)

    def _judged(self, messages: Messages) -> Verdicts:
        rows = len(messages.table)
        verdicts: Verdicts = self._call(lambda: self._judge.judge(messages), rows)
        return verdicts

    def _told(self, messages: Messages, verdicts: Verdicts) -> None:
        """Count verdicts, and send their lines; those that were known were sent before."""
        known = verdicts.known
        repeated, fresh = int(known.sum()), ~known
        counts = self.counts
        counts.rows += len(verdicts) - repeated
        counts.known += repeated
        counts.flagged += int(verdicts.violations[fresh].sum())
        counts.alarms += int(verdicts.alarms[fresh].sum())
        if verdicts.comparable is not None:
            counts.comparable += int(verdicts.comparable[fresh].sum())
        if self._judge.monitor.durable:
            self._note_stored(messages, known)
        if self._target is not None and fresh.any():
            lines = self._lines(messages, verdicts, np.flatnonzero(fresh))
            rows = verdicts.rows[fresh]
            named = np.concatenate([rows, verdicts.witnesses.rows])

            def made_again() -> Sequence[bytes]:
                monitor = self._judge.monitor
                if not monitor.durable or self._call(lambda: monitor.past.alive(named), 0).all():
                    return lines
                return self._lines_now(int(rows[0]), int(rows[-1]) + 1)

            self._send(self._target, lines, made_again)

    def _lines(self, messages: Messages, verdicts: Verdicts, places: Rows) -> list[bytes]:
        """Verdict lines of the rows at some places."""
        bodies = verdict_bodies(verdicts, self._settings.witnesses, places, keyed=self._judge.keyed)
        records, sources = messages.row_records, dict[str, bytes]()
        lines = []
        for place, body in zip(places.tolist(), bodies, strict=True):
            name, position, *_ = records[place]
            source = sources.get(name) or sources.setdefault(name, _encode(name))
            told = _encode(body)[1:]  # without its {
            lines.append(b'{"source":%b,"position":%b,%b' % (source, _encode(position), told))
        return lines

    def _note_stored(self, messages: Messages, known: Any) -> None:
        """Positions are stored with the last row of a message, unless that was known before."""
        records = messages.records
        if known.any():
            counts = [1] * len(messages) if messages.counts is None else messages.counts
            last = np.cumsum(counts) - 1
            records = [one for one, again in zip(records, known[last], strict=True) if not again]
        if records:
            self._stored |= {record.source: record.position for record in records}
            self._stored_since = clock.monotonic()

    def _bury(self, record: Record, why: str) -> None:
        """Send a message to the dead letters, with the reason."""
        self.counts.bad += 1
        self._buried()
        if self._dead is not None:
            letter = _line(record.source, record.position, _dead_letter(record, why))
            self._send(self._dead, [letter])

    # What is gone, and what is behind

    def _lose(self, gap: Gap) -> None:
        """Records are gone: chain that, with the position behind them; or end with an error."""
        if self._settings.gaps == "stop":
            raise GapFound(
                f"{gap.why}. Nothing was stored behind that. To go on, and have them counted as"
                ' lost, let gaps be "lost".'
            )
        count = 1 if gap.count is None else gap.count
        self._tell(f"{gap.why}: {'some' if gap.count is None else count} decisions are lost.")
        monitor = self._judge.monitor
        words = f"gone from {gap.source} before it was read"[:200]
        if gap.count is None:
            words = reason_at_least(f"gone from {gap.source}")
            self.counts.at_least = True
        before = just_before(gap.before)
        where: dict[str, Any] = {}
        if monitor.durable and numbers_of(before) > numbers_of(gap.after):
            where = {"source": gap.source, "position": before}
        self._call(lambda: monitor.lost(count, words, **where), 0)
        self.counts.lost += count
        if where:
            self._at[gap.source] = self._stored[gap.source] = before

    def _pass_on(self, seconds: float) -> None:
        """Chain where the source was read to, if only bad messages have come for so long."""
        monitor = self._judge.monitor
        if not monitor.durable or clock.monotonic() - self._stored_since < seconds:
            return
        self._stored_since = clock.monotonic()
        ahead = {
            name: position
            for name, position in self._at.items()
            if name not in self._stored or numbers_of(position) > numbers_of(self._stored[name])
        }
        if ahead:
            self._call(lambda: monitor.passed(ahead), 0)
            self._stored |= ahead

    def _send_what_is_missing(self) -> None:
        """Verdict lines of rows behind the last one that the target holds."""
        target, monitor = self._target, self._judge.monitor
        if target is None:
            return
        held: list[bytes | None] = []

        def look() -> None:
            held.append(target.last())

        try:
            look()
        except Unreachable as error:
            if not self._until_back(look, error):
                return
        rows = self._call(lambda: monitor.rows, 0)
        first = 0 if held[-1] is None else _row_in(held[-1], target.name) + 1
        if first > rows:
            raise BadFile(
                f"{target.name} holds the verdict of row {first - 1:,}, and the ledger has"
                f" {rows:,} rows: it is another ledger's. Name another target.",
                path=target.name,
            )
        if held[-1] is None and not target.remembers:
            return
        try:
            for begin, lines in self._stored_lines(first, rows):
                self._send(target, lines, partial(self._lines_now, begin, begin + len(lines)))
        except _Ending:
            return

    def _lines_now(self, first: int, stop: int) -> list[bytes]:
        """The verdict lines of these rows, as the ledger has them now."""
        return [line for _, lines in self._stored_lines(first, stop) for line in lines]

    def _stored_lines(self, first: int, stop: int) -> Iterator[tuple[int, list[bytes]]]:
        """Verdict lines of rows, some at a time, and the first row of these."""
        if first >= stop:
            return
        with closing(Ledger(self._judge.monitor.path)) as ledger:
            keys_of = ledger.keys_of if self._judge.keyed else None
            lines: list[bytes] = []
            for entry in ledger.entries(max(first, ledger.first), stop):
                told = stored_answer(entry, self._settings.witnesses, keys_of)
                lines.append(_line(entry.source, entry.position, told))
                if len(lines) == _BATCH:
                    yield entry.row + 1 - len(lines), lines
                    lines = []
            if lines:
                yield stop - len(lines), lines


class _Ending(Exception):
    """It is time to stop, and something could not be sent: the rest is left for the next run."""


def _line(source: str | None, position: Position | None, told: Mapping[str, Any]) -> bytes:
    where = {} if source is None else {"source": source, "position": position}
    return json.dumps({**where, **told}, separators=(",", ":")).encode()


def _dead_letter(record: Record, why: str) -> dict[str, Any]:
    try:
        return {"error": why, "body": record.body.decode()}
    except UnicodeDecodeError:
        return {"error": why, "body_base64": base64.b64encode(record.body).decode()}


def _row_in(line: bytes | None, name: str) -> int:
    try:
        row = json.loads(line or b"")["row"]
    except (ValueError, TypeError, KeyError):
        row = None
    if not isinstance(row, int):
        raise BadFile(f"the last thing in {name} is no verdict line. Name a target of its own.")
    return row
