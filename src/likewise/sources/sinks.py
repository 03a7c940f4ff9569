"""Where the answers to records go: verdicts, and the reasons why records cannot be judged.

The follower tells a sink. `StreamSink` sends a verdict line for each new decision to a target, and
dead letters to another. The answers of `likewise watch` to lines are in cli/follow_sources.py.

A target says which line it holds last. So after a restart the lines that were not sent yet are
known, without a count of them anywhere else: one ledger writes to one target.
"""

import base64
import json
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np

from likewise.errors import BadFile, Unreachable
from likewise.ledger.ledger import Ledger
from likewise.sources.judge_messages import StreamJudge
from likewise.sources.protocol import Record
from likewise.sources.stream_messages import Messages
from likewise.tables.positions import Position
from likewise.tables.rows import Rows
from likewise.verdict.verdict_body import write_bodies, write_body
from likewise.verdict.verdicts import Verdicts

_BATCH = 4096  # lines sent together
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_encode = msgspec.json.Encoder().encode
_T = TypeVar("_T")
CallMonitor = Callable[[Callable[[], Any], int], Any]
"""How the monitor is called: what is to be done, and how many decisions that is."""


def call_directly(call: Callable[[], _T], rows: int) -> _T:
    """The call is made where it stands."""
    return call()


class StopRequested(Exception):
    """It is time to stop, and something could not be sent: the rest is left for the next run."""


