"""The service as an ASGI application.

Hot routes, through which decisions come thousands of times a second, are served here without a
framework. All others are Starlette routes, made from the modules of routes/.
Invariant: every request is answered, in JSON if it is refused, whatever a client sends; a fault of
ours is logged, counted and answered with 500.
"""

import re
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router, compile_path

from likewise.errors import LikewiseError
from likewise.runtime.log import logger
from likewise.service.body_types import encode
from likewise.service.content_types import (
    EXACT_BYTES,
    JSON,
    OPEN_OBJECT,
    encode_answer,
    media_type_of,
)
from likewise.service.http_errors import Refusal, http_error
from likewise.service.monitor_counts import OTHER
from likewise.service.operations import Operation
from likewise.service.repeated_requests import (
    INSTANCE_HEADER,
    REQUEST_HEADER,
    MaybeDone,
    RepeatedRequests,
)
from likewise.service.request_guard import (
    PRIVATE,
    AdmittedCall,
    AdmittedRequest,
    ASGIScope,
    ClientDisconnected,
    CrossSiteCheck,
    Receive,
    RequestGuard,
    RequestHandler,
    Send,
    find_header,
)
from likewise.service.routes import (
    administration,
    alert_status,
    case_lookup,
    decision_stream,
    decisions,
    event_intake,
    health,
    looking_back,
    openapi,
    past_lookups,
    verdict_events,
)
from likewise.service.routes.openapi import describe_api
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import LongAnswer, Service

_MONITORS = "/v1/monitors/"
_TEMPLATE = "/v1/monitors/{name}/"
_JSON = (b"content-type", JSON.encode())
_EXACT = (b"content-type", EXACT_BYTES)
_BEARER = (b"www-authenticate", b"Bearer")
_REQUEST = REQUEST_HEADER.encode()
_NO_QUERY: Mapping[str, str] = {}
_Headers = Sequence[tuple[bytes, bytes]]
_ANSWERED_WHEN_FULL = ("/healthz", "/readyz", "/metrics")
"""Monitoring is answered even when the server is full."""
MODULES: tuple[Any, ...] = (
    decisions,
    decision_stream,
    case_lookup,
    past_lookups,
    looking_back,
    verdict_events,
    administration,
    alert_status,
    event_intake,
    openapi,
    health,
)


