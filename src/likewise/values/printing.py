"""Names and values from the data, as text that no terminal obeys."""

from typing import Any


def text_of(value: Any) -> str:
    """A name or a value on one line, with escapes for whatever cannot be printed."""
    if value is None:
        return "missing"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else repr(text)


def missing_in_words(missing: int, incomplete: int = 0) -> str:
    """A clause about decisions that are known to be missing; nothing if there are none.

    incomplete: how many others it was not compared with, since shards were down

    >>> missing_in_words(3)
    '; 3 earlier decisions are known to be missing'
    >>> missing_in_words(0, 1)
    '; incomplete: not compared with 1 other'
    """
    told = ""
    if missing:
        several = "decision is" if missing == 1 else "decisions are"
        told = f"; {missing:,} earlier {several} known to be missing"
    if incomplete:
        told += f"; incomplete: not compared with {incomplete:,} other"
        told += "s" if incomplete > 1 else ""
    return told
