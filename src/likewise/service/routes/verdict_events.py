"""Verdicts as they are made, for whoever listens: server-sent events.

    id: 17                      the row; a reader that comes again says it in Last-Event-ID
    event: verdict              with a witness or an alarm; data is the verdict
    event: gap                  rows up to its id have gone by, and are not known any more
    event: cut                  this reader was too slow; come again, with the last id
    event: end                  the server ends

All readers read from one ring (recent.py), so a slow one costs no memory. What has left the ring is
read from the ledger, where there is one.

Bound: `Limits.readers` connections; a write that takes longer than `body_seconds` ends one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import islice
from typing import Any

from starlette.responses import StreamingResponse

from likewise.ledger.ledger import Ledger
from likewise.service.body_types import encode
from likewise.service.http_errors import Refusal
from likewise.service.operations import MONITOR, Operations, RequestParameter
from likewise.service.request_guard import AdmittedRequest, ASGIScope, Receive, Send
from likewise.service.routes.query_values import parse_whole
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import LongAnswer, Service

_ALIVE_SECONDS = 15.0
_VERDICTS_PER_WRITE = 100  # verdicts in one write

_REVOKED = b'event: end\ndata: {"message":"the token is no longer allowed to read this."}\n\n'

OPERATIONS = Operations()


@OPERATIONS.get(
    f"{MONITOR}/events",
    "read",
    media="text/event-stream",
    queries=(RequestParameter("after", "begin behind that row, not with what comes next", int),),
    headers=(RequestParameter("Last-Event-ID", "the same, as browsers say it", int),),
)
async def events(request: AdmittedRequest) -> "EventStream":
    """Verdicts with a witness or an alarm as they are made (server-sent events)."""
    hosted, service, scope = request.hosted, request.service, request.http_request.scope
    said = request.http_request.headers.get("last-event-id") or request.query.get("after")
    row = hosted.next_row - 1 if said is None else parse_whole("the last id", said)
    is_allowed = partial(request.guard.is_still_allowed, scope, "read", hosted.name)
    return EventStream(service, _stream_verdicts(service, hosted, row), is_allowed)


class EventStream(StreamingResponse):
    """An answer that goes on, for as long as somebody reads it and may."""

    def __init__(
        self, service: Service, content: AsyncIterator[bytes], is_allowed: Callable[[], bool]
    ) -> None:
        """Raise Refusal if as many listen as may."""
        most = service.settings.limits.readers
        if service.readers >= most:
            raise Refusal(503, f"{most} readers listen already.", retry_seconds=10.0)
        super().__init__(
            content,
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )
        self._service = service
        self._is_allowed = is_allowed

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        seconds = self._service.settings.limits.body_seconds

        async def send_in_time(message: Any) -> None:
            async with asyncio.timeout(seconds):
                await send(message)

        self._service.readers += 1
        try:
            with LongAnswer(self._service, self._is_allowed) as answer:
                sending = asyncio.ensure_future(super().__call__(scope, receive, send_in_time))
                revoked = asyncio.ensure_future(answer.revoked.wait())
                try:
                    await asyncio.wait((sending, revoked), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    revoked.cancel()
                    if not sending.done():
                        sending.cancel()
                        await asyncio.wait((sending,))
                if not sending.cancelled():
                    sending.result()
                elif answer.revoked.is_set():
                    await send_in_time({"type": "http.response.body", "body": _REVOKED})
        except* TimeoutError:  # nobody reads it; the connection ends with this
            pass
        finally:
            self._service.readers -= 1


async def _stream_verdicts(
    service: Service, hosted: ServedMonitor, row: int
) -> AsyncIterator[bytes]:
    """All verdicts behind a row, and then those to come."""
    yield b"retry: 1000\n\n"
    recent = hosted.recent
    if row >= hosted.next_row:
        why = "this history has no such row: it was begun again."
        yield _event("gap", {"message": why}, None)
        row = -1
    if row < recent.last_dropped:
        if hosted.monitor.durable and hosted.monitor.slope is None:
            async for reached, piece in _read_from_ledger(hosted, row):
                row = reached
                yield piece
        else:
            kept = "in memory" if hosted.monitor.slope is None else "one of slopes"
            why = f"earlier verdicts are not known any more: this monitor is {kept}."
            row = recent.last_dropped
            yield _event("gap", {"message": why}, row)
    while True:
        if row < recent.last_dropped:
            yield _event("cut", {"message": "too slow: come again with the last id."}, None)
            return
        some = recent.after(row, _VERDICTS_PER_WRITE)
        if some:
            yield b"".join(_verdict_event(hosted, verdict) for verdict in some)
            row = some[-1].row or 0
        elif service.stopping:
            yield _event("end", {"message": "the server ends: come again."}, None)
            return
        elif not await recent.wait_for_news(_ALIVE_SECONDS):
            yield b": alive\n\n"


async def _read_from_ledger(hosted: ServedMonitor, row: int) -> AsyncIterator[tuple[int, bytes]]:
    """Verdicts behind a row that have left the ring, a page at a time, and where that leads."""
    await hosted.flush()
    while row < (target := hosted.recent.last_dropped):

        def page(ledger: Ledger, after: int = row, last: int = target) -> list[tuple[int, bytes]]:
            rows = ledger.flagged_rows(after, last, alarms=hosted.monitor.burst is not None)
            return [
                (row, _verdict_event(hosted, ledger.verdict_of(ledger.entry(row))))
                for row in islice(rows, _VERDICTS_PER_WRITE)
            ]

        pieces = await hosted.read_ledger(page)
        row = pieces[-1][0] if len(pieces) == _VERDICTS_PER_WRITE else target
        yield row, b"".join(piece for _, piece in pieces)


def _verdict_event(hosted: ServedMonitor, verdict: Any) -> bytes:
    return _event("verdict", hosted.verdict_body(verdict), verdict.row)


def _event(kind: str, data: dict[str, Any], row: int | None) -> bytes:
    named = b"" if row is None else b"id: %d\n" % row
    return named + b"event: %s\ndata: %s\n\n" % (kind.encode(), encode(data))