class Retry:
    """Repeats calls to another side that is away until it is back, or `stop` is called.

    tell: told in a line each what a person should know
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.stopped = False
        self._pause = _FIRST_PAUSE

    def retry_until_back(self, call: Callable[[], None], error: Unreachable) -> bool:
        """Repeat a call until it is made; return False if it is time to stop.

        Pauses grow on if the other side fails again before `worked` is called: one that answers,
        but gives nothing, is told of every few seconds at most.
        """
        self.tell(f"{error} Trying again.")
        since = clock.monotonic()
        while not self.stopped:
            clock.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            try:
                call()
            except Unreachable:
                continue
            self.tell(f"it is back, after {clock.monotonic() - since:.1f} s.")
            return True
        return False

    def reset_pause(self) -> None:
        """Begin with short pauses again."""
        self._pause = _FIRST_PAUSE


class Sink(Protocol):
    """Takes what became of records."""

    @property
    def in_order(self) -> bool:
        """Whether no record may be judged before an earlier one that is refused was told."""

    def begin(self, judge: StreamJudge, retry: Retry, call: CallMonitor) -> None:
        """Called once, before the first record is read."""

    def take(self, messages: Messages, verdicts: Verdicts) -> None:
        """Verdicts that are stored, of messages in their order."""

    def refuse(self, record: Record, why: str, code: str) -> None:
        """A record that cannot be judged."""

    def flush(self) -> None:
        """All records of a poll have been told."""


class LineTarget(Protocol):
    """Takes lines in order, and returns once all of them are kept.

    `Unreachable` says that some of them may be; all are sent again. So a line may be there twice,
    and none is missing.
    """

    name: str
    knows_last_line: bool
    """Whether it can say which line it holds last."""

    def send(self, lines: Sequence[bytes]) -> None:
        """Keep these lines."""

    def read_last_line(self) -> bytes | None:
        """The last line that it holds; None if it holds none, or cannot tell."""

    def close(self) -> None: ...


class StreamSink:
    """Sends verdict lines of new decisions to a target, and dead letters to another.

    target      None: nobody wants verdict lines
    dead        None: nobody wants dead letters
    witnesses   named in a verdict line
    """

    in_order = False

    def __init__(
        self, target: LineTarget | None, dead_letters: LineTarget | None, witnesses: int = 10
    ) -> None:
        self._target = target
        self._dead_letters = dead_letters
        self._witnesses = witnesses

    def begin(self, judge: StreamJudge, retry: Retry, call: CallMonitor) -> None:
        """Send verdict lines of rows behind the last one that the target holds."""
        self._judge, self._retry, self._call = judge, retry, call
        target, monitor = self._target, judge.monitor
        if target is None or not monitor.durable:
            return
        held: list[bytes | None] = []

        def look() -> None:
            held.append(target.read_last_line())

        try:
            look()
        except Unreachable as error:
            if not retry.retry_until_back(look, error):
                return
        rows = call(lambda: monitor.rows, 0)
        first = 0 if held[-1] is None else _parse_row(held[-1], target.name) + 1
        if first > rows:
            raise BadFile(
                f"{target.name} holds the verdict of row {first - 1:,}, and the ledger has"
                f" {rows:,} rows: it is another ledger's. Name another target.",
                path=target.name,
            )
        if held[-1] is None and not target.knows_last_line:
            return
        try:
            for begin, lines in self._stored_lines(first, rows):
                self._send(target, lines, partial(self._reread_lines, begin, begin + len(lines)))
        except StopRequested:
            return

    def take(self, messages: Messages, verdicts: Verdicts) -> None:
        """Send the lines of verdicts; those that were known were sent before."""
        fresh = np.flatnonzero(~verdicts.known)
        if self._target is None or not len(fresh):
            return
        lines = self._make_lines(messages, verdicts, fresh)
        rows = verdicts.rows[fresh]
        named = np.concatenate([rows, verdicts.witnesses.rows])

        def rebuild_lines() -> Sequence[bytes]:
            monitor = self._judge.monitor
            if not monitor.durable or self._call(lambda: monitor.past.alive(named), 0).all():
                return lines
            return self._reread_lines(int(rows[0]), int(rows[-1]) + 1)

        self._send(self._target, lines, rebuild_lines)

    def refuse(self, record: Record, why: str, code: str) -> None:
        """Send a record to the dead letters, with the reason."""
        if self._dead_letters is not None:
            letter = _encode_line(
                record.source, record.position, _make_dead_letter(record, why, code)
            )
            self._send(self._dead_letters, [letter], lambda: [letter])

    def flush(self) -> None:
        """Everything was sent already."""

    def _send(
        self,
        target: LineTarget,
        lines: Sequence[bytes],
        rebuild_lines: Callable[[], Sequence[bytes]],
    ) -> None:
        """Have a target keep lines; wait while it is away. Raise Ending if told to stop then.

        made_again: makes the lines once more, since they may tell of what was erased meanwhile
        """
        try:
            target.send(lines)
        except Unreachable as error:
            if not self._retry.retry_until_back(lambda: target.send(rebuild_lines()), error):
                raise StopRequested from None
            self._retry.reset_pause()

    def _make_lines(self, messages: Messages, verdicts: Verdicts, places: Rows) -> list[bytes]:
        """Verdict lines of the rows at some places."""
        bodies = write_bodies(verdicts, self._witnesses, places, keys=self._judge.has_key_column)
        records, sources = messages.row_records, dict[str, bytes]()
        lines = []
        for place, body in zip(places.tolist(), bodies, strict=True):
            name, position, *_ = records[place]
            source = sources.get(name) or sources.setdefault(name, _encode(name))
            told = _encode(body)[1:]  # without its {
            lines.append(b'{"source":%b,"position":%b,%b' % (source, _encode(position), told))
        return lines

    def _reread_lines(self, first: int, stop: int) -> list[bytes]:
        """The verdict lines of these rows, as the ledger has them now."""
        return [line for _, lines in self._stored_lines(first, stop) for line in lines]

    def _stored_lines(self, first: int, stop: int) -> Iterator[tuple[int, list[bytes]]]:
        """Verdict lines of rows, some at a time, and the first row of these."""
        if first >= stop:
            return
        with closing(Ledger(self._judge.monitor.path)) as ledger:
            lines: list[bytes] = []
            for entry in ledger.entries(max(first, ledger.first), stop):
                verdict = ledger.verdict_of(entry)
                body = write_body(
                    verdict, self._witnesses, keys=self._judge.has_key_column, over=False
                )
                lines.append(_encode_line(entry.source, entry.position, body))
                if len(lines) == _BATCH:
                    yield entry.row + 1 - len(lines), lines
                    lines = []
            if lines:
                yield stop - len(lines), lines


def _encode_line(source: str | None, position: Position | None, told: Mapping[str, Any]) -> bytes:
    where = {} if source is None else {"source": source, "position": position}
    return json.dumps({**where, **told}, separators=(",", ":")).encode()


def _make_dead_letter(record: Record, why: str, code: str) -> dict[str, Any]:
    told = {"code": code, "error": why}
    try:
        return {**told, "body": record.body.decode()}
    except UnicodeDecodeError:
        return {**told, "body_base64": base64.b64encode(record.body).decode()}


def _parse_row(line: bytes | None, name: str) -> int:
    try:
        row = json.loads(line or b"")["row"]
    except (ValueError, TypeError, KeyError):
        row = None
    if not isinstance(row, int):
        raise BadFile(f"the last thing in {name} is no verdict line. Name a target of its own.")
    return row
