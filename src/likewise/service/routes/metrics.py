"""For Prometheus: what the service has counted."""

from typing import TYPE_CHECKING

from starlette.routing import BaseRoute

if TYPE_CHECKING:
    from likewise.service.app import App


def routes(_: "App") -> list[BaseRoute]:
    return []
