"""Who looks at a page, and whether a form comes from one of our pages.

- **A proxy in front** names them in a header, which is believed from its address alone.
- **A token** of the service is given once, in the form at /sign-in; from then on a cookie says it.
- **Without tokens and without a proxy**, which only a server on loopback may do without, everybody
  is "local" and may do everything (service/cross_site.py keeps pages of other sites out).

The cookie holds a random id that changes every quarter of an hour. Of an id only the hash is
kept, in memory: a restart of the server signs everybody out.

Every form carries a token of its own: a keyed hash of what stays the same in a session, with a key
that this process made. A page of another site cannot know it.

Bound: `PagesSettings.sessions` sessions; each ends after `session_hours`.
"""

import hashlib
import hmac
import secrets
import time as clock
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from likewise.pages.settings import PagesSettings
from likewise.service.admin_log import Actor
from likewise.service.http_errors import Refusal
from likewise.service.service import Service
from likewise.service.settings import SCOPES, Token, is_allowed

LOCAL = "local"
CSRF_FIELD = "csrf"
_ROTATE_SECONDS = 900.0
_GRACE_SECONDS = 60.0  # for requests that were sent with the id before


@dataclass(frozen=True)
class Viewer:
    """Somebody who looks at the pages."""

    name: str
    scopes: tuple[str, ...]
    monitors: tuple[str, ...] | None
    """All of them if None."""
    csrf: str
    """Which every form has to bring along."""
    signed_in: bool = False
    """With a token, so that there is something to sign out of."""
    verified: bool = True
    """Whether a token or a proxy says the name."""

    @property
    def actor(self) -> Actor:
        """Who acts, as the ledger's chain records it."""
        return Actor(self.name, self.verified)

    def allows(self, scope: str, monitor: str | None) -> bool:
        """Whether they may do that."""
        return is_allowed(self.scopes, self.monitors, scope, monitor)


@dataclass
class _Session:
    """Of somebody who gave a token."""

    token: Token
    family: str
    """Stays when the id changes."""
    expires_at: float
    rotated_at: float
    id_expires_at: float | None = None
    """When this id ends, if there is a newer one."""