class App:
    """Answers requests to the monitors of a service."""

    def __init__(self, service: Service, route_modules: Sequence[Any] = ()) -> None:
        """route_modules: further modules, with `routes` and `OPERATIONS`"""
        self.service = service
        self.guard = RequestGuard(service)
        self._repeated_requests = RepeatedRequests()
        instance = self._repeated_requests.instance
        self._instance_header = ((INSTANCE_HEADER.encode(), instance.encode()),)
        service.on_open.append(self._forget_answers_when_erased)
        self._apply_settings()
        service.on_reload.append(self._apply_settings)
        self.operations = [
            one for module in (*MODULES, *route_modules) for one in module.OPERATIONS
        ]
        """All operations that clients can call."""
        self._hot_routes = {
            one.path.removeprefix(_TEMPLATE): one
            for one in self.operations
            if one.hot and one.call is not None
        }
        routes = [
            self._make_route(one, one.call)
            for one in self.operations
            if not one.hot and one.call is not None
        ]
        routes.append(Route("/openapi.json", self._send_description))
        for module in route_modules:
            routes += module.routes(self)
        self._router = Router(routes)
        self._method_patterns = [(compile_path(one.path)[0], one.method) for one in self.operations]
        paths = [one.path for one in self.operations]
        paths += [getattr(one, "path", "") for one in routes]
        self._path_patterns = [(compile_path(path)[0], path) for path in dict.fromkeys(paths)]

    def _forget_answers_when_erased(self, served: ServedMonitor) -> None:
        """Forget the cached answers of a monitor whenever decisions of it are erased."""
        served.monitor.core.erasure_listeners.append(
            lambda _: self._repeated_requests.forget(served.name)
        )

    def _apply_settings(self) -> None:
        self._cross_site = CrossSiteCheck(self.service.settings)

    def _make_route(self, operation: Operation, call: RequestHandler) -> Route:
        """Make a route that admits requests, calls the handler, and writes the answers."""

        async def handle(request: Request) -> Response:
            token = None
            if operation.scope is not None:
                name = request.path_params.get("name")
                authorization = find_header(request.scope, b"authorization")
                token = self.guard.admit(authorization, operation.scope, name, operation.also)
            admitted = AdmittedRequest(self.service, self.guard, request, token)
            call_handler = self._answer_once if operation.once else _call_handler
            answer = await call_handler(operation, call, admitted)
            if isinstance(answer, Response):
                return answer
            return Response(answer, media_type=media_type_of(answer))

        route = Route(operation.path, handle, methods=[operation.method])
        if operation.any_slashes:
            pattern = route.path_regex.pattern.removesuffix("$")
            route.path_regex = re.compile(f"{pattern}/*$")
        return route

    async def _answer_once(
        self, operation: Operation, call: RequestHandler, request: AdmittedRequest
    ) -> bytes:
        """Answer a request that may come twice, but carry it out once."""
        served = request.served
        request = replace(request, content=await request.read_body())
        do = partial(_call_handler, operation, call, request)
        header = request.http_request.headers.get(REQUEST_HEADER)
        again = do if operation.idempotent or not served.monitor.durable else None
        return await self._repeated_requests.answer_once(served.name, header, do, if_unknown=again)

    async def _send_description(self, _: Request) -> Response:
        return Response(self._description, media_type="application/json")

    @cached_property
    def _description(self) -> bytes:
        return encode(describe_api(self.operations))

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind != "http":
            if kind == "lifespan":
                await self._router(scope, receive, send)
            return
        path: str = scope["path"]
        headers = dict(scope["headers"])  # of a header that is given twice, the last
        service = self.service
        service.active_requests += 1
        begun, route, since = None, "", clock.perf_counter()
        exact = EXACT_BYTES in headers.get(b"accept", b"")
        extra = self._instance_header if exact or _REQUEST in headers else ()
        try:
            self._cross_site.check(scope["method"], path, headers)
            if path.startswith(_MONITORS) and scope["method"] == "POST":
                name, _, verb = path[len(_MONITORS) :].partition("/")
                hot = self._hot_routes.get(verb)
                if hot is not None:
                    route = f"{_TEMPLATE}{verb}"
                    await self._serve_hot(hot, name, scope, headers, receive, send, extra)
                    return
                if verb == "stream":
                    route = f"{_TEMPLATE}stream"
                    begun = _HeaderSender(send)
                    await self._serve_stream(name, scope, receive, begun)
                    return
            if path not in _ANSWERED_WHEN_FULL:
                self.guard.check_capacity()
            scope["app"] = self  # so that the router raises what it does not find
            begun = _HeaderSender(send, extra)
            await self._router(scope, receive, begun)
            if begun.status >= 400:
                self._count_refusal(begun.status, scope)
        except ClientDisconnected:
            pass  # nobody reads an answer
        except (HTTPException, Refusal, LikewiseError) as error:
            await self._send_error(error, scope, send, extra)
        except Exception as error:
            logger.exception("a fault of likewise, while answering %s", path)
            service.refused["500"] += 1
            if begun is None or not begun.status:
                fault = f"a fault of likewise, please report it: {type(error).__name__}."
                await _send_answer(send, *http_error(Refusal(500, fault)), extra)
        finally:
            service.active_requests -= 1
            service.durations[route or self._find_route(path)].add(clock.perf_counter() - since)

    async def _serve_hot(
        self,
        hot: Operation,
        name: str,
        scope: ASGIScope,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        send: Send,
        extra_headers: _Headers,
    ) -> None:
        served = None
        status, retry = 200, None
        try:
            self.guard.check_capacity()
            token = self.guard.admit(headers.get(b"authorization"), "observe", name)
            served = self.service.get_monitor(name)
            query = parse_query(scope) if scope["query_string"] else _NO_QUERY
            kind, accept = headers.get(b"content-type", b""), headers.get(b"accept", b"")
            body = await self.guard.read_body(headers.get(b"content-length"), scope, receive)
            call = AdmittedCall(served, query, kind, accept, body, token)
            request_id = headers.get(_REQUEST)
            if request_id is None:
                body = await hot.call(call)
            else:
                body = await self._serve_hot_once(hot, call, request_id)
        except Refusal as error:
            if served is None:
                raise
            status, body, retry = http_error(error)
            served.counts.count_refusal(error)
        except LikewiseError as error:  # which the monitor, or its queue, has counted
            status, body, retry = http_error(error)
        except MaybeDone as error:
            status, body, retry = http_error(error.cause)
        await _send_answer(send, status, body, retry, extra_headers)

    async def _serve_hot_once(self, hot: Operation, call: AdmittedCall, request_id: bytes) -> bytes:
        again = hot.if_unknown if call.served.monitor.durable else hot.call
        return await self._repeated_requests.answer_once(
            call.served.name,
            request_id.decode("latin-1"),
            partial(hot.call, call),
            if_unknown=None if again is None else partial(again, call),
        )

    async def _serve_stream(
        self, name: str, scope: ASGIScope, receive: Receive, send: Send
    ) -> None:
        self.guard.check_capacity()
        self.guard.admit(find_header(scope, b"authorization"), "observe", name)
        served = self.service.get_monitor(name)
        is_allowed = partial(self.guard.is_still_allowed, scope, "observe", name)
        with LongAnswer(self.service, is_allowed) as answer:
            await decision_stream.stream(
                self.service, served, parse_query(scope), receive, send, answer
            )

    async def _send_error(
        self,
        error: HTTPException | Refusal | LikewiseError,
        scope: ASGIScope,
        send: Send,
        extra_headers: _Headers,
    ) -> None:
        """Answer a request that is refused with the reason, and count it."""
        headers: _Headers = ()
        if isinstance(error, HTTPException):
            error, headers = self._explain_no_route(error, scope)
        status, body, retry = http_error(error)
        self._count_refusal(status, scope)
        await _send_answer(send, status, body, retry, (*headers, *extra_headers))

    def _count_refusal(self, status: int, scope: ASGIScope) -> None:
        """Count a refused request by its sender and its route, never by what it sent."""
        self.service.refused[str(status)] += 1
        if status not in (401, 403):
            return
        client = scope.get("client")
        peer = "(socket)" if client is None else str(client[0])
        self.service.count_denial(
            status, peer, f"{scope['method'][:10]} {self._find_route(scope['path'])}"
        )

    def _find_route(self, path: str) -> str:
        """Return the template of the route that a path belongs to."""
        return next((one for pattern, one in self._path_patterns if pattern.match(path)), OTHER)

    def _explain_no_route(self, error: HTTPException, scope: ASGIScope) -> tuple[Refusal, _Headers]:
        """Return what is wrong with a path or a method, and the headers of the answer."""
        status, headers = error.status_code, dict(error.headers or {})
        path, method = scope["path"], scope["method"]
        if status in (404, 405):
            allowed = {each for pattern, each in self._method_patterns if pattern.match(path)}
            allowed |= set(headers.get("Allow", "").replace(",", " ").split())
            if allowed and method not in allowed:  # else a page that is not there
                status, headers["Allow"] = 405, ", ".join(sorted(allowed))
        why = {
            404: f"there is no route {path[:200]!r}; GET /openapi.json lists them.",
            405: f"{path[:200]!r} does not take {method}; it takes {headers.get('Allow')}.",
        }
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        return Refusal(status, why.get(status, error.detail)), pairs


