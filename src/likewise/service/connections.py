"""Limits what a client sends outside of bodies, in bytes and in time.

A `Connection` passes everything between socket and uvicorn's protocol unchanged; a second parser
tells it where heads and bodies end. It costs about 2 µs per request.
Invariant: a head, or the trailers of a body, have at most `head_bytes`; twice that if a head begins
in the read in which another request ended. A client has `body_seconds` for the rest of a request.
"""

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from likewise.service.http_errors import Refusal, http_error
from likewise.service.service import Service

_LINGER = 1.0  # seconds in which a client that was refused can read why


class Connections:
    """Manages the open connections of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._open: set[Connection] = set()

    def make_protocol(self, **arguments: Any) -> "Connection":
        """Make the protocol of a connection; for `uvicorn.Config(http=...)`."""
        return Connection(self.service, self._open, arguments)

    def wrap(self, application: Any) -> Any:
        """Wrap an ASGI application so that connections know when it answers."""

        async def call(scope: Any, receive: Any, send: Any) -> None:
            connection: Connection = scope["state"]["connection"]
            connection.answering += 1
            try:
                await application(scope, receive, send)
            finally:
                connection.answering -= 1

        return call

    def __iter__(self) -> Iterator["Connection"]:
        return iter(list(self._open))

    def end_slow(self, now: float) -> None:
        """End connections that wait too long for their client; call it about once a second.

        now: seconds of a monotonic clock
        """
        for connection in self:
            connection.end_if_slow(now)


class Connection(asyncio.Protocol):
    """Passes on what comes, and ends the connection if it exceeds the limits."""

    def __init__(
        self, service: Service, others: set["Connection"], arguments: dict[str, Any]
    ) -> None:
        """arguments: those of uvicorn's protocol"""
        state = {**arguments["app_state"], "connection": self}
        self._inner = HttpToolsProtocol(**{**arguments, "app_state": state})
        self._service = service
        self._others = others
        self._most_head_bytes = service.settings.limits.head_bytes
        self._parser = HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        # Bytes since the last piece of a body; 1 at first, since a head is awaited.
        self._bytes_outside_body = 1
        self.in_body = False
        """Whether the body of a request has not come to its end."""
        self._awaiting: tuple[str, float] | None = None  # what the client has to do, since when
        self.answering = 0
        """Requests that the application is answering."""

    def connection_made(self, transport: Any) -> None:
        self.transport: asyncio.Transport = transport
        self._others.add(self)
        self._inner.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._others.discard(self)
        self._inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        rest: Any = data
        try:
            # More than a head may have: a long head, a long body, or both.
            while self._bytes_outside_body + len(rest) > self._most_head_bytes:
                rest, size = memoryview(rest), self._most_head_bytes - self._bytes_outside_body
                self._bytes_outside_body = self._most_head_bytes
                self._parser.feed_data(rest[:size])
                if self._bytes_outside_body == self._most_head_bytes:
                    self._refuse()
                    return
                rest = rest[size:]
            self._bytes_outside_body += len(rest)
            self._parser.feed_data(rest)
        except (HttpParserError, HttpParserUpgrade):
            pass  # uvicorn's own parser raises the same error, which uvicorn answers
        self._inner.data_received(data)

    def eof_received(self) -> None:
        self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # Called by the parser

    def on_message_begin(self) -> None:
        if not self._bytes_outside_body:  # another request has ended in the same read
            self._bytes_outside_body = 1

    def on_headers_complete(self) -> None:
        self._bytes_outside_body = 0
        self.in_body = True
        self._awaiting = None

    def on_body(self, _: bytes) -> None:
        self._bytes_outside_body = 0

    def on_message_complete(self) -> None:
        self._bytes_outside_body = 0
        self.in_body = False
        self._awaiting = None

    def _refuse(self) -> None:
        """Answer 431; end the connection at once where another answer may have begun."""
        if self.answering or self.in_body:
            self.transport.abort()
        if not self.transport.is_reading():
            return  # it has ended, or was refused before
        error = Refusal(
            431, f"the head of the request has more than {self._most_head_bytes} bytes."
        )
        status, body, _ = http_error(error)
        self._service.refused[str(status)] += 1
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.pause_reading()
        self.transport.write(head.encode() + body)
        asyncio.get_running_loop().call_later(_LINGER, self.transport.close)

    def end_if_slow(self, now: float) -> None:
        """End the connection if its client has neither sent nor read anything for too long."""
        if self.transport.is_closing():
            awaited = "reading"
        elif not self.answering and (self._bytes_outside_body or self.in_body):
            awaited = "sending"
        else:  # uvicorn has a timer for connections between two requests
            self._awaiting = None
            return
        if self._awaiting is None or self._awaiting[0] != awaited:
            self._awaiting = awaited, now
        elif now - self._awaiting[1] > self._service.settings.limits.body_seconds:
            if awaited == "reading":
                self.transport.abort()
            else:
                self.transport.close()
