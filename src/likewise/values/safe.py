"""Values from the data become text on a page, and stay text.

Whatever a file holds may end up on the page: markup, quotes, marks that turn the direction of
writing, characters that no page may hold, a megabyte in one place. Markup is escaped, by templates
or by `safe`; what cannot be seen, or would change how the rest is read, is written out as \\u202e;
what is long is cut.
"""

import html
import re
from typing import Any

LONGEST = 160  # characters of one value
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff"
    "\ud800-\udfff]"
)


def readable(value: Any, longest: int | None = LONGEST) -> str:
    """A value as text: what is long is cut, what cannot be seen is written out. Not yet escaped."""
    text = str(value)
    if longest is not None and len(text) > longest:
        text = f"{text[: longest - 20]}… ({len(text):,} characters)"
    return _UNSEEN.sub(_written_out, text)


def safe(value: Any, longest: int | None = LONGEST) -> str:
    """A value as HTML text, for pictures; templates escape by themselves (templates.py).

    >>> safe("<b>bold</b>")
    '&lt;b&gt;bold&lt;/b&gt;'
    """
    return html.escape(readable(value, longest), quote=True)


def shown(value: Any) -> str:
    """A value as a person would read it, not yet safe."""
    if value is None:
        return "missing"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    text = f"{value:.7g}" if isinstance(value, float) else str(value)
    return text if text.strip() else "(blank)"


def both_shown(one: Any, other: Any) -> tuple[str, str]:
    """Two values; with all their digits if they would look the same and are not."""
    texts = shown(one), shown(other)
    if texts[0] == texts[1] and one != other:
        return repr(one), repr(other)
    return texts


def shortened(text: str, longest: int) -> str:
    """Cut to fit a label, not yet safe."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
