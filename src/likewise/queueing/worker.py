"""Run a thread that processes the entries of a queue, batch by batch.

The first entry starts it; it ends after some idle time, and the next entry starts another.
Invariant: entries are done in their order, each once, by one thread at a time. If no thread can
be started (the program ends, or has too many), a caller that waits does the work instead.
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

_LOOKS, _LOOKING = 100, 0.5  # how often, and for how many seconds, it polls after a batch, at most
_RECHECK_SECONDS = 1.0  # after which a waiting caller looks again even if nothing wakes it


class Worker(Generic[T]):
    """Processes the entries of its `queue` in a thread.

    work    processes a batch; what it raises is logged, and the next batch is done
    batch   how many entries are done together at most
    choose  called under the lock, returns how many entries are taken now at most; 0 means that the
            thread does what was put off. By default always `batch`
    gather  how many seconds fewer entries wait for more; no pause while entries are put off
    idle    seconds without an entry after which the thread ends

    Callers that wait for a change (room, an end) have a `SimpleQueue` each, which wakes them. A
    Condition will not do: a signal inside one leaves its lock taken, or not taken, for ever.
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
        """The thread that may take entries. It is set before it is started; if that is interrupted,
        the thread here has not begun, and another replaces it."""
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._waiters: list[SimpleQueue[None]] = []

    def after_fork(self) -> None:
        """Start afresh in a forked process, which does not have the thread."""
        self.queue.after_fork()
        self._begin()

    # Called under the lock of the queue

    def wake(self) -> None:
        """Wake up the thread, or start one."""
        if self._has_begun() or self._start():
            self._woken.put(None)
            self.queue.wake_at = UNLIMITED

    def _has_begun(self) -> bool:
        """Whether there is a thread. (`is_alive` will not do: after a signal inside it, Python
        takes the thread for dead.)"""
        return self._thread is not None and self._thread.ident is not None

    def _start(self) -> bool:
        """Start a thread; False if that is not possible."""
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
        """Wake up all callers that wait, since something has changed."""
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for one in waiters:
                one.put(None)

    def hurry(self) -> None:
        """Process everything that waits at once."""
        self.queue.urgent_below = self.queue.next_number
        if self.queue.to_do:
            self.wake()

    @property
    def is_mine(self) -> bool:
        """Whether this is the thread that does the work, which must not wait for itself."""
        return self._thread is not None and self._thread.ident == get_ident()

    def end(self) -> None:
        """End the thread, since no entry will come."""
        self._thread = None
        self._woken.put(None)

    # Waiting

    def wait_until(self, done: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until a condition holds, at most so long; return whether it holds.

        The caller does not hold the lock; `done` is called under it.
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
        """Process one batch in the thread of a caller that waits."""
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
        """Gather entries for a moment and take them; None if the thread has to end.

        After a batch the thread polls at short intervals before it sleeps, since waking it up costs
        a caller more than putting an entry into the queue.
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
        except BaseException as error:  # such as SystemExit of a user's callable
            logger.error("%s goes on after %s", self._name, type(error).__name__)
        finally:
            with self.queue.lock:
                self.queue.in_hand = 0
                self.queue.busy = False
                self.notify()
