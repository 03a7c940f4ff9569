"""Checks every request: concurrency limit, authentication, authorisation, rate and body size.

Also defines what a handler is given: `AdmittedCall` on hot routes, `AdmittedRequest` on others.
Without tokens, which only a server on loopback may do without, everybody may do everything.
Requests that a page of another site makes a browser send are refused here, too.
"""

import asyncio
import time as clock
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from starlette.requests import Request

from likewise.runtime.machine import is_loopback
from likewise.service.content_types import EXACT_BYTES, decode_body
from likewise.service.http_errors import Refusal
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service
from likewise.service.settings import ServiceSettings, Token

_API = "/v1/"
_SAFE_METHODS = ("GET", "HEAD")
_OWN = (b"same-origin", b"none")
_UNCHECKED_TYPES = (
    b"",
    b"text/plain",
    b"application/x-www-form-urlencoded",
    b"multipart/form-data",
)
_HEADERS = 1024  # values of Host and Origin whose result is cached


# Refuses requests that a page of another site makes a browser send; programs are not affected.
# Host: a server without tokens answers only under its own names, against DNS rebinding (with tokens
# a page has none; a Unix socket is out of a browser's reach). Sec-Fetch-Site, or else Origin: only
# pages of this origin may ask; links may open a page, but not in a frame. Content-Type of changes:
# none that browsers send without a preflight; our forms carry a CSRF token (pages/signing_in.py).


