"""What a forked process does with the objects that it was copied with.

A fork copies memory and no thread but the one that forks. A lock that another thread held is held
for ever in the copy, a queue that a thread worked on is never emptied. So whoever has a lock, a
thread or a file registers here, and is told in the child before anything else runs there.

Invariant: `_after_fork` of every registered object that is still alive has run when `fork` returns
in the child, in the order in which they registered.
"""

import contextlib
import os
import weakref
from threading import RLock
from typing import Protocol


class ForkListener(Protocol):
    """Knows what to do in a process that was forked off."""

    def _after_fork(self) -> None:
        """Renew locks, drop what belongs to threads, let go of what belongs to the parent."""


_listeners: "weakref.WeakKeyDictionary[ForkListener, None]" = weakref.WeakKeyDictionary()
"""In the order in which they registered: what an object is made of is told before it."""


def register_after_fork(one: ForkListener) -> None:
    """Have `one` told in every process that is forked off while it is alive."""
    _listeners[one] = None


class ForkSafeLock:
    """A lock that is free in a process that was forked off."""

    def __init__(self) -> None:
        self.lock = RLock()
        register_after_fork(self)

    def _after_fork(self) -> None:
        self.lock = RLock()


class ReentrantLock(Protocol):
    """A lock that the thread which holds it may take again."""

    def acquire(self, blocking: bool = True) -> bool: ...
    def release(self) -> None: ...


first_use_lock = RLock()
"""Held while modules are imported and kernels loaded for the first time."""
_loading: list[ReentrantLock] = [first_use_lock]
LOADING_CUT_OFF_BY_FORK = (
    "was copied by a fork while another thread was loading likewise's kernels, whose locks are held"
    " for ever here: fork before the first decision, or after it"
)
_loading_blocked = False


def register_loading_lock(lock: ReentrantLock) -> None:
    """Have a lock of somebody else's looked at, too, that cannot be renewed after a fork.

    Waiting for it before the fork would not do: others make forks wait for their locks as well, and
    the thread that loads may need one of those.
    """
    _loading.append(lock)


def is_loading_blocked() -> bool:
    """Whether this process was forked off while another thread was loading kernels.

    Python's imports and the compiler have locks of their own, so whoever loads waits for ever.
    """
    return _loading_blocked


def _is_free(lock: ReentrantLock) -> bool:
    free = lock.acquire(blocking=False)
    if free:
        lock.release()
    return free


def _notify_listeners() -> None:
    global _loading_blocked  # noqa: PLW0603 - it is true of the whole process
    _loading_blocked = _loading_blocked or not all(map(_is_free, _loading))
    for one in list(_listeners):
        with contextlib.suppress(Exception):  # one that fails must not keep the rest from it
            one._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_notify_listeners)
