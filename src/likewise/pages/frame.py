"""All pages share this frame: header, navigation, content policy and static files.

The address of a static file contains a hash of its content, so browsers may cache it for ever.
Third-party files are vendored with their licence, and a test checks their checksums.
Templates escape every value (verdict/html.py), and the policy forbids scripts and styles inside a
page, so that a value could not run anything even if it were markup.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from likewise.pages.page_state import Visit, page_url
from likewise.pages.signing_in import Viewer
from likewise.service.http_errors import Refusal
from likewise.service.routes.verdict_events import EventStream
from likewise.verdict.html import render, render_block
from likewise.version import __version__

Fields = Mapping[str, str]
"""The fields that a form sent, without the CSRF token."""


# Pages are declared as screens, forms and downloads: address, scope, data and template.
# A `Screen` makes a page, /m/NAME/PATH, and /m/NAME/PATH.json with the same data. A `Form` handles
# what a form of a page sends and answers with a redirect, so that pages work without a script.
#
#     Screen("violations", "read", "Violations", load=async_function, template="pages/x.html")


class PageData(NamedTuple):
    """Holds the data of a screen.

    data  the JSON of the screen, and `data` in its template
    more  computes further values for the template
    """

    data: Mapping[str, Any]
    more: Callable[[], Mapping[str, Any]] = dict


Load = Callable[[Visit], Awaitable[PageData]]


@dataclass(frozen=True)
class Screen:
    """Declares a page and its JSON.

    path      below /m/NAME/, such as "violations" or "pairs/{row}"
    scope     the scope that the viewer needs
    title     of the page; {names} stand for values of its data
    load      computes its data
    template  renders the data; `visit` is the request
    assets    further style sheets and scripts (frame.py)
    """

    path: str
    scope: str
    title: str
    load: Load
    template: str
    assets: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        """The entry of the navigation that the screen belongs to."""
        return self.path.partition("/")[0]


@dataclass(frozen=True)
class Answer:
    """Declares a page that answers what a form of the screen at its path asks.

    Nothing is changed, and no address or log has what was asked.
    """

    screen: Screen
    load: Callable[[Visit, Fields], Awaitable[PageData]]


@dataclass(frozen=True)
class Form:
    """Declares what a form does; `handle` returns the address to redirect to (`Visit.url`)."""

    path: str
    scope: str
    handle: Callable[[Visit, Fields], Awaitable[str]]


@dataclass(frozen=True)
class Download:
    """Declares an answer that is no page: a file or a stream."""

    path: str
    scope: str
    answer: Callable[[Visit], Awaitable[Response]]


PagePart = Screen | Answer | Form | Download


def recompute_form(screen: str, request: Callable[[Visit, bool], Awaitable[object]]) -> Form:
    """Declare the form of a screen that computes its results again; request(visit, recompute)."""

    async def recompute(visit: Visit, _: Fields) -> str:
        await request(visit, True)
        return visit.url(screen)

    return Form(f"{screen}/again", "read", recompute)


def stream_blocks(
    visit: Visit, place: str, load: Load, template: str, blocks: tuple[str, ...]
) -> EventStream:
    """Stream the blocks of a template as they change, each by the id of its element.

    place: names what is rendered; streams of the same place share the result
    """

    async def render_blocks() -> Mapping[str, str]:
        data, more = await load(visit)
        values = {"data": data, "visit": visit, **more()}
        return {name: render_block(template, name, **values) for name in blocks}

    events = visit.live.stream_events(f"{place} {visit.served.name}", render_blocks)
    return EventStream(visit.service, events, visit.is_still_allowed)


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}
_SECTIONS = (
    "overview",
    "violations",
    "queue",
    "look-up",
    "groups",
    "models",
    "people",
    "rule",
    "health",
)
NAVIGATION = [(section, section.capitalize().replace("-", " ")) for section in _SECTIONS]
DONE = {
    "reviewed": "Review saved. It is part of the ledger's chain.",
    "undone": "Review withdrawn. The ledger's chain records that as a new entry.",
    "erased": "Erased: inputs, outputs and keys are destroyed, and the ledger's chain records it.",
    "erased-later": "Erased. Another process still reads an old state of the ledger: erase the key"
    " again later, so that nothing of it stays in the files.",
    "assigned": "Assigned.",
    "verified": "The ledger was verified.",
}
"""What a page says after a form was sent, by the parameter `done` of its address."""
_FILES = {
    "style.css": ("likewise.reports", "style.css", "text/css"),
    "pages.css": ("likewise.pages", "static/pages.css", "text/css"),
    "work.css": ("likewise.pages", "static/work.css", "text/css"),
    "likewise.js": ("likewise.pages", "static/likewise.js", "text/javascript"),
    "uplot.js": ("likewise.pages", "static/uPlot.iife.min.js", "text/javascript"),
    "uplot.css": ("likewise.pages", "static/uPlot.min.css", "text/css"),
}


def make_page_response(
    template: str,
    title: str,
    *,
    visit: Visit | None = None,
    viewer: Viewer | None = None,
    section: str = "",
    status: int = 200,
    assets: Sequence[str] = (),
    **data: Any,
) -> Response:
    """Render a template that extends frame.html.

    visit    the request for a monitor; a page about no monitor has only a `viewer`
    section  the entry of the navigation to mark
    """
    monitors: list[tuple[str, str]] = []
    if visit is not None:
        viewer = visit.viewer
        names = [name for name in visit.service.monitors if viewer.allows("read", name)]
        monitors = [(name, page_url(name, section)) for name in names]
    text = render(
        template,
        title=title,
        visit=visit,
        viewer=viewer,
        current=section,
        done=visit and DONE.get(visit.query.get("done", "")),
        monitors=monitors,
        navigation=NAVIGATION,
        assets=assets,
        static=static_url,
        version=__version__,
        **data,
    )
    return Response(text, status, HEADERS, "text/html")


@cache
def static_file(name: str) -> bytes:
    """Return the content of a static file; KeyError if there is no such file."""
    package, path, _ = _FILES[name]
    return (files(package) / path).read_bytes()


@cache
def static_url(name: str) -> str:
    """Return the address of a static file."""
    return f"/static/{name}?v={hashlib.sha256(static_file(name)).hexdigest()[:12]}"


async def serve_static(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _FILES:
        raise Refusal(404, f"there is no file {name[:100]!r}.")
    caching = {"cache-control": "public, max-age=31536000, immutable"}
    headers = {**caching, "x-content-type-options": HEADERS["x-content-type-options"]}
    return Response(static_file(name), 200, headers, _FILES[name][2])
