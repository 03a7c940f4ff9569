"""All pages, put together: what `likewise serve` adds to the routes of the service.

Invariant: nothing is shown or done before it was asked who it is, whether they may, and, of a
form, whether it came from a page of theirs.
"""

from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from likewise.errors import LikewiseError
from likewise.pages import (
    groups_page,
    health_page,
    models_page,
    overview_page,
    pair_page,
    people_page,
    queue_page,
    rule_page,
    violations_page,
)
from likewise.pages.computations import ComputationQueue
from likewise.pages.frame import HEADERS, make_page_response, serve_static
from likewise.pages.live_parts import LiveUpdates
from likewise.pages.page_state import PageState, Visit, page_url
from likewise.pages.screen import Download, Fields, Form, PagePart, Screen
from likewise.pages.settings import PagesSettings, read_pages_settings
from likewise.pages.signing_in import CSRF_FIELD, PageAuthenticator, Viewer
from likewise.service.body_types import encode
from likewise.service.http_errors import Refusal, http_error, message_of
from likewise.service.operations import AppContext, Operation
from likewise.service.served_monitor import ServedMonitor

PARTS: tuple[PagePart, ...] = tuple(
    part
    for module in (
        overview_page,
        violations_page,
        pair_page,
        queue_page,
        groups_page,
        models_page,
        people_page,
        rule_page,
        health_page,
    )
    for part in module.PARTS
)

OPERATIONS = [
    Operation(
        "GET",
        f"/m/{{name}}/{part.path}.json",
        part.scope,
        f"What the page {part.path} says",
        answers=dict[str, Any],
    )
    for part in PARTS
    if isinstance(part, Screen)
]


def routes(serving: AppContext) -> list[BaseRoute]:
    settings = read_pages_settings(serving.service.settings)
    return PageRouter(serving, settings).routes() if settings.enabled else []


