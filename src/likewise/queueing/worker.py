"""A thread that does what waits in a queue, one batch after the other.

It is started when something is put into the queue, gathers entries for a moment so that they are
done together, and ends when nothing has come for a while; the next entry starts another. While
entries are put off (`Later`) it does not pause.

Those who wait for a change (room, an end) have a `SimpleQueue` each, which is told. A Condition
will not do: a signal that arrives inside one leaves its lock taken, or not taken, for ever.

Invariant: entries are done in their order, each once, by one thread at a time. Where no thread can
be started (the program ends, or has too many), whoever waits does the work instead.
Cost: a wake-up for a batch, not for an entry.
"""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread, current_thread, get_ident
from time import monotonic
from typing import Generic, TypeVar

from likewise.queueing.bounded_queue import UNLIMITED, BoundedQueue, DeferredEntries, Entry
from likewise.runtime.log import logger

T = TypeVar("T")

_LOOKS, _LOOKING = 100, 0.5  # times, and seconds, that the thread looks after a batch, at most
_RECHECK_SECONDS = 1.0  # seconds after which whoever waits looks again, told or not


class Worker(Generic[T]):
    """Does what waits in its `queue`.

    work    does a batch of entries; what it raises is logged, and the next batch is done
    batch   entries that are done together, at most
    choose  how many entries are taken now, at most; 0: the thread is to do what was put off. It is
            asked under the lock; `batch` unless given
    gather  seconds that entries wait for company, if they are fewer
    idle    seconds without an entry after which the thread ends
    """

    def __init__(
        self,
        work: Callable[[list[Entry[T]]], None],
        *,
        name: str,
        most: int,
        most_bytes: int = UNLIMITED,
        batch: int = 1,
        gather: float = 0.0,
        idle: float = 1.0,
        later: DeferredEntries | None = None,
        choose: Callable[[], int] | None = None,
    ) -> None:
        self.queue: BoundedQueue[T] = BoundedQueue(most, most_bytes, wake=self.wake, later=later)
        self._work = work
        self._name = name
        self._choose = choose or (lambda: batch)
        self._gather, self._idle = gather, idle
        self._enough = min(batch, most) if gather > 0 else 1
        self._begin()

    def _begin(self) -> None:
        self._thread: Thread | None = None
        """The one that may take entries. It is set before it is started, so that a caller who is
        cut off in between leaves one that has not begun, which another replaces."""
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._waiters: list[SimpleQueue[None]] = []

    def after_fork(self) -> None:
        """In a forked process: the thread is not there."""
        self.queue.after_fork()
        self._begin()

    # Called under the lock of the queue

    def wake(self) -> None:
        """Have a thread look at the queue."""
        if self._has_begun() or self._start():
            self._woken.put(None)
            self.queue.wake_at = UNLIMITED

    def _has_begun(self) -> bool:
        """Whether there is a thread. (`is_alive` will not do: a signal inside it ends the thread as
        far as Python knows.)"""
        return self._thread is not None and self._thread.ident is not None

    def _start(self) -> bool:
        """Whether a thread could be started."""
        thread = Thread(target=self._run, name=self._name, daemon=True)
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:
            self._thread = None
            logger.debug("no thread can be started for %s", self._name)
            return False
        return True

    def notify(self) -> None:
        """Something has changed that somebody may be waiting for."""
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for one in waiters:
                one.put(None)

    def hurry(self) -> None:
        """Have all that waits done at once."""
        self.queue.urgent_below = self.queue.next_number
        if self.queue.to_do:
            self.wake()

    @property
    def is_mine(self) -> bool:
        """Whether this is the thread that does the work, which must not wait for itself."""
        return self._thread is not None and self._thread.ident == get_ident()

    def end(self) -> None:
        """Have the thread end, since nothing will come."""
        self._thread = None
        self._woken.put(None)

    # Waiting

    def wait_until(self, done: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until something is so, at most so long; whether it is. The lock is not held.

        done: asked under the lock
        """
        until = UNLIMITED if seconds is None else monotonic() + seconds
        waiter: SimpleQueue[None] = SimpleQueue()
        while True:
            with self.queue.lock:
                self._waiters = [one for one in self._waiters if one is not waiter]
                if done():
                    return True
                left = until - monotonic()
                if left <= 0 or self.is_mine:
                    return False
                alone = self._is_missing() and not self._start()
                self._waiters.append(waiter)
            if alone:
                self._do_one_batch_here()
            else:
                with suppress(Empty):
                    waiter.get(timeout=min(left, _RECHECK_SECONDS))

    def _is_missing(self) -> bool:
        """Whether there is work, and no thread to do it."""
        return not self._has_begun() and self.queue.to_do > 0

    def _do_one_batch_here(self) -> None:
        """In the thread of whoever waits."""
        with self.queue.lock:
            self._thread = current_thread()
        try:
            self._do(self._next_batch())
        finally:
            self._thread = None

    # The thread

    def _run(self) -> None:
        try:
            while (batch := self._wait_for_batch()) is not None:
                self._do(batch)
                del batch
        finally:
            with self.queue.lock:
                if self.is_mine:
                    self._thread = None
                    self.queue.wake_at = 1

    def _wait_for_batch(self) -> list[Entry[T]] | None:
        """The next entries, gathered for a moment; None if the thread is to end.

        After a batch it looks for more at short intervals before it sleeps, since to wake it up
        costs whoever puts the next entry more than putting it.
        """
        queue, waited, gathered = self.queue, 0.0, False
        looks = int(min(_LOOKS, _LOOKING / self._gather)) if self._gather > 0 else 0
        while True:
            with queue.lock:
                if not self.is_mine:
                    return None
                waiting = len(queue)
                if queue.to_do > waiting or (
                    waiting and (gathered or waiting >= self._enough or queue.is_urgent)
                ):
                    queue.wake_at = UNLIMITED
                    break
                if not waiting and waited >= self._idle:
                    self._thread = None
                    queue.wake_at = 1
                    return None
                asleep = not waiting and looks == 0
                queue.wake_at = 1 if asleep else self._enough
            looks -= not waiting and not asleep
            seconds = _RECHECK_SECONDS if asleep else self._gather
            try:
                self._woken.get(timeout=seconds)
            except Empty:
                waited += 0 if waiting else seconds
            gathered = not asleep
        return self._next_batch()

    def _next_batch(self) -> list[Entry[T]]:
        with self.queue.lock:
            batch = self.queue.take(self._choose())
            self.notify()  # that there is room
        return batch

    def _do(self, batch: list[Entry[T]]) -> None:
        try:
            self._work(batch)
        except BaseException as error:  # such as SystemExit of the user's own callable
            logger.error("%s goes on after %s", self._name, type(error).__name__)
        finally:
            with self.queue.lock:
                self.queue.in_hand = 0
                self.queue.busy = False
                self.notify()
