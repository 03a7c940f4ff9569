"""The re-entrancy check: is a method of an object running further down the stack of this thread?

A lock keeps other threads out of a monitor, but not a signal handler, a finalizer or a function of
the user that calls the monitor from inside one of its own calls.
"""

import contextlib
import sys
from pathlib import Path
from types import FrameType

_OURS = (str(Path(__file__).parents[1]), contextlib.__file__)


def is_called_within(owner: object) -> bool:
    """Whether a method of `owner` has, through code outside of likewise, called this one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    while frame is not None and frame.f_locals.get("self") is not owner:
        frame = frame.f_back
    return frame is not None
