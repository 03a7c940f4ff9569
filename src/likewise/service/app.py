"""The service as an ASGI application.

The routes through which decisions come are served right here, without a framework: they are called
thousands of times a second. All others are Starlette's, put together from the modules of routes/.

Invariant: every request is answered, in JSON if it is refused; nothing that a client sends makes
the server fail. If it fails all the same, that is logged, counted and answered with 500.
"""

import re
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router, compile_path

from likewise.errors import LikewiseError
from likewise.runtime.log import logger
from likewise.service.body_types import encode
from likewise.service.content_types import EXACT_BYTES, JSON, OPEN_OBJECT, media_of, write
from likewise.service.cross_site import CrossSiteCheck
from likewise.service.http_errors import Refusal, told
from likewise.service.metrics.metric_names import OTHER
from likewise.service.operations import Operation
from likewise.service.repeated_requests import INSTANCE, REQUEST, MaybeDone, Requests
from likewise.service.request_guard import (
    PRIVATE,
    AdmittedCall,
    AdmittedRequest,
    Answering,
    ASGIScope,
    Door,
    Gone,
    HotRoute,
    Receive,
    Send,
)
from likewise.service.routes import (
    administration,
    alert_status,
    decision_stream,
    decisions,
    event_intake,
    health,
    looking_back,
    metrics,
    openapi,
    remote_history,
    verdict_events,
)
from likewise.service.routes.openapi import description
from likewise.service.served_monitor import Hosted
from likewise.service.service import LongAnswer, Service

_MONITORS = "/v1/monitors/"
_TEMPLATE = "/v1/monitors/{name}/"
_JSON = (b"content-type", JSON.encode())
_EXACT = (b"content-type", EXACT_BYTES)
_BEARER = (b"www-authenticate", b"Bearer")
_REQUEST = REQUEST.encode()
_NO_QUERY: Mapping[str, str] = {}
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_UNCOUNTED = ("/healthz", "/readyz", "/metrics")
"""Whoever asks whether the server is well is answered also when it is full."""
MODULES: tuple[Any, ...] = (
    decisions,
    decision_stream,
    looking_back,
    verdict_events,
    administration,
    alert_status,
    event_intake,
    metrics,
    remote_history,
    openapi,
    health,
)


