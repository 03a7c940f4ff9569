"""Names and values from the data, as text that no terminal obeys."""

from typing import Any


def text_of(value: Any) -> str:
    """A name or a value on one line, with escapes for whatever cannot be printed."""
    if value is None:
        return "missing"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else repr(text)
