"""What a screen is, said once: its address, who may see it, what it knows, and how that is shown.

One `Screen` gives a page, /m/NAME/PATH, and its twin, /m/NAME/PATH.json: the page shows what the
twin says, since it is made of nothing else. A `Form` is where a form of a page is sent; it is
answered by a redirect, so that everything works without a script. A `Download` is a file.

    Screen("violations", "read", "Violations", twin=async_function, main=function)

Invariant: nothing is shown or done before it was asked who it is, whether they may, and, of a
form, whether it came from a page of theirs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from likewise.pages.computing import Computing
from likewise.pages.frame import HEADERS, page, whole
from likewise.pages.live import Live
from likewise.pages.page_state import PageState
from likewise.pages.settings import PagesSettings
from likewise.pages.signing_in import CSRF_FIELD, SigningIn, Viewer
from likewise.pages.visit import Visit
from likewise.service.hosted import Hosted
from likewise.service.refusals import Refusal, message_of, told
from likewise.service.wire import encode
from likewise.values.errors import LikewiseError
from likewise.values.safe import safe

if TYPE_CHECKING:
    from likewise.service.app import App

Fields = Mapping[str, str]
"""What a form sent, without what only the frame needs."""


@dataclass(frozen=True)
class Screen:
    """A page and its twin.

    path    below /m/NAME/, such as "violations" or "pair/{row}"
    scope   what the viewer must be allowed
    title   what the page is called, or how to call it, from its data
    twin    what it knows: a struct or a dict that can be JSON, or what has such a `to_dict()`
    main    the same as HTML
    assets  further style sheets and scripts (static_files.py)
    """

    path: str
    scope: str
    title: str | Callable[[Any], str]
    twin: Callable[[Visit], Awaitable[Any]]
    main: Callable[[Any, Visit], str]
    assets: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The screen's place in the navigation."""
        return self.path.partition("/")[0]


@dataclass(frozen=True)
class Form:
    """What is done with a form, and to which address its sender is led then (`Visit.url`)."""

    path: str
    scope: str
    handle: Callable[[Visit, Fields], Awaitable[str]]


@dataclass(frozen=True)
class Download:
    """Anything that is no page: a file, a stream."""

    path: str
    scope: str
    answer: Callable[[Visit], Awaitable[Response]]


Part = Screen | Form | Download


class Entrance:
    """Makes routes of screens, forms and files: asks who it is, and tells refusals as pages."""

    def __init__(self, app: "App", settings: PagesSettings) -> None:
        self.service, self.door = app.service, app.door
        self.settings = settings
        self.signing_in = SigningIn(app.service, settings)
        self.live = Live(app.service)
        self._computing = Computing()
        self._states: dict[Hosted, PageState] = {}
        app.service.at_close.append(self._computing.close)
        app.service.opened.append(self._forget_with)

    def routes(self, parts: Sequence[Part]) -> list[BaseRoute]:
        routes: list[BaseRoute] = []
        for part in parts:
            path = f"/m/{{name}}/{part.path}"
            if isinstance(part, Screen):
                routes.append(Route(f"{path}.json", self._twin(part), methods=["GET"]))
                routes.append(Route(path, self._page(part), methods=["GET"]))
            elif isinstance(part, Form):
                routes.append(Route(path, self._form(part), methods=["POST"]))
            else:
                routes.append(Route(path, self._download(part), methods=["GET"]))
        return routes

    def _forget_with(self, hosted: Hosted) -> None:
        """Have pages forget what they keep of a monitor when something is erased there."""

        def forget(_: Any) -> None:
            self._computing.forget(hosted)
            self.live.forget()

        hosted.monitor.when_erased.append(forget)

    # What each kind of part answers

    def _page(self, screen: Screen) -> Callable[[Request], Awaitable[Response]]:
        async def shown(request: Request) -> Response:
            if wants_json(request):
                return await twin(request)
            visit = None
            try:
                visit = self.visit(request, screen.scope)
                known = await screen.twin(visit)
                title = screen.title if isinstance(screen.title, str) else screen.title(known)
                main, assets = screen.main(known, visit), screen.assets
                response = page(visit, title, main, here=screen.place, assets=assets)
            except (LikewiseError, Refusal) as error:
                return self.refusal(request, error, visit, screen.place)
            self.signing_in.keep(request, response)
            return response

        twin = self._twin(screen)
        return shown

    def _twin(self, screen: Screen) -> Callable[[Request], Awaitable[Response]]:
        async def told_plainly(request: Request) -> Response:
            known = await screen.twin(self.visit(request, screen.scope))
            plain = known.to_dict() if hasattr(known, "to_dict") else known
            return Response(encode(plain), 200, HEADERS, "application/json")

        return told_plainly

    def _form(self, form: Form) -> Callable[[Request], Awaitable[Response]]:
        async def sent(request: Request) -> Response:
            visit = None
            try:
                visit = self.visit(request, form.scope)
                fields = await self.fields(request)
                to = await form.handle(visit, fields)
            except (LikewiseError, Refusal) as error:
                return self.refusal(request, error, visit, form.path.partition("/")[0])
            return RedirectResponse(to, 303, HEADERS)

        return sent

    def _download(self, download: Download) -> Callable[[Request], Awaitable[Response]]:
        async def given(request: Request) -> Response:
            return await download.answer(self.visit(request, download.scope))

        return given

    # Who may

    def visit(self, request: Request, scope: str) -> Visit:
        """Who looks at what; Refusal if they may not."""
        viewer = self.viewer(request)
        name = request.path_params["name"]
        if not viewer.allows(scope, name):
            raise Refusal(403, f"{viewer.name!r} may not {scope} with the monitor {name!r}.")
        hosted = self.service.named(name)
        state = self._states.get(hosted)
        if state is None:
            state = self._states[hosted] = PageState(hosted)
        return Visit(
            request,
            self.service,
            self.settings,
            viewer,
            hosted,
            self.live,
            self._computing,
            state,
        )

    def viewer(self, request: Request) -> Viewer:
        """Who asks, and one request more of theirs; Refusal if they have to sign in, or wait."""
        viewer = self.signing_in.viewer(request)
        if viewer is None:
            raise Refusal(401, "sign in first, with a token of the service.")
        if self.service.tokens or self.settings.proxy_header is not None:
            self.door.count(viewer.name)
        return viewer

    async def fields(self, request: Request) -> Fields:
        """What a form sent; Refusal if it is not from a page of ours."""
        body = await self.door.body(request.scope, request.receive)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise Refusal(415, "expected a form (application/x-www-form-urlencoded).")
        sent = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        self.signing_in.check_form(request, sent.pop(CSRF_FIELD, ""))
        return sent

    def refusal(
        self, request: Request, error: LikewiseError | Refusal, visit: Visit | None, here: str
    ) -> Response:
        """Why it is refused, as a page; whoever can sign in is led there."""
        status, _, retry = told(error)
        if status == 401:
            back = request.url.path if request.method == "GET" else "/"
            if request.method == "GET" and request.url.query:
                back += f"?{request.url.query}"
            return RedirectResponse(f"/sign-in?next={quote(back, safe='')}", 303, HEADERS)
        main = f'<p class="refusal">{safe(message_of(error), 600)}</p>'
        if visit is not None:
            return page(visit, "This was refused", main, here=here, status=status)
        response = whole("Refused", "", "This was refused", main, None, status)
        if retry is not None:
            response.headers["retry-after"] = str(max(1, round(retry)))
        if status == 503 and request.method == "GET":  # such as while ledgers are opened
            response.headers["refresh"] = "3"
        return response


def wants_json(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted
