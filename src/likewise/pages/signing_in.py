"""Viewers are identified by a proxy, a token or a session cookie; forms by a CSRF token.

A proxy's header counts only from the proxy's addresses. Without tokens and proxy, which only a
server on loopback allows, everybody is "local" and may do everything. A cookie holds a random id
that changes every quarter of an hour; only its hash is stored, in memory. The CSRF token is a keyed
hash of what stays the same in a session. Bound: `PagesSettings.sessions` sessions, by time too.
"""

import hashlib
import hmac
import math
import secrets
import time as clock
from collections.abc import Callable
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from likewise.pages.settings import PagesSettings
from likewise.service.http_errors import Refusal
from likewise.service.service import Service
from likewise.service.service_log import Actor
from likewise.service.settings import SCOPES, Token, is_allowed

LOCAL = "local"
CSRF_FIELD = "csrf"
_ROTATE_SECONDS = 900.0
_GRACE_SECONDS = 60.0  # for requests that were sent with the previous id


@dataclass(frozen=True)
class Viewer:
    """Identifies somebody who looks at the pages, and what they may do."""

    name: str
    scopes: tuple[str, ...]
    monitors: tuple[str, ...] | None
    """None: all monitors."""
    csrf: str
    """The CSRF token that every form must send."""
    signed_in: bool = False
    """Whether there is a session to sign out of."""
    verified: bool = True
    """Whether a token or a proxy vouches for the name."""

    @property
    def actor(self) -> Actor:
        """The name that the ledger's chain records."""
        return Actor(self.name, self.verified)

    def allows(self, scope: str, monitor: str | None) -> bool:
        """Tell whether they may do that."""
        return is_allowed(self.scopes, self.monitors, scope, monitor)


@dataclass
class _Session:
    """Holds what one id of a session stands for; a new id replaces it after a while."""

    token: Token
    family: str
    """What all ids of the session have in common."""
    expires_at: float
    rotates_at: float
    """When a new id replaces this one; infinity once it was replaced."""


