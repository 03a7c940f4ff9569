"""What every request passes: is there room, who is it, may it do that, how much does it send?

Without tokens, which only a server on loopback may do without, everybody may do everything.
"""

import asyncio
import time as clock
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request

from likewise.service.content_types import EXACT_BYTES, decode_body
from likewise.service.http_errors import Refusal
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service
from likewise.service.settings import Token

ASGIScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PRIVATE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""Headers of every answer but static files: nobody on the way keeps it, or guesses what it is."""
_BURST_SECONDS = 10.0
_CALLERS = 1_000  # whose requests are counted, before those who are quiet are forgotten
_NO_STATE: MutableMapping[str, Any] = {}


class ClientDisconnected(Exception):
    """The client went away before it had sent all of its request."""


class RequestGuard:
    """Checks of requests, against the settings of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._allowance: dict[str, tuple[float, float]] = {}  # by caller: requests left, and when

    def check_capacity(self) -> None:
        """Raise Refusal if the server is ending, or too many requests are under way with this."""
        if self._service.stopping:
            raise Refusal(503, "the server is ending: try again soon.", retry_seconds=1.0)
        most = self._service.settings.limits.requests
        if self._service.active_requests > most:
            raise Refusal(503, f"{most} requests are under way.", retry_seconds=1.0)

    def admit(
        self, scope: ASGIScope, required: str, monitor: str | None = None, also: str | None = None
    ) -> Token | None:
        """Who sends it; Refusal if it may not do that. None where there are no tokens.

        wanted: one of SCOPES
        also: another that allows it
        """
        return self.admit_authorization(
            find_header(scope, b"authorization"), required, monitor, also
        )

    def admit_authorization(
        self,
        authorization: bytes | None,
        required: str,
        monitor: str | None,
        also: str | None = None,
    ) -> Token | None:
        """`admit`, by the header Authorization."""
        tokens = self._service.tokens
        if not tokens:
            return None
        token = tokens.find(authorization)
        if token is None:
            raise Refusal(401, "expected a header Authorization: Bearer and a token that is known.")
        if not (token.allows(required, monitor) or (also and token.allows(also, monitor))):
            with_it = "" if monitor is None else f" with the monitor {monitor!r}"
            raise Refusal(403, f"the token {token.name!r} may not {required}{with_it}.")
        self.count_request(token.name)
        return token

    def is_still_allowed(self, scope: ASGIScope, required: str, monitor: str) -> bool:
        """Whether a request that was admitted would be again, with the tokens of now."""
        tokens = self._service.tokens
        token = tokens.find(find_header(scope, b"authorization"))
        return not tokens or (token is not None and token.allows(required, monitor))

    def count_request(self, caller: str) -> None:
        """Count a request; Refusal if this caller, a token or a person, sends too many."""
        rate, now = self._service.settings.limits.rate, clock.monotonic()
        if not rate:
            return
        if len(self._allowance) > _CALLERS:  # who sent nothing for that long may send all again
            quiet = now - _BURST_SECONDS
            self._allowance = {k: v for k, v in self._allowance.items() if v[1] > quiet}
        left, since = self._allowance.get(caller, (rate * _BURST_SECONDS, now))
        left = min(rate * _BURST_SECONDS, left + rate * (now - since))
        if left < 1:
            raise Refusal(
                429,
                f"{caller!r} sends more than {rate:g} requests a second.",
                retry_seconds=(1 - left) / rate,
            )
        self._allowance[caller] = left - 1, now

    async def read_body(self, scope: ASGIScope, receive: Receive) -> bytes:
        """The whole body; Refusal if it is too long or too slow, Gone if it never ends."""
        return await self.read_body_of_length(find_header(scope, b"content-length"), scope, receive)

    async def read_body_of_length(
        self, content_length: bytes | None, scope: ASGIScope, receive: Receive
    ) -> bytes:
        """`body`, by the header Content-Length."""
        most = self._service.settings.limits.body_bytes
        if content_length is not None and content_length.isdigit() and int(content_length) > most:
            raise Refusal(
                413, f"the body has {int(content_length)} bytes; at most {most} are taken."
            )
        connection = scope.get("state", _NO_STATE).get("connection")
        if connection is not None and not connection.in_body:
            return await self._collect(receive)  # it is all there: a timer costs more than the rest
        try:
            async with asyncio.timeout(self._service.settings.limits.body_seconds):
                return await self._collect(receive)
        except TimeoutError:
            seconds = self._service.settings.limits.body_seconds
            raise Refusal(408, f"the body took longer than {seconds:g} s to come.") from None

    async def _collect(self, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        size, more, most = 0, True, self._service.settings.limits.body_bytes
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > most:
                raise Refusal(413, f"the body has more than {most} bytes.")
            more = message.get("more_body", False)
        return b"".join(chunks)


def find_header(scope: ASGIScope, name: bytes) -> bytes | None:
    """The value of a header; the last one if it is given twice."""
    found = None
    for key, value in scope["headers"]:
        if key == name:
            found = value
    return found


_T = TypeVar("_T")


class AdmittedCall(NamedTuple):
    """What a hot route is given: the body was read."""

    hosted: ServedMonitor
    query: Mapping[str, str]
    content_type: bytes
    accept: bytes
    body: bytes


HotHandler = Callable[[AdmittedCall], Awaitable[bytes]]
"""What answers one: the body of the answer, or Refusal, or a LikewiseError."""


class HotRoute(NamedTuple):
    """A route that app.py serves without a framework.

    if_unknown  what to do with a request to a ledger that an earlier process may have done;
                None: it is in doubt
    """

    answer: HotHandler
    if_unknown: HotHandler | None = None


@dataclass(frozen=True, slots=True)
class AdmittedRequest:
    """What any other route is given."""

    service: Service
    guard: RequestGuard
    http_request: Request
    token: Token | None
    content: bytes | None = None
    """The body, if it was read already."""

    @property
    def hosted(self) -> ServedMonitor:
        """The monitor that the path names; Refusal if it cannot be asked now."""
        return self.service.get_monitor(self.path_parameter("name"))

    @property
    def query(self) -> Mapping[str, str]:
        return self.http_request.query_params

    def path_parameter(self, name: str) -> str:
        """A part of the path."""
        text: str = self.http_request.path_params[name]
        return text

    async def read_body(self) -> bytes:
        """The whole body, within its bounds."""
        if self.content is not None:
            return self.content
        return await self.guard.read_body(self.http_request.scope, self.http_request.receive)

    async def read_as(self, kind: type[_T]) -> _T:
        """The body as a value of a type; Refusal if it is none."""
        return decode_body(kind, self._header("content-type"), await self.read_body())

    @property
    def accept(self) -> bytes:
        return self._header("accept")

    @property
    def wants_exact(self) -> bool:
        """Whether the answer is wanted with exact values."""
        return EXACT_BYTES in self.accept

    def _header(self, name: str) -> bytes:
        return self.http_request.headers.get(name, "").encode("latin-1")


RequestHandler = Callable[[AdmittedRequest], Awaitable[Any]]
"""What answers one: with a value that is JSON, or a Response."""
