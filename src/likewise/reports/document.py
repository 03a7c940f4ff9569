"""What every page has in common: one HTML document that needs nothing beside it, and its file.

No network, nothing to install: a page can be mailed, printed, and read in ten years. It forbids
itself to load anything but what it carries along (its content policy). A script may add controls to
what is there; the policy names it by its hash, so that no other one runs, and the page says
everything without it (tables.js).

Invariant: `title`, `top`, `main` and `foot` are HTML; whoever makes them has made every value in
them safe (safe.py).
"""

import base64
import hashlib
import os
from importlib.resources import files
from pathlib import Path

from likewise.reports.whole import whole
from likewise.values.errors import BadFile
from likewise.values.safe import safe
from likewise.version import __version__

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


def document(
    title: str,
    top: str,
    main: str,
    foot: str,
    *,
    made_by: str = __version__,
    more_style: str = "",
    script: str = "",
) -> str:
    """A whole document.

    more_style   CSS that follows the common style sheet
    script       a script of this folder, at the end
    """
    style = _file("style.css") + more_style
    policy, run = _POLICY, ""
    if script:
        text = f"\n{_file(script)}"
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        policy, run = f"{_POLICY}; script-src 'sha256-{digest}'", f"<script>{text}</script>\n"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="likewise {safe(made_by)}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
{top}
<main>
{main}</main>
<footer>
<p>{foot}</p>
</footer>
{run}</body>
</html>
"""


def _file(name: str) -> str:
    return (files("likewise.reports") / name).read_text("utf-8")


def section(name: str, title: str, lead: str, inside: str) -> str:
    """A part of the page under its heading; all four are HTML."""
    words = f'<p class="lead">{lead}</p>\n' if lead else ""
    return (
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{title}</h2>\n'
        f"{words}{inside}\n</section>\n"
    )


def write_document(text: str, path: str | os.PathLike[str]) -> None:
    """Write a page whole or not at all; BadFile says why it could not be."""
    target = Path(path)
    try:
        with whole(target) as file:
            file.write(text.encode("utf-8"))
    except OSError as error:
        why = error.strerror or str(error)
        raise BadFile(
            f"the report cannot be written to {str(target)!r}: {why}. Nothing was written there:"
            " name a file in a folder that exists, may be written to and has room.",
            path=target,
        ) from None
