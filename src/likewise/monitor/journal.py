"""Write what a monitor remembers to a ledger on disk: the same decisions, in the same order.

A decision counts once it is in the write queue, which is replaced in one step. If a call is
interrupted, `unfinished` says what it was doing, and `settle` makes memory, queue and disk agree.
Invariant: after `settle`, memory has what is on disk and then what waits, no more and no less.
Cost: restoring memory from the disk takes as long as opening the ledger.
Not here: judging, and the lock that is held during all of this (monitor/monitor.py).
"""

import contextlib
import time as clock
from collections import Counter, deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import numpy as np

from likewise.errors import BadFile, LikewiseError, TooManyNames
from likewise.ledger.heads import Head
from likewise.ledger.loss_events import (
    BUFFERS,
    CARRIED,
    LOST,
    BufferBound,
    buffers_in,
    last_row_with,
    loss_by_kill,
    missing_in,
)
from likewise.ledger.notes import LedgerNote
from likewise.ledger.reader import CHUNK
from likewise.ledger.retention import Retention, RetentionWindow
from likewise.ledger.schema import RecordLayout
from likewise.ledger.source_positions import check_places
from likewise.ledger.store import Store
from likewise.ledger.stored import StoredDecisions
from likewise.ledger.stored_verdicts import StoredVerdict, load_stored_verdicts
from likewise.ledger.write_buffer import Entries, UnwrittenDecisions, WriteQueue
from likewise.monitor.erasure import Erasure, find_unused_words
from likewise.monitor.memory import Memory
from likewise.monitor.restoring import judge_accepted, load_rows
from likewise.tables import codec
from likewise.tables.array_types import Rows
from likewise.tables.keys import Keys
from likewise.tables.positions import SourcePositions
from likewise.tables.times import MaxAhead
from likewise.verdict.verdicts import Verdicts

SURE, WRITING, KEEPING, ACCEPTED = 0, 1, 2, 3
"""What a call may have left half done. SURE: at most, memory is ahead of the queue. WRITING: a
write, so the disk has to be read again. KEEPING: anything else, so memory has to be restored from
the disk. ACCEPTED: nothing, but the disk has decisions after those in memory, which have to be
judged before anything else."""

_CHUNK = 1 << 15  # decisions written as one transaction
_LAG = 256  # rows that may stay in memory after they left the window


