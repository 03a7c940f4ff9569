"""What all pages have in common: header, navigation, content policy, static files.

The address of a static file names its content, so a browser may keep it for good; a new version has
another address. What we did not write is vendored with its licence, and its checksum is tested.

Templates escape every value (verdict/html.py). The policy forbids scripts and styles in the
page itself, so text that were markup by mistake could still run nothing.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from likewise.pages.page_state import Visit, page_url
from likewise.pages.signing_in import Viewer
from likewise.service.http_errors import Refusal
from likewise.verdict.html import render
from likewise.version import __version__

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
NAVIGATION = (
    ("overview", "Overview"),
    ("violations", "Violations"),
    ("queue", "Queue"),
    ("groups", "Groups"),
    ("models", "Models"),
    ("people", "People"),
    ("rule", "Rule"),
    ("health", "Health"),
)
DONE = {
    "reviewed": "Written down. It is in the ledger's chain.",
    "undone": "Taken back, as a new entry of the ledger's chain.",
    "erased": "Erased: inputs, outputs and keys are destroyed, and the chain says so.",
    "erased-later": "Erased. Somebody still reads an old state of the ledger: erase it again later,"
    " so that nothing of it stays in its files.",
    "assigned": "Assigned.",
    "verified": "The ledger was verified.",
}
"""What a page says after a form was sent, by the word `done` of its address."""
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
    here: str = "",
    status: int = 200,
    assets: Sequence[str] = (),
    **data: Any,
) -> Response:
    """A page from a template that extends frame.html.

    visit    what it is about; without one, the page is about no monitor, and for `viewer`
    here     the first part of its path, for the navigation
    """
    monitors: list[tuple[str, str]] = []
    if visit is not None:
        viewer = visit.viewer
        names = [name for name in visit.service.monitors if viewer.allows("read", name)]
        monitors = [(name, page_url(name, here)) for name in names]
    text = render(
        template,
        title=title,
        visit=visit,
        viewer=viewer,
        here=here,
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
    """The content of a file; KeyError if it is none of ours."""
    package, path, _ = _FILES[name]
    return (files(package) / path).read_bytes()


@cache
def static_url(name: str) -> str:
    """Where a file is."""
    return f"/static/{name}?v={hashlib.sha256(static_file(name)).hexdigest()[:12]}"


async def serve_static(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _FILES:
        raise Refusal(404, f"there is no file {name[:100]!r}.")
    headers = {
        "cache-control": "public, max-age=31536000, immutable",
        "x-content-type-options": "nosniff",
    }
    return Response(static_file(name), 200, headers, _FILES[name][2])