class PageAuthenticator:
    """All who are signed in, and how somebody gets there."""

    def __init__(
        self,
        service: Service,
        settings: PagesSettings,
        now: Callable[[], float] = clock.monotonic,
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
        """Who asks; None if they have to sign in first. Refusal if they cannot be let in."""
        csrf = self.csrf_token(request)
        named = self._named_by_proxy(request)
        if named is not None:
            scopes = self._settings.roles_of(named)
            if not scopes:
                raise Refusal(403, f"{named[:100]!r} has no role in [pages.roles].")
            return Viewer(named, scopes, None, csrf)
        if not self._service.tokens:
            if self._settings.proxy_header is not None:
                raise Refusal(403, "the proxy in front names nobody.")
            return Viewer(LOCAL, SCOPES, None, csrf, verified=False)
        token = self._service.tokens.find(
            request.headers.get("authorization", "").encode("latin-1")
        )
        if token is not None:
            return Viewer(token.name, token.scopes, token.monitors, csrf)
        session = self._session(_read_id(request, self.cookie_name(request)))
        if session is None:
            return None
        token = session.token
        return Viewer(token.name, token.scopes, token.monitors, csrf, signed_in=True)

    def _named_by_proxy(self, request: Request) -> str | None:
        header = self._settings.proxy_header
        if header is None:
            return None
        said = request.headers.getlist(header)
        if len(said) != 1 or not said[0].strip():
            return None
        peer = request.scope.get("peer", request.scope.get("client"))
        if peer is not None and peer[0] not in self._settings.proxy_addresses:
            return None  # no peer: a socket of the file system, which says who may connect
        name: str = said[0].strip()
        return name[:200]

    # Sessions

    def sign_in(self, request: Request, token_text: str, response: Response) -> Token:
        """Begin a session, whose cookie the response carries; Refusal if the token is not known."""
        token = self._service.tokens.find(
            b"Bearer " + token_text.strip().encode("utf-8", "replace")
        )
        if token is None:
            raise Refusal(401, "this token is not known.")
        now = self._now()
        self._forget_ended(now)
        while len(self._sessions) >= self._settings.sessions:
            del self._sessions[next(iter(self._sessions))]
        self._end_session(request)
        ends = now + self._settings.session_hours * 3600
        session = _Session(token, secrets.token_urlsafe(32), ends, now)
        self._start_session(request, response, session)
        return token

    def sign_out(self, request: Request, response: Response) -> None:
        self._end_session(request)
        response.delete_cookie(self.cookie_name(request), path="/")

    def refresh_cookie(self, request: Request, response: Response) -> None:
        """Have the answer to a look carry a cookie: a first one, or one that is new in time."""
        name = self.cookie_name(request)
        sent = _read_id(request, name)
        session = self._session(sent)
        now = self._now()
        if session is None:
            if sent is None:
                self._set_cookie(request, response, _new_id(request))
        elif session.id_expires_at is None and now - session.rotated_at >= _ROTATE_SECONDS:
            session.id_expires_at = now + _GRACE_SECONDS
            after = _Session(session.token, session.family, session.expires_at, now)
            self._start_session(request, response, after)

    def _start_session(self, request: Request, response: Response, session: _Session) -> None:
        fresh = secrets.token_urlsafe(32)
        self._sessions[_hash_id(fresh)] = session
        self._set_cookie(request, response, fresh)

    def _set_cookie(self, request: Request, response: Response, value: str) -> None:
        response.set_cookie(
            self.cookie_name(request),
            value,
            path="/",
            secure=self._secure(request),
            httponly=True,
            samesite="strict",
        )

    def _session(self, sent: str | None) -> _Session | None:
        session = None if sent is None else self._sessions.get(_hash_id(sent))
        if session is None:
            return None
        ends = (
            session.expires_at
            if session.id_expires_at is None
            else min(session.expires_at, session.id_expires_at)
        )
        token = self._service.tokens.find_current(session.token)  # None if it was revoked
        if token is None or self._now() >= ends:
            return None
        session.token = token
        return session

    def _end_session(self, request: Request) -> None:
        """End the session of a request, under all of its ids."""
        session = self._session(_read_id(request, self.cookie_name(request)))
        if session is not None:
            for place in [k for k, s in self._sessions.items() if s.family == session.family]:
                del self._sessions[place]

    def _forget_ended(self, now: float) -> None:
        ended = [
            place
            for place, one in self._sessions.items()
            if now >= one.expires_at or (one.id_expires_at is not None and now >= one.id_expires_at)
        ]
        for place in ended:
            del self._sessions[place]

    # Forms

    def csrf_token(self, request: Request) -> str:
        """What a form of this session carries."""
        sent = _read_id(request, self.cookie_name(request)) or _new_id(request)
        session = self._session(sent)
        family = sent if session is None else session.family
        return hmac.new(self._key, f"csrf {family}".encode(), hashlib.sha256).hexdigest()

    def check_csrf(self, request: Request, token: str) -> None:
        """Refusal if a form does not come from a page of this session."""
        known = _read_id(request, self.cookie_name(request)) is not None
        if not known or not hmac.compare_digest(self.csrf_token(request).encode(), token.encode()):
            raise Refusal(
                403,
                "this form is from another session, or from before the server was started again."
                " Nothing was done: go back, load the page again, and send it once more.",
            )

    def cookie_name(self, request: Request) -> str:
        return "__Host-likewise" if self._secure(request) else "likewise"

    def _secure(self, request: Request) -> bool:
        return self._always_secure or request.url.scheme == "https"


def _read_id(request: Request, name: str) -> str | None:
    """The id that a request sends; nothing that is longer than one of ours."""
    sent = request.cookies.get(name)
    return sent if sent is not None and 20 <= len(sent) <= 100 else None


def _new_id(request: Request) -> str:
    """An id for somebody without one; the same wherever one request asks."""
    fresh: str | None = getattr(request.state, "likewise_id", None)
    if fresh is None:
        fresh = request.state.likewise_id = secrets.token_urlsafe(32)
    return fresh


def _hash_id(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
