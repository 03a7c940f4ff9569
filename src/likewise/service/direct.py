"""Single decisions for monitors in memory, answered while they are read from the connection.

Such a decision is judged in microseconds, less than it takes a server to make a task, a scope, two
events and two messages of a request. So a request that is wholly there when its last byte is read,
and that can be judged at once, is answered right then. Every other request, and each that would be
refused before a monitor is asked, goes the way of all requests (app.py).

Invariant: a client cannot tell which way its request went; nothing is done twice, and nothing of a
request is left here once the bytes that came have been looked at.
Cost: about half of what the same request costs the other way.
Not here: other routes, queries, bodies in several pieces, ledgers, which wait for the disk.
"""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from likewise.runtime.log import logger
from likewise.service.app import App, fault
from likewise.service.refusals import Refusal, told
from likewise.service.routes.decisions import decision_of
from likewise.service.strict import decoded
from likewise.service.wire import decode_decision
from likewise.values.errors import LikewiseError

_MOST = 1 << 16  # bytes of a body
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


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

    def takes(self, url: bytes, headers: dict[bytes, bytes]) -> bool:
        """Whether a request could be answered here, by its first lines."""
        length = headers.get(b"content-length", b"")
        return url in self._names and length.isdigit() and 0 < int(length) <= self._most

    def answer(self, url: bytes, headers: dict[bytes, bytes], body: bytes) -> bytes | None:
        """A whole response; None, and nothing was done, if the request has to go the other way."""
        name, service, door = self._names[url], self._service, self._app.door
        hosted = service.monitors.get(name)
        if hosted is None or not (service.ready and hosted.judges_at_once):
            return None
        if service.under_way >= self._requests:
            return None
        try:
            token = door.sender(headers.get(b"authorization"), "observe", name)
            decision = decision_of(hosted, decoded(decode_decision, body))
            door.count(token)
        except (Refusal, LikewiseError):
            return None
        try:
            answer = hosted.told_bytes(hosted.observe_now(decision))
            return _HEAD % (len(answer), answer)
        except LikewiseError as error:  # which the monitor has counted
            status, answer, retry = told(error)
        except Exception as error:
            logger.exception("a fault of likewise, while answering %s", url.decode())
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

        _mine: dict[bytes, bytes] | None = None
        """The headers of a request that may be answered directly, while it is being read."""
        _body = b""

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._mine is not None:
                self._hand_over(complete=False)

        def on_headers_complete(self) -> None:
            cycle, parser = self.cycle, self.parser
            if (
                (cycle is None or cycle.response_complete)
                and parser.get_method() == b"POST"
                and not self.expect_100_continue
                and not self.flow.write_paused
                and parser.get_http_version() == "1.1"
                and parser.should_keep_alive()
                and not parser.should_upgrade()
                and not self.server_state.default_headers
                and len(self.connections) < (self.limit_concurrency or len(self.connections) + 1)
            ):
                headers = dict(self.headers)  # of one that is given twice, the last
                if answers.takes(self.url, headers):
                    self._mine, self._body = headers, b""
                    return
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            if self._mine is None:
                super().on_body(body)
            else:
                self._body += body

        def on_message_complete(self) -> None:
            if self._mine is None:
                super().on_message_complete()
                return
            answer = None
            if not self.transport.is_closing():
                answer = answers.answer(self.url, self._mine, self._body)
            if answer is None:
                self._hand_over(complete=True)
                return
            self._mine = None
            self.transport.write(answer)
            self.on_response_complete()

        def _hand_over(self, *, complete: bool) -> None:
            """Let a request go the way of all, with what has come of its body."""
            self._mine, body = None, self._body
            super().on_headers_complete()
            if body:
                super().on_body(body)
            if complete:
                super().on_message_complete()

    return DirectProtocol
