"""Docstrings as the code has them, turned into what Sphinx reads.

The docstrings here are plain text with three habits: `code` in single quotes, examples with >>>,
and names in a column with their meaning in another. The first two Sphinx knows; the third becomes
a definition list.

Invariant: no word is dropped, and what is not such a column stays as it is.
"""

import re
from collections.abc import Iterator
from typing import Any

# `path        the folder, new or empty`, or `threads: how many cores`
_COLUMN = re.compile(r"([a-z_]+)(?:\s{2,}|\s+(?=whether )|: )(\S.*)")


def described(lines: list[str]) -> Iterator[str]:
    """The lines, with columns of names turned into definition lists."""
    column = False
    for i, line in enumerate(lines):
        starts = i == 0 or not lines[i - 1].strip() or column
        found = _COLUMN.fullmatch(line) if starts and not line.startswith(" ") else None
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
            yield line if line.lstrip().startswith((">>>", "...")) else _quiet(line)
    yield ""


def _quiet(text: str) -> str:
    """What RST would take for markup, and is not."""
    return re.sub(r"(?<!\\)([|*])", r"\\\1", text) if "`" not in text else text


def _process(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    lines[:] = list(described(lines))


def setup(app: Any) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True}
