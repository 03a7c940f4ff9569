"""What a screen is, said once: its address, who may see it, what it knows, and how that is shown.

One `Screen` gives a page, /m/NAME/PATH, and its twin, /m/NAME/PATH.json: the page shows what the
twin says, since it is made of nothing else. A `Form` is where a form of a page is sent; it is
answered by a redirect, so that everything works without a script. A `Download` is a file.

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
"""What a form sent, without what only the frame needs."""


class PageData(NamedTuple):
    """What a screen knows.

    data  what its twin says, and `data` in its template
    more  computes what only the template needs; it follows from the same
    """

    data: Mapping[str, Any]
    more: Callable[[], Mapping[str, Any]] = dict


Load = Callable[[Visit], Awaitable[PageData]]


@dataclass(frozen=True)
class Screen:
    """A page and its twin.

    path      below /m/NAME/, such as "violations" or "pairs/{row}"
    scope     what the viewer must be allowed
    title     what the page is called; {names} stand for what its data says
    load      computes what it knows
    template  shows it; `visit` is who looks
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


PagePart = Screen | Form | Download


def stream_blocks(
    visit: Visit, place: str, load: Load, template: str, blocks: tuple[str, ...]
) -> EventStream:
    """Send blocks of a template again as they change, each by the id of its element.

    place: what is shown; those with the same place share it
    """

    async def render_blocks() -> Mapping[str, str]:
        data, more = await load(visit)
        told = {"data": data, "visit": visit, **more()}
        return {name: render_block(template, name, **told) for name in blocks}

    place = f"{place} {visit.hosted.name}"
    return visit.live.stream(place, render_blocks, visit.is_still_allowed)
