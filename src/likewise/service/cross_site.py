"""Refuses requests that a page of another site makes a browser send; programs are not affected.

Host: a server without tokens answers only under its own names, against DNS rebinding (with tokens a
page has none; a Unix socket is out of a browser's reach). Sec-Fetch-Site, or else Origin: only
pages of this origin may ask; links may open a page, but not in a frame. Content-Type of changes:
none that browsers send without a preflight; our forms carry a CSRF token (pages/signing_in.py).
"""

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from likewise.service.http_errors import Refusal
from likewise.service.settings import ServiceSettings

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


class CrossSiteCheck:
    """Checks requests against the host names of a server."""

    def __init__(self, settings: ServiceSettings) -> None:
        server = settings.server
        self._any_host = bool(settings.tokens) or server.uds is not None
        self._hosts = {name.lower() for name in server.hosts}
        self._names = {server.host.lower(), "localhost"} | self._hosts
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
        if name in self._names:
            return True
        try:
            return ip_address(name).is_loopback
        except ValueError:
            return False

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
