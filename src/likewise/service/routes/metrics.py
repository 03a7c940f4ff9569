"""For Prometheus: what the service has counted."""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.service.metrics.prometheus import page
from likewise.service.metrics.reading import Readings
from likewise.service.metrics.samples import all_samples
from likewise.service.operations import Operation

if TYPE_CHECKING:
    from likewise.service.app import App

OPERATIONS = [
    Operation("GET", "/metrics", "read", "Counts, for Prometheus", media="text/plain"),
]


def routes(app: "App") -> list[BaseRoute]:
    service, door = app.service, app.door
    readings = Readings()

    async def metrics(request: Request) -> Response:
        token = door.admit(request.scope, "read")

        def allows(name: str) -> bool:
            return token is None or token.allows("read", name)

        seen = await all_samples(service, readings, allows)
        body, kind = page(seen, service.settings.labels, request.headers.get("accept", ""))
        return Response(body, headers={"content-type": kind})

    return [Route("/metrics", metrics)]
