"""Work that waits in a queue, and a thread that does it, one piece after the other.

Whoever calls a watched model with `background=True` puts the judging here and does not wait.

Invariant: pieces are done in the order in which they were put, each once. `put` never waits: a full
queue refuses. What is put before the program ends is done then, within some seconds.
Cost: a thread while there is work, and for a second after the last of it; a wake-up for each piece
that finds the thread asleep.
Not here: the queue and the thread (buffering/), and what to do about a refused piece; the watcher
counts it and says so.
"""

import atexit
import weakref
from collections.abc import Callable
from functools import partial

from likewise.buffering.bounded_queue import FULL, Entry
from likewise.buffering.worker import Worker
from likewise.runtime.forking import copied_by_fork
from likewise.runtime.log import logger

_EXIT_SECONDS = 10.0  # that the end of the program waits at most

Piece = Callable[[], None]


class Backlog:
    """At most `most` pieces of work wait here."""

    def __init__(self, most: int) -> None:
        self._worker: Worker[Piece] = Worker(_do, name="likewise-watch", most=most)
        self._queue = self._worker.queue
        # Registered after the monitor's own end, so it runs before it.
        at_exit = partial(_drain, weakref.ref(self))
        atexit.register(at_exit)
        weakref.finalize(self, atexit.unregister, at_exit).atexit = False
        copied_by_fork(self)

    def _after_fork(self) -> None:
        """In a forked process: what waits is the parent's to do."""
        self._worker.after_fork()

    @property
    def waiting(self) -> int:
        """Pieces that are not done yet."""
        with self._queue.lock:
            return len(self._queue) + self._queue.in_hand

    def put(self, piece: Piece) -> bool:
        """Have a piece of work done later; whether there was room for it."""
        with self._queue.lock:
            number = self._queue.put(piece)
        return number != FULL

    def drain(self, seconds: float) -> bool:
        """Wait until nothing waits; whether that came about within `seconds`.

        Within a piece of work it does not wait, since that would be for itself.
        """
        queue, mine = self._queue, self._worker.is_mine
        return self._worker.wait_until(lambda: not len(queue) and (mine or not queue.busy), seconds)


def _do(batch: list[Entry[Piece]]) -> None:
    for _, _, piece in batch:
        piece()


def _drain(known: "weakref.ref[Backlog]") -> None:
    backlog = known()
    if backlog is not None and not backlog.drain(_EXIT_SECONDS):
        logger.warning("the program ends before %d watched calls are judged", backlog.waiting)