class CrossSiteCheck:
    """Checks requests against the host names of a server."""

    def __init__(self, settings: ServiceSettings) -> None:
        server = settings.server
        self._any_host = bool(settings.tokens) or server.uds is not None
        self._hosts = {name.lower() for name in server.hosts}
        self._names = {server.host.lower()} | self._hosts
        self._is_own = lru_cache(_HEADERS)(self._is_own_host)
        self._is_same = lru_cache(_HEADERS)(self._is_own_origin)

    def check(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise Refusal unless it comes from a program, or from a page of this server."""
        host = headers.get(b"host", b"")
        if not self._any_host and host and not self._is_own(host):
            raise Refusal(
                403,
                f"this server has no tokens and is not called {host.decode('latin-1')[:100]!r}:"
                " ask localhost, or name it in `hosts` of [server].",
            )
        site = headers.get(b"sec-fetch-site")
        if site is None:
            origin = headers.get(b"origin")
            own = origin is None or self._is_same(origin, host)
        else:
            own = site in _OWN or (method in _SAFE_METHODS and _opens_page(headers))
        if not own:
            raise Refusal(403, "a page of another site asks; only pages of this server may.")
        if method not in _SAFE_METHODS and path.startswith(_API):
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind in _UNCHECKED_TYPES:
                raise Refusal(
                    415,
                    f"the content type is {kind.decode('latin-1')!r}; expected one such as"
                    " application/json.",
                )

    def _is_own_host(self, host: bytes) -> bool:
        name = _hostname(host.decode("latin-1"))
        return name in self._names or is_loopback(name)

    def _is_own_origin(self, origin: bytes, host: bytes) -> bool:
        """Whether the browser's page is of this server, also where a proxy has changed Host."""
        _, separator, place = origin.decode("latin-1").partition("://")
        return bool(separator) and (
            place.lower() == host.decode("latin-1").lower() or _hostname(place) in self._hosts
        )


def _opens_page(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser opens it as a page of its own, which no other page can read."""
    return (
        headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _hostname(place: str) -> str:
    """Return the name of a host without its port, in lower case; "" if there is none."""
    try:
        return urlsplit(f"//{place}").hostname or ""
    except ValueError:
        return ""


ASGIScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PRIVATE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""Headers of every answer but static files: no proxy caches it, no browser guesses its type."""
_BURST_SECONDS = 10.0
_CALLERS = 1_000  # callers whose requests are counted; beyond, quiet ones are forgotten
_NO_STATE: MutableMapping[str, Any] = {}


class ClientDisconnected(Exception):
    """The client went away before it had sent all of its request."""


class RequestGuard:
    """Checks requests against the settings of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._allowance: dict[str, tuple[float, float]] = {}  # by caller: requests left, and when

    def check_capacity(self) -> None:
        """Raise Refusal if the server is ending, or if too many requests are under way."""
        if self._service.stopping:
            raise Refusal(503, "the server is ending: try again soon.", retry_seconds=1.0)
        most = self._service.settings.limits.requests
        if self._service.active_requests > most:
            raise Refusal(503, f"{most} requests are under way.", retry_seconds=1.0)

    def admit(
        self,
        authorization: bytes | None,
        required: str,
        monitor: str | None = None,
        also: str | None = None,
    ) -> Token | None:
        """Return the token of a request; None where there are no tokens. Refusal if not allowed.

        authorization: the header of that name
        required: one of SCOPES; also: another that allows it
        """
        tokens = self._service.tokens
        if tokens.is_empty:
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
        """Whether a request that was admitted would be admitted with the current tokens."""
        tokens = self._service.tokens
        token = tokens.find(find_header(scope, b"authorization"))
        return tokens.is_empty or (token is not None and token.allows(required, monitor))

    def count_request(self, caller: str) -> None:
        """Count a request; raise Refusal if this caller, a token or a person, sends too many."""
        rate, now = self._service.settings.limits.rate, clock.monotonic()
        if not rate:
            return
        if len(self._allowance) > _CALLERS:  # a quiet caller has its whole allowance again
            quiet = now - _BURST_SECONDS
            self._allowance = {k: v for k, v in self._allowance.items() if v[1] > quiet}
        allowed, since = self._allowance.get(caller, (rate * _BURST_SECONDS, now))
        allowed = min(rate * _BURST_SECONDS, allowed + rate * (now - since))
        if allowed < 1:
            raise Refusal(
                429,
                f"{caller!r} sends more than {rate:g} requests a second.",
                retry_seconds=(1 - allowed) / rate,
            )
        self._allowance[caller] = allowed - 1, now

    async def read_body(
        self, content_length: bytes | None, scope: ASGIScope, receive: Receive
    ) -> bytes:
        """Read the whole body; raise Refusal if it is too long or slow, or ClientDisconnected."""
        most = self._service.settings.limits.body_bytes
        if content_length is not None and content_length.isdigit() and int(content_length) > most:
            raise Refusal(
                413, f"the body has {int(content_length)} bytes; at most {most} are taken."
            )
        connection = scope.get("state", _NO_STATE).get("connection")  # of connections.py
        if connection is not None and not connection.in_body:
            return await self._collect(receive)  # it is all there, and a timer is expensive
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
    """Return the value of a header, or None; the last one if it is given twice."""
    last = None
    for key, value in scope["headers"]:
        if key == name:
            last = value
    return last


_T = TypeVar("_T")


class AdmittedCall(NamedTuple):
    """Is what a hot route is given, with the body read."""

    served: ServedMonitor
    query: Mapping[str, str]
    content_type: bytes
    accept: bytes
    body: bytes
    token: Token | None = None


HotHandler = Callable[[AdmittedCall], Awaitable[bytes]]
"""Returns the body of the answer, or raises Refusal or a LikewiseError."""


@dataclass(frozen=True, slots=True)
class AdmittedRequest:
    """Is what any other route is given."""

    service: Service
    guard: RequestGuard
    http_request: Request
    token: Token | None
    content: bytes | None = None
    """The body, if it was read already."""

    @property
    def served(self) -> ServedMonitor:
        """The monitor that the path names; raises Refusal if it is not available."""
        return self.service.get_monitor(self.path_parameter("name"))

    @property
    def query(self) -> Mapping[str, str]:
        return self.http_request.query_params

    def path_parameter(self, name: str) -> str:
        """Return a part of the path."""
        text: str = self.http_request.path_params[name]
        return text

    async def read_body(self) -> bytes:
        """Read the whole body, within its bounds."""
        if self.content is not None:
            return self.content
        request = self.http_request
        length = find_header(request.scope, b"content-length")
        return await self.guard.read_body(length, request.scope, request.receive)

    async def read_as(self, kind: type[_T]) -> _T:
        """Read the body as a value of a type; raise Refusal if it is none."""
        return decode_body(kind, self.content_type, await self.read_body())

    @property
    def accept(self) -> bytes:
        return self._header("accept")

    @property
    def content_type(self) -> bytes:
        return self._header("content-type")

    @property
    def wants_exact(self) -> bool:
        """Whether the answer is wanted with exact values."""
        return EXACT_BYTES in self.accept

    def _header(self, name: str) -> bytes:
        return self.http_request.headers.get(name, "").encode("latin-1")


RequestHandler = Callable[[AdmittedRequest], Awaitable[Any]]
"""Returns a value that is written as JSON, or a Response."""
