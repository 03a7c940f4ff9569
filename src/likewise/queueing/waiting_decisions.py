"""Copy submitted decisions, and put waiting ones together as arguments of `observe_many`.

A vector becomes an array, as `observe` itself reads it; a row of a table becomes a dictionary.
Invariant: verdicts do not depend on which decisions are put together. So only vectors of one type
and shape are, since an array of several types would change some of them.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from queue import Empty, SimpleQueue
from threading import Thread, current_thread, get_ident
from time import monotonic, time_ns
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy import ndarray

from likewise.errors import BadDecision, UnexpectedValue
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.queueing.bounded_queue import UNLIMITED, BoundedQueue, Entry
from likewise.rule.rule import Rule
from likewise.runtime.log import logger
from likewise.tables.copy_input import copy_input
from likewise.tables.frames import as_row, read_single_row
from likewise.tables.named_array import names_of, with_names
from likewise.tables.normalize import to_number_array
from likewise.tables.times import to_microseconds

T = TypeVar("T")

_LOOKS, _LOOKING = 100, 0.5  # how often, and for how many seconds, it polls after a batch, at most
_RECHECK_SECONDS = 1.0  # after which a waiting caller looks again even if nothing wakes it


# Run a thread that processes the entries of a queue, batch by batch.
# The first entry starts it; it ends after some idle time, and the next entry starts another.
# Invariant: entries are done in their order, each once, by one thread at a time. If no thread can
# be started (the program ends, or has too many), a caller that waits does the work instead.
# Cost: a wake-up for a batch, not for an entry.


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
        choose: Callable[[], int] | None = None,
    ) -> None:
        self.queue: BoundedQueue[T] = BoundedQueue(most, most_bytes, wake=self.wake)
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
                is_missing = not self._has_begun() and self.queue.to_do > 0
                alone = is_missing and not self._start()
                self._waiters.append(waiter)
            if alone:
                self._do_one_batch_here()
            else:
                with suppress(Empty):
                    waiter.get(timeout=min(left, _RECHECK_SECONDS))

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


_IMMUTABLE = {bool, bytes, float, int, str, type(None)}
_new = tuple.__new__
_OVERHEAD = 500  # bytes of an entry, its tuple, and an array without its numbers


class SubmittedDecision(NamedTuple):
    """Holds a decision that waits."""

    x: Any
    z: Any
    key: Any
    time: int | None
    """When it was made, in microseconds since 1970, if that was given."""
    submitted: int
    """When it was submitted, likewise; used as the time of a decision without one."""
    model: Any = None


WaitingEntry = Entry[SubmittedDecision]


class _UnreadInput(NamedTuple):
    """Holds a copy of an input that came before the rule was known."""

    x: Any


class InputCopier:
    """Copies submitted decisions, in the types that the monitor's rule reads.

    remote      whether asking the monitor for its rule is a request. Then the delivering thread
                asks (`load_rule`), and earlier inputs are copied unread
    """

    def __init__(self, monitor: Any, *, remote: bool) -> None:
        self._monitor = monitor
        self._some_unread = False
        self.columns = self.vectors = False
        rule = monitor.known_rule if remote else monitor.rule
        self._known = rule is not None
        if rule is not None:
            self._set(rule)

    def _set(self, rule: Rule) -> None:
        self.columns = rule.features is not None
        self.vectors = not self.columns and rule.embed is None
        self._known = True

    def load_rule(self) -> None:
        """Ask the monitor for its rule, if that is not known yet."""
        if not self._known:
            self._set(self._monitor.rule)

    def read(
        self, batch: list[WaitingEntry]
    ) -> Iterator[list[WaitingEntry] | tuple[WaitingEntry, BadDecision]]:
        """Yield parts of a batch as the rule reads them, and decisions that it cannot read."""
        if not self._some_unread:
            yield batch
            return
        part: list[WaitingEntry] = []
        for entry in batch:
            decision = entry[2]
            if type(decision.x) is _UnreadInput:
                try:
                    decision = decision._replace(x=self._read_input(decision.x.x))
                except BadDecision as error:
                    yield part
                    yield entry, error
                    part = []
                    continue
            part.append((entry[0], entry[1], decision))
        yield part

    def _read_input(self, x: Any) -> Any:
        if self.columns:
            return _copy_row(x)
        if not self.vectors:
            return x
        names = names_of(x)
        if isinstance(x, Mapping):  # the row of a frame
            x, names = list(x.values()), tuple(map(str, x))
        return with_names(np.array(to_number_array(x, "the input")), names)

    def copy(
        self, x: Any, z: Any, key: Any, time: Any, model: Any
    ) -> tuple[SubmittedDecision, int]:
        """Copy a decision; return it and about how many bytes it takes in memory."""
        if not self._known:
            self._some_unread = True
            copy = copy_input(x, True)
            x = _UnreadInput(copy[0] if hasattr(x, "iloc") and type(copy) is list else copy)
            size = _OVERHEAD + _size(x.x)
        elif self.vectors:
            if type(x) is ndarray:
                x = x.copy()
            else:
                x = with_names(np.array(to_number_array(x, "the input")), names_of(x))
            size = _OVERHEAD + x.nbytes
        else:
            x = _copy_row(x) if self.columns else copy_input(x)
            size = _OVERHEAD + _size(x)
        if type(z) not in _IMMUTABLE and z is not FROM_ROW:
            z = _copy_value(z)
            size += _size(z)
        if time is not None:
            time = to_microseconds(time)
        # Half as slow as calling the class.
        return _new(SubmittedDecision, (x, z, key, time, time_ns() // 1000, model)), size


def _copy_row(x: Any) -> dict[Any, Any]:
    """Copy a row of a table as a dictionary."""
    row = x if type(x) is dict else as_row(x)
    if row is None:
        row = _read_only_row(x)
    return {
        name: value if type(value) in _IMMUTABLE else _copy_value(value)
        for name, value in row.items()
    }


def _copy_value(value: Any) -> Any:
    return value if isinstance(value, np.generic) else copy_input(value)


def _read_only_row(x: Any) -> Mapping[str, Any]:
    """Read the row of a frame that has only one."""
    if not hasattr(x, "columns"):
        raise UnexpectedValue(
            f"the decision is {x!r:.200}; expected a dictionary, a named tuple, a dataclass, a"
            " pydantic model or a frame of one row, with the rule's columns.",
            advice="Submit one decision at a time.",
        )
    return read_single_row(x, "Submit one decision at a time.")


def _size(value: Any) -> int:
    """Estimate the bytes of a value in memory."""
    if type(value) is np.ndarray:
        return int(value.nbytes)
    size = sys.getsizeof(value, 100)
    if isinstance(value, dict):
        return size + sum(_size(one) for one in value.values())
    if isinstance(value, list | tuple):
        return size + sum(_size(one) for one in value)
    return size


# Together


def split_runs(batch: list[WaitingEntry], *, vectors: bool) -> Iterator[list[WaitingEntry]]:
    """Split a batch into parts that can be put together, in order."""

    def kind(entry: WaitingEntry) -> Any:
        x, z = entry[2][:2]
        return (x.dtype, x.shape, names_of(x), z is FROM_ROW) if vectors else z is FROM_ROW

    if vectors and _have_one_kind(batch):  # the usual case, and quicker than grouping
        return iter([batch])
    return (list(run) for _, run in groupby(batch, kind))


def _have_one_kind(batch: Sequence[WaitingEntry]) -> bool:
    first = batch[0][2]
    dtype, shape, from_row = first.x.dtype, first.x.shape, first.z is FROM_ROW
    for _, _, decision in batch:
        x = decision[0]
        if x.dtype is not dtype or x.shape != shape or (decision[1] is FROM_ROW) is not from_row:
            return False
        if type(x) is not ndarray:
            return False  # it has column names, which may differ
    return True


def make_arguments(part: Sequence[WaitingEntry], *, vectors: bool) -> dict[str, Any]:
    """Make the arguments of `observe_many` for a run, or a part of one."""
    inputs, outputs, keys, times, submitted, models = zip(*(one[2] for one in part), strict=True)
    x: Any = list(inputs)
    if vectors:
        shape = inputs[0].shape
        x = np.concatenate(x).reshape(len(x), *shape) if shape else np.array(x)
        x = with_names(x, names_of(inputs[0]))
    arguments: dict[str, Any] = {"x": x, "times": _resolve_times(submitted, times)}
    if outputs[0] is not FROM_ROW:
        arguments["z"] = list(outputs)
    if any(key is not None for key in keys):
        arguments["keys"] = list(keys)
    if any(model is not None for model in models):
        arguments["models"] = list(models)
    return arguments


def _resolve_times(submitted: Sequence[int], times: Sequence[int | None]) -> Any:
    """Return the given times, or else when each was submitted, which never goes back."""
    resolved = np.maximum.accumulate(np.array(submitted, np.int64))
    for i, time in enumerate(times):
        if time is not None:
            resolved[i] = time
    return resolved.view("datetime64[us]")
