"""Sinks take the answers to records: verdicts, and why records cannot be judged.

`StreamSink` sends a verdict line for each new decision to a target, and dead letters to another. A
target says which line it holds last, so after a restart the missing lines are sent, and nothing
else has to count them: one ledger writes to one target.
Not here: the answers of `likewise watch` to lines (cli/follow_sources.py).
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
from likewise.sources.judge_messages import Messages, StreamJudge
from likewise.sources.protocol import Record
from likewise.tables.array_types import Rows
from likewise.tables.positions import Position
from likewise.verdict.verdict_body import write_bodies, write_body
from likewise.verdict.verdicts import Verdicts

_BATCH = 4096  # lines sent together
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_encode = msgspec.json.Encoder().encode
_T = TypeVar("_T")
CallMonitor = Callable[[Callable[[], Any], int], Any]
"""Calls the monitor: takes what is to be done, and how many decisions that is."""


def call_directly(call: Callable[[], _T], rows: int) -> _T:
    """Make the call at once."""
    return call()


class StopRequested(Exception):
    """Says that it is time to stop, and that unsent lines are left for the next run."""


class Retry:
    """Repeats calls to a server that is away until it is back, or `stopped` is set.

    tell    shows a line to people
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.stopped = False
        self._pause = _FIRST_PAUSE

    def retry_until_back(self, call: Callable[[], None], error: Unreachable) -> bool:
        """Repeat a call until it succeeds; return False if it is time to stop.

        Pauses keep growing if the server fails again before `reset_pause` is called: one that
        answers, but gives nothing, is reported every few seconds at most.
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
            self.tell(f"it is reachable again, after {clock.monotonic() - since:.1f} s.")
            return True
        return False

    def reset_pause(self) -> None:
        """Begin with short pauses again."""
        self._pause = _FIRST_PAUSE


class Sink(Protocol):
    """Takes the answers to records."""

    @property
    def in_order(self) -> bool:
        """Whether a refused record must be reported before later records are judged."""

    def begin(self, judge: StreamJudge, retry: Retry, call: CallMonitor) -> None:
        """Prepare; called once, before the first record is read."""

    def take(self, messages: Messages, verdicts: Verdicts) -> None:
        """Take verdicts that are stored, of messages in their order."""

    def refuse(self, record: Record, why: str, code: str) -> None:
        """Take a record that cannot be judged."""

    def flush(self) -> None:
        """Finish a poll: all its records have been taken or refused."""


class LineTarget(Protocol):
    """Keeps lines in their order.

    `Unreachable` says that some of the lines may be kept; all are sent again. So a line may be
    there twice, and none is missing.
    """

    name: str
    knows_last_line: bool
    """Whether it can say which line it holds last."""

    def send(self, lines: Sequence[bytes]) -> None:
        """Send lines, and return once all of them are kept."""

    def read_last_line(self) -> bytes | None:
        """Return the last line that it holds; None if it holds none, or cannot say."""

    def close(self) -> None: ...


class StreamSink:
    """Sends verdict lines of new decisions to a target, and dead letters to another.

    target          for verdict lines; None: they are not sent
    dead_letters    for records that cannot be judged; None: they are not sent
    witnesses       how many a verdict line names
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
        last_line: bytes | None = None

        def read() -> None:
            nonlocal last_line
            last_line = target.read_last_line()

        try:
            read()
        except Unreachable as error:
            if not retry.retry_until_back(read, error):
                return
        rows = call(lambda: monitor.rows, 0)
        first = 0 if last_line is None else _parse_row(last_line, target.name) + 1
        if first > rows:
            raise BadFile(
                f"{target.name} holds the verdict of row {first - 1:,}, and the ledger has"
                f" {rows:,} rows: it is another ledger's. Name another target.",
                path=target.name,
            )
        if last_line is None and not target.knows_last_line:
            return
        try:
            for begin, lines in self._stored_lines(first, rows):
                self._send(target, lines, partial(self._reread_lines, begin, begin + len(lines)))
        except StopRequested:
            return

    def take(self, messages: Messages, verdicts: Verdicts) -> None:
        """Send the lines of new verdicts; those of known decisions were sent before."""
        new = np.flatnonzero(~verdicts.repeated)
        if self._target is None or not len(new):
            return
        lines = self._make_lines(messages, verdicts, new)
        rows = verdicts.rows[new]
        named_rows = np.concatenate([rows, verdicts.witnesses.rows])

        def rebuild_lines() -> Sequence[bytes]:
            monitor = self._judge.monitor
            if not monitor.durable or self._call(lambda: monitor.past.alive(named_rows), 0).all():
                return lines
            return self._reread_lines(int(rows[0]), int(rows[-1]) + 1)

        self._send(self._target, lines, rebuild_lines)

    def refuse(self, record: Record, why: str, code: str) -> None:
        """Send a record to the dead letters, with the reason."""
        if self._dead_letters is not None:
            reason = _make_dead_letter(record, why, code)
            letter = _encode_line(record.source, record.position, reason)
            self._send(self._dead_letters, [letter], lambda: [letter])

    def flush(self) -> None:
        """Do nothing: everything was sent already."""

    def _send(
        self,
        target: LineTarget,
        lines: Sequence[bytes],
        rebuild_lines: Callable[[], Sequence[bytes]],
    ) -> None:
        """Have a target keep lines; wait while it is away. Raise StopRequested at a stop.

        rebuild_lines   makes the lines again, since they may name what was erased meanwhile
        """
        try:
            target.send(lines)
        except Unreachable as error:
            if not self._retry.retry_until_back(lambda: target.send(rebuild_lines()), error):
                raise StopRequested from None
            self._retry.reset_pause()

    def _make_lines(self, messages: Messages, verdicts: Verdicts, places: Rows) -> list[bytes]:
        """Make the verdict lines of the rows at these places."""
        bodies = write_bodies(verdicts, self._witnesses, places, keys=self._judge.has_key_column)
        records, sources = messages.row_records, dict[str, bytes]()
        lines = []
        for place, body in zip(places.tolist(), bodies, strict=True):
            name, position, *_ = records[place]
            source = sources.get(name) or sources.setdefault(name, _encode(name))
            rest = _encode(body)[1:]  # without its {
            lines.append(b'{"source":%b,"position":%b,%b' % (source, _encode(position), rest))
        return lines

    def _reread_lines(self, first: int, stop: int) -> list[bytes]:
        """Make the verdict lines of rows as the ledger has them now."""
        return [line for _, lines in self._stored_lines(first, stop) for line in lines]

    def _stored_lines(self, first: int, stop: int) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the verdict lines of rows in batches, each with its first row."""
        if first >= stop:
            return
        with closing(Ledger(self._judge.monitor.ledger.path)) as ledger:
            lines: list[bytes] = []
            for entry in ledger.entries(max(first, ledger.first), stop):
                verdict = ledger.verdict_of(entry)
                body = write_body(
                    verdict, self._witnesses, keys=self._judge.has_key_column, compared_with=False
                )
                lines.append(_encode_line(entry.source, entry.position, body))
                if len(lines) == _BATCH:
                    yield entry.row + 1 - len(lines), lines
                    lines = []
            if lines:
                yield stop - len(lines), lines


def _encode_line(source: str | None, position: Position | None, body: Mapping[str, Any]) -> bytes:
    where = {} if source is None else {"source": source, "position": position}
    return json.dumps({**where, **body}, separators=(",", ":")).encode()


def _make_dead_letter(record: Record, why: str, code: str) -> dict[str, Any]:
    reason = {"code": code, "error": why}
    try:
        return {**reason, "body": record.body.decode()}
    except UnicodeDecodeError:
        return {**reason, "body_base64": base64.b64encode(record.body).decode()}


def _parse_row(line: bytes | None, name: str) -> int:
    try:
        row = json.loads(line or b"")["row"]
    except (ValueError, TypeError, KeyError):
        row = None
    if not isinstance(row, int):
        raise BadFile(f"the last line in {name} is no verdict line. Name another target.")
    return row
