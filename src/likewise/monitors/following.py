"""A monitor in memory and a store on disk that have the same decisions.

Memory judges, the disk follows: what memory has taken is copied out by row number and appended.
A decision is taken once it is in the queue of what waits, which changes in one step.

A call may be cut off anywhere. `unsure` says what it was doing; `settle`, with which every call
begins, then makes memory, queue and disk agree again: memory goes back to the rows of the queue, or
the disk is read again, or memory is made again from the disk. The last is also the way back when
the disk has refused something.

Invariant: after `settle`, memory has what is on disk and then what waits, no more and no less.
Cost: making memory again takes as long as opening the ledger.
"""

import contextlib
import time as clock
from collections import Counter
from collections.abc import Iterable
from queue import SimpleQueue
from typing import Any

import numpy as np

from likewise.burst import Burst
from likewise.errors import BadFile, LikewiseError
from likewise.features.encoding import ERASED
from likewise.history.ledger import words
from likewise.history.ledger.reader import Decisions
from likewise.history.ledger.store import Entries, Store
from likewise.history.ledger.times import Ahead
from likewise.history.ledger.verify import Walk
from likewise.history.ledger.window import Window
from likewise.monitors.cargo import cargo_of
from likewise.monitors.erasure import unused_words
from likewise.monitors.keys import plain_key
from likewise.monitors.past import Past
from likewise.monitors.pending import Pending, Queue
from likewise.monitors.robustness import Monitor
from likewise.monitors.tables import TableMonitor
from likewise.rule import Rule

SURE, JUDGING, WRITING, KEEPING = 0, 1, 2, 3
"""What a call may have left half done: nothing; memory is ahead of the queue; something was being
written; anything else, after which memory is made again from the disk."""

_CHUNK = 1 << 15  # decisions written as one transaction
_LAG = 256  # rows that may stay in memory after they left the window


