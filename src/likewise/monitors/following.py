"""A monitor in memory and a store on disk that have the same decisions.

Memory judges, the disk follows: what memory has taken is copied out by row number and appended.
If that fails, what could not be written is refused and memory is made anew from the disk. That is
the one way back from every failure.

Invariant: memory has what is on disk and then what waits; if not, `agrees` says so before anything
else is done.
Cost: making memory anew takes as long as opening the ledger.
"""

import contextlib
import time as clock
from collections import Counter
from collections.abc import Iterable
from threading import Event
from typing import Any

import numpy as np

from likewise.burst import Burst
from likewise.errors import BadFile
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
from likewise.monitors.pending import Pending, joined
from likewise.monitors.robustness import Monitor
from likewise.monitors.tables import TableMonitor
from likewise.rule import Rule

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
        self.waits = Event()
        """Set when something begins to wait."""
        self.restore(check=check)

    def restore(self, *, check: bool) -> None:
        """Make memory from what is on disk."""
        store = self.store
        store.reconnect()
        reader = store.reader
        self.stale = True
        self.pending: list[Pending] = []
        self.taken = store.rows
        self.monitor = Monitor(self._rule, index=self._index, burst=self._burst)
        self.cargo = cargo_of(self.monitor)
        self.past = Past(self._window, store.first, store.last_time, reader.erased(), self._ahead)
        self._words: dict[str, int] = {}
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
        self.stale = False
        self.forget_before(self.past.compared(store.rows).first, lag=0)

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

    def agrees(self) -> bool:
        """Whether memory has what is on disk and waiting, no more and no less."""
        return self.monitor._next_row == self.taken and not self.stale

    def catch_up(self) -> None:
        """Memory is made anew if writing failed, or something broke in between."""
        if not self.agrees():
            self.flush()
            self.restore(check=False)

    def overdue(self, seconds: float) -> bool:
        """Whether anything has waited that long."""
        return bool(self.pending) and clock.monotonic() - self.pending[0].since >= seconds

    def took(self, first_row: int, some: Pending, *, write: bool) -> None:
        """Memory has taken decisions: so does the rest, and the disk, now or soon.

        If it cannot be written now, it is refused: memory, too long by then, is made anew.
        """
        if len(some) == 0:
            return
        self.past.took(first_row, some.times, some.keys)
        self.pending.append(some)
        self.taken = first_row + len(some)
        if write:
            try:
                self.flush()
            except BaseException:
                self.pending, self.taken = [], self.store.rows
                raise
        elif not self.waits.is_set():
            self.waits.set()
        self.forget_before(int(some.firsts[-1]))

    def flush(self) -> None:
        """Have everything that was answered on disk."""
        if not self.pending:
            return
        store, waiting = self.store, joined(self.pending)
        self.pending = [waiting]
        if not store.known:  # what was given before may have come through all the same
            store.reconnect()
            self._words = dict(Counter(column for _, column, *_ in store.reader.words()))
        first = self.taken - len(waiting)
        if store.rows == 0 and store.reader.layout != self.cargo.layout():
            store.set_layout(self.cargo.layout())
        try:
            while (done := store.rows - first) < len(waiting):
                stop = min(done + _CHUNK, len(waiting))
                store.append(self._entries(waiting.part(done, stop)))
                self._words = {name: len(known) for name, known in self.cargo.words().items()}
        except BadFile as error:
            if store.rows <= first:
                raise
            raise BadFile(
                f"{error} Decisions {first} to {store.rows - 1} are stored; send the rest again."
            ) from None
        self.pending = []

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
        try:
            words = unused_words(self)
            self.cargo.drop_words(words.by_column)
            if words.numbers:
                self.store.erase_words(words.numbers)
            self.store.rewrite()
            self._log_holds_copies = not self.store.empty_log()
        except BadFile:
            pass  # with the next file
        except BaseException:
            self.stale = True
            raise
