"""Server-sent events: the verdicts with a witness or an alarm as they are made.

The `id` of an event is its row, which a reader repeats in Last-Event-ID. Events: verdict; gap (rows
up to its id are no longer available); cut (the reader was too slow); end (of the server).
All readers share one ring (recent_verdicts.py); what has left it is read from the ledger.
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
from likewise.service.service import REVOKED, LongAnswer, Service

_ALIVE_SECONDS = 15.0
_VERDICTS_PER_WRITE = 100  # verdicts in one write

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
    served, service, scope = request.served, request.service, request.http_request.scope
    last_id = request.http_request.headers.get("last-event-id") or request.query.get("after")
    row = served.next_row - 1 if last_id is None else parse_whole("the last id", last_id)
    is_allowed = partial(request.guard.is_still_allowed, scope, "read", served.name)
    return EventStream(service, _stream_verdicts(service, served, row), is_allowed)


class EventStream(StreamingResponse):
    """Sends events for as long as the client reads them and is allowed to."""

    def __init__(
        self, service: Service, content: AsyncIterator[bytes], is_allowed: Callable[[], bool]
    ) -> None:
        """Raise Refusal if there are too many readers."""
        most = service.settings.limits.readers
        if service.readers >= most:
            raise Refusal(503, f"{most} readers listen already.", retry_seconds=10.0)
        super().__init__(
            content, media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )
        self._service = service
        self._is_allowed = is_allowed

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        self._service.readers += 1
        try:
            with LongAnswer(self._service, self._is_allowed) as answer:
                send_in_time = partial(answer.send_in_time, send)
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
                    last = _event("end", {"message": REVOKED}, None)
                    await send_in_time({"type": "http.response.body", "body": last})
        except* TimeoutError:  # nobody reads it; the connection ends with this
            pass
        finally:
            self._service.readers -= 1


async def _stream_verdicts(
    service: Service, served: ServedMonitor, row: int
) -> AsyncIterator[bytes]:
    """Yield all verdicts after a row, and then new ones as they come."""
    yield b"retry: 1000\n\n"
    recent = served.recent
    if row >= served.next_row:
        why = "this history has no such row: it was started again."
        yield _event("gap", {"message": why}, None)
        row = -1
    if row < recent.last_dropped:
        if served.monitor.durable and served.monitor.slope is None:
            async for reached, piece in _read_from_ledger(served, row):
                row = reached
                yield piece
        else:
            kind = "in memory" if served.monitor.slope is None else "one of slopes"
            why = f"earlier verdicts are no longer available: this monitor is {kind}."
            row = recent.last_dropped
            yield _event("gap", {"message": why}, row)
    while True:
        if row < recent.last_dropped:
            yield _event("cut", {"message": "too slow: come again with the last id."}, None)
            return
        verdicts = recent.after(row, _VERDICTS_PER_WRITE)
        if verdicts:
            yield b"".join(_verdict_event(served, verdict) for verdict in verdicts)
            row = verdicts[-1].row or 0
        elif service.stopping:
            yield _event("end", {"message": "the server ends: come again."}, None)
            return
        elif not await recent.wait_for_news(_ALIVE_SECONDS):
            yield b": alive\n\n"


async def _read_from_ledger(served: ServedMonitor, row: int) -> AsyncIterator[tuple[int, bytes]]:
    """Yield verdicts after a row that have left the ring, by pages, each with its last row."""
    await served.flush()
    while row < (target := served.recent.last_dropped):

        def page(ledger: Ledger, after: int = row, last: int = target) -> list[tuple[int, bytes]]:
            rows = ledger.flagged_rows(after, last, alarms=served.monitor.core.burst is not None)
            return [
                (row, _verdict_event(served, ledger.verdict_of(ledger.entry(row))))
                for row in islice(rows, _VERDICTS_PER_WRITE)
            ]

        pieces = await served.read_ledger(page)
        row = pieces[-1][0] if len(pieces) == _VERDICTS_PER_WRITE else target
        yield row, b"".join(piece for _, piece in pieces)


def _verdict_event(served: ServedMonitor, verdict: Any) -> bytes:
    return _event("verdict", served.verdict_body(verdict), verdict.row)


def _event(kind: str, data: dict[str, Any], row: int | None) -> bytes:
    event_id = b"" if row is None else b"id: %d\n" % row
    return event_id + b"event: %s\ndata: %s\n\n" % (kind.encode(), encode(data))
