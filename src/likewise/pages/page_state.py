"""One look at the pages: who looks, at which monitor, and what a screen needs to answer.

visit.url("violations", model="v2")     an address of the same monitor
await visit.acted("review", row=17)     an event of the ledger, before something is done
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request

from likewise.pages.computations import ComputationQueue
from likewise.pages.leases import Leases
from likewise.pages.live_parts import LiveUpdates
from likewise.pages.review_log import ReviewLog
from likewise.pages.running_tally import BackgroundTally
from likewise.pages.settings import PagesSettings
from likewise.pages.signing_in import Viewer
from likewise.service.admin_log import record_action
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service


class PageState:
    """What the pages remember about one monitor between requests, in memory."""

    def __init__(self, hosted: ServedMonitor) -> None:
        self.leases, self.reviews = Leases(), ReviewLog()
        self.tally = BackgroundTally(hosted)


@dataclass(frozen=True)
class Visit:
    """Who asks for what."""

    request: Request
    service: Service
    settings: PagesSettings
    viewer: Viewer
    hosted: ServedMonitor
    live: LiveUpdates
    computations: ComputationQueue
    state: PageState
    is_still_allowed: Callable[[], bool]
    """Whether the viewer would be admitted again, with the tokens of now."""

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    def allows(self, scope: str) -> bool:
        """Whether the viewer may do that with this monitor."""
        return self.viewer.allows(scope, self.hosted.name)

    def url(self, path: str, **query: Any) -> str:
        """An address of this monitor's pages; what is None is left out."""
        return page_url(self.hosted.name, path, **query)

    async def record_action(self, what: str, **more: Any) -> None:
        """Have the ledger's chain say that the viewer asks for something; no values of people."""
        await self.hosted.run_in_turn(
            lambda: record_action(self.hosted, self.viewer.actor, what, **more)
        )

    async def record_look(self, screen: str, **more: Any) -> None:
        """The same of a look at a person's data, where the settings say so."""
        if self.settings.record_looks and self.hosted.monitor.durable:
            await self.record_action("look", screen=screen, **more)


def page_url(monitor: str, path: str, **query: Any) -> str:
    """Where a page of a monitor is."""
    given = {name: value for name, value in query.items() if value is not None and value != ""}
    asked = f"?{urlencode(given)}" if given else ""
    return f"/m/{quote(monitor, safe='')}/{quote(path)}{asked}"
