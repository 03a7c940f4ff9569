"""Calls of several threads share a transaction of the ledger (group commit).

A decision that comes while no other is being judged is judged at once, in the thread that it came
from. The others wait: a thread of its own takes all that have come in the meantime, has them judged
one after the other and written together, and only then answers. Signal handlers raise in the main
thread only, so no call is cut off by somebody else's interruption.

Whoever was answered mostly calls again at once. Without waiting for them, half of the callers would
find the others' transaction begun, and each transaction would have half of them. So a transaction
waits a moment for whoever was answered last, and for those who have come meanwhile. The last of
them rings a bell, so that the thread does not take the interpreter from callers in between.

Invariant: decisions are judged in the order in which they came; one is answered when it is on disk,
or refused, and then it has left no trace.
Bound: `MOST` decisions wait, and one for each thread that found room at the same moment; whoever
comes after them waits until there is room. A transaction waits for others at most half as long as
the last one took; one that follows a single call waits for nobody.
"""

import contextlib
import time as clock
import weakref
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, RLock, Thread
from typing import Any, Generic, Protocol, TypeVar

from likewise.monitors.protocol import Decision
from likewise.values.errors import BadFile
from likewise.values.verdicts import Verdict

MOST = 1 << 16
_TOGETHER = 1024  # calls that share a transaction at most
_PATIENCE = 0.5  # of the time that the last transaction took
_PAUSE = 5e-5  # seconds until somebody looks again whether there is room
_T = TypeVar("_T")


class Answer(Future[_T]):
    """What a call will have answered: `result()` waits for it, and so does `await`."""

    def __await__(self) -> Generator[Any, None, _T]:
        import asyncio  # which takes long, and most monitors are never awaited

        return asyncio.wrap_future(self).__await__()


class Caller(Generic[_T]):
    """The same for a thread that waits at once: the few things of a Future that are needed then.

    A lock of its own is let go of when there is an answer, which wakes that thread and no other.
    """

    __slots__ = ("_error", "_unanswered", "_value")

    def __init__(self) -> None:
        self._unanswered = Lock()
        self._unanswered.acquire()
        self._error: BaseException | None = None

    def result(self) -> _T:
        self._unanswered.acquire()
        if self._error is not None:
            raise self._error
        return self._value

    def done(self) -> bool:
        return not self._unanswered.locked()

    def set_running_or_notify_cancel(self) -> bool:
        return True

    def set_result(self, value: _T) -> None:
        self._value = value
        self._unanswered.release()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._unanswered.release()


class Shares(Protocol):
    """Whose decisions share transactions."""

    _lock: RLock

    def _observe_next(self, decision: Decision) -> Verdict:
        """Judge a decision whose turn it is, and have it on disk."""

    def _take_together(self, decisions: Sequence[Decision]) -> "list[Verdict | Exception]":
        """Judge decisions in their order, and have those that are not refused on disk.

        Raises, and takes none of them, if they cannot be written.
        """

    def _is_in_a_call(self) -> bool:
        """Whether a call of this very thread is being made, out of which it comes again."""


Request = tuple[Answer[Verdict] | Caller[Verdict], Decision]


class _Turns:
    """What callers and the thread that makes their calls have in common."""

    def __init__(self, owner: Shares) -> None:
        self.owner = weakref.ref(owner)
        self.waiting: SimpleQueue[Request | None] = SimpleQueue()
        """Putting and taking are one step each, whatever interrupts a caller."""
        self.expected = 1
        """Calls that the next transaction is to have: from threads whose calls the last one had,
        and those that have come meanwhile. If several, all calls are made by the thread."""
        self.bell: SimpleQueue[None] = SimpleQueue()
        """Rung when that many calls wait."""
        self.seconds = 0.0
        """How long that took, from the first call to the disk."""
        self.free = [True]
        """One entry while no call is being made. Taking it is one step; if an interruption loses it
        right then, calls wait for the thread until that puts it back. The thread takes it too."""


class SharedCommits:
    """The calls that wait, and the thread that makes them."""

    def __init__(self, owner: Shares) -> None:
        self._begin(owner)

    def _begin(self, owner: Shares) -> None:
        self._turns = _Turns(owner)
        self._thread: Thread | None = None
        self._starting = Lock()

    def observe(self, decision: Decision) -> Verdict:
        """Judge a decision now, or together with others that wait."""
        turns = self._turns
        owner = turns.owner()
        assert owner is not None  # who is calling
        if turns.expected > 1 or not _taken(turns.free):
            if owner._is_in_a_call():
                return owner._observe_next(decision)  # which refuses it
            caller: Caller[Verdict] = Caller()
            self._add((caller, decision))
            return caller.result()
        try:
            return owner._observe_next(decision)
        finally:
            turns.free[:] = [True]

    def submit(self, decision: Decision) -> Answer[Verdict]:
        """Have a decision judged soon, in its turn."""
        answer: Answer[Verdict] = Answer()
        self._add((answer, decision))
        return answer

    def _add(self, request: Request) -> None:
        if self._thread is None:
            self._start()
        turns = self._turns
        waiting = turns.waiting
        while waiting.qsize() >= MOST:
            clock.sleep(_PAUSE)
        waiting.put(request)
        if waiting.qsize() + 1 == turns.expected:  # the thread has taken the first of them
            turns.bell.put(None)

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
    """Take a decision and all that have come after it together, and answer.

    Whether more may come.
    """
    _gather(turns)
    begun = clock.perf_counter()
    requests, more = [first], True
    turns.free.clear()  # whoever comes meanwhile is in the next transaction
    try:
        with monitor._lock:
            more = _take_more(requests, turns.waiting)
            requests = [one for one in requests if one[0].set_running_or_notify_cancel()]
            answers = monitor._take_together([decision for _, decision in requests])
    except BaseException as error:
        turns.free[:] = [True]
        for waiting, _ in requests:
            waiting.set_exception(error)
        return more
    again = sum(type(waiting) is Caller for waiting, _ in requests)
    turns.expected = min(again + turns.waiting.qsize(), _TOGETHER)
    turns.seconds = clock.perf_counter() - begun
    turns.free[:] = [True]
    for (waiting, _), answer in zip(requests, answers, strict=True):
        if isinstance(answer, Exception):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)
    return more


def _gather(turns: _Turns) -> None:
    """Wait a moment for as many calls as are to be expected; the first of them is here."""
    until = clock.perf_counter() + _PATIENCE * turns.seconds
    with contextlib.suppress(Empty):
        while turns.waiting.qsize() + 1 < turns.expected:
            turns.bell.get(timeout=max(0.0, until - clock.perf_counter()))
    with contextlib.suppress(Empty):
        while True:  # those that nobody has heard
            turns.bell.get_nowait()


def _take_more(requests: list[Request], waiting: "SimpleQueue[Request | None]") -> bool:
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