async def _call_handler(
    operation: Operation, call: RequestHandler, request: AdmittedRequest
) -> Any:
    """Return an answer as bytes, or the Response that a function makes itself."""
    answer = await call(request)
    if isinstance(answer, Response):
        return answer
    return encode_answer(request.accept if operation.exact else b"", answer)


class _HeaderSender:
    """Adds the headers that all answers have.

    extra_headers   further headers of this answer
    status          of the answer; 0 until it has begun
    """

    def __init__(self, send: Send, extra_headers: _Headers = ()) -> None:
        self._send = send
        self._extra_headers = extra_headers
        self.status = 0

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"]
            present = {name for name, _ in headers}
            more = (*PRIVATE, *self._extra_headers, *((_BEARER,) if self.status == 401 else ()))
            headers += [one for one in more if one[0] not in present]
        await self._send(message)


def parse_query(scope: ASGIScope) -> Mapping[str, str]:
    """Parse the parameters of a query; of one that is given twice, the last counts."""
    return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))


async def _send_answer(
    send: Send, status: int, body: bytes, retry_seconds: float | None, extra_headers: _Headers
) -> None:
    media = _JSON if body[0] == OPEN_OBJECT else _EXACT
    headers = [media, (b"content-length", b"%d" % len(body)), *PRIVATE, *extra_headers]
    if retry_seconds is not None:
        headers.append((b"retry-after", b"%d" % max(1, round(retry_seconds))))
    if status == 401:
        headers.append(_BEARER)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
