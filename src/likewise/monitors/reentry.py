"""Is an object's method at work further down the stack of this thread?

A lock keeps other threads out of a monitor, but not a signal handler, a finalizer or a callable of
the user's that calls the monitor out of one of its own calls.
"""

import sys
from types import FrameType


def called_within(one: object) -> bool:
    """Whether a method of `one` has, by way of somebody else's code, called this one."""
    frame = _after(sys._getframe(1), one)
    while frame is not None and frame.f_locals.get("self") is not one:
        frame = frame.f_back
    return frame is not None


def _after(frame: FrameType | None, one: object) -> FrameType | None:
    """The first frame that is none of the object's own, on the way down."""
    while frame is not None and frame.f_locals.get("self") is one:
        frame = frame.f_back
    return frame
