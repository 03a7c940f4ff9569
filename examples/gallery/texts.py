"""Two texts beside each other, with what differs marked.

Words, spaces and signs are compared as they are, so a letter that only looks the same is a
difference; what cannot be seen is written out (safe.py).

Cost: a text is cut after some lines, so comparing two stays quick whatever they hold.
"""

import re
from difflib import SequenceMatcher

from likewise.verdict.html import escape_html

_LONGEST = 800  # characters that are shown and compared
_PARTS = re.compile(r"\w+|\s+|[^\w\s]")


def marked(left: str, right: str) -> tuple[str, str]:
    """Both texts as HTML, the parts that only one of them has inside <mark>.

    >>> marked("win a prize", "w1n a prize")
    ('<mark>win</mark> a prize', '<mark>w1n</mark> a prize')
    """
    parts = _PARTS.findall(left[:_LONGEST]), _PARTS.findall(right[:_LONGEST])
    drawn: tuple[list[str], list[str]] = ([], [])
    for what, *ends in SequenceMatcher(None, *parts, autojunk=False).get_opcodes():
        for side in (0, 1):
            start, stop = ends[2 * side : 2 * side + 2]
            lines = "".join(parts[side][start:stop]).split("\n")
            text = "\n".join(escape_html(line, None) for line in lines)
            drawn[side].append(f"<mark>{text}</mark>" if what != "equal" and text else text)
    return _whole(drawn[0], left), _whole(drawn[1], right)


def _whole(drawn: list[str], text: str) -> str:
    if not text.strip():
        return '<span class="small">(blank)</span>'
    more = f"… ({len(text):,} characters)" if len(text) > _LONGEST else ""
    return "".join(drawn) + more
