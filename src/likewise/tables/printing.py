"""Writes names, values and numbers as text for people.

Invariant: text of `escape_unprintable` and `format_value` holds no character that a terminal obeys.
Not here: HTML (verdict/html.py), text of values in error messages (normalize.py).
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, TypeVar

FORMULA = r"^(?:['\s]*[=+\-@＝＋－＠]|'*[\t\r\n])"
NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER)


# Escapes cells of a CSV file, so that no spreadsheet takes a text for a formula.
# A spreadsheet reads a cell that begins with =, +, -, @, a tab or a line break as a formula, or as
# several cells. Such a text gets a leading quotation mark ('); a text that already has one gets
# another, so that the original can be recovered. A text that is a number, such as -1.5, stays.


def escape_cell(value: Any) -> Any:
    """Return the value of a cell; text that looks like a formula gets a quotation mark.

    >>> [escape_cell(value) for value in ("=1+1", "-1.5", "p7", 3, None)]
    ["'=1+1", '-1.5', 'p7', 3, '']
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return value if isinstance(value, int | float) else escape_cell(str(value))
    plain = _FORMULA.match(value) is None or _NUMBER.fullmatch(value) is not None
    return value if plain else f"'{value}"


_FEW = 8  # names that a list has before it says how many more there are
_LONGEST = 2_000  # characters of a repr

_ClassT = TypeVar("_ClassT", bound=type)


def with_bounded_repr(cls: _ClassT) -> _ClassT:
    """Make the repr of a dataclass or named tuple at most 2,000 characters long (a decorator)."""
    kind: Any = cls
    whole = kind.__repr__
    if is_dataclass(kind):
        names = [field.name for field in fields(kind) if field.repr]
    else:
        names = kind._fields
    used = len(f"{cls.__name__}()") + sum(len(f"{name}=, ") for name in names)
    room = (_LONGEST - used) // len(names)

    def bounded_repr(self: Any) -> str:
        text: str = whole(self)
        if len(text) <= _LONGEST:
            return text
        shown = (f"{name}={shorten(repr(getattr(self, name)), room)}" for name in names)
        return f"{cls.__name__}({', '.join(shown)})"

    kind.__repr__ = bounded_repr
    return cls


def shorten(text: str, most: int) -> str:
    """Return a text, cut to so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def escape_unprintable(text: str) -> str:
    """Return a text on one line, with escapes for characters that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def display_value(value: Any) -> str:
    """Return a value as a person would read it, not escaped for any output."""
    if value is None:
        return "missing"
    if isinstance(value, list | tuple):
        return ", ".join(map(display_value, value))
    text = f"{value:.7g}" if isinstance(value, float) else str(value)
    return text if text.strip() else "(blank)"


def format_value(value: Any) -> str:
    """Return a name or a value on one line, as a Python literal if it cannot be printed."""
    if isinstance(value, str) and not value.isprintable():
        return repr(value)
    text = display_value(value)
    return text if text.isprintable() else repr(text)


def missing_in_words(
    missing: int, incomplete: int = 0, *, at_least: bool = False, bound: str = ""
) -> str:
    """Return a clause about decisions that are known to be missing; "" if there are none.

    incomplete  how many others were not compared, since their shards were down
    at_least    whether more may be missing than is known
    bound       another bound that the number is, such as "at most "

    >>> missing_in_words(3)
    '; 3 earlier decisions are known to be missing'
    >>> missing_in_words(0, 1)
    '; incomplete: not compared with 1 other'
    >>> missing_in_words(1, at_least=True)
    '; at least 1 earlier decision is known to be missing'
    """
    clause = ""
    if missing:
        decisions = "decision is" if missing == 1 else "decisions are"
        bound = bound or "at least " * at_least
        clause = f"; {bound}{missing:,} earlier {decisions} known to be missing"
    if incomplete:
        clause += f"; incomplete: not compared with {incomplete:,} other{'s' * (incomplete > 1)}"
    return clause


def format_number(value: float) -> str:
    """Return a number as a person would write it."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.6g}" if 1e-4 <= abs(value) < 1e15 else f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share as a percentage; 0% and 100% stand for exactly that."""
    hundred = 100 * share
    if share in (0, 1):
        return f"{hundred:.0f}%"
    if hundred >= 99.95:
        return f"{hundred:.2f}%" if hundred < 99.995 else "almost 100%"
    return f"{hundred:.1f}%" if hundred >= 1 else f"{hundred:.2g}%"


def join_names(names: Iterable[Any], most: int = _FEW) -> str:
    """Return a list in words: a, b and c."""
    texts = [str(name) for name in names]
    if len(texts) > most:
        texts = [*texts[:most], f"{len(texts) - most:,} more"]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def json_text(values: Mapping[str, Any], ascii_only: bool = True) -> str:
    """Return JSON on one line; other objects become text, infinity and NaN become null."""
    dump = partial(json.dumps, ensure_ascii=ascii_only, allow_nan=False, default=str)
    try:
        text = dump(values)
    except ValueError:
        text = dump(_replace_infinite(values))
    if text.isprintable():
        return text
    # An unprintable character can only be inside a string, where JSON has an escape for it.
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _replace_infinite(value: Any) -> Any:
    """Replace the numbers that JSON does not have by None."""
    if isinstance(value, Mapping):
        return {name: _replace_infinite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_infinite(item) for item in value]
    infinite = isinstance(value, float) and not abs(value) < float("inf")
    return None if infinite else value
