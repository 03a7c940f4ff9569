"""Looking back: which monitors there are, their rules, verdicts and decisions."""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.service.wire import encode

if TYPE_CHECKING:
    from likewise.service.app import App


def routes(app: "App") -> list[BaseRoute]:
    service, door = app.service, app.door

    async def monitors(request: Request) -> Response:
        token = door.admit(request.scope, "read")
        names = [
            name
            for name in service.monitors
            if token is None or token.monitors is None or name in token.monitors
        ]
        return Response(encode({"monitors": names}), media_type="application/json")

    return [Route("/v1/monitors", monitors)]
