"""What a forked process does with the objects that it was copied with.

A fork copies memory and no thread but the one that forks. A lock that another thread held is held
for ever in the copy, a queue that a thread worked on is never emptied. So whoever has a lock, a
thread or a file registers here, and is told in the child before anything else runs there.

Invariant: `_after_fork` of every registered object that is still alive has run when `fork` returns
in the child.
"""

import contextlib
import os
import weakref
from threading import RLock
from typing import Protocol


class CopiedByFork(Protocol):
    """Knows what to do in a process that was forked off."""

    def _after_fork(self) -> None:
        """Renew locks, drop what belongs to threads, let go of what belongs to the parent."""


_copied: "weakref.WeakSet[CopiedByFork]" = weakref.WeakSet()


def copied_by_fork(one: CopiedByFork) -> None:
    """Have `one` told in every process that is forked off while it is alive."""
    _copied.add(one)


class Renewed:
    """A lock that is free in a process that was forked off."""

    def __init__(self) -> None:
        self.lock = RLock()
        copied_by_fork(self)

    def _after_fork(self) -> None:
        self.lock = RLock()


first_use = RLock()
"""Held while modules are imported and kernels compiled: a fork waits until that is over, since the
locks of Python's imports, and of the compiler, would be held for ever in the child."""
_waited_for: "list[Waitable]" = [first_use]


class Waitable(Protocol):
    """A lock that the thread which holds it may take again."""

    def acquire(self) -> object: ...
    def release(self) -> object: ...


def forks_wait_for(lock: Waitable) -> None:
    """Have every fork wait until it can take `lock`, which is taken within `first_use` or alone."""
    _waited_for.append(lock)


def _wait() -> None:
    for lock in _waited_for:
        lock.acquire()


def _go_on() -> None:
    for lock in reversed(_waited_for):
        lock.release()


def _tell() -> None:
    _go_on()
    for one in list(_copied):
        with contextlib.suppress(Exception):  # one that fails must not keep the rest from it
            one._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait, after_in_parent=_go_on, after_in_child=_tell)