class Following:
    """A monitor and a store, and what waits between them."""

    def __init__(
        self,
        store: Store,
        rule: Rule,
        window: Window,
        index: Any,
        *,
        check: bool,
        burst: Burst | None = None,
        ahead: Ahead,
    ) -> None:
        self.store = store
        self._rule = rule
        self._window = window
        self._index = index
        self._burst = burst
        self._ahead = ahead
        self.waits: SimpleQueue[bool] = SimpleQueue()
        """Something is put here when decisions begin to wait, and when the ledger is closed.

        Not an Event: a signal that arrives inside `Event.set` leaves its lock taken for ever.
        """
        self.restore(check=check)

    def restore(self, *, check: bool) -> None:
        """Make memory from what is on disk."""
        store = self.store
        store.reconnect()
        reader = store.reader
        self.unsure = KEEPING
        self.refused = False  # whether the disk has refused something since
        self.queue = Queue(store.rows, store.rows, {})
        self.monitor = Monitor(self._rule, index=self._index, burst=self._burst)
        self.cargo = cargo_of(self.monitor)
        self.past = Past(self._window, store.first, store.last_time, reader.erased(), self._ahead)
        self._words: dict[str, int] = {}
        self._words_read = store.connections
        self._log_holds_copies = False  # of rows that have left the window and the disk
        with reader.structure_checked() if check else contextlib.nullcontext():
            walked = Walk(reader).chunks()
            if store.rows > store.first:
                self._load(walked if check else reader.all_decisions(store.first, store.rows))
            elif check:
                list(walked)
        self.cargo.guard()
        if isinstance(self.monitor, TableMonitor):
            self.monitor._kept.keepable = self.past.keys.keepable
        self.queue = Queue(store.rows, store.rows, dict(self._words))
        self.forget_before(self.past.compared(store.rows).first, lag=0)
        self.unsure = SURE

    def _load(self, chunks: Iterable[Decisions]) -> None:
        store, reader = self.store, self.store.reader
        layout = reader.layout
        assert layout is not None
        known: dict[str, list[Any]] = {}
        for _, column, code, value, *_ in reader.words():
            values = known.setdefault(column, [])
            if code != len(values) or column not in self.cargo.columns_of_words():
                raise BadFile(f"the words of {column!r} make no sense: the ledger was altered.")
            values.append(ERASED if value is None else words.read(value))
        self._words = {column: len(values) for column, values in known.items()}
        self.cargo.begin(layout, store.first, known)
        for chunk in chunks:
            self.cargo.add(layout, chunk.records["input"], chunk.outputs, chunk.keys)
            self.past.took(chunk.first, chunk.times, chunk.keys)
        self.cargo.finish(self.past.erased)
        self.cargo.drop_words(unused_words(self).by_column)

    def settle(self, *, note: bool = False) -> None:
        """Finish or undo what an earlier call left half done.

        note: whether the chain is to say so if the disk had refused something.
        """
        if self.unsure == SURE and self.store.known:
            return
        unsure, monitor = self.unsure, self.monitor
        if unsure >= WRITING:
            self.store.doubt()
            self._words_read = -1
        self.store.reconnect()
        if (unsure < KEEPING or self.queue) and monitor.rows > self.queue.stop:
            monitor._take_back(self.queue.stop)
            self.cargo.cut_words(self.queue.words)
        if unsure == KEEPING:
            self.flush()
            if self.refused and note:
                self.store.event("fault", {"rows": self.store.rows})
            self.restore(check=False)
        self.unsure = SURE

    def overdue(self, seconds: float) -> bool:
        """Whether anything has waited that long."""
        return bool(self.queue) and clock.monotonic() - self.queue.since >= seconds

    def took(self, first_row: int, some: Pending, *, write: bool) -> None:
        """Memory has taken decisions: so does the rest, and the disk, now or soon.

        If they cannot be written now, they are refused: memory, too long by then, is made again.
        """
        if len(some) == 0:
            self.unsure = SURE
            return
        self.unsure = KEEPING
        before = self.queue
        self.past.took(first_row, some.times, some.keys)
        words = {name: len(known) for name, known in self.cargo.words().items()}
        self.queue = before.and_then(some, words)
        if write:
            self.unsure = WRITING
            try:
                self.flush()
            except LikewiseError:
                self.unsure = KEEPING
                self.queue = before
                self.refused = True
                raise
        elif self.waits.empty():
            self.waits.put(True)
        self.unsure = KEEPING
        self.forget_before(int(some.firsts[-1]))
        self.unsure = SURE

    def flush(self) -> None:
        """Have everything that was answered on disk."""
        if not self.queue:
            return
        unsure = self.unsure
        self.unsure = max(unsure, WRITING)
        try:
            self._write()
        except LikewiseError:  # what could not be written goes on waiting
            self.unsure = unsure
            raise
        self.queue = self.queue.written()
        self.unsure = unsure

    def _write(self) -> None:
        store, queue = self.store, self.queue
        waiting = queue.joined()
        store.reconnect()
        if store.connections != self._words_read:  # what was being written may be there
            self._words = dict(Counter(column for _, column, *_ in store.reader.words()))
            self._words_read = store.connections
        if store.rows == 0 and store.reader.layout != self.cargo.layout():
            store.set_layout(self.cargo.layout())
        try:
            while (done := store.rows - queue.first) < len(waiting):
                stop = min(done + _CHUNK, len(waiting))
                store.append(self._entries(waiting.part(done, stop)))
                self._words = {name: len(known) for name, known in self.cargo.words().items()}
        except BadFile as error:
            if store.rows <= queue.first:
                raise
            raise BadFile(
                f"{error} Decisions {queue.first} to {store.rows - 1} are stored; send the rest"
                " again."
            ) from None

    def _entries(self, some: Pending) -> Entries:
        """With what memory holds of those rows, the next ones on disk."""
        layout, first = self.store.reader.layout, self.store.rows
        assert layout is not None
        stop = first + len(some)
        own = self.cargo.keys(first, stop)
        fresh = [
            (column, code, values[code])
            for column, values in self.cargo.words().items()
            for code in range(self._words.get(column, 0), len(values))
        ]
        return Entries(
            times=some.times,
            inputs=self.cargo.inputs(layout, first, stop),
            outputs=self.cargo.outputs(first, stop),
            keys=some.keys if own is None else [plain_key(key) for key in own],
            firsts=some.firsts,
            counts=some.counts,
            witnesses=some.kept,
            words=fresh,
        )

    def forget_before(self, first: int, lag: int = _LAG) -> None:
        """Let go of what left the window: from memory with some delay, from disk in whole files."""
        history = self.monitor._history
        if history is None or first < history.first + max(1, lag):
            return
        try:
            self.flush()
            before = self.store.first
            self.store.drop(first)
        except BadFile:  # the disk will be asked again; what was just answered stands
            return
        gone = np.flatnonzero(history.alive()[history.first : first]) + history.first
        keys = self.cargo.keys_of(gone)
        self.monitor.forget(gone)
        if isinstance(self.monitor, TableMonitor):
            self.monitor._kept.release(first)
        self.past.forget_before(first, gone, keys, self.store.first)
        if self.store.first > before:
            self._leave_no_copies()
        elif self._log_holds_copies:
            self._log_holds_copies = not self.store.empty_log()

    def _leave_no_copies(self) -> None:
        """A file of records has left the disk: so do words that no row has, and copies of keys.

        From memory first: a word that comes again is a new one, whether the old one is gone or not.
        """
        with contextlib.suppress(BadFile):  # else with the next file
            words = unused_words(self)
            self.cargo.drop_words(words.by_column)
            if words.numbers:
                self.store.erase_words(words.numbers)
            self.store.rewrite()
            self._log_holds_copies = not self.store.empty_log()
