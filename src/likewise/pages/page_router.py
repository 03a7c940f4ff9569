"""The router of all pages: the routes that `likewise serve` adds to those of the service.

Invariant: every request is authenticated and authorised first, and the CSRF token of every form is
checked.
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
    look_up_page,
    models_page,
    overview_page,
    pair_page,
    people_page,
    queue_page,
    rule_page,
    violations_page,
)
from likewise.pages.frame import (
    HEADERS,
    Answer,
    Download,
    Fields,
    Form,
    PageData,
    PagePart,
    Screen,
    make_page_response,
    serve_static,
)
from likewise.pages.live_parts import LiveUpdates
from likewise.pages.page_state import PageState, Visit, page_url
from likewise.pages.running_tally import ComputationQueue
from likewise.pages.settings import PagesSettings, read_pages_settings
from likewise.pages.signing_in import CSRF_FIELD, PageAuthenticator, Viewer
from likewise.service.app import App
from likewise.service.body_types import encode
from likewise.service.http_errors import Refusal, http_error, message_of
from likewise.service.operations import Operation
from likewise.service.request_guard import find_header
from likewise.service.served_monitor import ServedMonitor

PARTS: tuple[PagePart, ...] = (
    *overview_page.PARTS,
    *violations_page.PARTS,
    *pair_page.PARTS,
    *queue_page.PARTS,
    *look_up_page.PARTS,
    *groups_page.PARTS,
    *models_page.PARTS,
    *people_page.PARTS,
    *rule_page.PARTS,
    *health_page.PARTS,
)

OPERATIONS = [
    Operation(
        "GET",
        f"/m/{{name}}/{part.path}.json",
        part.scope,
        f"The data of the page {part.path}",
        answers=dict[str, Any],
    )
    for part in PARTS
    if isinstance(part, Screen)
]


def routes(serving: App) -> list[BaseRoute]:
    settings = read_pages_settings(serving.service.settings)
    return PageRouter(serving, settings).routes() if settings.enabled else []


class PageRouter:
    """Makes routes of screens, forms and downloads, and answers refusals as pages."""

    def __init__(self, serving: App, settings: PagesSettings) -> None:
        self._service, self._guard = serving.service, serving.guard
        self._settings = settings
        self._signing_in = PageAuthenticator(serving.service, settings)
        self._live = LiveUpdates(serving.service)
        self._computations = ComputationQueue()
        self._states: dict[ServedMonitor, PageState] = {}
        serving.service.on_close.append(self._computations.close)
        serving.service.on_open.append(self._forget_on_erase)

    def routes(self) -> list[BaseRoute]:
        routes: list[BaseRoute] = [
            Route("/", self._index, methods=["GET"]),
            Route("/m/{name}", self._redirect_to_overview, methods=["GET"]),
            Route("/sign-in", self._show_sign_in, methods=["GET"]),
            Route("/sign-in", self._sign_in, methods=["POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/static/{file}", serve_static, methods=["GET"]),
        ]
        for part in PARTS:
            screen = part.screen if isinstance(part, Answer) else part
            path = f"/m/{{name}}/{screen.path}"
            if isinstance(part, Screen):
                routes.append(Route(f"{path}.json", partial(self._answer_json, part)))
                routes.append(Route(path, partial(self._answer_page, part)))
            elif isinstance(part, Answer):
                routes.append(Route(path, partial(self._answer_question, part), methods=["POST"]))
            elif isinstance(part, Form):
                routes.append(Route(path, partial(self._handle_form, part), methods=["POST"]))
            else:
                routes.append(Route(path, partial(self._download, part)))
        routes.append(Route("/m/{name}/{rest:path}", self._refuse_unknown, methods=["GET"]))
        return routes

    def _forget_on_erase(self, served: ServedMonitor) -> None:
        """Drop what pages remember about a monitor when something is erased there."""

        def forget(_: Any) -> None:
            self._computations.forget(served)
            self._live.forget()

        served.monitor.core.erasure_listeners.append(forget)

    # The kinds of parts

    async def _answer_page(self, screen: Screen, request: Request) -> Response:
        if wants_json(request):
            return await self._answer_json(screen, request)
        visit = None
        try:
            visit = self._visit(request, screen.scope)
            response = _render_screen(screen, visit, await screen.load(visit))
        except (LikewiseError, Refusal) as error:
            return self._refuse(request, error, visit, screen.section)
        self._signing_in.refresh_cookie(request, response)
        return response

    async def _answer_question(self, answer: Answer, request: Request) -> Response:
        visit, screen = None, answer.screen
        try:
            visit = self._visit(request, screen.scope)
            data = await answer.load(visit, await self._read_form(request))
            return _render_screen(screen, visit, data)
        except (LikewiseError, Refusal) as error:
            return self._refuse(request, error, visit, screen.section)

    async def _answer_json(self, screen: Screen, request: Request) -> Response:
        data, _ = await screen.load(self._visit(request, screen.scope))
        return Response(encode(data), 200, HEADERS, "application/json")

    async def _handle_form(self, form: Form, request: Request) -> Response:
        visit = None
        try:
            visit = self._visit(request, form.scope)
            url = await form.handle(visit, await self._read_form(request))
        except (LikewiseError, Refusal) as error:
            return self._refuse(request, error, visit, form.path.partition("/")[0])
        return RedirectResponse(url, 303, HEADERS)

    async def _download(self, download: Download, request: Request) -> Response:
        return await download.answer(self._visit(request, download.scope))

    # Authorisation

    def _visit(self, request: Request, scope: str) -> Visit:
        """Return who looks at what; Refusal if they may not."""
        viewer = self._identify(request)
        name = request.path_params["name"]
        if not viewer.allows(scope, name):
            raise Refusal(403, f"{viewer.name!r} may not {scope} with the monitor {name!r}.")
        served = self._service.get_monitor(name)
        if served not in self._states:
            self._states[served] = PageState(served)
        return Visit(
            request,
            self._service,
            self._settings,
            viewer,
            served,
            self._live,
            self._computations,
            self._states[served],
            partial(self._is_still_allowed, request, scope, name),
        )

    def _is_still_allowed(self, request: Request, scope: str, name: str) -> bool:
        try:
            viewer = self._signing_in.identify(request)
        except Refusal:
            return False
        return viewer is not None and viewer.allows(scope, name)

    def _identify(self, request: Request) -> Viewer:
        """Return who asks, and count the request; Refusal if they have to sign in, or wait."""
        viewer = self._signing_in.identify(request)
        if viewer is None:
            raise Refusal(401, "sign in first, with a token of the service.")
        if not self._service.tokens.is_empty or self._settings.proxy_header is not None:
            self._guard.count_request(viewer.name)
        return viewer

    async def _read_form(self, request: Request) -> Fields:
        """Return what a form sent; Refusal if it is not from a page of this session."""
        length = find_header(request.scope, b"content-length")
        body = await self._guard.read_body(length, request.scope, request.receive)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise Refusal(415, "expected a form (application/x-www-form-urlencoded).")
        fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        self._signing_in.check_csrf(request, fields.pop(CSRF_FIELD, ""))
        return fields

    def _refuse(
        self,
        request: Request,
        error: LikewiseError | Refusal,
        visit: Visit | None = None,
        section: str = "",
    ) -> Response:
        """Answer with a page that says why, or redirect to the page to sign in."""
        status, _, retry = http_error(error)
        if status == 401:
            url = request.url
            path = f"{url.path}?{url.query}" if url.query else url.path
            back = path if request.method == "GET" else "/"
            return RedirectResponse(f"/sign-in?next={quote(back, safe='')}", 303, HEADERS)
        response = make_page_response(
            "pages/refused.html",
            "Request refused",
            visit=visit,
            section=section,
            status=status,
            why=message_of(error),
        )
        if visit is not None:
            return response
        if retry is not None:
            response.headers["retry-after"] = str(max(1, round(retry)))
        if status == 503 and request.method == "GET":  # for example while ledgers are being opened
            response.headers["refresh"] = "3"
        return response

    # The index and signing in

    async def _index(self, request: Request) -> Response:
        """Redirect to the only monitor, or list the monitors."""
        try:
            viewer = self._identify(request)
        except Refusal as error:
            return self._refuse(request, error)
        names = [name for name in self._service.settings.monitors if viewer.allows("read", name)]
        if len(names) == 1:
            return RedirectResponse(page_url(names[0], "overview"), 303, HEADERS)
        choices = [(name, page_url(name, "overview")) for name in names]
        response = make_page_response(
            "pages/index.html", "Monitors", viewer=viewer, choices=choices
        )
        self._signing_in.refresh_cookie(request, response)
        return response

    async def _redirect_to_overview(self, request: Request) -> Response:
        return RedirectResponse(page_url(request.path_params["name"], "overview"), 303, HEADERS)

    async def _refuse_unknown(self, request: Request) -> Response:
        """Answer with a page that there is no such page; as JSON to whoever asks for that."""
        path = request.url.path
        unknown = Refusal(404, f"there is no page {path!r}.")
        if path.endswith(".json") or wants_json(request):
            raise unknown
        try:
            visit = self._visit(request, "read")
        except (LikewiseError, Refusal) as error:
            return self._refuse(request, error)
        return self._refuse(request, unknown, visit)

    async def _show_sign_in(self, request: Request, why: str = "", status: int = 200) -> Response:
        target = quote(_local_path(request.query_params.get("next", "/")))
        csrf = self._signing_in.csrf_token(request)
        response = make_page_response(
            "pages/sign_in.html", "Sign in", status=status, why=why, target=target, csrf=csrf
        )
        self._signing_in.refresh_cookie(request, response)
        return response

    async def _sign_in(self, request: Request) -> Response:
        try:
            fields = await self._read_form(request)
            path = _local_path(request.query_params.get("next", "/"))
            response = RedirectResponse(path, 303, HEADERS)
            self._signing_in.sign_in(request, fields.get("token", ""), response)
        except Refusal as error:
            return await self._show_sign_in(request, str(error), error.status)
        return response

    async def _sign_out(self, request: Request) -> Response:
        try:
            await self._read_form(request)
        except Refusal as error:
            return self._refuse(request, error)
        response = RedirectResponse("/sign-in", 303, HEADERS)
        self._signing_in.sign_out(request, response)
        return response


def _render_screen(screen: Screen, visit: Visit, loaded: PageData) -> Response:
    data, more = loaded
    return make_page_response(
        screen.template,
        screen.title.format_map(data),
        visit=visit,
        section=screen.section,
        assets=screen.assets,
        data=data,
        **more(),
    )


def wants_json(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def _local_path(path: str) -> str:
    """Return a path of this server; / if it is none, so that nobody is redirected elsewhere."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"
