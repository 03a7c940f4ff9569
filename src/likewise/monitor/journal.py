"""A store on disk that follows what a monitor remembers: the same decisions, in the same order.

Memory judges, the disk follows: what memory has taken is copied out by row number and appended.
A decision is taken once it is in the queue of what waits, which changes in one step.

A call may be cut off anywhere. `unsure` says what it was doing; `settle` then makes memory, queue
and disk agree again: memory goes back to the rows of the queue, or the disk is read again, or
memory is made again from the disk. The last is also the way back when the disk has refused
something.

Invariant: after `settle`, memory has what is on disk and then what waits, no more and no less.
Cost: making memory again takes as long as opening the ledger.
Not here: judging, and the lock under which all of this is called (monitor/monitor.py).
"""

import contextlib
import time as clock
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

import numpy as np

from likewise.errors import BadFile, LikewiseError, TooManyNames
from likewise.ledger.entries import Entries
from likewise.ledger.heads import Head
from likewise.ledger.layout import RecordLayout
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
from likewise.ledger.retention import Retention
from likewise.ledger.source_positions import check_places
from likewise.ledger.store import Store
from likewise.ledger.stored import StoredDecisions
from likewise.ledger.stored_verdicts import StoredVerdict, load_stored_verdicts
from likewise.ledger.window import RetentionWindow
from likewise.ledger.write_buffer import UnwrittenDecisions, WriteQueue
from likewise.monitor.erasure import Erasure, find_unused_words
from likewise.monitor.memory import Memory
from likewise.monitor.restoring import judge_accepted, load_rows
from likewise.tables import codec
from likewise.tables.keys import Keys
from likewise.tables.positions import SourcePositions
from likewise.tables.rows import Rows
from likewise.tables.times import MaxAhead
from likewise.verdict.verdicts import Verdicts

SURE, WRITING, KEEPING, ACCEPTED = 0, 1, 2, 3
"""What a call may have left half done: nothing but memory that is ahead of the queue; something was
being written; anything else, after which memory is made again from the disk. ACCEPTED: nothing, but
the disk has decisions behind those in memory, which are to be judged before anything else."""

_CHUNK = 1 << 15  # decisions written as one transaction
_LAG = 256  # rows that may stay in memory after they left the window


