"""Warns at the line of the user's code, and remembers only so many texts.

Python remembers every text that was warned of, for each module, for ever: a watcher that runs for
months and names rows would fill memory.
"""

import sys
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

_SAMPLE_SIZE = 200  # outputs
# From these shares of distinct outputs on, numbers are taken for measurements. Whole numbers need
# more, since they may be the numbers of many classes.
_FRACTION_SHARE = 0.5
_WHOLE_SHARE = 0.95


# Notices a rule about labels on a model that answers numbers. Under such a rule 0.71 and 0.72 are
# as different as "yes" and "no": almost every near pair violates.
# Cost: a set of the first outputs, dropped once they are counted.
# Not here: later outputs. A model that answers classes first and numbers later is not noticed.


class LabelHints:
    """Looks at the first labels of a model."""

    def __init__(self) -> None:
        self._count = 0
        self._distinct: set[Any] = set()
        self._whole = True
        self.done = False

    def hardly_repeat(self, outputs: Iterable[Any]) -> bool:
        """Look at more outputs; return whether they now prove to be numbers, not labels."""
        for output in outputs:
            number = isinstance(output, int | float | np.number) and not isinstance(output, bool)
            if not number:
                self._end()
                return False
            self._whole = self._whole and output == output // 1
            self._distinct.add(output)
            self._count += 1
            if self._count == _SAMPLE_SIZE:
                share = len(self._distinct) / self._count
                self._end()
                return share >= (_WHOLE_SHARE if self._whole else _FRACTION_SHARE)
        return False

    def _end(self) -> None:
        self.done = True
        self._distinct = set()


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
