"""Single decisions for monitors in memory, answered while they are read from the connection.

Such a decision is judged in microseconds, less than it takes a server to make a task, a scope, two
events and two messages of a request. So a request that is wholly there when its last byte is read,
and that can be judged at once, is answered right then. Every other request, and each that would be
refused before a monitor is asked, goes the way of all requests (app.py).

Clients send the same first lines again and again, but for the length of the body. The same bytes at
the same place mean the same, so the first lines of a request that was answered here are remembered
with what they were found to mean, and are not parsed again.

Invariant: a client cannot tell which way its request went; nothing is done twice, and nothing of a
request is left here once the bytes that came have been looked at.
Bound: `_HEADS` first lines, of at most `_HEAD_BYTES` each, are remembered; then all are forgotten.
Cost: about a third of what the same request costs the other way.
Not here: other routes, queries, bodies in several pieces, ledgers, which wait for the disk.
"""

from typing import NamedTuple

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from likewise.runtime.log import logger
from likewise.service.app import App, fault
from likewise.service.refusals import Refusal, told
from likewise.service.routes.decisions import decision_of
from likewise.service.settings import Token
from likewise.service.strict import decoded
from likewise.service.wire import decode_decision
from likewise.values.errors import LikewiseError

_MOST = 1 << 16  # bytes of a body
_HEADS = 1024
_HEAD_BYTES = 2048
_END = b"\r\n\r\n"
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


class RequestHead(NamedTuple):
    """What the first lines of a request mean."""

    name: str
    """Of the monitor that is asked."""
    token: Token | None
    """Of the sender, who may do that."""
    length: int
    """Of the body."""


class DirectAnswers:
    """The answers to `POST /v1/monitors/{name}/observe` that need not wait."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._service = app.service
        self._requests = app.service.settings.limits.requests
        self._names = {
            f"/v1/monitors/{name}/observe".encode(): name for name in app.service.settings.monitors
        }
        self._most = min(_MOST, app.service.settings.limits.body_bytes)
        self._known: dict[bytes, RequestHead] = {}
        self.known = self._known.get
        """What first lines mean, the empty line behind them included, if they were seen before."""

    def head(self, url: bytes, headers: dict[bytes, bytes]) -> RequestHead | None:
        """What the first lines of a request mean; None if it cannot be answered here."""
        name = self._names.get(url)
        length = headers.get(b"content-length", b"")
        if name is None or not (length.isdigit() and 0 < int(length) <= self._most):
            return None
        try:
            token = self._app.door.sender(headers.get(b"authorization"), "observe", name)
        except Refusal:
            return None
        return RequestHead(name, token, int(length))

    def remember(self, data: bytes, head: RequestHead) -> None:
        """A request was answered here: if these bytes are all of it, know its first lines again."""
        at = len(data) - head.length
        if at <= _HEAD_BYTES and data.find(_END) + len(_END) == at:
            if len(self._known) >= _HEADS:
                self._known.clear()
            self._known[data[:at]] = head

    def answer(self, head: RequestHead, body: bytes) -> bytes | None:
        """A whole response; None, and nothing was done, if the request has to go the other way."""
        service = self._service
        hosted = service.monitors.get(head.name)
        if hosted is None or not (service.ready and hosted.judges_at_once):
            return None
        if service.under_way >= self._requests:
            return None
        try:
            decision = decision_of(hosted, decoded(decode_decision, body))
            self._app.door.count(head.token)
        except (Refusal, LikewiseError):
            return None
        try:
            answer = hosted.told_bytes(hosted.observe_now(decision))
            return _HEAD % (len(answer), answer)
        except LikewiseError as error:  # which the monitor has counted
            status, answer, retry = told(error)
        except Exception as error:
            logger.exception(
                "a fault of likewise, while answering /v1/monitors/%s/observe", head.name
            )
            service.refused["500"] += 1
            status, answer, retry = 500, fault(error), None
        return _response(status, answer, retry)


def _response(status: int, body: bytes, retry: float | None) -> bytes:
    more = b"" if retry is None else b"retry-after: %d\r\n" % max(1, round(retry))
    head = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
    return STATUS_LINE[status] + head + more + b"\r\n" + body


def protocol_of(app: App) -> type[HttpToolsProtocol]:
    """uvicorn's protocol, which asks for direct answers first."""
    answers = DirectAnswers(app)

    class DirectProtocol(HttpToolsProtocol):
        """One connection."""

        _between = True
        """Whether nothing of a further request has come."""
        _mine: RequestHead | None = None
        """Of a request that may be answered directly, while it is being read."""
        _body = b""
        _answered: RequestHead | None = None
        """Of the last request that was."""
        _last_answer = 0.0
        """When that was, where no timer was set for it."""

        def data_received(self, data: bytes) -> None:
            if self._between:
                at = data.find(_END) + len(_END)
                head = answers.known(data[:at])
                if (
                    head is not None
                    and len(data) - at == head.length
                    and self._is_free()
                    and self._answer(head, data[at:])
                ):
                    return
            between, self._answered = self._between, None
            super().data_received(data)
            if self._mine is not None:
                self._hand_over(complete=False)
            elif between and self._answered is not None:
                answers.remember(data, self._answered)

        def on_message_begin(self) -> None:
            self._between = False
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            parser = self.parser
            if (
                parser.get_method() == b"POST"
                and not self.expect_100_continue
                and parser.get_http_version() == "1.1"
                and parser.should_keep_alive()
                and not parser.should_upgrade()
                and self._is_free()
            ):
                # of a header that is given twice, the last
                self._mine, self._body = answers.head(self.url, dict(self.headers)), b""
                if self._mine is not None:
                    return
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            if self._mine is None:
                super().on_body(body)
            else:
                self._body += body

        def on_message_complete(self) -> None:
            self._between = True
            if self._mine is None:
                super().on_message_complete()
            elif self._answer(self._mine, self._body):
                self._answered, self._mine = self._mine, None
            else:
                self._hand_over(complete=True)

        def _is_free(self) -> bool:
            """Whether a request that comes now would be begun at once."""
            cycle = self.cycle
            return (
                (cycle is None or cycle.response_complete)
                and not self.flow.write_paused
                and not self.server_state.default_headers
                and len(self.connections) < (self.limit_concurrency or len(self.connections) + 1)
            )

        def _answer(self, head: RequestHead, body: bytes) -> bool:
            """Answer a request; False, and nothing was done, if it has to go the other way."""
            if self.transport.is_closing():
                return False
            answer = answers.answer(head, body)
            if answer is None:
                return False
            self.transport.write(answer)
            if self.timeout_keep_alive_task is None:
                self.on_response_complete()  # which sets that timer
            else:
                self.server_state.total_requests += 1
                self._last_answer = self.loop.time()
            return True

        def timeout_keep_alive_handler(self) -> None:
            """The timer is set once for many answers: it ends a connection that is idle since."""
            left = self._last_answer + self.timeout_keep_alive - self.loop.time()
            if left > 0 and not self.transport.is_closing():
                self.timeout_keep_alive_task = self.loop.call_later(
                    left, self.timeout_keep_alive_handler
                )
            else:
                super().timeout_keep_alive_handler()

        def _hand_over(self, *, complete: bool) -> None:
            """Let a request go the way of all, with what has come of its body."""
            self._mine, body = None, self._body
            super().on_headers_complete()
            if body:
                super().on_body(body)
            if complete:
                super().on_message_complete()

    return DirectProtocol