class Journal:
    """A store, and what waits to be written to it.

    memory, keys    what the monitor remembers: made from the disk here, and copied to it
    most, wait      decisions, and seconds, after which what was answered is on disk at the latest
    witnesses       how many of the nearest are written for each decision
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
        self._is_grouping = False  # whether decisions wait for others, to be written together
        self._window_first = 0  # rows before that one have left the window
        self._batch_rows = batch_rows
        self._batch_seconds = batch_seconds
        self.wake_flusher: SimpleQueue[bool] = SimpleQueue()
        """Something is put here when decisions begin to wait, and when the ledger is closed.

        Not an Event: a signal that arrives inside `Event.set` leaves its lock taken for ever.
        """
        self.most_sources: int | None = None
        """How many sources of positions there may be; None: any number."""
        self.missing = 0
        """Decisions known to be missing, as the chain says."""
        self.buffers: dict[str, BufferBound] = {}
        """Buffers that hold decisions in memory, by name."""
        self.restore(check=check, progress=progress)
        if self.buffers:  # of a process that was killed, since a ledger has one writer at a time
            self.record_loss(loss_by_kill(self.buffers))
            self.buffers = {}

    @property
    def rows(self) -> int:
        """Decisions ever taken."""
        return self.queue.stop

    def restore(self, *, check: bool, progress: Callable[[int, int], None] | None = None) -> None:
        """Make memory from what is on disk.

        progress    called now and then with the rows that were read, and how many there are
        """
        store = self.store
        store.reconnect()
        reader = store.reader
        self.unfinished = KEEPING
        self.disk_refused = False  # whether the disk has refused something since
        self.queue = WriteQueue(store.rows, store.rows, {})
        self._memory.reset()
        self._keys.reset()
        self._read_losses()
        self._positions = dict(store.positions)
        gone = np.union1d(reader.erased_rows(), reader.superseded_rows())
        self.retention = Retention(self.window, store.first, store.last_time, gone, self._ahead)
        self._words: dict[str, int] = {}
        self._words_read = store.connections
        self._log_holds_copies = False  # of rows that have left the window and the disk
        chunks = reader.all_decisions(store.first, store.rows)
        with contextlib.ExitStack() as checks:
            if check:
                checks.enter_context(reader.structure_checked(every_index=False))
                chunks = reader.format.walk(reader, None).chunks()
            if progress is not None:
                chunks = _report_progress(chunks, store, progress)
            if store.rows > store.first:
                self._words = load_rows(store, self._memory, self._keys, self.retention, chunks)
            deque(chunks, maxlen=0)  # a walk checks more behind the last row
        self._memory.set_word_check(codec.write_word)
        self._keys.is_erased = reader.format.erased_keys(reader)
        while store.judged < store.rows:
            self._judge_next(CHUNK)
        if self._memory.engine.history is not None:
            unused = find_unused_words(store, self._memory)
            self._memory.drop_words(unused.by_column)
            if check and (store.drop_files() or unused.numbers):
                self._purge_copies()  # a window's end was cut off
        self.queue = WriteQueue(store.rows, store.rows, dict(self._words))
        self.forget_before(self.retention.comparison_range(store.rows).first, lag=0)
        self.unfinished = SURE

    def check_places(self, places: SourcePositions | None) -> None:
        """Raise BadDecision unless decisions come from behind those that were taken before."""
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

    # After a call that was cut off

    def settle(self, *, record_fault: bool) -> None:
        """Finish or undo what an earlier call left half done.

        note: whether the chain is to say so if the disk had refused something.
        """
        if self.unfinished == ACCEPTED and self.store.is_in_sync:
            self._read_losses()  # a loss may have been chained by a call that was cut off
            self._positions = dict(self.store.positions)
            while self.unfinished == ACCEPTED:
                self.judge_accepted(CHUNK)
            return
        unsure = min(self.unfinished, KEEPING)
        if unsure >= WRITING:
            self.store.distrust_memory()
            self._words_read = -1
        self.store.reconnect()
        if unsure >= WRITING:
            self._read_losses()
        if unsure < KEEPING or self.queue:
            self._memory.settle(self.queue.stop)
            self._memory.truncate_words(self.queue.words)
            self._keys.settle(self.queue.stop, self._memory.engine.are_remembered)
        if unsure == KEEPING:
            self.flush()
            if self.disk_refused and record_fault:
                self.store.event("fault", {"rows": self.store.rows})
            self.restore(check=False)
        self.unfinished = SURE

    def after_fork(self) -> None:
        """In a forked process: what waits is the parent's to write."""
        self.queue = self.queue.after_write()

    # Decisions

    @contextlib.contextmanager
    def group_writes(self) -> Iterator[None]:
        """Within it decisions only wait; at its end they are written, all of them or none.

        Raises BadFile, and memory is made again, if they cannot be.
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
        """Write what has waited long enough, or is enough."""
        queue = self.queue
        if queue.stop == queue.first or self._is_grouping:
            return
        late = clock.monotonic() - queue.since >= self._batch_seconds
        if late or queue.stop - self.store.rows >= self._batch_rows:
            self.flush()

    def resolve_time(self, time: Any = None) -> int:
        """A time that was given, or the clock's; the chain says if that has gone back."""
        behind = self.retention.clock_is_behind() if time is None else 0
        if behind:
            self.flush()
            self.store.event("clock", {"behind_microseconds": behind})
        return self.retention.now(time)

    def append(self, some: UnwrittenDecisions, *, alone: bool = False) -> None:
        """Memory has taken decisions: so does the disk, now or, if it came alone, soon.

        If they cannot be written now, they are refused: memory, too long by then, is made again.
        """
        if len(some.times) == 0:
            return
        self.unfinished = KEEPING
        before = self.queue
        self.retention.note_times(some.times)
        self.queue = before.append(some, self._memory.word_counts())
        if some.places is not None:
            self._positions |= some.places.last_positions()
        self._window_first = int(some.firsts[-1])
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
        """Have all that waits on disk; if that fails, go back to what waited before."""
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
        """Decisions that are on disk and not judged yet."""
        waits = self.unfinished == ACCEPTED and self.store.is_in_sync
        return self.store.rows - self.store.judged if waits else 0

    def accept(self, some: UnwrittenDecisions) -> range:
        """Write decisions that memory has staged behind its last row; they are judged later.

        Whatever fails or is cut off in here, memory is made again from the disk.
        """
        store, memory, row = self.store, self._memory, self.queue.stop
        self.unfinished = KEEPING
        first, count, known = store.rows, len(some), memory.word_counts()
        history, layout = memory.engine.history, store.reader.layout
        assert history is not None and layout is not None
        entries = self._entries(some, known, row)
        store.append(replace(entries, waiting=True))
        self._words = known
        self.queue = WriteQueue(row, row, known)
        self._positions |= {} if some.places is None else some.places.last_positions()
        memory.settle(row)
        self._keys.add(first, some.keys or ())
        self.unfinished = ACCEPTED
        return range(first, first + count)

    def judge_accepted(self, most: int) -> Verdicts | None:
        """Judge the next of the accepted decisions; there are some. None if they were erased."""
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
        """What was found about rows that wait or are on disk."""
        return load_stored_verdicts(self.store.reader, self.queue, rows)

    def flush(self) -> None:
        """Have everything that was answered on disk."""
        if self.queue.stop == self.queue.first or self._is_grouping:
            return
        unsure = self.unfinished
        self.unfinished = max(unsure, WRITING)
        try:
            self._write()
        except LikewiseError:  # what could not be written goes on waiting
            self.unfinished = unsure
            raise
        self.queue = self.queue.after_write()
        self.unfinished = unsure

    def _write(self) -> None:
        store, queue = self.store, self.queue
        waiting = queue.join_all()
        if not store.is_in_sync:
            store.reconnect()
        if store.connections != self._words_read:  # what was being written may be there
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
        """Settled by the first decision."""
        history, columns = self._memory.engine.history, self._memory.reader.record_columns()
        assert history is not None
        if columns is None:
            return RecordLayout.of_vectors(history.shape, history.storage, history.out_width)
        return RecordLayout.of_columns(columns, history.out_width)

    def _entries(
        self, some: UnwrittenDecisions, words: dict[str, int], staged: int | None = None
    ) -> Entries:
        """With what memory holds of those rows, the next ones on disk.

        words: how many of each column's words the disk is to know with them
        staged: the row in memory behind which they are staged, if they are not remembered
        """
        layout, first = self.store.reader.layout, self.store.end.rows
        first = first if staged is None else staged
        history = self._memory.engine.history
        assert layout is not None and history is not None
        stop = first + len(some.times)
        fresh = []
        if words != self._words:
            fresh = [
                (column, code, values[code])
                for column, values in self._memory.words().items()
                for code in range(self._words.get(column, 0), words[column])
            ]
        return Entries(
            times=some.times,
            inputs=self._memory.reader.pack(layout.dtype, history.rows, first, stop),
            outputs=history.outputs(0 if staged is None else len(some))[first:stop],
            keys=some.keys,
            firsts=some.firsts,
            counts=some.counts,
            witnesses=some.witnesses,
            words=fresh,
            models=some.models,
            places=some.places,
            facts=some.facts,
            notes=some.notes,
        )

    def note(self, note: LedgerNote) -> None:
        """What somebody says of a decision, on disk when this returns."""
        self.flush()
        self.store.note(note)

    def event(self, kind: str, body: dict[str, Any]) -> None:
        """Something that happened beside decisions, on disk when this returns."""
        unsure = self.unfinished
        self.unfinished = max(unsure, WRITING)
        self.store.event(kind, body)
        self.unfinished = unsure

    # Losses

    def record_loss(self, body: dict[str, Any], places: SourcePositions | None = None) -> None:
        """Chain that decisions are known to be missing, behind all that was answered.

        places: of a source, the last position that is missing; it goes on behind that
        """
        self.check_places(places)
        self.flush()
        unsure, missing = self.unfinished, self.missing + body["count"]
        self.unfinished = max(unsure, WRITING)
        positions = {} if places is None else places.last_positions()
        self.store.event(LOST, {**body, "missing": missing}, positions)
        self.missing, self._lost_at = missing, self.store.rows
        self._positions |= positions
        self.unfinished = unsure

    def record_buffers(self, buffers: dict[str, BufferBound]) -> None:
        """Chain which buffers hold decisions in memory from now on, if that has changed."""
        if buffers == self.buffers:
            return
        self.flush()
        unsure = self.unfinished
        self.unfinished = max(unsure, WRITING)
        self.store.pin_event(BUFFERS, {BUFFERS: buffers})
        self.buffers = buffers
        self.unfinished = unsure

    def skip_positions(self, places: SourcePositions) -> None:
        """Chain that sources were read up to here, though no decision was made of what they had."""
        self.check_places(places)
        self.flush()
        unsure = self.unfinished
        self.unfinished = max(unsure, WRITING)
        self.store.tell_positions(places.last_positions())
        self._positions |= places.last_positions()
        self.unfinished = unsure

    def _read_losses(self) -> None:
        lost = self.store.reader.events(LOST)
        self.missing, self._lost_at = missing_in(lost), last_row_with(lost)
        told = [*lost, *self.store.reader.events(BUFFERS)]
        self.buffers = buffers_in(sorted(told, key=lambda event: event.number))

    # Rows that leave

    def forget_before(self, first: int, lag: int = _LAG) -> None:
        """Let go of what left the window: from memory with some delay, from disk in whole files."""
        history = self._memory.engine.history
        if history is None or first < history.first + max(1, lag):
            return
        try:
            self.flush()
            if self.missing and self._lost_at < first:
                self.record_loss(CARRIED)  # the event that says so is about to leave
            before = self.store.first
            self.store.drop(first)
        except BadFile:  # the disk will be asked again; what was just answered stands
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
        """A file of records has left the disk: so do words that no row has, and copies of keys.

        From memory first: a word that comes again is a new one, whether the old one is gone or not.
        """
        with contextlib.suppress(BadFile):  # else with the next file
            unused = find_unused_words(self.store, self._memory)
            self._memory.drop_words(unused.by_column)
            if unused.numbers:
                self.store.erase_words(unused.numbers)
            self.store.rewrite()
            self._log_holds_copies = not self.store.empty_log()

    def erase(self, wanted: Rows) -> Erasure:
        """Erase rows, in memory and on disk: all that are still on disk, in the window or not."""
        self.flush()
        store, memory = self.store, self._memory
        self.unfinished = KEEPING
        pending = ACCEPTED if store.judged < store.rows else SURE
        wanted = store.reader.with_successors(wanted)
        wanted = np.setdiff1d(wanted[wanted >= store.first], store.reader.erased_rows())
        if memory.engine.history is None or len(wanted) == 0:
            erasure = Erasure((), store.finish_erasures())
        else:
            unused = find_unused_words(store, memory, wanted)
            complete = store.erase(wanted.tolist(), unused.numbers)
            known = wanted[wanted < self.queue.stop]
            memory.forget(known[memory.engine.are_remembered(known)])
            memory.drop_words(unused.by_column)
            self._keys.forget(wanted)
            self._keys.is_erased = store.reader.format.erased_keys(store.reader)
            self.retention.erase(wanted)
            erasure = Erasure(tuple(wanted.tolist()), complete)
        self.unfinished = pending
        return erasure

    # Evidence

    def head(self) -> Head:
        self.flush()
        self.store.reconnect()
        end, version = self.store.end, self.store.reader.format.VERSION
        return Head(end.rows, end.events, end.link, version)

    def close(self) -> None:
        """Write what is left, and let go of the folder; a second call does what is left of it."""
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
