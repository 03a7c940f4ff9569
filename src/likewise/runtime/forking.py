"""Repairs objects in a forked process, which inherits memory but only the thread that forked.

A lock that another thread held stays locked in the child for ever, and a queue that a thread served
is never emptied. So objects with a lock, a thread or a file register here.
Invariant: when `fork` returns in the child, `_after_fork` of every registered object that is still
alive has run, in the order in which they registered.
"""

import contextlib
import os
import sys
import weakref
from pathlib import Path
from threading import RLock
from types import FrameType
from typing import Protocol

_OURS = (str(Path(__file__).parents[1]), contextlib.__file__)


# The re-entrancy check: is a method of an object running further down the stack of this thread? A
# lock keeps other threads out of a monitor, but not a signal handler, a finalizer or a function of
# the user that calls the monitor from inside one of its own calls.


def is_called_within(*owners: object) -> bool:
    """Whether a method of an owner has, through code outside of likewise, called this one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    while frame is not None:
        caller = frame.f_locals.get("self")
        if any(caller is owner for owner in owners):
            return True
        frame = frame.f_back
    return False


class ForkListener(Protocol):
    """Repairs itself in a forked process."""

    def _after_fork(self) -> None:
        """Renew locks, drop what belongs to threads, release what belongs to the parent."""


_listeners: "weakref.WeakKeyDictionary[ForkListener, None]" = weakref.WeakKeyDictionary()
"""In the order of registration, so that the parts of an object come before it."""


def register_after_fork(listener: ForkListener) -> None:
    """Call `_after_fork` of an object in every process that is forked while it is alive."""
    _listeners[listener] = None


class ForkSafeLock:
    """A lock that is free again in a forked process."""

    def __init__(self) -> None:
        self.lock = RLock()
        register_after_fork(self)

    def _after_fork(self) -> None:
        self.lock = RLock()


class ReentrantLock(Protocol):
    """A lock that its owner thread may take again."""

    def acquire(self, blocking: bool = True) -> bool: ...
    def release(self) -> None: ...


first_use_lock = RLock()
"""Held while modules are imported and kernels loaded for the first time."""
_loading_locks: list[ReentrantLock] = [first_use_lock]
LOADING_CUT_OFF_BY_FORK = (
    "was copied by a fork while another thread was loading likewise's kernels, whose locks stay"
    " locked here for ever: fork before the first decision, or after it"
)
_loading_blocked = False


def register_loading_lock(lock: ReentrantLock) -> None:
    """Check one more lock after a fork: one of another library, which cannot be renewed.

    Waiting for it before the fork would risk a deadlock: other libraries make forks wait for their
    locks too, and the thread that loads may need one of those.
    """
    _loading_locks.append(lock)


def is_loading_blocked() -> bool:
    """Whether this process was forked while another thread was loading kernels.

    Python's imports and the compiler have locks of their own, so loading would wait for ever.
    """
    return _loading_blocked


def _is_free(lock: ReentrantLock) -> bool:
    free = lock.acquire(blocking=False)
    if free:
        lock.release()
    return free


def _notify_listeners() -> None:
    global _loading_blocked  # noqa: PLW0603 - it is true of the whole process
    _loading_blocked = _loading_blocked or not all(map(_is_free, _loading_locks))
    for listener in list(_listeners):
        with contextlib.suppress(Exception):  # the others must be repaired all the same
            listener._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_notify_listeners)
