"""Group commit: calls of several threads share a transaction of the ledger (see `CommitQueue`).

The thread that pops the only entry of `claim` commits. Invariant: decisions are judged in the order
in which they came; one is answered when it is on disk, or refused, and then it has left no trace;
`finish` returns however often calls were interrupted.
Cost: a transaction waits for more calls at most half as long as the last transaction took, and not
at all after a transaction with a single call.
"""

import contextlib
import sys
import threading
import time as clock
import weakref
from _thread import start_new_thread
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, RLock, get_ident
from typing import Any, Generic, Protocol, TypeVar

from likewise.errors import BadFile

MOST_WAITING = 1 << 16
_MOST_PER_COMMIT = 1024  # calls that share a transaction at most
_PATIENCE = 0.5  # the longest wait for more calls, as a share of the last transaction's time
_PAUSE = 5e-5  # seconds until a caller checks again whether there is room
_RECHECK_SECONDS = 0.1  # until `finish` checks again whether the thread has ended
_T = TypeVar("_T")
_Item = TypeVar("_Item")
_Item_contra = TypeVar("_Item_contra", contravariant=True)


class AwaitableFuture(Future[_T]):
    """Holds the answer of a call: `result()` waits for it, and so does `await`."""

    def __await__(self) -> Generator[Any, None, _T]:
        import asyncio  # slow to import, and most monitors are never awaited

        return asyncio.wrap_future(self).__await__()


class PendingCall(Generic[_T]):
    """Holds the answer for a thread that waits at once: the methods of a Future that it needs.

    Its own lock is released when there is an answer, which wakes that thread and no other.
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

    def set_running_or_notify_cancel(self) -> bool:
        return True

    def set_result(self, value: _T) -> None:
        self._value = value
        self._unanswered.release()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._unanswered.release()


class CommitTarget(Protocol[_Item_contra, _T]):
    """The core of a monitor whose decisions share transactions."""

    lock: RLock

    def observe_next(self, decision: _Item_contra) -> _T:
        """Judge a decision whose turn it is, and write it to disk."""

    def commit_group(self, decisions: Sequence[_Item_contra]) -> "list[_T | Exception]":
        """Judge decisions in order, and write those that are not refused to disk.

        Raises, and takes none of them, if they cannot be written.
        """

    def is_in_a_call(self) -> bool:
        """Whether this thread calls the monitor from inside another call of the monitor."""


Request = tuple[AwaitableFuture[_T] | PendingCall[_T], _Item]


class _CommitState(Generic[_Item, _T]):
    """Holds what callers share with the commit thread."""

    def __init__(self, target: CommitTarget[_Item, _T]) -> None:
        self.target = weakref.ref(target)
        self.waiting: SimpleQueue[Request[_T, _Item] | None] = SimpleQueue()
        """Requests in order; None asks the thread to end when nothing else waits. Putting and
        taking are atomic, so an interrupted caller breaks nothing."""
        self.claim = [True]
        """One entry while no thread commits; the thread that pops it, atomically, commits."""
        self.committer = 0
        """The ident of the thread that commits."""
        self.ended: SimpleQueue[None] = SimpleQueue()
        """The thread puts an entry here when it has given the claim back."""
        self.expected = 1
        """How many calls the next transaction waits for: those of threads that the last one
        answered, and those that have come since. If more than one, the thread makes all calls."""
        self.bell: SimpleQueue[None] = SimpleQueue()
        """Rung when that many calls wait."""
        self.seconds = 0.0
        """How long the last transaction took, from the first call to the disk."""
        self.free = [True]
        """One entry while no call is being made; callers and the thread pop it, atomically. If an
        interruption loses it, callers wait for the thread, which puts it back."""


class CommitQueue(Generic[_Item, _T]):
    """Queues calls, and starts the thread that commits them.

    A decision that arrives while no other is being judged is judged at once, in the calling thread.
    Others wait: one commit thread takes all that have arrived in the meantime, has them judged one
    by one and written together, and only then answers. Signal handlers raise in the main thread
    only, so no call is cut off by another caller's interruption.

    Most callers call again as soon as they are answered. Without waiting for them, half of the
    callers would find the others' transaction begun, and each transaction would have half of them.
    So a transaction waits a moment for the callers that were answered last and for those that
    arrived meanwhile. The last of them rings a bell, so that the thread does not take the
    interpreter from callers in between.

    A signal may raise between any two bytecodes of a caller. So a caller may start more than one
    thread, but only the one that takes the single entry of `claim` commits; the others end at once.

    At most `MOST_WAITING` decisions wait, and one more for each thread that found room at the same
    moment; later callers wait until there is room.
    """

    def __init__(self, target: CommitTarget[_Item, _T]) -> None:
        self._state = _CommitState(target)

    def observe(self, decision: _Item) -> _T:
        """Judge a decision now, or together with others that wait."""
        state = self._state
        target = state.target()
        assert target is not None  # it is calling
        if state.expected > 1 or not _take(state.free):
            if target.is_in_a_call():
                return target.observe_next(decision)  # raises NestedCall
            call: PendingCall[_T] = PendingCall()
            self._add((call, decision))
            return call.result()
        try:
            return target.observe_next(decision)
        finally:
            state.free[:] = [True]

    def submit(self, decision: _Item) -> AwaitableFuture[_T]:
        """Queue a decision to be judged soon, in its turn."""
        answer: AwaitableFuture[_T] = AwaitableFuture()
        self._add((answer, decision))
        return answer

    def _add(self, request: Request[_T, _Item]) -> None:
        state = self._state
        waiting = state.waiting
        while waiting.qsize() >= MOST_WAITING:
            clock.sleep(_PAUSE)
        waiting.put(request)
        if state.claim:  # after putting: the thread returns the claim before its last look
            _start(state)
        if waiting.qsize() + 1 == state.expected:  # one more than wait: the thread took the first
            state.bell.put(None)

    def finish(self) -> None:
        """Commit all requests that wait, and end the thread."""
        state = self._state
        if state.committer == get_ident():
            return  # called by a callback of an answer: the thread cannot wait for itself
        while not state.claim or not state.waiting.empty():
            state.waiting.put(None)
            if state.claim:
                _start(state)
            with contextlib.suppress(Empty):
                state.ended.get(timeout=_RECHECK_SECONDS)

    def after_fork(self, target: CommitTarget[_Item, _T]) -> None:
        """Forget in a forked process the calls that wait, which are the parent's."""
        self._state = _CommitState(target)


