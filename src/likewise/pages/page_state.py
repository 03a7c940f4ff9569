"""A visit is one request to the pages: the viewer, the monitor, and what a screen needs.

visit.url("violations", model="v2")             an address of the same monitor
await visit.record_action("review", row=17)     an event of the ledger, before an action
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request

from likewise.pages.leases import Leases
from likewise.pages.live_parts import LiveUpdates
from likewise.pages.review_log import ReviewLog
from likewise.pages.running_tally import BackgroundTally, ComputationQueue
from likewise.pages.settings import PagesSettings
from likewise.pages.signing_in import Viewer
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service
from likewise.service.service_log import record_action


class PageState:
    """Holds what the pages remember about one monitor between requests, in memory."""

    def __init__(self, served: ServedMonitor) -> None:
        self.leases, self.reviews = Leases(), ReviewLog()
        self.tally = BackgroundTally(served)


@dataclass(frozen=True)
class Visit:
    """Says who asks for what, and gives access to what a screen needs."""

    request: Request
    service: Service
    settings: PagesSettings
    viewer: Viewer
    served: ServedMonitor
    live: LiveUpdates
    computations: ComputationQueue
    state: PageState
    is_still_allowed: Callable[[], bool]
    """Whether the viewer would be admitted again with the current tokens."""

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    def allows(self, scope: str) -> bool:
        """Tell whether the viewer has a scope for this monitor."""
        return self.viewer.allows(scope, self.served.name)

    def url(self, path: str, **query: Any) -> str:
        """Return an address of this monitor's pages; parameters that are None are left out."""
        return page_url(self.served.name, path, **query)

    async def record_action(self, what: str, **more: Any) -> None:
        """Record an action of the viewer in the ledger's chain, without values of people."""
        await self.served.run_in_turn(
            lambda: record_action(self.served, self.viewer.actor, what, **more)
        )

    async def record_look(self, screen: str, **more: Any) -> None:
        """Record that the viewer saw a person's data, if the settings say so."""
        if self.settings.record_looks and self.served.monitor.durable:
            await self.record_action("look", screen=screen, **more)


def page_url(monitor: str, path: str, **query: Any) -> str:
    """Return the address of a page; parameters that are None or empty are left out."""
    values = {name: value for name, value in query.items() if value is not None and value != ""}
    suffix = f"?{urlencode(values)}" if values else ""
    return f"/m/{quote(monitor, safe='')}/{quote(path)}{suffix}"
