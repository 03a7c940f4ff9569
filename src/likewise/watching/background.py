"""A queue of work and a thread that does it in order: what cannot be judged at once (watcher.py).

Invariant: pieces are done in the order in which they were put, each once. `put` never waits: a full
queue refuses. What is put before the program ends is done then, within some seconds.
Cost: a thread while there is work and for a second afterwards; a wake-up for each piece that finds
it asleep. Not here: the queue and the thread themselves (queueing/); refused pieces (watcher.py).
"""

import atexit
import weakref
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, Generic, TypeVar

from likewise.queueing.bounded_queue import NO_ROOM, UNLIMITED, Entry
from likewise.queueing.worker import Worker
from likewise.runtime.forking import register_after_fork
from likewise.runtime.log import logger

_EXIT_SECONDS = 10.0  # that the end of the program waits at most

PieceT = TypeVar("PieceT")


class Backlog(Generic[PieceT]):
    """Keeps at most `most` pieces of work waiting, of `most_bytes` together.

    process     does up to `batch` pieces, in their order
    """

    def __init__(
        self,
        process: Callable[[list[PieceT]], None],
        *,
        most: int,
        most_bytes: int = UNLIMITED,
        batch: int = 1,
    ) -> None:
        def work(entries: list[Entry[PieceT]]) -> None:
            process([piece for _, _, piece in entries])

        self._worker: Worker[PieceT] = Worker(
            work, name="likewise-watch", most=most, most_bytes=most_bytes, batch=batch
        )
        self._queue = self._worker.queue
        # Registered after the close of the monitor, so it runs before that.
        at_exit = partial(_drain_at_exit, weakref.ref(self))
        atexit.register(at_exit)
        weakref.finalize(self, atexit.unregister, at_exit).atexit = False
        register_after_fork(self)

    def _after_fork(self) -> None:
        """Drop what waits: it is the parent process that does it."""
        self._worker.after_fork()

    @property
    def waiting_count(self) -> int:
        """How many pieces are not done yet."""
        with self._queue.lock:
            return len(self._queue) + self._queue.in_hand

    @property
    def is_mine(self) -> bool:
        """Whether this is the thread that does the work."""
        return self._worker.is_mine

    def put(self, piece: PieceT, size: int = 0) -> bool:
        """Have a piece of work done later; return whether there was room for it."""
        with self._queue.lock:
            number = self._queue.put(piece, size)
        return number != NO_ROOM

    def drain(self, seconds: float) -> bool:
        """Wait until all work is done; return whether that took no longer than `seconds`.

        Called by a piece of work, it does not wait for that piece itself.
        """
        queue, mine = self._queue, self._worker.is_mine
        return self._worker.wait_until(lambda: not len(queue) and (mine or not queue.busy), seconds)


def size_of(value: Any) -> int:
    """Estimate how many bytes a value takes, quickly: by the first element of a sequence."""
    if isinstance(value, list | tuple):
        return 56 + len(value) * (8 + size_of(value[0])) if value else 56
    if isinstance(value, dict):
        return 64 + sum(100 + size_of(one) for one in value.values())
    if isinstance(value, str | bytes):
        return 50 + len(value)
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    shape = getattr(value, "shape", None)  # of a frame
    return 64 * prod(shape) if isinstance(shape, tuple) else 100


def _drain_at_exit(reference: "weakref.ref[Backlog[PieceT]]") -> None:
    backlog = reference()
    if backlog is not None and not backlog.drain(_EXIT_SECONDS):
        logger.warning("the program ends before %d watched calls are judged", backlog.waiting_count)
