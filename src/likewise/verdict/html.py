"""Escapes values for HTML and fills the templates, *.html files beside the code that uses them.

Every value in a template is made readable (`readable`: invisible characters written out, long text
cut to LONGEST characters; `|upto(n)` and `|whole` cut later or never), then escaped. A template
"pages/rule.html" is the file of that path in this package. Invariant: `Markup` is made only here
and, of pictures, style sheets and scripts, in reports/ (tests/reports/test_escaping.py).
"""

import html
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from likewise.tables.printing import display_value, format_number, format_value, percent

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


LONGEST = 160  # characters of a value
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff"
    "\ud800-\udfff]"
)


def readable(value: Any, longest: int | None = LONGEST) -> str:
    """Return a value as text, cut if long, with invisible characters written out; not escaped."""
    text = str(value)
    if longest is not None and len(text) > longest:
        text = f"{text[: longest - 20]}… ({len(text):,} characters)"
    return _UNSEEN.sub(_escape_character, text)


def escape_html(value: Any, longest: int | None = LONGEST) -> str:
    """Return a value as HTML text, for pictures; templates escape by themselves.

    >>> escape_html("<b>bold</b>")
    '&lt;b&gt;bold&lt;/b&gt;'
    """
    return html.escape(readable(value, longest), quote=True)


def display_both(one: Any, other: Any) -> tuple[str, str]:
    """Return two values as text, with all digits if they would look the same but differ."""
    texts = display_value(one), display_value(other)
    if texts[0] == texts[1] and one != other:
        return repr(one), repr(other)
    return texts


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("likewise", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "upto": _upto,
        "whole": lambda value: _upto(value, None),
        "lines": _lines,
        "column": _column,
        "shown": display_value,
        "percent": lambda share: "–" if share is None else percent(share),
        "figure": format_number,
        "distance": lambda it: "–" if it is None else format_number(float(f"{it:.3g}")),
        "count": lambda it: "–" if it is None else f"{it:,}",
        "many": format_count,
    }
    environment.globals["zip"] = zip
    return environment


def render(template: str, **data: Any) -> "Markup":
    """Fill a template."""
    return _markup(_environment().get_template(template).render(data))


def render_block(template: str, block: str, **data: Any) -> str:
    """Fill one block of a template; the block imports what it needs itself."""
    loaded = _environment().get_template(template)
    return "".join(loaded.blocks[block](loaded.new_context(data)))


def render_in_notebook(template: str, **data: Any) -> "Markup | None":
    """Fill a template; return None without Jinja2, so that a notebook shows plain text."""
    return None if find_spec("jinja2") is None else render(template, **data)


def make_table(
    title: str, columns: Mapping[str, Sequence[Any]], count: int | None = None
) -> "Markup | None":
    """Return a table for a notebook.

    count: the number of lines if all were shown, where it has fewer
    """
    lines = [list(map(format_value, line)) for line in zip(*columns.values(), strict=True)]
    count = len(lines) if count is None else count
    return render_in_notebook(
        "verdict/verdict.html", title=title, columns=columns, lines=lines, count=count
    )


def format_count(count: int, what: str) -> str:
    """Return how many there are, in words.

    >>> format_count(1, "pair"), format_count(2_000, "pair")
    ('1 pair', '2,000 pairs')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def _finalize(value: Any) -> Any:
    return value if hasattr(value, "__html__") else readable(value)


def _upto(value: Any, longest: int | None) -> "Markup":
    from markupsafe import escape

    return escape(value if hasattr(value, "__html__") else readable(value, longest))


def _lines(text: str) -> "Markup":
    """Return a text of several lines, uncut."""
    return _markup("\n").join(readable(line, None) for line in text.split("\n"))


def _column(name: Any) -> "Markup":
    """Return the name of a column, which may break after an underscore."""
    return _markup("<bdi>%s</bdi>") % _markup("_<wbr>").join(readable(name, 80).split("_"))


def _markup(html: str) -> "Markup":
    from markupsafe import Markup

    return Markup(html)
