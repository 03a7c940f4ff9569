"""Renders and writes self-contained HTML documents, which every page of a report is.

No network, nothing to install: a page can be mailed, printed, and read in ten years. Its content
policy forbids to load anything. A script may add controls (tables.js); the policy names it by its
hash, so that no other script runs, and the page says everything without it.

Not here: what is on a page; its template extends document.html.
"""

import base64
import hashlib
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from likewise.errors import BadFile
from likewise.runtime.atomic_file import write_atomically
from likewise.verdict.html import render
from likewise.version import __version__

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


def document(
    template: str, *, title: str, more_style: str = "", script: str = "", **data: Any
) -> str:
    """Render a whole document from a template that extends document.html, or from that itself.

    more_style   CSS that follows the common style sheet
    script       a script of this folder, put at the end
    """
    policy, text = _POLICY, ""
    if script:
        text = f"\n{_file(script)}"
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        policy = f"{_POLICY}; script-src 'sha256-{digest}'"
    style = Markup(_file("style.css") + more_style)
    defaults = {"made_by": __version__, "top": "", "main": "", "foot": ""}
    page = render(
        template,
        **{**defaults, **data},
        title=title,
        policy=policy,
        style=style,
        script=Markup(text),
    )
    return page + "\n"


def _file(name: str) -> str:
    return (files("likewise.reports") / name).read_text("utf-8")


def write_document(text: str, path: str | os.PathLike[str]) -> None:
    """Write a page atomically; raise BadFile if that is not possible."""
    target = Path(path)
    try:
        with write_atomically(target) as file:
            file.write(text.encode("utf-8"))
    except OSError as error:
        why = error.strerror or str(error)
        raise BadFile(
            f"the report cannot be written to {str(target)!r}: {why}. Nothing was written there:"
            " name a file in a folder that exists, may be written to and has room.",
            path=target,
        ) from None
