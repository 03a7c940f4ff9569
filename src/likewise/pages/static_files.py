"""Style sheets and scripts as files: the report's own style, ours, and a library for charts.

The address of a file names its content, so a browser may keep it for good; a new version has
another address. What we did not write is vendored with its licence, and its checksum is tested.
"""

import hashlib
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from likewise.service.refusals import Refusal

_FILES = {
    "style.css": ("likewise.reports", "style.css", "text/css"),
    "pages.css": ("likewise.pages", "static/pages.css", "text/css"),
    "work.css": ("likewise.pages", "static/work.css", "text/css"),
    "likewise.js": ("likewise.pages", "static/likewise.js", "text/javascript"),
    "uplot.js": ("likewise.pages", "static/uPlot.iife.min.js", "text/javascript"),
    "uplot.css": ("likewise.pages", "static/uPlot.min.css", "text/css"),
}


@cache
def static_file(name: str) -> bytes:
    """The content of a file; KeyError if it is none of ours."""
    package, path, _ = _FILES[name]
    return (files(package) / path).read_bytes()


@cache
def static_url(name: str) -> str:
    """Where a file is."""
    return f"/static/{name}?v={hashlib.sha256(static_file(name)).hexdigest()[:12]}"


async def static(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _FILES:
        raise Refusal(404, f"there is no file {name[:100]!r}.")
    headers = {
        "cache-control": "public, max-age=31536000, immutable",
        "x-content-type-options": "nosniff",
    }
    return Response(static_file(name), 200, headers, _FILES[name][2])
