"""All pages, put together: what `likewise serve` adds to the routes of the service."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from likewise.pages import (
    groups,
    health,
    models,
    overview,
    pair,
    people,
    queue,
    rule,
    violations,
)
from likewise.pages.frame import HEADERS, whole
from likewise.pages.screen import Entrance, Part, Screen
from likewise.pages.settings import pages_settings
from likewise.pages.signing_in import CSRF_FIELD
from likewise.pages.static_files import static
from likewise.pages.visit import address
from likewise.service.operations import Operation
from likewise.service.refusals import Refusal
from likewise.values.safe import safe

if TYPE_CHECKING:
    from likewise.service.app import App

PARTS: tuple[Part, ...] = (
    *overview.PARTS,
    *violations.PARTS,
    *pair.PARTS,
    *queue.PARTS,
    *groups.PARTS,
    *models.PARTS,
    *people.PARTS,
    *rule.PARTS,
    *health.PARTS,
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


def routes(app: "App") -> list[BaseRoute]:
    settings = pages_settings(app.service.settings)
    if not settings.enabled:
        return []
    entrance = Entrance(app, settings)
    doors = _Doors(entrance)
    return [
        Route("/", doors.index, methods=["GET"]),
        Route("/m/{name}", doors.monitor, methods=["GET"]),
        Route("/sign-in", doors.ask, methods=["GET"]),
        Route("/sign-in", doors.sign_in, methods=["POST"]),
        Route("/sign-out", doors.sign_out, methods=["POST"]),
        Route("/static/{file}", static, methods=["GET"]),
        *entrance.routes(PARTS),
    ]


class _Doors:
    """The way in and out."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance = entrance

    async def index(self, request: Request) -> Response:
        """The monitor's overview, or the monitors to choose from."""
        entrance = self._entrance
        try:
            viewer = entrance.viewer(request)
        except Refusal as error:
            return entrance.refusal(request, error, None, "")
        known = entrance.service.settings.monitors
        names = [name for name in known if viewer.allows("read", name)]
        if len(names) == 1:
            return RedirectResponse(address(names[0], "overview"), 303, HEADERS)
        links = "".join(
            f'<li><a href="{safe(address(name, "overview"))}">{safe(name)}</a></li>'
            for name in names
        )
        main = f"<ul>{links}</ul>" if names else "<p>There is no monitor that you may look at.</p>"
        response = whole("Monitors", "", "Monitors", main, viewer)
        entrance.signing_in.keep(request, response)
        return response

    async def monitor(self, request: Request) -> Response:
        return RedirectResponse(address(request.path_params["name"], "overview"), 303, HEADERS)

    async def ask(self, request: Request) -> Response:
        return self._asked(request, "", 200)

    def _asked(self, request: Request, why: str, status: int) -> Response:
        """The form for a token."""
        signing_in = self._entrance.signing_in
        reason = f'<p class="refusal" role="alert">{safe(why)}</p>' if why else ""
        where = quote(_inside(request.query_params.get("next", "/")))
        main = (
            f'{reason}<form method="post" action="/sign-in?next={where}" class="sign-in">'
            f'<input type="hidden" name="{CSRF_FIELD}" value="{signing_in.csrf(request)}">'
            '<label for="token">A token of this service</label>'
            '<input id="token" name="token" type="password" autocomplete="current-password"'
            " required autofocus><button>Sign in</button></form>"
            '<p class="small"><code>likewise token</code> makes one; the scopes '
            "<code>read</code>, <code>review</code>, <code>erase</code> and <code>admin</code> say"
            " what can be done here with it.</p>"
        )
        response = whole("Sign in", "", "Sign in", main, None, status)
        signing_in.keep(request, response)
        return response

    async def sign_in(self, request: Request) -> Response:
        entrance = self._entrance
        try:
            fields = await entrance.fields(request)
            to = RedirectResponse(_inside(request.query_params.get("next", "/")), 303, HEADERS)
            entrance.signing_in.sign_in(request, fields.get("token", ""), to)
        except Refusal as error:
            return self._asked(request, str(error), error.status)
        return to

    async def sign_out(self, request: Request) -> Response:
        entrance = self._entrance
        try:
            await entrance.fields(request)
        except Refusal as error:
            return entrance.refusal(request, error, None, "")
        response = RedirectResponse("/sign-in", 303, HEADERS)
        entrance.signing_in.sign_out(request, response)
        return response


def _inside(path: str) -> str:
    """A path of this server; / if it is none, so that nobody is led elsewhere."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"
