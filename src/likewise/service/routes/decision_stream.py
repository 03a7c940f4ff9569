"""Decisions as a stream: a line of JSON comes in, a line of JSON goes out, over one request.

Lines that arrive together are judged together; no more are read until they are answered, so a
client that does not read answers is stopped by TCP, and disconnected after `body_seconds`.
Invariant: one answer for every line that is not blank, in order. A line that was not answered may
have been judged: send it again under its key. Bound: one read, and one line of `line_bytes`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from likewise.errors import BadFile, LikewiseError
from likewise.monitor.readers.protocol import Decision
from likewise.service import body_types
from likewise.service.body_types import LineError
from likewise.service.content_types import decode_json
from likewise.service.decision_bodies import make_decision
from likewise.service.http_errors import Refusal, error_fields, status_of
from likewise.service.operations import Operation
from likewise.service.request_guard import PRIVATE, Receive, Send
from likewise.service.routes.decisions import WAIT, parse_choice
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import REVOKED, LongAnswer, Service
from likewise.sources.json_lines import LineSplitter

NDJSON = "application/x-ndjson"
_MOST_LINES = 1024  # lines that are judged together at most
_ENDING = "the server is ending: what was not answered may be sent again, under its key."

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
    )
]


async def stream(
    service: Service,
    served: ServedMonitor,
    query: Mapping[str, str],
    receive: Receive,
    send: Send,
    answer: LongAnswer,
) -> None:
    """Answer line by line until the client or the server ends, or the token is revoked."""
    durable = parse_choice(query, WAIT) == "durable"
    lines, number, more = LineSplitter(served.limits.line_bytes), 0, True
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
            batch = complete[begin : begin + _MOST_LINES]
            body = await _answer_lines(served, batch, number, durable)
            number += len(batch)
            part = {"type": "http.response.body", "body": body, "more_body": True}
            try:
                if body:
                    await answer.send_in_time(send, part)
            except TimeoutError:
                return
    why = Refusal(503, _ENDING)
    if answer.revoked.is_set():
        why = Refusal(401, f"{REVOKED} This line was not judged.")
    last = _error_line(why, number + 1) if more else b""
    await send({"type": "http.response.body", "body": last})


async def _receive_next(receive: Receive, *ends: asyncio.Event) -> Any:
    """Receive the next message; return None if one of the events is set first."""
    message = asyncio.ensure_future(receive())
    waiting = [asyncio.ensure_future(event.wait()) for event in ends]
    try:
        await asyncio.wait((message, *waiting), return_when=asyncio.FIRST_COMPLETED)
        return await message if message.done() else None
    finally:
        for task in (message, *waiting):
            task.cancel()


async def _answer_lines(
    served: ServedMonitor, lines: Sequence[bytes | None], number: int, durable: bool
) -> bytes:
    """Return the answers to some lines, of which the first is number + 1."""
    parsed = [_parse_line(served, line) for line in lines]
    decisions = [one for one in parsed if isinstance(one, Decision)]
    write = partial(_write_answers, served, parsed, number)
    try:
        await served.wait_for_room(len(decisions))
        return await served.observe_each(decisions, write, durable=durable)
    except (BadFile, Refusal) as error:
        return write([error] * len(decisions))


def _write_answers(
    served: ServedMonitor, parsed: Sequence[Any], number: int, answers: Sequence[Any]
) -> bytes:
    """Write a line for each decision and for each line that was refused, in order."""
    remaining, written = iter(answers), []
    for place, one in enumerate(parsed, number + 1):
        answer = next(remaining) if isinstance(one, Decision) else one
        if isinstance(answer, Refusal | LikewiseError):
            written.append(_error_line(answer, place))
        elif answer is not None:  # else the line is blank
            written.append(served.encode_verdict(answer) + b"\n")
    return b"".join(written)


def _parse_line(
    served: ServedMonitor, line: bytes | None
) -> Decision | Refusal | LikewiseError | None:
    """Parse a line: a decision, why it is refused, or None for a blank line."""
    try:
        if line is None:
            raise Refusal(413, f"the line has more than {served.limits.line_bytes} bytes.")
        if not line.strip():
            return None
        return make_decision(served, decode_json(body_types.decode_decision, line))
    except (Refusal, LikewiseError) as error:
        served.counts.count_refusal(error)
        return error


def _error_line(error: Refusal | LikewiseError, line: int) -> bytes:
    body = LineError(**error_fields(error), status=status_of(error), line=line)
    return body_types.encode(body) + b"\n"
