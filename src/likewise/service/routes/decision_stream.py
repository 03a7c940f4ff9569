"""Decisions as a stream: a line of JSON comes in, a line of JSON goes out, over one request.

Lines are read as they come. What is there is judged together, and each line is answered in its
order as soon as it is durable: a verdict, or why it is refused; then the stream goes on. Nothing
further is read while lines are unanswered, so a client that does not read what it is answered is
stopped by TCP, and is let go of after `body_seconds`.

Invariant: one answer for every line that is not blank, in order. A line that was not answered may
or may not have been taken: send it again under its key.
Bound: what one read brings, and one line of `line_bytes`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from likewise.errors import BadFile, LikewiseError
from likewise.monitor.protocol import Decision
from likewise.service import body_types
from likewise.service.body_types import LineError
from likewise.service.content_types import decode_json
from likewise.service.http_errors import Refusal, error_fields, status_of
from likewise.service.operations import Operation
from likewise.service.request_guard import PRIVATE, Receive, Send
from likewise.service.routes.decisions import WAIT, make_decision, parse_wait
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import LongAnswer, Service

NDJSON = "application/x-ndjson"
_MOST_LINES = 1024  # lines that are judged together at most
_ENDING = "the server is ending: what was not answered may be sent again, under its key."

_REVOKED = "the token is no longer allowed to observe here; this line was not judged."

OPERATIONS = [
    Operation(
        "POST",
        "/v1/monitors/{name}/stream",
        "observe",
        "Judge decisions as they come, a line each, and answer a line for each",
        media=NDJSON,
        takes={NDJSON: ()},
        queries=(WAIT,),
        hot=True,
    ),
]


class LineSplitter:
    """Cuts what comes into lines; None for one that is too long."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = b""
        self._skipping = False  # the rest of a line that was too long

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """The lines that are complete now."""
        first, *others = chunk.split(b"\n")
        if self._skipping:
            if not others:
                return []
            self._skipping = False
            first, *others = others
            self._rest = b""
        parts = [self._rest + first, *others]
        self._rest = parts.pop()
        lines = [part if len(part) <= self._most else None for part in parts]
        if len(self._rest) > self._most:
            self._rest, self._skipping = b"", True
            lines.append(None)
        return lines

    def end(self) -> list[bytes | None]:
        """The last line, if it had no end."""
        rest, self._rest = self._rest, b""
        return [rest] if rest and not self._skipping else []


async def stream(
    service: Service,
    hosted: ServedMonitor,
    query: Mapping[str, str],
    receive: Receive,
    send: Send,
    answer: LongAnswer,
) -> None:
    """Answer line by line until the client or the server ends, or the token is revoked."""
    durable = parse_wait(query) == "durable"
    lines, number, more = LineSplitter(hosted.limits.line_bytes), 0, True
    seconds = hosted.limits.body_seconds
    start = {"type": "http.response.start", "status": 200}
    await send({**start, "headers": [(b"content-type", NDJSON.encode()), *PRIVATE]})
    while more and not answer.revoked.is_set():
        message = await _receive_next(receive, service.end_event, answer.revoked)
        if message is None:
            break
        if message["type"] == "http.disconnect":
            return
        more = bool(message.get("more_body"))
        complete = lines.feed(message.get("body", b""))
        if not more:
            complete += lines.end()
        for begin in range(0, len(complete), _MOST_LINES):
            if answer.revoked.is_set():
                more = True
                break
            some = complete[begin : begin + _MOST_LINES]
            body = await _answer_lines(hosted, some, number, durable)
            number += len(some)
            if body and not await _send_in_time(send, body, seconds):
                return
    why = Refusal(401, _REVOKED) if answer.revoked.is_set() else Refusal(503, _ENDING)
    last = _error_line(why, number + 1) if more else b""
    await send({"type": "http.response.body", "body": last})


async def _receive_next(receive: Receive, *ends: asyncio.Event) -> Any:
    """What comes next; None if one of the events has happened."""
    coming = asyncio.ensure_future(receive())
    ending = [asyncio.ensure_future(event.wait()) for event in ends]
    try:
        await asyncio.wait((coming, *ending), return_when=asyncio.FIRST_COMPLETED)
        return await coming if coming.done() else None
    finally:
        coming.cancel()
        for one in ending:
            one.cancel()


async def _send_in_time(send: Send, body: bytes, seconds: float) -> bool:
    """Whether a client has taken an answer in time."""
    try:
        async with asyncio.timeout(seconds):
            await send({"type": "http.response.body", "body": body, "more_body": True})
    except TimeoutError:
        return False
    return True


async def _answer_lines(
    hosted: ServedMonitor, lines: Sequence[bytes | None], number: int, durable: bool
) -> bytes:
    """The answers to some lines, of which the first is number + 1."""
    read = [_parse_line(hosted, line) for line in lines]
    decisions = [one for one in read if isinstance(one, Decision)]
    tell = partial(_write_answers, hosted, read, number)
    try:
        await hosted.wait_for_room(len(decisions))
        return await hosted.observe_each(decisions, tell, durable=durable)
    except (BadFile, Refusal) as error:
        return tell([error] * len(decisions))


def _write_answers(
    hosted: ServedMonitor, read: Sequence[Any], number: int, answers: Sequence[Any]
) -> bytes:
    """Write a line for each decision and for each line that is none, in order."""
    coming, told = iter(answers), []
    for place, one in enumerate(read, number + 1):
        said = next(coming) if isinstance(one, Decision) else one
        if isinstance(said, Refusal | LikewiseError):
            told.append(_error_line(said, place))
        elif said is not None:  # else the line is blank
            told.append(hosted.encode_verdict(said) + b"\n")
    return b"".join(told)


def _parse_line(
    hosted: ServedMonitor, line: bytes | None
) -> Decision | Refusal | LikewiseError | None:
    """A decision, why it is none, or None for a blank line."""
    if line is None:
        most = hosted.limits.line_bytes
        error = Refusal(413, f"the line has more than {most} bytes.")
    elif not line.strip():
        return None
    else:
        try:
            return make_decision(hosted, decode_json(body_types.decode_decision, line))
        except LikewiseError as refused:
            hosted.counts.refused[refused.code] += 1
            return refused
        except Refusal as refused:
            error = refused
    hosted.counts.refused[str(error.status)] += 1
    return error


def _error_line(error: Refusal | LikewiseError, line: int) -> bytes:
    status = error.status if isinstance(error, Refusal) else status_of(error)
    return body_types.encode(LineError(**error_fields(error), status=status, line=line)) + b"\n"