class PageAuthenticator:
    """Signs viewers in and out, and identifies them by request."""

    def __init__(
        self, service: Service, settings: PagesSettings, now: Callable[[], float] = clock.monotonic
    ) -> None:
        self._service = service
        self._settings = settings
        self._now = now
        self._key = secrets.token_bytes(32)
        self._sessions: dict[str, _Session] = {}
        server = service.settings.server
        self._always_secure = server.certificate is not None or server.behind_proxy

    # Who it is

    def identify(self, request: Request) -> Viewer | None:
        """Return who asks; None if they have to sign in first. Refusal if they have no access."""
        csrf = self.csrf_token(request)
        name = self._read_proxy_name(request)
        if name is not None:
            scopes = self._settings.roles_of(name)
            if not scopes:
                raise Refusal(403, f"{name[:100]!r} has no role in [pages.roles].")
            return Viewer(name, scopes, None, csrf)
        if self._service.tokens.is_empty:
            if self._settings.proxy_header is not None:
                raise Refusal(403, "the proxy in front does not say who you are.")
            return Viewer(LOCAL, SCOPES, None, csrf, verified=False)
        header = request.headers.get("authorization", "").encode("latin-1")
        token = self._service.tokens.find(header)
        if token is not None:
            return Viewer(token.name, token.scopes, token.monitors, csrf)
        session = self._find_session(self._read_id(request))
        if session is None:
            return None
        token = session.token
        return Viewer(token.name, token.scopes, token.monitors, csrf, signed_in=True)

    def _read_proxy_name(self, request: Request) -> str | None:
        header = self._settings.proxy_header
        if header is None:
            return None
        values = request.headers.getlist(header)
        if len(values) != 1 or not values[0].strip():
            return None
        peer = request.scope.get("peer", request.scope.get("client"))
        if peer is not None and peer[0] not in self._settings.proxy_addresses:
            return None  # no peer: a Unix socket, whose permissions say who may connect
        name: str = values[0].strip()
        return name[:200]

    # Sessions

    def sign_in(self, request: Request, token_text: str, response: Response) -> Token:
        """Begin a session, whose cookie the response carries; Refusal if the token is unknown."""
        header = b"Bearer " + token_text.strip().encode("utf-8", "replace")
        token = self._service.tokens.find(header)
        if token is None:
            raise Refusal(401, "this token is not known.")
        now = self._now()
        self._drop_sessions(lambda session: now >= session.expires_at)
        while len(self._sessions) >= self._settings.sessions:
            del self._sessions[next(iter(self._sessions))]
        self._end_session(request)
        family, expires_at = secrets.token_urlsafe(32), now + self._settings.session_hours * 3600
        session = _Session(token, family, expires_at, rotates_at=now + _ROTATE_SECONDS)
        self._start_session(request, response, session)
        return token

    def sign_out(self, request: Request, response: Response) -> None:
        self._end_session(request)
        response.delete_cookie(self.cookie_name(request), path="/")

    def refresh_cookie(self, request: Request, response: Response) -> None:
        """Set a cookie where there is none, and replace an id that has been used for long.

        The replaced id stays valid for some seconds, for requests that are already on their way.
        """
        sent = self._read_id(request)
        session = self._find_session(sent)
        now = self._now()
        if sent is None:
            self._set_cookie(request, response, _new_id(request))
        elif session is not None and now >= session.rotates_at:
            self._start_session(
                request, response, replace(session, rotates_at=now + _ROTATE_SECONDS)
            )
            session.rotates_at = math.inf
            session.expires_at = min(session.expires_at, now + _GRACE_SECONDS)

    def _start_session(self, request: Request, response: Response, session: _Session) -> None:
        """Store a session under a new id, which the response carries."""
        fresh = secrets.token_urlsafe(32)
        self._sessions[_hash_id(fresh)] = session
        self._set_cookie(request, response, fresh)

    def _set_cookie(self, request: Request, response: Response, value: str) -> None:
        name, secure = self.cookie_name(request), self._secure(request)
        response.set_cookie(name, value, secure=secure, httponly=True, samesite="strict")

    def _find_session(self, sent: str | None) -> _Session | None:
        session = None if sent is None else self._sessions.get(_hash_id(sent))
        if session is None or self._now() >= session.expires_at:
            return None
        token = self._service.tokens.find_current(session.token)
        if token is None:  # it was revoked
            return None
        session.token = token
        return session

    def _end_session(self, request: Request) -> None:
        """End the session of a request, under all of its ids."""
        session = self._find_session(self._read_id(request))
        if session is not None:
            self._drop_sessions(lambda other: other.family == session.family)

    def _drop_sessions(self, is_over: Callable[[_Session], bool]) -> None:
        self._sessions = {
            id_hash: session for id_hash, session in self._sessions.items() if not is_over(session)
        }

    # Forms

    def csrf_token(self, request: Request) -> str:
        """Return the CSRF token for the forms of this session."""
        sent = self._read_id(request) or _new_id(request)
        session = self._find_session(sent)
        family = sent if session is None else session.family
        return hmac.new(self._key, f"csrf {family}".encode(), hashlib.sha256).hexdigest()

    def check_csrf(self, request: Request, token: str) -> None:
        """Raise Refusal if a form does not come from a page of this session."""
        expected = self.csrf_token(request).encode()
        if self._read_id(request) is None or not hmac.compare_digest(expected, token.encode()):
            raise Refusal(
                403,
                "this form is from another session, or from before the server was restarted."
                " Nothing was done: go back, reload the page, and send it again.",
            )

    def _read_id(self, request: Request) -> str | None:
        """Return the id in the cookie of a request; None if it cannot be one of ours."""
        sent = request.cookies.get(self.cookie_name(request))
        return sent if sent is not None and 20 <= len(sent) <= 100 else None

    def cookie_name(self, request: Request) -> str:
        return "__Host-likewise" if self._secure(request) else "likewise"

    def _secure(self, request: Request) -> bool:
        return self._always_secure or request.url.scheme == "https"


def _new_id(request: Request) -> str:
    """Return an id for a request without one; always the same for one request."""
    fresh: str | None = getattr(request.state, "likewise_id", None)
    if fresh is None:
        fresh = request.state.likewise_id = secrets.token_urlsafe(32)
    return fresh


def _hash_id(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
