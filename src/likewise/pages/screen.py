"""Pages are declared as screens, forms and downloads: address, scope, data and template.

A `Screen` makes a page, /m/NAME/PATH, and /m/NAME/PATH.json with the same data. A `Form` handles
what a form of a page sends and answers with a redirect, so that pages work without a script.

    Screen("violations", "read", "Violations", load=async_function, template="pages/x.html")
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.responses import Response

from likewise.pages.page_state import Visit
from likewise.service.routes.verdict_events import EventStream
from likewise.verdict.html import render_block

Fields = Mapping[str, str]
"""The fields that a form sent, without the CSRF token."""


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


PagePart = Screen | Form | Download


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

    place = f"{place} {visit.served.name}"
    return visit.live.stream(place, render_blocks, visit.is_still_allowed)
