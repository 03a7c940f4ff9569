"""Calls of several threads share a transaction of the ledger (group commit).

A call that comes while no other is being made is made at once, in the thread that it came from. The
others wait: a thread of its own takes all that have come in the meantime, makes them one after the
other, has what they wrote on disk together, and only then answers. Signal handlers raise in the
main thread only, so no call is cut off by somebody else's interruption.

Invariant: calls are made in the order in which they came; a call is answered when all that it wrote
is on disk, or refused, and then it has left no trace.
Bound: `MOST` calls wait; whoever comes after them waits until there is room.
"""

import asyncio
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any, Protocol, TypeVar

from likewise.runtime.reentry import called_within
from likewise.values.errors import BadFile

MOST = 1 << 16
_TOGETHER = 1024  # calls that share a transaction at most
_T = TypeVar("_T")


class Answer(Future[_T]):
    """What a call will have answered: `result()` waits for it, and so does `await`."""

    def __await__(self) -> Generator[Any, None, _T]:
        return asyncio.wrap_future(self).__await__()


class Shares(Protocol):
    """Whose calls share transactions."""

    def _committing_together(self) -> AbstractContextManager[None]:
        """Within it nothing is written; at its end, everything is, or BadFile is raised."""


Request = tuple["Answer[Any]", Callable[[], Any]]


class _Turns:
    """What callers and the thread that makes their calls have in common."""

    def __init__(self, owner: Shares) -> None:
        self.owner = weakref.ref(owner)
        self.waiting: Queue[Request | None] = Queue(MOST)
        self.crowded = False
        """Whether several calls came at once the last time: then all of them wait."""
        self.free = [True]
        """One entry while no call is being made. Taking it is one step; if an interruption loses it
        right then, calls wait for the thread until that puts it back."""


class SharedCommits:
    """The calls that wait, and the thread that makes them."""

    def __init__(self, owner: Shares) -> None:
        self._begin(owner)

    def _begin(self, owner: Shares) -> None:
        self._turns = _Turns(owner)
        self._thread: Thread | None = None
        self._starting = Lock()

    def make(self, call: Callable[[], _T]) -> _T:
        """Make a call now, or have it made together with others; what it answers."""
        turns = self._turns
        if turns.crowded or not _taken(turns.free):
            if called_within(turns.owner()):
                return call()  # out of another call, so it will be refused
            return self.submit(call).result()
        try:
            return call()
        finally:
            turns.free[:] = [True]

    def submit(self, call: Callable[[], _T]) -> "Answer[_T]":
        """Have a call made soon, in its turn."""
        answer: Answer[_T] = Answer()
        if self._thread is None:
            self._start()
        self._turns.waiting.put((answer, call))
        return answer

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = Thread(target=_run, args=(self._turns,), name="likewise-commit")
                thread.daemon = True
                thread.start()
                self._thread = thread

    def finish(self) -> None:
        """Make all calls that wait, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._turns.waiting.put(None)
            thread.join()

    def after_fork(self, owner: Shares) -> None:
        """In a forked process: the calls that wait are the parent's."""
        self._begin(owner)


def _taken(free: list[bool]) -> bool:
    try:
        return free.pop()
    except IndexError:
        return False


def _run(turns: _Turns) -> None:
    more = True
    while more:
        first = turns.waiting.get()
        monitor = turns.owner()
        if first is None or monitor is None:
            if first is not None:
                first[0].set_exception(BadFile("the monitor was closed before this call."))
            return
        more = _make(monitor, first, turns)
        del monitor, first


def _make(monitor: Shares, first: Request, turns: _Turns) -> bool:
    """Make a call and all that have come after it, commit them together, and answer.

    Whether more may come.
    """
    requests, more = [first], True
    made: list[tuple[Answer[Any], Any]] = []
    try:
        with monitor._committing_together():
            more = _take_more(requests, turns.waiting)
            for answer, call in requests:
                if answer.set_running_or_notify_cancel():
                    try:
                        made.append((answer, call()))
                    except Exception as error:
                        answer.set_exception(error)
    except BaseException as error:
        for answer, _ in requests:
            if not answer.done():
                answer.set_exception(error)
        return more
    turns.crowded = len(requests) > 1
    turns.free[:] = [True]
    for answer, value in made:
        answer.set_result(value)
    return more


def _take_more(requests: list[Request], waiting: "Queue[Request | None]") -> bool:
    """Add the calls that wait; whether more may come."""
    while len(requests) < _TOGETHER:
        try:
            taken = waiting.get_nowait()
        except Empty:
            return True
        if taken is None:
            return False
        requests.append(taken)
    return True