class PageRouter:
    """Makes routes of screens, forms and files: asks who it is, and tells refusals as pages."""

    def __init__(self, serving: AppContext, settings: PagesSettings) -> None:
        self._service, self._guard = serving.service, serving.guard
        self._settings = settings
        self._signing_in = PageAuthenticator(serving.service, settings)
        self._live = LiveUpdates(serving.service)
        self._computing = ComputationQueue()
        self._states: dict[ServedMonitor, PageState] = {}
        serving.service.on_close.append(self._computing.close)
        serving.service.on_open.append(self._forget_on_erase)

    def routes(self) -> list[BaseRoute]:
        made: list[BaseRoute] = [
            Route("/", self._index, methods=["GET"]),
            Route("/m/{name}", self._monitor, methods=["GET"]),
            Route("/sign-in", self._show_sign_in, methods=["GET"]),
            Route("/sign-in", self._sign_in, methods=["POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/static/{file}", serve_static, methods=["GET"]),
        ]
        for part in PARTS:
            path = f"/m/{{name}}/{part.path}"
            if isinstance(part, Screen):
                made.append(
                    Route(f"{path}.json", partial(self._answer_json, part), methods=["GET"])
                )
                made.append(Route(path, partial(self._page, part), methods=["GET"]))
            elif isinstance(part, Form):
                made.append(Route(path, partial(self._form, part), methods=["POST"]))
            else:
                made.append(Route(path, partial(self._download, part), methods=["GET"]))
        return made

    def _forget_on_erase(self, hosted: ServedMonitor) -> None:
        """Have pages forget what they keep of a monitor when something is erased there."""

        def forget(_: Any) -> None:
            self._computing.forget(hosted)
            self._live.forget()

        hosted.monitor.erasure_listeners.append(forget)

    # What each kind of part answers

    async def _page(self, screen: Screen, request: Request) -> Response:
        if wants_json(request):
            return await self._answer_json(screen, request)
        visit = None
        try:
            visit = self._visit(request, screen.scope)
            data, more = await screen.load(visit)
            response = make_page_response(
                screen.template,
                screen.title.format_map(data),
                visit=visit,
                here=screen.section,
                assets=screen.assets,
                data=data,
                **more(),
            )
        except (LikewiseError, Refusal) as error:
            return self._refusal(request, error, visit, screen.section)
        self._signing_in.refresh_cookie(request, response)
        return response

    async def _answer_json(self, screen: Screen, request: Request) -> Response:
        data, _ = await screen.load(self._visit(request, screen.scope))
        return Response(encode(data), 200, HEADERS, "application/json")

    async def _form(self, form: Form, request: Request) -> Response:
        visit = None
        try:
            visit = self._visit(request, form.scope)
            to = await form.handle(visit, await self._fields(request))
        except (LikewiseError, Refusal) as error:
            return self._refusal(request, error, visit, form.path.partition("/")[0])
        return RedirectResponse(to, 303, HEADERS)

    async def _download(self, download: Download, request: Request) -> Response:
        return await download.answer(self._visit(request, download.scope))

    # Who may

    def _visit(self, request: Request, scope: str) -> Visit:
        """Who looks at what; Refusal if they may not."""
        viewer = self._viewer(request)
        name = request.path_params["name"]
        if not viewer.allows(scope, name):
            raise Refusal(403, f"{viewer.name!r} may not {scope} with the monitor {name!r}.")
        hosted = self._service.get_monitor(name)
        if hosted not in self._states:
            self._states[hosted] = PageState(hosted)
        return Visit(
            request,
            self._service,
            self._settings,
            viewer,
            hosted,
            self._live,
            self._computing,
            self._states[hosted],
            partial(self._is_still_allowed, request, scope, name),
        )

    def _is_still_allowed(self, request: Request, scope: str, name: str) -> bool:
        try:
            viewer = self._signing_in.identify(request)
        except Refusal:
            return False
        return viewer is not None and viewer.allows(scope, name)

    def _viewer(self, request: Request) -> Viewer:
        """Who asks, and one request more of theirs; Refusal if they have to sign in, or wait."""
        viewer = self._signing_in.identify(request)
        if viewer is None:
            raise Refusal(401, "sign in first, with a token of the service.")
        if self._service.tokens or self._settings.proxy_header is not None:
            self._guard.count_request(viewer.name)
        return viewer

    async def _fields(self, request: Request) -> Fields:
        """What a form sent; Refusal if it is not from a page of ours."""
        body = await self._guard.read_body(request.scope, request.receive)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise Refusal(415, "expected a form (application/x-www-form-urlencoded).")
        sent = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        self._signing_in.check_csrf(request, sent.pop(CSRF_FIELD, ""))
        return sent

    def _refusal(
        self,
        request: Request,
        error: LikewiseError | Refusal,
        visit: Visit | None = None,
        here: str = "",
    ) -> Response:
        """Why it is refused, as a page; whoever can sign in is led there."""
        status, _, retry = http_error(error)
        if status == 401:
            back = request.url.path if request.method == "GET" else "/"
            if request.method == "GET" and request.url.query:
                back += f"?{request.url.query}"
            return RedirectResponse(f"/sign-in?next={quote(back, safe='')}", 303, HEADERS)
        response = make_page_response(
            "pages/refused.html",
            "This was refused",
            visit=visit,
            here=here,
            status=status,
            why=message_of(error),
        )
        if visit is not None:
            return response
        if retry is not None:
            response.headers["retry-after"] = str(max(1, round(retry)))
        if status == 503 and request.method == "GET":  # such as while ledgers are opened
            response.headers["refresh"] = "3"
        return response

    # The way in and out

    async def _index(self, request: Request) -> Response:
        """The monitor's overview, or the monitors to choose from."""
        try:
            viewer = self._viewer(request)
        except Refusal as error:
            return self._refusal(request, error)
        names = [name for name in self._service.settings.monitors if viewer.allows("read", name)]
        if len(names) == 1:
            return RedirectResponse(page_url(names[0], "overview"), 303, HEADERS)
        choices = [(name, page_url(name, "overview")) for name in names]
        response = make_page_response(
            "pages/index.html", "Monitors", viewer=viewer, choices=choices
        )
        self._signing_in.refresh_cookie(request, response)
        return response

    async def _monitor(self, request: Request) -> Response:
        return RedirectResponse(page_url(request.path_params["name"], "overview"), 303, HEADERS)

    async def _show_sign_in(self, request: Request, why: str = "", status: int = 200) -> Response:
        where = quote(_local_path(request.query_params.get("next", "/")))
        csrf = self._signing_in.csrf_token(request)
        response = make_page_response(
            "pages/sign_in.html", "Sign in", status=status, why=why, where=where, csrf=csrf
        )
        self._signing_in.refresh_cookie(request, response)
        return response

    async def _sign_in(self, request: Request) -> Response:
        try:
            fields = await self._fields(request)
            to = RedirectResponse(_local_path(request.query_params.get("next", "/")), 303, HEADERS)
            self._signing_in.sign_in(request, fields.get("token", ""), to)
        except Refusal as error:
            return await self._show_sign_in(request, str(error), error.status)
        return to

    async def _sign_out(self, request: Request) -> Response:
        try:
            await self._fields(request)
        except Refusal as error:
            return self._refusal(request, error)
        response = RedirectResponse("/sign-in", 303, HEADERS)
        self._signing_in.sign_out(request, response)
        return response


def wants_json(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def _local_path(path: str) -> str:
    """A path of this server; / if it is none, so that nobody is led elsewhere."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"
