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
from typing import Protocol


class CopiedByFork(Protocol):
    """Knows what to do in a process that was forked off."""

    def _after_fork(self) -> None:
        """Renew locks, drop what belongs to threads, let go of what belongs to the parent."""


_copied: "weakref.WeakSet[CopiedByFork]" = weakref.WeakSet()


def copied_by_fork(one: CopiedByFork) -> None:
    """Have `one` told in every process that is forked off while it is alive."""
    _copied.add(one)


def _tell() -> None:
    for one in list(_copied):
        with contextlib.suppress(Exception):  # one that fails must not keep the rest from it
            one._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell)