class App:
    """Serves the monitors of a service."""

    def __init__(self, service: Service, more: Sequence[Any] = ()) -> None:
        """more: further modules, with `routes` and `OPERATIONS`"""
        self.service = service
        self.door = Door(service)
        self._requests = Requests()
        self._instance = {INSTANCE: self._requests.instance}
        service.opened.append(self._forget_with)
        self._follow_settings()
        service.reloaded.append(self._follow_settings)
        self.operations = [one for module in (*MODULES, *more) for one in module.OPERATIONS]
        """All that can be asked."""
        self._hot = {
            one.path.removeprefix(_TEMPLATE): one.serves
            for one in self.operations
            if one.serves is not None
        }
        made = [self._route(one, one.call) for one in self.operations if one.call is not None]
        made.append(Route("/openapi.json", self._openapi))
        for module in more:
            made += module.routes(self)
        self._other = Router(made)
        self._methods = [(compile_path(one.path)[0], one.method) for one in self.operations]
        known = [one.path for one in self.operations] + [getattr(one, "path", "") for one in made]
        self._patterns = [(compile_path(path)[0], path) for path in dict.fromkeys(known)]

    def _forget_with(self, hosted: Hosted) -> None:
        """Drop what is kept of a monitor's answers whenever decisions of it are erased."""
        hosted.monitor.when_erased.append(lambda _: self._requests.forget(hosted.name))

    def _follow_settings(self) -> None:
        self._cross_site = CrossSiteCheck(self.service.settings)

    def _route(self, operation: Operation, call: Answering) -> Route:
        """Admit requests, have them answered, and write the answers."""

        async def answered(request: Request) -> Response:
            token = None
            if operation.scope is not None:
                name = request.path_params.get("name")
                token = self.door.admit(request.scope, operation.scope, name, operation.also)
            asked = AdmittedRequest(self.service, self.door, request, token)
            answer_it = self._once if operation.once else _answered
            answer = await answer_it(operation, call, asked)
            if isinstance(answer, Response):
                return answer
            return Response(answer, media_type=media_of(answer))

        route = Route(operation.path, answered, methods=[operation.method])
        if operation.any_slashes:
            pattern = route.path_regex.pattern.removesuffix("$")
            route.path_regex = re.compile(f"{pattern}/*$")
        return route

    async def _once(self, one: Operation, call: Answering, asked: AdmittedRequest) -> bytes:
        """Have a request answered that may come twice."""
        hosted = asked.hosted
        asked = replace(asked, content=await asked.body())
        do = partial(_answered, one, call, asked)
        header = asked.request.headers.get(REQUEST)
        again = do if one.idempotent or not hosted.monitor.durable else None
        return await self._requests.answer(hosted.name, header, do, if_unknown=again)

    async def _openapi(self, _: Request) -> Response:
        return Response(self._description, media_type="application/json")

    @cached_property
    def _description(self) -> bytes:
        return encode(description(self.operations))

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
        exact = EXACT_BYTES in headers.get(b"accept", b"")
        own = self._instance if exact or _REQUEST in headers else _NO_HEADERS
        try:
            self._cross_site.check(scope["method"], path, headers)
            if path.startswith(_MONITORS) and scope["method"] == "POST":
                name, _, verb = path[len(_MONITORS) :].partition("/")
                hot = self._hot.get(verb)
                if hot is not None:
                    route = f"{_TEMPLATE}{verb}"
                    await self._serve(hot, name, scope, headers, receive, send, own)
                    return
                if verb == "stream":
                    route = f"{_TEMPLATE}stream"
                    begun = _Begun(send)
                    await self._stream(name, scope, receive, begun)
                    return
            if path not in _UNCOUNTED:
                self.door.check_room()
            scope["app"] = self  # so that the router raises what it does not find
            begun = _Begun(send, own)
            await self._other(scope, receive, begun)
            if begun.status >= 400:
                self._refuse(begun.status, scope)
        except Gone:
            pass  # nobody reads an answer
        except (HTTPException, Refusal, LikewiseError) as error:
            await self._tell(error, scope, send, own)
        except Exception as error:
            logger.exception("a fault of likewise, while answering %s", path)
            service.refused["500"] += 1
            if begun is None or not begun.status:
                fault = f"a fault of likewise, please report it: {type(error).__name__}."
                await _answer(send, *told(Refusal(500, fault)), own)
        finally:
            service.under_way -= 1
            service.durations[route or self._route_of(path)].add(clock.perf_counter() - since)

    async def _serve(
        self,
        hot: HotRoute,
        name: str,
        scope: ASGIScope,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        send: Send,
        own: Mapping[str, str],
    ) -> None:
        hosted = None
        status, retry = 200, None
        try:
            self.door.check_room()
            self.door.admit_with(headers.get(b"authorization"), "observe", name)
            hosted = self.service.named(name)
            query = queries(scope)
            kind, accept = headers.get(b"content-type", b""), headers.get(b"accept", b"")
            body = await self.door.body_with(headers.get(b"content-length"), scope, receive)
            call = AdmittedCall(hosted, query, kind, accept, body)
            repeat = headers.get(_REQUEST)
            if repeat is None:
                body = await hot.answer(call)
            else:
                body = await self._serve_once(hot, call, repeat)
        except Refusal as error:
            if hosted is None:
                raise
            status, body, retry = told(error)
            hosted.counts.refused[str(status)] += 1
        except LikewiseError as error:  # which the monitor, or its queue, has counted
            status, body, retry = told(error)
        except MaybeDone as error:
            status, body, retry = told(error.cause)
        await _answer(send, status, body, retry, own)

    async def _serve_once(self, hot: HotRoute, call: AdmittedCall, repeat: bytes) -> bytes:
        again = hot.if_unknown if call.hosted.monitor.durable else hot.answer
        return await self._requests.answer(
            call.hosted.name,
            repeat.decode("latin-1"),
            partial(hot.answer, call),
            if_unknown=None if again is None else partial(again, call),
        )

    async def _stream(self, name: str, scope: ASGIScope, receive: Receive, send: Send) -> None:
        self.door.check_room()
        self.door.admit(scope, "observe", name)
        hosted = self.service.named(name)
        is_allowed = partial(self.door.still_allows, scope, "observe", name)
        with LongAnswer(self.service, is_allowed) as answer:
            await decision_stream.stream(
                self.service, hosted, queries(scope), receive, send, answer
            )

    async def _tell(
        self,
        error: HTTPException | Refusal | LikewiseError,
        scope: ASGIScope,
        send: Send,
        own: Mapping[str, str],
    ) -> None:
        """Answer with why it is refused, and count it."""
        headers: Mapping[str, str] = _NO_HEADERS
        if isinstance(error, HTTPException):
            error, headers = self._no_route(error, scope)
        status, body, retry = told(error)
        self._refuse(status, scope)
        await _answer(send, status, body, retry, {**headers, **own})

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

    def _no_route(
        self, error: HTTPException, scope: ASGIScope
    ) -> tuple[Refusal, Mapping[str, str]]:
        """Say what is wrong with a path or a method; and the headers of the answer."""
        status, headers = error.status_code, dict(error.headers or {})
        path, method = scope["path"], scope["method"]
        if status in (404, 405):
            allowed = {each for pattern, each in self._methods if pattern.match(path)}
            allowed |= set(headers.get("Allow", "").replace(",", " ").split())
            if allowed and method not in allowed:  # else a page that is not there
                status, headers["Allow"] = 405, ", ".join(sorted(allowed))
        why = {
            404: f"there is no route {path[:200]!r}; GET /openapi.json lists them.",
            405: f"{path[:200]!r} does not take {method}; it takes {headers.get('Allow')}.",
        }
        return Refusal(status, why.get(status, error.detail)), headers


