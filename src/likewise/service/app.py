"""The service as an ASGI application.

The routes through which decisions come are served right here, without a framework: they are called
thousands of times a second. All others are Starlette's, put together from the modules of routes/.

Invariant: every request is answered, in JSON if it is refused; nothing that a client sends makes
the server fail. If it fails all the same, that is logged, counted and answered with 500.
"""

import time as clock
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, compile_path

from likewise.runtime.log import logger
from likewise.service.calls import AdmittedCall, Hot
from likewise.service.cross_site import CrossSiteCheck
from likewise.service.door import PRIVATE, ASGIScope, Door, Gone, Receive, Send
from likewise.service.metrics.names import OTHER
from likewise.service.operations import Operation
from likewise.service.refusals import Refusal, told
from likewise.service.routes import (
    administration,
    alerts,
    cloudevents,
    decisions,
    events,
    health,
    history,
    metrics,
    openapi,
    remote,
    streams,
)
from likewise.service.service import Service
from likewise.values.errors import LikewiseError

_MONITORS = "/v1/monitors/"
_TEMPLATE = "/v1/monitors/{name}/"
_JSON = (b"content-type", b"application/json")
_BEARER = (b"www-authenticate", b"Bearer")
_NO_QUERY: Mapping[str, str] = {}
_UNCOUNTED = ("/healthz", "/readyz", "/metrics")
"""Whoever asks whether the server is well is answered also when it is full."""
MODULES: tuple[ModuleType, ...] = (
    decisions,
    streams,
    history,
    events,
    administration,
    alerts,
    cloudevents,
    health,
    metrics,
    remote,
    openapi,
)


