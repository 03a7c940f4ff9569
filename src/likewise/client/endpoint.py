"""Says where a monitor of a service is: the arguments of `lw.connect`, for both kinds of client."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote, urlsplit

from likewise.errors import BadRule
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE
from likewise.version import __version__

TIMEOUT, RETRIES = 30.0, 8


@dataclass(frozen=True)
class Endpoint:
    """Names a monitor of a service, and says how it is asked.

    url         of the service, such as https://likewise.example:8800; or http+unix:///run/lw.sock
    uds         a socket of the file system, instead of the host of the url
    token       the secret that `likewise token` made
    timeout     seconds that one attempt may take
    retries     how often a request that was not answered is sent again
    witnesses   how many of each verdict are wanted, the nearest; all of them if None
    make_keys   whether decisions without a key are given one
    """

    url: str
    monitor: str = "default"
    token: str | None = None
    timeout: float = TIMEOUT
    retries: int = RETRIES
    uds: str | os.PathLike[str] | None = None
    witnesses: int | None = None
    make_keys: bool = False

    def __post_init__(self) -> None:
        for package in ("httpx2", "msgspec"):
            if find_spec(package) is None:
                raise BadRule(
                    f"a client needs the package {package}: pip install '.[client]' in the clone of"
                    " likewise"
                )
        parts = urlsplit(self.url)
        if parts.scheme == "http+unix" and parts.path and not parts.netloc:
            object.__setattr__(self, "uds", parts.path)
        elif parts.scheme not in ("http", "https") or not parts.netloc:
            raise BadRule(
                f"the url is {self.url!r}; expected one such as https://likewise.example:8800, or"
                " http+unix:///run/likewise.sock"
            )
        if parts.query or parts.fragment:
            raise BadRule(f"the url is {self.url!r}; expected none with ? or #")
        if not self.timeout > 0 or self.retries < 0:
            raise BadRule(
                f"timeout is {self.timeout!r} and retries {self.retries!r}; expected seconds above"
                " 0, and a number from 0",
                setting="timeout",
            )

    @property
    def monitor_url(self) -> str:
        """The url of the monitor, to which the paths of its routes are added."""
        is_file = self.url.startswith("http+unix:")
        root = "http://localhost" if is_file else self.url.rstrip("/")
        return f"{root}/v1/monitors/{quote(self.monitor, safe='')}"

    def url_of(self, path: str, *, with_witnesses: bool) -> str:
        """Return the url of a route of the monitor.

        with_witnesses  whether its answer names witnesses
        """
        limited = with_witnesses and self.witnesses is not None
        return f"{self.monitor_url}{path}" + f"?witnesses={self.witnesses}" * limited

    def http_settings(self, transport: Any) -> dict[str, Any]:
        """Return the settings of httpx2's client; `transport` is the class that takes a socket."""
        import httpx2

        headers = {
            "accept": EXACT_CONTENT_TYPE,
            "accept-encoding": "identity",  # what travels is mostly numbers
            "user-agent": f"likewise/{__version__}",
        }
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        settings: dict[str, Any] = {
            "headers": headers,
            "timeout": httpx2.Timeout(self.timeout, connect=min(self.timeout, 5.0)),
        }
        if self.uds is not None:
            settings["transport"] = transport(uds=os.fspath(self.uds))
        return settings
