"""Work that waits in a queue, and a thread that does it, one piece after the other.

Whoever calls a watched model with `background=True` puts the judging here and does not wait.

Invariant: pieces are done in the order in which they were put, each once. `put` never waits: a full
queue refuses. What is put before the program ends is done then, within some seconds.
Cost: a thread while there is work, and for a second after the last of it; a wake-up for each piece
that finds the thread asleep.
Not here: what to do about a refused piece; the watcher counts it and says so.
"""

import atexit
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import Condition, RLock, Thread, current_thread

from likewise.runtime.forking import copied_by_fork
from likewise.runtime.log import logger

_IDLE_SECONDS = 1.0  # without work, after which the thread ends; the next piece starts another
_EXIT_SECONDS = 10.0  # that the end of the program waits at most


class Backlog:
    """At most `most` pieces of work wait here."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._work: deque[Callable[[], None]] = deque()
        self._lock = RLock()  # taken itself: a signal in Condition.__enter__ would leave it taken
        self._changed = Condition(self._lock)
        self._thread: Thread | None = None
        self._busy = False
        # Registered after the monitor's own end, so it runs before it.
        at_exit = partial(_drain, weakref.ref(self))
        atexit.register(at_exit)
        weakref.finalize(self, atexit.unregister, at_exit).atexit = False
        copied_by_fork(self)

    def _after_fork(self) -> None:
        """In a forked process: the thread is not there, and what waits is the parent's to do."""
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._work.clear()
        self._thread = None
        self._busy = False

    @property
    def waiting(self) -> int:
        """Pieces that are not done yet."""
        with self._lock:
            return len(self._work) + self._busy

    def put(self, piece: Callable[[], None]) -> bool:
        """Have a piece of work done later; whether there was room for it."""
        with self._lock:
            if len(self._work) >= self._most:
                return False
            if self._thread is None:
                thread = Thread(target=self._run, name="likewise-watch", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the program is ending, or has too many threads
                    return False
                self._thread = thread
            self._work.append(piece)
            self._changed.notify_all()
            return True

    def drain(self, seconds: float) -> bool:
        """Wait until nothing waits; whether that came about within `seconds`.

        Within a piece of work it does not wait, since that would be for itself.
        """
        with self._lock:
            if current_thread() is self._thread:
                return not self._work
            return self._changed.wait_for(lambda: not self._work and not self._busy, seconds)

    def _run(self) -> None:
        while (piece := self._next()) is not None:
            try:
                piece()
            except BaseException as error:  # such as SystemExit of the user's own callable
                logger.error("the background of a watch goes on after %s", type(error).__name__)
            finally:
                del piece
                with self._lock:
                    self._busy = False
                    self._changed.notify_all()

    def _next(self) -> Callable[[], None] | None:
        """The next piece; None if none came for a while, and the thread ends."""
        with self._lock:
            if not self._changed.wait_for(lambda: self._work, _IDLE_SECONDS):
                self._thread = None
                return None
            self._busy = True
            return self._work.popleft()


def _drain(known: "weakref.ref[Backlog]") -> None:
    backlog = known()
    if backlog is not None and not backlog.drain(_EXIT_SECONDS):
        logger.warning("the program ends before %d watched calls are judged", backlog.waiting)
