"""The table [pages] of the settings says who may see the pages, and whether that is recorded.

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
from ipaddress import ip_address
from pathlib import Path

from msgspec import field

from likewise.errors import BadRule
from likewise.service.settings import ServiceSettings, check_scopes
from likewise.service.toml_tables import Count, Positive, SettingsTable, read_table

EVERYBODY = "*"
_HEADER = re.compile(r"[A-Za-z0-9-]+")


class PagesSettings(SettingsTable, frozen=True):
    """Settings of the pages."""

    enabled: bool = True
    session_hours: Positive = 12.0
    """Hours after which people have to sign in again."""
    sessions: Count = 1_000
    """The most sessions at once; a further one ends the oldest."""
    proxy_header: str | None = None
    """The header in which a proxy names the user; the proxy must remove it from client requests."""
    proxy_addresses: tuple[str, ...] = ("127.0.0.1", "::1")
    """Addresses of proxies whose header is trusted."""
    record_looks: bool = False
    """Whether every view of a person's data is an event of the ledger."""
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Scopes of the users whom the proxy names; "*" for all others."""

    def __post_init__(self) -> None:
        for address in self.proxy_addresses:
            try:
                ip_address(address)
            except ValueError:
                raise BadRule(
                    f"proxy_addresses has {address!r}; expected addresses such as 127.0.0.1",
                    setting="proxy_addresses",
                ) from None
        if self.proxy_header is not None and not _HEADER.fullmatch(self.proxy_header):
            raise BadRule(
                f"proxy_header is {self.proxy_header!r}; expected the name of a header",
                setting="proxy_header",
            )
        if self.roles and self.proxy_header is None:
            raise BadRule("roles are for users whom a proxy names; give proxy_header too")
        if self.proxy_header is not None and not self.roles:
            raise BadRule(
                "proxy_header without roles: nobody could do anything. Say in [pages.roles]"
                ' what its users may do, such as "*" = ["read"].'
            )
        for name, scopes in self.roles.items():
            check_scopes(f"the roles of {name!r}", scopes)

    def roles_of(self, name: str) -> tuple[str, ...]:
        """Return the scopes of a user whom the proxy names."""
        return self.roles.get(name, self.roles.get(EVERYBODY, ()))


def read_pages_settings(settings: ServiceSettings) -> PagesSettings:
    """Read the table [pages]."""
    return read_table(PagesSettings, settings.pages, Path(), "pages")