def _start(state: _CommitState[Any, Any]) -> None:
    start_new_thread(_run, (state,))  # atomic; a signal inside Thread.start breaks its locks


def _take(single: list[bool]) -> bool:
    try:
        return single.pop()
    except IndexError:
        return False


def _run(state: _CommitState[Any, Any]) -> None:
    """Commit what waits, unless another thread does."""
    sys.setprofile(threading.getprofile())  # as `Thread` does, for profilers and debuggers
    sys.settrace(threading.gettrace())
    waiting = state.waiting
    while not waiting.empty() and _take(state.claim):
        state.committer = get_ident()
        try:
            if not waiting.empty():  # else another thread committed everything in between
                _serve(state)
        finally:
            state.committer = 0
            state.claim[:] = [True]
            state.ended.put(None)


def _serve(state: _CommitState[Any, Any]) -> None:
    """Commit until the thread is asked to end and nothing waits."""
    more = True
    while more or not state.waiting.empty():
        first = state.waiting.get()
        if first is None:
            more = False
            continue
        target = state.target()
        if target is None:
            first[0].set_exception(BadFile("the monitor was closed before this call."))
            more = False
            continue
        more = _commit(target, first, state) and more
        del target, first


def _commit(
    target: CommitTarget[Any, Any], first: Request[Any, Any], state: _CommitState[Any, Any]
) -> bool:
    """Commit a request and all that have come after it together, and answer them.

    Returns whether more may come.
    """
    _gather(state)
    begun = clock.perf_counter()
    requests, more = [first], True
    state.free.clear()  # calls that come from now on are in the next transaction
    try:
        with target.lock:
            more = _take_more(requests, state.waiting)
            requests = [one for one in requests if one[0].set_running_or_notify_cancel()]
            answers = target.commit_group([decision for _, decision in requests])
    except BaseException as error:
        state.free[:] = [True]
        for future, _ in requests:
            future.set_exception(error)
        return more
    again = sum(type(future) is PendingCall for future, _ in requests)
    state.expected = min(again + state.waiting.qsize(), _MOST_PER_COMMIT)
    state.seconds = clock.perf_counter() - begun
    state.free[:] = [True]
    for (future, _), answer in zip(requests, answers, strict=True):
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
    return more


def _gather(state: _CommitState[Any, Any]) -> None:
    """Wait a moment until as many calls wait as are expected, beside the one that was taken."""
    until = clock.perf_counter() + _PATIENCE * state.seconds
    with contextlib.suppress(Empty):
        while state.waiting.qsize() + 1 < state.expected:
            state.bell.get(timeout=max(0.0, until - clock.perf_counter()))
    with contextlib.suppress(Empty):
        while True:  # clear the rings that came too late
            state.bell.get_nowait()


def _take_more(
    requests: list[Request[Any, Any]], waiting: "SimpleQueue[Request[Any, Any] | None]"
) -> bool:
    """Move the calls that wait into `requests`; whether more may come."""
    while len(requests) < _MOST_PER_COMMIT:
        try:
            request = waiting.get_nowait()
        except Empty:
            return True
        if request is None:
            return False
        requests.append(request)
    return True
