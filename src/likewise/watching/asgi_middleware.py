"""`WatchRequests` is an ASGI middleware that watches a model behind a prediction service.

Both bodies are copied as they pass, piece by piece. When the response is sent, a thread reads the
decision out of them and submits it to a buffer (`lw.buffered`).
Invariant: a response is never changed, delayed or broken. Every request that should be watched is
submitted, or counted (`counts`) and reported to the monitor as lost; logs hold no values.
Cost: a copy of both bodies, at most `max_bytes` each, and some microseconds on the event loop.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from likewise.monitor.readers.protocol import FROM_ROW, Decision
from likewise.queueing.buffer import DecisionBuffer, buffered
from likewise.runtime.forking import register_after_fork
from likewise.runtime.log import logger
from likewise.tables.printing import with_bounded_repr
from likewise.watching.delivery import Backlog, get_known_rule
from likewise.watching.settings import WatchTarget
from likewise.watching.watch_records import add_counts

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOSS_REASON = "unwatched"
_QUEUE_CALLS = 1000
_CLOSE_SECONDS = 10.0


@with_bounded_repr
@dataclass(frozen=True)
class Exchanged:
    """Holds a request and its response, as they passed."""

    path: str
    request: bytes = field(repr=False)
    response: bytes = field(repr=False)
    status: int
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """Headers of the request, names in lower case."""


ReadDecision = Callable[[Exchanged], "Decision | Iterable[Decision] | None"]
"""Reads the decision in an exchange, several of them, or None if there is none."""


@dataclass(frozen=True)
class RequestCounts:
    """Counts what became of requests to the watched path that were answered with success."""

    submitted: int = 0
    """Decisions that were put into the buffer; its `stats` say what became of them."""
    unread: int = 0
    """Requests without a readable decision, or with one that was refused before it was judged."""
    too_large: int = 0
    """Requests of which a body was longer than `max_bytes`."""
    dropped: int = 0
    """Requests that found the queue, or the buffer, full."""


class WatchRequests:
    """Watches the decisions of a prediction service.

        app = WatchRequests(app, lw.connect("http://127.0.0.1:8800"), path="/predict")
        app.add_middleware(WatchRequests, monitor=client, path="/predict")   # FastAPI, Starlette

    app         the ASGI application
    monitor     a client, or any monitor; it gets a buffer that drops what it has no room for. Or a
                buffer of your own, which you close yourself
    path        of the requests that are decisions; or a callable that says so of a path
    read        makes a `Decision` of an `Exchanged`, or several, or None. Unless given, JSON is
                read: the request is the input (a row of a table, or an object whose `x` is the
                vector, or the vector), and the response is the output, or an object that has it
    output      the field of the response that is the output
    key         the field of the request or the response that is the key of the decision, if any
    model       the name of the model
    max_bytes   how long a request or a response may be; longer ones are counted, not watched
    queue_calls how many requests may wait for the thread
    """

    def __init__(
        self,
        app: ASGIApp,
        monitor: Any,
        *,
        path: str | Callable[[str], bool],
        read: ReadDecision | None = None,
        output: str = "output",
        key: str | None = None,
        model: str | None = None,
        max_bytes: int = 1 << 20,
        queue_calls: int = _QUEUE_CALLS,
    ) -> None:
        self.app = app
        target = WatchTarget.from_argument(monitor)
        if target is None or target.monitor is None:
            raise TypeError(f"the monitor is {monitor!r}; expected a client, a monitor or a buffer")
        self._monitor, self._buffer = target.monitor, target.buffer
        self._owns_buffer = target.buffer is None
        self._is_watched = path if callable(path) else (lambda requested: requested == path)
        self._read = read or partial(read_json_decision, self._is_table, output, key, model)
        self._max_bytes = max_bytes
        self._backlog: Backlog[Callable[[], None]] = Backlog(_run_all, most=queue_calls)
        self._lock = Lock()
        self._counts = RequestCounts()
        self._unreported = 0  # losses that the monitor is still to be told of
        register_after_fork(self)

    def _after_fork(self) -> None:
        """Drop what waits: it is the parent process that submits it."""
        self._lock = Lock()
        self._unreported = 0
        if self._owns_buffer:
            self._buffer = None

    @property
    def counts(self) -> RequestCounts:
        return self._counts

    @property
    def buffer(self) -> DecisionBuffer | None:
        """The buffer to which decisions are submitted; None before the first one."""
        return self._buffer

    # The requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            try:
                await self.app(scope, receive, send)
            finally:
                await asyncio.to_thread(self.close)
            return
        if scope["type"] != "http" or not self._is_watched(scope["path"]):
            await self.app(scope, receive, send)
            return
        request, response = _BodyCopy(self._max_bytes), _BodyCopy(self._max_bytes)
        status = 0

        async def receive_and_copy() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                request.add(message.get("body", b""), message.get("more_body", False))
            return message

        async def send_and_copy(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                response.add(message.get("body", b""), message.get("more_body", False))
            await send(message)

        await self.app(scope, receive_and_copy, send_and_copy)
        if 200 <= status < 300:
            self._queue_exchange(scope, status, request, response)

    def _queue_exchange(
        self, scope: Scope, status: int, request: "_BodyCopy", response: "_BodyCopy"
    ) -> None:
        if request.too_large or response.too_large:
            self._count_lost("too_large")
            return
        exchanged = Exchanged(
            scope["path"], request.body, response.body, status, tuple(scope.get("headers", ()))
        )
        whole = request.is_complete and response.is_complete
        if not self._backlog.put(partial(self._submit_decisions, exchanged, whole)):
            self._count_lost("dropped")

    # In the thread

    def _submit_decisions(self, exchanged: Exchanged, is_complete: bool) -> None:
        buffer = self._get_buffer()
        try:
            if not is_complete:
                raise ValueError("a body did not pass through here to its end")
            decisions = self._read_decisions(exchanged)
        except Exception as error:
            self._count_lost("unread")
            self._log_unread(exchanged, error)
            return
        for x, z, key, time, model, *_ in decisions:
            try:
                receipt = buffer.submit(x, z, key=key, time=time, model=model)
                self._add_count("submitted" if receipt.lost is None else "dropped")
            except Exception as error:
                self._count_lost("unread")
                self._log_unread(exchanged, error)

    def _report_losses(self) -> None:
        """Report what was lost to the monitor, if anything was and it can be reached."""
        if self._unreported:
            self._get_buffer()

    def _log_unread(self, exchanged: Exchanged, error: Exception) -> None:
        kind = type(error).__name__
        logger.warning("an answer of %s was not watched: %s", exchanged.path, kind)

    def _read_decisions(self, exchanged: Exchanged) -> list[Decision]:
        read = self._read(exchanged)
        if read is None:
            return []
        return [read] if isinstance(read, Decision) else list(read)

    def _is_table(self) -> bool | None:
        """Tell whether the rule is about a table; None if only a service knows."""
        rule = get_known_rule(self._monitor)
        return None if rule is None else rule.features is not None

    def _get_buffer(self) -> DecisionBuffer:
        """Return the buffer, made with the first decision; report losses to it if possible."""
        if self._buffer is None:
            self._buffer = buffered(self._monitor, when_full="drop_newest")
        if self._unreported and self._buffer.stats.failing is None:
            with self._lock:
                losses, self._unreported = self._unreported, 0
            try:
                self._monitor.record_loss(losses, _LOSS_REASON)
            except Exception as error:
                with self._lock:
                    self._unreported += losses
                logger.warning("%d losses were not reported: %s", losses, type(error).__name__)
        return self._buffer

    # Counting

    def _add_count(self, name: str) -> None:
        with self._lock:
            self._counts = add_counts(self._counts, **{name: 1})

    def _count_lost(self, name: str) -> None:
        self._add_count(name)
        with self._lock:
            self._unreported += 1

    # The end

    def flush(self, seconds: float = _CLOSE_SECONDS) -> bool:
        """Wait until what passed is judged and losses are reported; return whether that is so."""
        self._backlog.put(self._report_losses)
        judged = self._backlog.drain(seconds)
        return judged and (self._buffer is None or self._buffer.flush(seconds))

    def close(self) -> None:
        """Judge what waits, within some seconds. The application runs on, unwatched."""
        self._backlog.put(self._report_losses)
        self._backlog.drain(_CLOSE_SECONDS)
        if self._owns_buffer and self._buffer is not None:
            self._buffer.close(_CLOSE_SECONDS)


def _run_all(pieces: list[Callable[[], None]]) -> None:
    for piece in pieces:
        piece()


class _BodyCopy:
    """Copies a body as it passes, up to a bound."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0
        self.is_complete = False
        self.too_large = False

    def add(self, piece: bytes, more: bool) -> None:
        self._size += len(piece)
        if self._size > self._most:
            self.too_large = True
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)
        self.is_complete = not more

    @property
    def body(self) -> bytes:
        return b"".join(self._pieces)


def read_json_decision(
    is_table: Callable[[], bool | None],
    output: str,
    key: str | None,
    model: str | None,
    exchanged: Exchanged,
) -> Decision:
    """Read the decision in a request and a response of JSON; see `WatchRequests`."""
    request, response = json.loads(exchanged.request), json.loads(exchanged.response)
    z = response[output] if isinstance(response, dict) else response
    own_key = None
    if key is not None:
        objects = [body for body in (request, response) if isinstance(body, dict)]
        own_key = next(body[key] for body in objects if body.get(key))
    x = request
    if isinstance(request, dict):
        x = {field: value for field, value in request.items() if field != key}
        table = is_table()
        if table is None:  # then it is a table unless its x is a vector
            table = not isinstance(x.get("x"), list)
        if not table:
            x = x["x"]
    return Decision(x, FROM_ROW if z is None else z, own_key, None, model)
