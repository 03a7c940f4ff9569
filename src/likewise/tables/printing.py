"""Names, values and numbers as text for people, and such that no terminal obeys it."""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

_FEW = 8  # names in a list before it says how many more
_LONGEST = 2_000  # characters of a repr

_ClassT = TypeVar("_ClassT", bound=type)


def with_bounded_repr(cls: _ClassT) -> _ClassT:
    """Make the repr of a dataclass or named tuple at most 2,000 characters long (a decorator)."""
    kind: Any = cls
    whole = kind.__repr__
    names = [one.name for one in fields(kind) if one.repr] if is_dataclass(kind) else kind._fields
    used = len(f"{cls.__name__}()") + sum(len(f"{name}=, ") for name in names)
    room = (_LONGEST - used) // len(names)

    def bounded_repr(self: Any) -> str:
        text: str = whole(self)
        if len(text) <= _LONGEST:
            return text
        shown = (f"{name}={shorten_repr(getattr(self, name), room)}" for name in names)
        return f"{cls.__name__}({', '.join(shown)})"

    kind.__repr__ = bounded_repr
    return cls


def shorten_repr(value: Any, most: int) -> str:
    """Return the repr of a value, cut off after so many characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def escape_unprintable(text: str) -> str:
    """Text on one line that no terminal obeys: what cannot be printed is shown as an escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def format_value(value: Any) -> str:
    """A name or a value on one line, with escapes for whatever cannot be printed."""
    if value is None:
        return "missing"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else repr(text)


def missing_in_words(
    missing: int, incomplete: int = 0, *, at_least: bool = False, bound: str = ""
) -> str:
    """A clause about decisions that are known to be missing; nothing if there are none.

    incomplete  how many others it was not compared with, since shards were down
    at_least    whether more may be missing than is known
    bound       what else the number is: "at most "

    >>> missing_in_words(3)
    '; 3 earlier decisions are known to be missing'
    >>> missing_in_words(0, 1)
    '; incomplete: not compared with 1 other'
    >>> missing_in_words(1, at_least=True)
    '; at least 1 earlier decision is known to be missing'
    """
    told = ""
    if missing:
        several = "decision is" if missing == 1 else "decisions are"
        bound = bound or "at least " * at_least
        told = f"; {bound}{missing:,} earlier {several} known to be missing"
    if incomplete:
        told += f"; incomplete: not compared with {incomplete:,} other"
        told += "s" if incomplete > 1 else ""
    return told


def format_number(value: float) -> str:
    """A number as a person would write it."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.6g}" if 1e-4 <= abs(value) < 1e15 else f"{value:.4g}"


def percent(share: float) -> str:
    """A share, with as many digits as it needs; never 0% for something, nor 100% for less."""
    hundred = 100 * share
    if share in (0, 1):
        return f"{hundred:.0f}%"
    if hundred >= 99.95:
        return f"{hundred:.2f}%" if hundred < 99.995 else "almost 100%"
    return f"{hundred:.1f}%" if hundred >= 1 else f"{hundred:.2g}%"


def join_names(names: Iterable[Any], most: int = _FEW) -> str:
    """a, b and c."""
    texts = [str(name) for name in names]
    if len(texts) > most:
        texts = [*texts[:most], f"{len(texts) - most:,} more"]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
