"""The table [pages] of the settings: who may look at the pages, and what is written down of it.

[pages]
enabled = true
session_hours = 12
sessions = 1000
proxy_header = "X-Forwarded-User"        # a proxy in front says who it is
proxy_addresses = ["127.0.0.1", "::1"]   # and is one of these
record_looks = true                      # every look at a person's data is an event

[pages.roles]                            # of those whom the proxy names
"ana@example.org" = ["read", "review"]
"*" = ["read"]                           # everybody else whom it names
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any

from likewise.service.settings import SCOPES, ServiceSettings, made
from likewise.values.errors import BadRule

EVERYBODY = "*"
_HEADER = re.compile(r"[A-Za-z0-9-]+")


@dataclass(frozen=True)
class PagesSettings:
    """How the pages are served."""

    enabled: bool = True
    session_hours: float = 12.0
    """After so long one has to sign in again."""
    sessions: int = 1_000
    """Signed in at once; one more ends the oldest."""
    proxy_header: str | None = None
    """The header in which a proxy in front says who it is; it removes what clients put there."""
    proxy_addresses: tuple[str, ...] = ("127.0.0.1", "::1")
    """Where that header is believed from."""
    record_looks: bool = False
    """Whether every look at a person's data is an event of the ledger."""
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What those may do whom the proxy names; "*" for all others."""

    def __post_init__(self) -> None:
        if not self.session_hours > 0 or self.sessions < 1:
            raise BadRule("pages: session_hours and sessions have to be above 0")
        for address in self.proxy_addresses:
            try:
                ip_address(address)
            except ValueError:
                raise BadRule(
                    f"pages: proxy_addresses has {address!r}; expected addresses such as 127.0.0.1"
                ) from None
        if self.roles and self.proxy_header is None:
            raise BadRule("pages: roles are for those whom a proxy names; give proxy_header too")
        if self.proxy_header is not None and not self.roles:
            raise BadRule(
                "pages: proxy_header without roles: nobody could do anything. Say in [pages.roles]"
                ' what those may do whom it names, such as "*" = ["read"].'
            )
        for name, scopes in self.roles.items():
            unknown = [scope for scope in scopes if scope not in SCOPES]
            if unknown or not scopes:
                raise BadRule(
                    f"pages: the roles of {name!r} are {list(scopes)}; expected some of"
                    f" {', '.join(SCOPES)}"
                )

    def roles_of(self, name: str) -> tuple[str, ...]:
        """What somebody may do whom the proxy names."""
        return tuple(self.roles.get(name, self.roles.get(EVERYBODY, ())))


def pages_settings(settings: ServiceSettings) -> PagesSettings:
    """From the settings of the service."""
    told: dict[str, Any] = dict(settings.pages)
    roles = told.pop("roles", {})
    if not isinstance(roles, Mapping) or not all(
        isinstance(scopes, list) and all(isinstance(scope, str) for scope in scopes)
        for scopes in roles.values()
    ):
        raise BadRule('pages: roles: expected a table such as { "*" = ["read"] }')
    header = told.pop("proxy_header", None)
    if header is not None and not (isinstance(header, str) and _HEADER.fullmatch(header)):
        raise BadRule(
            f"pages: proxy_header is {header!r}; expected the name of a header",
            setting="proxy_header",
        )
    plain: PagesSettings = made(PagesSettings, "pages", told)
    by_name = {str(name): tuple(scopes) for name, scopes in roles.items()}
    return replace(plain, proxy_header=header, roles=by_name)
