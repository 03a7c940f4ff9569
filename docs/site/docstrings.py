"""Docstrings and signatures as the code has them, turned into what Sphinx reads.

The docstrings here are plain text with three habits: `code` in single quotes, examples with >>>,
and names in a column with their meaning in another. The first two Sphinx knows; the third becomes
a definition list.

Invariant: no word is dropped, and what is not such a column stays as it is.
"""

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes

# `path        the folder, new or empty`, or `threads: how many cores`, or `mean, std   by channel`
_COLUMN = re.compile(r"([a-z_]+(?:, [a-z_]+)*)(?:\s{2,}|\s+(?=whether )|: )(\S.*)")
# ndarray[tuple[Any, ...], dtype[int64]], with modules or without
_ARRAY = re.compile(r"[~\w.]*ndarray\[tuple\[[~\w.]*Any, \.\.\.\], [~\w.]*dtype\[[~\w.]*?(\w+)\]\]")


def described(lines: list[str]) -> Iterator[str]:
    """The lines, with columns of names turned into definition lists."""
    column = example = False
    for i, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        starts = i == 0 or not lines[i - 1].strip() or column
        found = _COLUMN.fullmatch(line) if starts and not example else None
        if found:
            if not column:
                yield ""
            column = True
            yield f"``{found[1]}``"
            yield f"   {_quiet(found[2])}"
        elif column and line.startswith(" ") and line.strip():
            yield f"   {_quiet(line.strip())}"
        else:
            if column and line.strip():
                yield ""
            column = False
            yield line if example else _quiet(line)
    yield ""


def _quiet(text: str) -> str:
    """What RST would take for markup, and is not."""
    return re.sub(r"(?<!\\)([|*])", r"\\\1", text) if "`" not in text else text


def _docstring(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    lines[:] = list(described(lines))


def _signature(
    app: Any, what: str, name: str, found: Any, options: Any, given: str | None, answer: str | None
) -> tuple[str | None, str | None]:
    """Arrays by their usual name."""
    return _short(given), _short(answer)


def _annotations(app: Any, page: Any, name: str) -> None:
    """Arrays by their usual name where a signature does not come through `_signature`."""
    for kind in (addnodes.desc_annotation, addnodes.desc_returns):
        for node in list(page.findall(kind)):
            text = node.astext()
            if _ARRAY.search(text):
                node.children = [nodes.Text(_short(text) or "")]


def _short(text: str | None) -> str | None:
    return text and _ARRAY.sub(r"NDArray[\1]", text)


def setup(app: Any) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-process-signature", _signature)
    app.connect("doctree-resolved", _annotations)
    return {"parallel_read_safe": True}
