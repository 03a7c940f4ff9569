"""What every page has in common: one HTML document that needs nothing beside it, and its file.

No script, no network, nothing to install: a page can be mailed, printed, and read in ten years. It
forbids itself to load anything but what it carries along (its content policy).

Invariant: `title`, `top`, `main` and `foot` are HTML; whoever makes them has made every value in
them safe (safe.py).
"""

import os
from importlib.resources import files
from pathlib import Path

from likewise.reports.safe import safe
from likewise.reports.whole import whole
from likewise.values.errors import BadFile
from likewise.version import __version__

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


def document(
    title: str, top: str, main: str, foot: str, *, made_by: str = __version__, more_style: str = ""
) -> str:
    """A whole document; more_style names a style sheet of this folder, after the common one."""
    sheets = ["style.css", *([more_style] if more_style else [])]
    style = "".join((files("likewise.reports") / one).read_text("utf-8") for one in sheets)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
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
</body>
</html>
"""


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
            " name a file in a folder that exists, may be written to and has room."
        ) from None
