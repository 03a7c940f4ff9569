"""`WatchRequests`: an ASGI middleware that watches a model behind a prediction service.

What a request sends and what it is answered are copied as they pass, piece by piece: nothing is
read twice, nothing is held back, and streams stay streams. When the response is sent, both are
handed to a thread, which reads the decision out of them and submits it to a buffer
(`lw.buffered`).

Invariant: a response is never changed, delayed or broken by watching. Every request that should be
watched is submitted, or counted as something else (`counts`) and told to the monitor as lost.
Logs say how many, and no values.
Bound: `max_bytes` of each body, `queue_calls` requests that wait for the thread.
Cost: a copy of both bodies, and some microseconds on the event loop.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

from likewise.monitor.protocol import Decision
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.queueing.buffer import DecisionBuffer, buffered
from likewise.runtime.forking import register_after_fork
from likewise.runtime.log import logger
from likewise.tables.printing import with_bounded_repr
from likewise.watching.background import Backlog
from likewise.watching.delivery import get_known_rule
from likewise.watching.settings import WatchTarget

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
    """A request and its response, as they passed."""

    path: str
    request: bytes = field(repr=False)
    response: bytes = field(repr=False)
    status: int
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """Of the request, names in lower case."""


ReadDecision = Callable[[Exchanged], "Decision | Iterable[Decision] | None"]
"""The decision in an exchange, several, or None if there is none."""


@dataclass(frozen=True)
class RequestCounts:
    """What became of the requests to the watched path that were answered with success."""

    submitted: int = 0
    """Decisions that wait in the buffer, or waited; its `stats` say what became of them."""
    unread: int = 0
    """No decision could be read out of them, or it was refused before it was judged."""
    too_large: int = 0
    dropped: int = 0
    """Too many waited for the thread, or in the buffer."""


class WatchRequests:
    """Watches the decisions of a prediction service.

        app = WatchRequests(app, lw.connect("http://127.0.0.1:8800"), path="/predict")
        app.add_middleware(WatchRequests, monitor=client, path="/predict")   # FastAPI, Starlette

    app         the ASGI application
    monitor     a client, or any monitor; it gets a buffer that drops what it has no room for. Or a
                buffer of your own, which you close yourself
    path        of the requests that are decisions; or a callable that says so of a path
    read        from an `Exchanged` to a `Decision`, several, or None. Unless given, JSON is read:
                the request is the input (a row of a table, or an object whose `x` is the vector, or
                the vector), and the response is the output, or an object that has it
    output      the field of the response that is the output
    key         the field of the request or the response that is the key of the decision, if any
    model       the name of the model
    max_bytes   of a request, and of a response; what is longer is not watched, and counted
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
        told = WatchTarget.from_argument(monitor)
        if told is None or told.monitor is None:
            raise TypeError(f"the monitor is {monitor!r}; expected a client, a monitor or a buffer")
        self._monitor, self._buffer = told.monitor, told.buffer
        self._owns_buffer = told.buffer is None
        self._is_watched = path if callable(path) else (lambda one: one == path)
        self._read = read or partial(read_json_decision, self._is_table, output, key, model)
        self._max_bytes = max_bytes
        self._backlog: Backlog[Callable[[], None]] = Backlog(_run_all, most=queue_calls)
        self._lock = Lock()
        self._counts = RequestCounts()
        self._unreported = 0  # that were not submitted, and that the monitor is to be told of
        register_after_fork(self)

    def _after_fork(self) -> None:
        """In a forked process: what waits is the parent's to submit."""
        self._lock = Lock()
        self._unreported = 0
        if self._owns_buffer:
            self._buffer = None

    @property
    def counts(self) -> RequestCounts:
        return self._counts

    @property
    def buffer(self) -> DecisionBuffer | None:
        """Where decisions are submitted; None before the first one."""
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
        """Tell the monitor what was lost, if anything was and it can be told."""
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
        """Whether the rule is about a table; None if only a service knows, and was not asked."""
        rule = get_known_rule(self._monitor)
        return None if rule is None else rule.features is not None

    def _get_buffer(self) -> DecisionBuffer:
        """The buffer; made with the first decision. Losses are told if the service is there."""
        if self._buffer is None:
            self._buffer = buffered(self._monitor, when_full="drop_newest")
        if self._unreported and self._buffer.stats.failing is None:
            with self._lock:
                untold, self._unreported = self._unreported, 0
            try:
                self._monitor.record_loss(untold, _LOSS_REASON)
            except Exception as error:
                with self._lock:
                    self._unreported += untold
                logger.warning("%d losses were not told: %s", untold, type(error).__name__)
        return self._buffer

    # Counting

    def _add_count(self, name: str) -> None:
        with self._lock:
            self._counts = replace(self._counts, **{name: getattr(self._counts, name) + 1})

    def _count_lost(self, name: str) -> None:
        self._add_count(name)
        with self._lock:
            self._unreported += 1

    # The end

    def flush(self, seconds: float = _CLOSE_SECONDS) -> bool:
        """Wait until what passed is judged, and losses are told; whether that is so."""
        self._backlog.put(self._report_losses)
        judged = self._backlog.drain(seconds)
        return judged and (self._buffer is None or self._buffer.flush(seconds))

    def close(self) -> None:
        """Judge what waits, within some seconds. The application goes on, unwatched."""
        self._backlog.put(self._report_losses)
        self._backlog.drain(_CLOSE_SECONDS)
        if self._owns_buffer and self._buffer is not None:
            self._buffer.close(_CLOSE_SECONDS)


def _run_all(pieces: list[Callable[[], None]]) -> None:
    for piece in pieces:
        piece()


class _BodyCopy:
    """A body as it passes, up to a bound."""

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
    """The decision in a request and a response of JSON; see `WatchRequests`."""
    sent, answered = json.loads(exchanged.request), json.loads(exchanged.response)
    z = answered[output] if isinstance(answered, dict) else answered
    name = None
    if key is not None:
        name = next(one[key] for one in (sent, answered) if isinstance(one, dict) and one.get(key))
    x = sent
    if isinstance(sent, dict):
        x = {field: value for field, value in sent.items() if field != key}
        table = is_table()
        if table is None:  # a vector, unless what is called x is none
            table = not isinstance(x.get("x"), list)
        if not table:
            x = x["x"]
    return Decision(x, FROM_ROW if z is None else z, name, None, model)