async def _answered(one: Operation, call: Answering, asked: AdmittedRequest) -> Any:
    """Return an answer as bytes, or the Response that a function makes itself."""
    answer = await call(asked)
    if isinstance(answer, Response):
        return answer
    return write(asked.accept if one.exact else b"", answer)


class _Begun:
    """Passes an answer on, with the headers that all have.

    own     further headers of this answer
    status  of the answer; 0 until it has begun
    """

    def __init__(self, send: Send, own: Mapping[str, str] = _NO_HEADERS) -> None:
        self._send = send
        self._own = _header_pairs(own)
        self.status = 0

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"]
            known = {name for name, _ in headers}
            more = (*PRIVATE, *self._own, *((_BEARER,) if self.status == 401 else ()))
            headers += [one for one in more if one[0] not in known]
        await self._send(message)


def queries(scope: ASGIScope) -> Mapping[str, str]:
    """The parameters of a query; of one that is given twice, the last."""
    if not scope["query_string"]:
        return _NO_QUERY
    return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))


def _header_pairs(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


async def _answer(
    send: Send,
    status: int,
    body: bytes,
    retry: float | None,
    more: Mapping[str, str] = _NO_HEADERS,
) -> None:
    media = _JSON if body[0] == OPEN_OBJECT else _EXACT
    headers = [media, (b"content-length", b"%d" % len(body)), *PRIVATE]
    if more:
        headers += _header_pairs(more)
    if retry is not None:
        headers.append((b"retry-after", b"%d" % max(1, round(retry))))
    if status == 401:
        headers.append(_BEARER)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