class Journal:
    """Writes decisions to a store, and holds those that still wait to be written.

    memory, keys    what the monitor remembers; restored from the disk here, and written to it
    window, ahead   how much of the past is kept, and how far times may be ahead of the clock
    batch_rows, batch_seconds   how many decisions, and seconds, may pass until answers are on disk
    witnesses       how many of the nearest are written for each decision
    check           whether the structure of the ledger is checked while it is read
    """

    def __init__(
        self,
        store: Store,
        memory: Memory,
        keys: Keys,
        *,
        window: RetentionWindow,
        ahead: MaxAhead,
        batch_rows: int,
        batch_seconds: float,
        witnesses: int,
        check: bool,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.store = store
        self.window = window
        self.witnesses = witnesses
        self._memory = memory
        self._keys = keys
        self._ahead = ahead
        self._is_grouping = False  # whether decisions wait, to be written together
        self._window_first = 0  # rows before that one have left the window
        self._batch_rows = batch_rows
        self._batch_seconds = batch_seconds
        self.wake_flusher: SimpleQueue[bool] = SimpleQueue()
        """Wakes the flusher when decisions begin to wait, and when the ledger is closed.

        Not an Event: a signal that arrives inside `Event.set` leaves its lock taken for ever.
        """
        self.most_sources: int | None = None
        """The largest number of sources of positions; None for any number."""
        self.missing = 0
        """How many decisions are known to be missing, as the chain says."""
        self.buffers: dict[str, BufferBound] = {}
        """Buffers that hold decisions in memory, by name."""
        self.restore(check=check, progress=progress)
        if self.buffers:  # their process was killed, since a ledger has one writer at a time
            self.record_loss(loss_by_kill(self.buffers))
            self.buffers = {}

    @property
    def rows(self) -> int:
        """How many decisions were ever taken."""
        return self.queue.stop

    def restore(self, *, check: bool, progress: Callable[[int, int], None] | None = None) -> None:
        """Restore memory from the disk.

        progress    called from time to time with the rows read so far, and their total
        """
        store = self.store
        store.reconnect()
        reader = store.reader
        self.unfinished = KEEPING
        self.disk_refused = False  # whether the disk has refused a write since
        self.queue = WriteQueue(store.rows, store.rows, {})
        self._memory.reset()
        self._keys.reset()
        self._read_losses()
        self._positions = dict(store.positions)
        gone = np.union1d(reader.erased_rows(), reader.superseded_rows())
        self.retention = Retention(self.window, store.first, store.last_time, gone, self._ahead)
        self._words: dict[str, int] = {}
        self._words_read = store.connections
        self._log_holds_copies = False  # whether it has copies of rows that have left the disk
        chunks = reader.all_decisions(store.first, store.rows)
        with contextlib.ExitStack() as checks:
            if check:
                checks.enter_context(reader.structure_checked(every_index=False))
                chunks = reader.format.walk(reader, None).chunks()
            if progress is not None:
                chunks = _report_progress(chunks, store, progress)
            if store.rows > store.first:
                self._words = load_rows(store, self._memory, self._keys, self.retention, chunks)
            deque(chunks, maxlen=0)  # a walk checks more after the last row
        self._memory.set_word_check(codec.write_word)
        self._keys.is_erased = reader.format.erased_keys(reader)
        while store.judged < store.rows:
            self._judge_next(CHUNK)
        if self._memory.engine.history is not None:
            unused = find_unused_words(store, self._memory)
            self._memory.drop_words(unused.by_column)
            if check and (store.drop_files() or unused.numbers):
                self._purge_copies()  # an earlier purge was interrupted
        self.queue = WriteQueue(store.rows, store.rows, dict(self._words))
        self.forget_before(self.retention.comparison_range(store.rows).first, lag=0)
        self.unfinished = SURE

    def check_places(self, places: SourcePositions | None) -> None:
        """Raise BadDecision unless all positions are above those that were taken before."""
        if places is not None:
            check_places(places, self._positions)
            self._check_sources(places)

    def _check_sources(self, places: SourcePositions) -> None:
        """Raise BadDecision if there would be more sources than `most_sources`."""
        most = self.most_sources
        if most is None:
            return
        fresh = {name for name in places.sources if name is not None} - self._positions.keys()
        if fresh and len(self._positions) + len(fresh) > most:
            raise TooManyNames(
                f"the source {min(fresh)!r} would be one more than the {most:,} sources that this"
                " ledger takes."
            )

    # After an interrupted call

    def settle(self, *, record_fault: bool) -> None:
        """Finish or undo what an earlier call left half done.

        record_fault: whether the chain records that the disk had refused something
        """
        if self.unfinished == ACCEPTED and self.store.is_in_sync:
            self._read_losses()  # an interrupted call may have recorded a loss
            self._positions = dict(self.store.positions)
            while self.unfinished == ACCEPTED:
                self.judge_accepted(CHUNK)
            return
        unfinished = min(self.unfinished, KEEPING)
        if unfinished >= WRITING:
            self.store.distrust_memory()
            self._words_read = -1
        self.store.reconnect()
        if unfinished >= WRITING:
            self._read_losses()
        if unfinished < KEEPING or self.queue:
            self._memory.settle(self.queue.stop)
            self._memory.truncate_words(self.queue.words)
            self._keys.settle(self.queue.stop, self._memory.engine.are_remembered)
        if unfinished == KEEPING:
            self.flush()
            if self.disk_refused and record_fault:
                self.store.event("fault", {"rows": self.store.rows})
            self.restore(check=False)
        self.unfinished = SURE

    def after_fork(self) -> None:
        """Empty the queue in a forked process: what waits is the parent's to write."""
        self.queue = self.queue.after_write()

    # Decisions

    @contextlib.contextmanager
    def group_writes(self) -> Iterator[None]:
        """Write the decisions of the block together at its end, all of them or none.

        If that fails, raises BadFile, and memory is restored from the disk.
        """
        self.flush()
        before, self._is_grouping = self.queue, True
        try:
            yield
        finally:
            self._is_grouping = False
        self._write_or_refuse(before)
        self.unfinished = KEEPING
        self.forget_before(self._window_first)
        self.unfinished = SURE

    def flush_in_time(self) -> None:
        """Write what waits if it is a whole batch, or has waited long enough."""
        queue = self.queue
        if queue.stop == queue.first or self._is_grouping:
            return
        late = clock.monotonic() - queue.since >= self._batch_seconds
        if late or queue.stop - self.store.rows >= self._batch_rows:
            self.flush()

    def resolve_time(self, time: Any = None) -> int:
        """Return the given time, or the clock's; the chain records a clock that has gone back."""
        behind = self.retention.clock_is_behind() if time is None else 0
        if behind:
            self.flush()
            self.store.event("clock", {"behind_microseconds": behind})
        return self.retention.now(time)

    def append(self, decisions: UnwrittenDecisions, *, alone: bool = False) -> None:
        """Write decisions that memory has taken: now or, if one came alone, soon.

        If they cannot be written now, they are refused, and memory is restored from the disk.
        """
        if len(decisions.times) == 0:
            return
        self.unfinished = KEEPING
        before = self.queue
        self.retention.note_times(decisions.times)
        self.queue = before.append(decisions, self._memory.word_counts())
        if decisions.places is not None:
            self._positions |= decisions.places.last_positions()
        self._window_first = int(decisions.firsts[-1])
        if self._is_grouping:
            self.unfinished = SURE
            return
        if not alone or self._batch_rows == 1:
            self._write_or_refuse(before)
        elif self.wake_flusher.empty():
            self.wake_flusher.put(True)
        self.unfinished = KEEPING
        self.forget_before(self._window_first)
        self.unfinished = SURE

    def _write_or_refuse(self, before: WriteQueue) -> None:
        """Write all that waits; if that fails, go back to what waited before."""
        self.unfinished = WRITING
        try:
            self.flush()
        except LikewiseError:
            self.unfinished = KEEPING
            self.queue = before
            self.disk_refused = True
            raise
        self.unfinished = SURE

    # Accepted first, judged later

    @property
    def accepted_count(self) -> int:
        """How many decisions are on disk and not judged yet."""
        waits = self.unfinished == ACCEPTED and self.store.is_in_sync
        return self.store.rows - self.store.judged if waits else 0

    def accept(self, decisions: UnwrittenDecisions) -> range:
        """Write decisions that memory has staged after its last row; they are judged later.

        Whatever fails or is interrupted here, memory is restored from the disk.
        """
        store, memory, row = self.store, self._memory, self.queue.stop
        self.unfinished = KEEPING
        first, words = store.rows, memory.word_counts()
        store.append(self._entries(decisions, words, row))
        self._words = words
        self.queue = WriteQueue(row, row, words)
        places = decisions.places
        self._positions |= {} if places is None else places.last_positions()
        memory.settle(row)
        self._keys.add(first, decisions.keys or ())
        self.unfinished = ACCEPTED
        return range(first, first + len(decisions))

    def judge_accepted(self, most: int) -> Verdicts | None:
        """Judge the next accepted decisions, of which there are some; None if they were erased."""
        self.unfinished = KEEPING
        verdicts = self._judge_next(most)
        self.queue = WriteQueue(self.store.judged, self.store.judged, self.queue.words)
        self.forget_before(self.retention.comparison_range(self.store.judged).first)
        self.unfinished = SURE if self.store.judged == self.store.rows else ACCEPTED
        return verdicts

    def _judge_next(self, most: int) -> Verdicts | None:
        return judge_accepted(
            self.store, self._memory, self.retention, self.witnesses, self.missing, most
        )

    def find_verdicts(self, rows: list[int]) -> dict[int, StoredVerdict]:
        """Return the verdicts on rows that wait to be written or are on disk."""
        return load_stored_verdicts(self.store.reader, self.queue, rows)

    # Written out, without `_while_writing`, since every decision takes this path.
    def flush(self) -> None:
        """Write everything that was answered to disk."""
        if self.queue.stop == self.queue.first or self._is_grouping:
            return
        unfinished = self.unfinished
        self.unfinished = max(unfinished, WRITING)
        try:
            self._write()
        except LikewiseError:  # what could not be written goes on waiting
            self.unfinished = unfinished
            raise
        self.queue = self.queue.after_write()
        self.unfinished = unfinished

    @contextlib.contextmanager
    def _while_writing(self) -> Iterator[None]:
        """Mark the disk as unknown during the block, and for `settle` if the block raises."""
        unfinished = self.unfinished
        self.unfinished = max(unfinished, WRITING)
        yield
        self.unfinished = unfinished

    def _write(self) -> None:
        store, queue = self.store, self.queue
        waiting = queue.join_all()
        if not store.is_in_sync:
            store.reconnect()
        if store.connections != self._words_read:  # an interrupted write may have succeeded
            self._words = dict(Counter(column for _, column, *_ in store.reader.words()))
            self._words_read = store.connections
        if store.end.rows == 0 and store.reader.layout != (layout := self._layout()):
            store.set_layout(layout)
        count = len(waiting.times)
        try:
            while (done := store.end.rows - queue.first) < count:
                part = waiting
                if done or count > _CHUNK:
                    part = waiting.part(done, min(done + _CHUNK, count))
                store.append(self._entries(part, queue.words))
                self._words = queue.words
        except BadFile as error:
            if store.rows <= queue.first:
                raise
            raise BadFile(
                f"{error} Decisions {queue.first} to {store.rows - 1} are stored; send the rest"
                " again."
            ) from None

    def _layout(self) -> RecordLayout:
        """Return how decisions are stored, which the first one decides."""
        history, columns = self._memory.engine.history, self._memory.reader.record_columns()
        assert history is not None
        if columns is None:
            return RecordLayout.of_vectors(history.shape, history.storage, history.out_width)
        return RecordLayout.of_columns(columns, history.out_width)

    def _entries(
        self, decisions: UnwrittenDecisions, words: dict[str, int], staged: int | None = None
    ) -> Entries:
        """Put together the next rows on disk from decisions and what memory holds of them.

        words   how many of each column's words the disk has to know with them
        staged  the row in memory after which they are staged, if they are not remembered
        """
        layout, first = self.store.reader.layout, self.store.end.rows
        first = first if staged is None else staged
        history = self._memory.engine.history
        assert layout is not None and history is not None
        stop = first + len(decisions.times)
        new_words = []
        if words != self._words:
            new_words = [
                (column, code, values[code])
                for column, values in self._memory.words().items()
                for code in range(self._words.get(column, 0), words[column])
            ]
        inputs = self._memory.reader.pack(layout.dtype, history.rows, first, stop)
        outputs = history.outputs(0 if staged is None else len(decisions))[first:stop]
        return Entries(decisions, inputs, outputs, new_words, waiting=staged is not None)

    def note(self, note: LedgerNote) -> None:
        """Write what somebody says about a decision; it is on disk when this returns."""
        self.flush()
        self.store.note(note)

    def event(self, kind: str, body: dict[str, Any]) -> None:
        """Write an event other than a decision; it is on disk when this returns."""
        with self._while_writing():
            self.store.event(kind, body)

    # Losses

    def record_loss(self, body: dict[str, Any], places: SourcePositions | None = None) -> None:
        """Record in the chain, after all that was answered, that decisions are missing.

        places: the last position of a source that is missing; the source goes on after it
        """
        self.check_places(places)
        self.flush()
        missing = self.missing + body["count"]
        positions = {} if places is None else places.last_positions()
        with self._while_writing():
            self.store.event(LOST, {**body, "missing": missing}, positions)
            self.missing, self._lost_at = missing, self.store.rows
            self._positions |= positions

    def record_buffers(self, buffers: dict[str, BufferBound]) -> None:
        """Record in the chain which buffers hold decisions in memory, if that has changed."""
        if buffers == self.buffers:
            return
        self.flush()
        with self._while_writing():
            self.store.pin_event(BUFFERS, {BUFFERS: buffers})
            self.buffers = buffers

    def skip_positions(self, places: SourcePositions) -> None:
        """Record in the chain up to where sources were read, though no decision came of that."""
        self.check_places(places)
        self.flush()
        positions = places.last_positions()
        with self._while_writing():
            self.store.tell_positions(positions)
            self._positions |= positions

    def _read_losses(self) -> None:
        lost = self.store.reader.events(LOST)
        self.missing, self._lost_at = missing_in(lost), last_row_with(lost)
        events = [*lost, *self.store.reader.events(BUFFERS)]
        self.buffers = buffers_in(sorted(events, key=lambda event: event.number))

    # Rows that leave

    def forget_before(self, first: int, lag: int = _LAG) -> None:
        """Drop what has left the window: from memory with some delay, from disk in whole files."""
        history = self._memory.engine.history
        if history is None or first < history.first + max(1, lag):
            return
        try:
            self.flush()
            if self.missing and self._lost_at < first:
                self.record_loss(CARRIED)  # since the event that says so is about to be dropped
            before = self.store.first
            self.store.drop(first)
        except BadFile:  # tried again later; what was just answered remains valid
            return
        gone = np.flatnonzero(history.remembered_flags()[history.first : first]) + history.first
        self._memory.forget(gone)
        self._memory.release(first)
        self._keys.leave_window(gone, self.store.first)
        self.retention.forget_before(first, self.store.first)
        if self.store.first > before:
            self._purge_copies()
        elif self._log_holds_copies:
            self._log_holds_copies = not self.store.empty_log()

    def _purge_copies(self) -> None:
        """Remove words that no row has, and copies of keys, after a file of records has gone.

        From memory first: a word that comes again is a new one, whether the old one is gone or not.
        """
        with contextlib.suppress(BadFile):  # then it is done with the next file
            unused = find_unused_words(self.store, self._memory)
            self._memory.drop_words(unused.by_column)
            if unused.numbers:
                self.store.erase_words(unused.numbers)
            self.store.rewrite()
            self._log_holds_copies = not self.store.empty_log()

    def erase(self, rows: Rows) -> Erasure:
        """Erase rows in memory and on disk: all that are still on disk, in the window or not."""
        self.flush()
        store, memory = self.store, self._memory
        self.unfinished = KEEPING
        unfinished = ACCEPTED if store.judged < store.rows else SURE
        rows = store.reader.with_successors(rows)
        rows = np.setdiff1d(rows[rows >= store.first], store.reader.erased_rows())
        if memory.engine.history is None or len(rows) == 0:
            erasure = Erasure((), store.finish_erasures())
        else:
            unused = find_unused_words(store, memory, rows)
            complete = store.erase(rows.tolist(), unused.numbers)
            judged = rows[rows < self.queue.stop]
            memory.forget(judged[memory.engine.are_remembered(judged)])
            memory.drop_words(unused.by_column)
            self._keys.forget(rows)
            self._keys.is_erased = store.reader.format.erased_keys(store.reader)
            self.retention.erase(rows)
            erasure = Erasure(tuple(rows.tolist()), complete)
        self.unfinished = unfinished
        return erasure

    # Evidence

    def head(self) -> Head:
        """Return the end of the chain, after writing what waits."""
        self.flush()
        self.store.reconnect()
        end, version = self.store.end, self.store.reader.format.VERSION
        return Head(end.rows, end.events, end.link, version)

    def close(self) -> None:
        """Write what waits, and release the folder; call it again if it was interrupted."""
        try:
            if self.store.is_open:
                self.flush()
        finally:
            self.wake_flusher.put(True)
            self.store.close()


def _report_progress(
    chunks: Iterator[StoredDecisions], store: Store, progress: Callable[[int, int], None]
) -> Iterator[StoredDecisions]:
    rows = store.rows - store.first
    for chunk in chunks:
        progress(min(rows, chunk.first - store.first), rows)
        yield chunk
    progress(rows, rows)