class App:
    """Serves the monitors of a service."""

    def __init__(self, service: Service, more: Sequence[Any] = ()) -> None:
        """more: further modules like those of routes/, with `routes` and `OPERATIONS`"""
        self.service = service
        self.door = Door(service)
        self._cross_site = CrossSiteCheck(service.settings)
        self._modules: tuple[Any, ...] = (*MODULES, *more)
        self._hot: dict[str, Hot] = {
            "observe": decisions.observe,
            "batch": decisions.batch,
            "check": decisions.check,
        }
        found = [route for module in self._modules for route in _routes(module, self)]
        handlers: Any = {
            LikewiseError: self._refused,
            Refusal: self._refused,
            Gone: self._gone,
            HTTPException: self._no_route,
            Exception: self._failed,
        }
        self._other = Starlette(routes=found, exception_handlers=handlers)
        self._methods = [(compile_path(one.path)[0], one.method) for one in self.operations]
        known = [one.path for one in self.operations] + [getattr(one, "path", "") for one in found]
        self._patterns = [(compile_path(path)[0], path) for path in dict.fromkeys(known)]

    @property
    def operations(self) -> list[Operation]:
        """All that can be asked."""
        return [one for module in self._modules for one in getattr(module, "OPERATIONS", ())]

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind != "http":
            if kind == "lifespan":
                await self._other(scope, receive, send)
            return
        path: str = scope["path"]
        headers = dict(scope["headers"])  # of one that is given twice, the last
        service = self.service
        service.under_way += 1
        begun, route, since = None, "", clock.perf_counter()
        try:
            self._cross_site.check(scope["method"], path, headers)
            if path.startswith(_MONITORS) and scope["method"] == "POST":
                name, _, verb = path[len(_MONITORS) :].partition("/")
                hot = self._hot.get(verb)
                if hot is not None:
                    route = f"{_TEMPLATE}{verb}"
                    await self._serve(hot, name, scope, headers, receive, send)
                    return
                if verb == "stream":
                    route = f"{_TEMPLATE}stream"
                    await self._stream(name, scope, receive, send)
                    return
            if path not in _UNCOUNTED:
                self.door.check_room()
            begun = _Begun(send)
            await self._other(scope, receive, begun)
            if begun.status >= 400:
                self._refuse(begun.status, scope)
        except Refusal as error:
            await self._tell(error, scope, send)
        except Exception as error:
            logger.exception("a fault of likewise, while answering %s", path)
            service.refused["500"] += 1
            if begun is not None and not begun.status:
                await _answer(send, 500, _fault(error), None)
        finally:
            service.under_way -= 1
            service.durations[route or self._route_of(path)].add(clock.perf_counter() - since)

    async def _serve(
        self,
        hot: Hot,
        name: str,
        scope: ASGIScope,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        send: Send,
    ) -> None:
        hosted = None
        status, retry = 200, None
        try:
            self.door.check_room()
            token = self.door.admit_with(headers.get(b"authorization"), "observe", name)
            hosted = self.service.named(name)
            query = queries(scope)
            kind = headers.get(b"content-type", b"")
            body = await self.door.body_with(headers.get(b"content-length"), scope, receive)
            body = await hot(AdmittedCall(hosted, token, query, kind, body))
        except Refusal as error:
            status, body, retry = told(error)
            if hosted is None:
                self._refuse(status, scope)
            else:
                hosted.counts.refused[str(status)] += 1
        except LikewiseError as error:  # which the monitor, or its queue, has counted
            status, body, retry = told(error)
        except Gone:
            return
        except Exception as error:
            logger.exception("a fault of likewise, while answering %s", scope["path"])
            self.service.refused["500"] += 1
            status, body = 500, _fault(error)
        await _answer(send, status, body, retry)

    async def _stream(self, name: str, scope: ASGIScope, receive: Receive, send: Send) -> None:
        self.door.check_room()
        self.door.admit(scope, "observe", name)
        hosted = self.service.named(name)
        await streams.stream(self.service, hosted, queries(scope), receive, send)

    async def _tell(self, error: Refusal, scope: ASGIScope, send: Send) -> None:
        status, body, retry = told(error)
        self._refuse(status, scope)
        await _answer(send, status, body, retry)

    def _refuse(self, status: int, scope: ASGIScope) -> None:
        """Count a request that is refused, by who sent it and the route, never what it sent."""
        self.service.refused[str(status)] += 1
        if status not in (401, 403):
            return
        client = scope.get("client")
        peer = "(socket)" if client is None else str(client[0])
        self.service.deny(status, peer, f"{scope['method'][:10]} {self._route_of(scope['path'])}")

    def _route_of(self, path: str) -> str:
        """Return the template of the route that a path belongs to."""
        return next((one for pattern, one in self._patterns if pattern.match(path)), OTHER)

    async def _refused(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, LikewiseError | Refusal)
        status, body, retry = told(error)
        headers = {} if retry is None else {"retry-after": str(max(1, round(retry)))}
        return Response(body, status, headers, "application/json")

    async def _failed(self, _: Request, error: Exception) -> Response:
        return Response(_fault(error), 500, media_type="application/json")

    async def _gone(self, _: Request, __: Exception) -> Response:
        return Response(b"", 400)  # nobody reads it

    async def _no_route(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status, headers = error.status_code, dict(error.headers or {})
        path, method = request.scope["path"], request.method
        if status in (404, 405):
            allowed = {each for pattern, each in self._methods if pattern.match(path)}
            allowed |= set(headers.get("Allow", "").replace(",", " ").split())
            if allowed and method not in allowed:  # else a page that is not there
                status, headers["Allow"] = 405, ", ".join(sorted(allowed))
        why = {
            404: f"there is no route {path[:200]!r}; GET /openapi.json lists them.",
            405: f"{path[:200]!r} does not take {method}; it takes {headers.get('Allow')}.",
        }
        response = await self._refused(request, Refusal(status, why.get(status, error.detail)))
        response.headers.update(headers)
        return response


class _Begun:
    """Passes an answer on, with the headers that all have.

    status  of the answer; 0 until it has begun
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"]
            known = {name for name, _ in headers}
            more = (*PRIVATE, _BEARER) if self.status == 401 else PRIVATE
            headers += [one for one in more if one[0] not in known]
        await self._send(message)


def queries(scope: ASGIScope) -> Mapping[str, str]:
    """The parameters of a query; of one that is given twice, the last."""
    if not scope["query_string"]:
        return _NO_QUERY
    return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))


async def _answer(send: Send, status: int, body: bytes, retry: float | None) -> None:
    headers = [_JSON, (b"content-length", b"%d" % len(body)), *PRIVATE]
    if retry is not None:
        headers.append((b"retry-after", b"%d" % max(1, round(retry))))
    if status == 401:
        headers.append(_BEARER)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _fault(error: Exception) -> bytes:
    """What is answered if likewise itself fails."""
    why = Refusal(500, f"a fault of likewise, please report it: {type(error).__name__}.")
    return told(why)[1]


def _routes(module: Any, app: App) -> list[BaseRoute]:
    found: list[BaseRoute] = module.routes(app)
    return found
