"""Is an object's method at work further down the stack of this thread?

A lock keeps other threads out of a monitor, but not a signal handler, a finalizer or a callable of
the user's that calls the monitor out of one of its own calls.
"""

import contextlib
import sys
from pathlib import Path
from types import FrameType

_OURS = (str(Path(__file__).parents[1]), contextlib.__file__)


def is_called_within(one: object) -> bool:
    """Whether a method of `one` has, by way of somebody else's code, called this one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    while frame is not None and frame.f_locals.get("self") is not one:
        frame = frame.f_back
    return frame is not None
