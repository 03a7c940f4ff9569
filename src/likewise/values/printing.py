"""Names and values from the data, as text that no terminal obeys."""

from typing import Any


def text_of(value: Any) -> str:
    """A name or a value on one line, with escapes for whatever cannot be printed."""
    if value is None:
        return "missing"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else repr(text)


def missing_in_words(missing: int) -> str:
    """A clause about decisions that are known to be missing; nothing if there are none.

    >>> missing_in_words(3)
    '; 3 earlier decisions are known to be missing'
    """
    if missing == 0:
        return ""
    several = "decision is" if missing == 1 else "decisions are"
    return f"; {missing:,} earlier {several} known to be missing"
