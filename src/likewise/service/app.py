"""The service as an ASGI application.

The routes through which decisions come are served right here, without a framework: they are called
thousands of times a second. All others are Starlette's, put together from the modules of routes/.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from likewise.service.calls import Call, Hot
from likewise.service.door import ASGIScope, Door, Gone, Receive, Send, header
from likewise.service.refusals import Refused, told
from likewise.service.routes import administration, decisions, health, history, remote
from likewise.service.service import Service
from likewise.values.errors import LikewiseError

_MONITORS = "/v1/monitors/"
_JSON = (b"content-type", b"application/json")


class App:
    """Serves the monitors of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.door = Door(service)
        self._hot: dict[str, Hot] = {
            "observe": decisions.observe,
            "batch": decisions.batch,
            "check": decisions.check,
        }
        self._other = Starlette(
            routes=[
                *_routes(decisions, self),
                *_routes(history, self),
                *_routes(administration, self),
                *_routes(remote, self),
                *_routes(health, self),
            ],
            exception_handlers={LikewiseError: _refused, Refused: _refused},
        )

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            path: str = scope["path"]
            if path.startswith(_MONITORS) and scope["method"] == "POST":
                name, _, verb = path[len(_MONITORS) :].partition("/")
                hot = self._hot.get(verb)
                if hot is not None:
                    await self._serve(hot, name, scope, receive, send)
                    return
            with self._counted():
                await self._other(scope, receive, send)
        elif kind == "lifespan":
            await self._other(scope, receive, send)

    async def _serve(
        self, hot: Hot, name: str, scope: ASGIScope, receive: Receive, send: Send
    ) -> None:
        status, retry = 200, None
        hosted = None
        with self._counted():
            try:
                self.door.check_room()
                token = self.door.admit(scope, "observe", name)
                hosted = self.service.named(name)
                query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
                kind = (header(scope, b"content-type") or b"").decode("latin-1")
                body = await self.door.body(scope, receive)
                body = await hot(Call(hosted, token, query, kind, body))
            except Refused as error:
                if hosted is not None:
                    hosted.counts.refused[str(error.status)] += 1
                status, body, retry = told(error)
            except LikewiseError as error:
                status, body, retry = told(error)
            except Gone:
                return
            headers = [_JSON, (b"content-length", b"%d" % len(body))]
            if retry is not None:
                headers.append((b"retry-after", b"%d" % max(1, round(retry))))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self.service.under_way += 1
        try:
            yield
        finally:
            self.service.under_way -= 1


def _routes(module: Any, app: App) -> list[BaseRoute]:
    found: list[BaseRoute] = module.routes(app)
    return found


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, LikewiseError | Refused)
    status, body, retry = told(error)
    headers = {} if retry is None else {"retry-after": str(max(1, round(retry)))}
    return Response(body, status, headers, "application/json")


@contextlib.asynccontextmanager
async def lifespan(service: Service) -> AsyncIterator[None]:
    """Around everything that is answered."""
    try:
        yield
    finally:
        await service.drain(service.settings.server.drain_seconds)
