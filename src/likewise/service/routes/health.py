"""Is it alive, can it be asked?"""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.service.wire import encode

if TYPE_CHECKING:
    from likewise.service.app import App


def routes(app: "App") -> list[BaseRoute]:
    service = app.service

    async def alive(_: Request) -> Response:
        return Response(b'{"alive":true}', media_type="application/json")

    async def ready(_: Request) -> Response:
        body = encode({"ready": service.ready})
        return Response(body, 200 if service.ready else 503, media_type="application/json")

    return [Route("/healthz", alive), Route("/readyz", ready)]
