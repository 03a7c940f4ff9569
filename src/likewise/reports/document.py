"""What every page has in common: one HTML document that needs nothing beside it, and its file.

No network, nothing to install: a page can be mailed, printed, and read in ten years. It forbids
itself to load anything but what it carries along (its content policy). A script may add controls to
what is there; the policy names it by its hash, so that no other one runs, and the page says
everything without it (tables.js).

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
    """A whole document from a template that extends document.html, or from that itself.

    more_style   CSS that follows the common style sheet
    script       a script of this folder, at the end
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
    """Write a page whole or not at all; BadFile says why it could not be."""
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
