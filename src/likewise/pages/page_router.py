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
from likewise.pages.computations import Computing
from likewise.pages.frame import HEADERS, page, static
from likewise.pages.live_parts import Live
from likewise.pages.page_state import PageState, Visit, address
from likewise.pages.screen import Download, Fields, Form, Part, Screen
from likewise.pages.settings import PagesSettings, pages_settings
from likewise.pages.signing_in import CSRF_FIELD, SigningIn, Viewer
from likewise.service.body_types import encode
from likewise.service.http_errors import Refusal, message_of, told
from likewise.service.operations import Operation, Serving
from likewise.service.served_monitor import Hosted

PARTS: tuple[Part, ...] = tuple(
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


def routes(serving: Serving) -> list[BaseRoute]:
    settings = pages_settings(serving.service.settings)
    return PageRouter(serving, settings).routes() if settings.enabled else []


class PageRouter:
    """Makes routes of screens, forms and files: asks who it is, and tells refusals as pages."""

    def __init__(self, serving: Serving, settings: PagesSettings) -> None:
        self._service, self._door = serving.service, serving.door
        self._settings = settings
        self._signing_in = SigningIn(serving.service, settings)
        self._live = Live(serving.service)
        self._computing = Computing()
        self._states: dict[Hosted, PageState] = {}
        serving.service.at_close.append(self._computing.close)
        serving.service.opened.append(self._forget_with)

    def routes(self) -> list[BaseRoute]:
        made: list[BaseRoute] = [
            Route("/", self._index, methods=["GET"]),
            Route("/m/{name}", self._monitor, methods=["GET"]),
            Route("/sign-in", self._ask_for_token, methods=["GET"]),
            Route("/sign-in", self._sign_in, methods=["POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/static/{file}", static, methods=["GET"]),
        ]
        for part in PARTS:
            path = f"/m/{{name}}/{part.path}"
            if isinstance(part, Screen):
                made.append(Route(f"{path}.json", partial(self._twin, part), methods=["GET"]))
                made.append(Route(path, partial(self._page, part), methods=["GET"]))
            elif isinstance(part, Form):
                made.append(Route(path, partial(self._form, part), methods=["POST"]))
            else:
                made.append(Route(path, partial(self._download, part), methods=["GET"]))
        return made

    def _forget_with(self, hosted: Hosted) -> None:
        """Have pages forget what they keep of a monitor when something is erased there."""

        def forget(_: Any) -> None:
            self._computing.forget(hosted)
            self._live.forget()

        hosted.monitor.when_erased.append(forget)

    # What each kind of part answers

    async def _page(self, screen: Screen, request: Request) -> Response:
        if wants_json(request):
            return await self._twin(screen, request)
        visit = None
        try:
            visit = self._visit(request, screen.scope)
            data, more = await screen.load(visit)
            response = page(
                screen.template,
                screen.title.format_map(data),
                visit=visit,
                here=screen.place,
                assets=screen.assets,
                data=data,
                **more(),
            )
        except (LikewiseError, Refusal) as error:
            return self._refusal(request, error, visit, screen.place)
        self._signing_in.keep(request, response)
        return response

    async def _twin(self, screen: Screen, request: Request) -> Response:
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
        hosted = self._service.named(name)
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
            viewer = self._signing_in.viewer(request)
        except Refusal:
            return False
        return viewer is not None and viewer.allows(scope, name)

    def _viewer(self, request: Request) -> Viewer:
        """Who asks, and one request more of theirs; Refusal if they have to sign in, or wait."""
        viewer = self._signing_in.viewer(request)
        if viewer is None:
            raise Refusal(401, "sign in first, with a token of the service.")
        if self._service.tokens or self._settings.proxy_header is not None:
            self._door.count(viewer.name)
        return viewer

    async def _fields(self, request: Request) -> Fields:
        """What a form sent; Refusal if it is not from a page of ours."""
        body = await self._door.body(request.scope, request.receive)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise Refusal(415, "expected a form (application/x-www-form-urlencoded).")
        sent = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        self._signing_in.check_form(request, sent.pop(CSRF_FIELD, ""))
        return sent

    def _refusal(
        self,
        request: Request,
        error: LikewiseError | Refusal,
        visit: Visit | None = None,
        here: str = "",
    ) -> Response:
        """Why it is refused, as a page; whoever can sign in is led there."""
        status, _, retry = told(error)
        if status == 401:
            back = request.url.path if request.method == "GET" else "/"
            if request.method == "GET" and request.url.query:
                back += f"?{request.url.query}"
            return RedirectResponse(f"/sign-in?next={quote(back, safe='')}", 303, HEADERS)
        response = page(
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
            return RedirectResponse(address(names[0], "overview"), 303, HEADERS)
        choices = [(name, address(name, "overview")) for name in names]
        response = page("pages/index.html", "Monitors", viewer=viewer, choices=choices)
        self._signing_in.keep(request, response)
        return response

    async def _monitor(self, request: Request) -> Response:
        return RedirectResponse(address(request.path_params["name"], "overview"), 303, HEADERS)

    async def _ask_for_token(self, request: Request, why: str = "", status: int = 200) -> Response:
        where = quote(_inside(request.query_params.get("next", "/")))
        csrf = self._signing_in.csrf(request)
        response = page(
            "pages/sign_in.html", "Sign in", status=status, why=why, where=where, csrf=csrf
        )
        self._signing_in.keep(request, response)
        return response

    async def _sign_in(self, request: Request) -> Response:
        try:
            fields = await self._fields(request)
            to = RedirectResponse(_inside(request.query_params.get("next", "/")), 303, HEADERS)
            self._signing_in.sign_in(request, fields.get("token", ""), to)
        except Refusal as error:
            return await self._ask_for_token(request, str(error), error.status)
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


def _inside(path: str) -> str:
    """A path of this server; / if it is none, so that nobody is led elsewhere."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"
