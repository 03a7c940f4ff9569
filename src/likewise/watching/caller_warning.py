"""Warns at the line of the user's code, and remembers only so many texts.

Python remembers every text that was warned of, for each module, for ever: a watcher that runs for
months and names rows would fill memory.
"""

import sys
import warnings
from typing import Any, NamedTuple

_MAX_TEXTS = 1000
_INTERNAL_MODULES = ("likewise.watching.", "torch.nn.")


class CallerLine(NamedTuple):
    """Names a line of the user's code."""

    filename: str
    number: int
    module: str | None


def find_caller_line() -> CallerLine:
    """Return the line that called the model."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        _INTERNAL_MODULES
    ):
        frame = frame.f_back
    return CallerLine(frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__"))


def warn(message: Warning, registry: dict[Any, Any], line: CallerLine | None = None) -> None:
    """Warn at the line that called the model.

    registry    texts that were warned of: by default they are not shown again
    line        where that is, if the call is over by now
    """
    line = find_caller_line() if line is None else line
    if len(registry) > _MAX_TEXTS:
        registry.clear()
    warnings.warn_explicit(
        message,
        None,  # its own class
        line.filename,
        line.number,
        module=line.module,
        registry=registry,
    )
