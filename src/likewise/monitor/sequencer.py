"""One call after another on a reader, an engine and, with a ledger, a journal: which rows count.

A decision is read, judged and remembered by the engine, kept by the reader, and written by the
journal, in that order. Only then does the number of rows that count (`taken`) move, in one step. An
exception may arrive between any two steps (a signal handler, a user's index, a full disk): then
`midway` stays set, and `settle` goes back to that number before anything else is done.

Invariant: a rejected decision, or batch, leaves no trace; what was answered is remembered.
Not here: the lock under which all of this is called, and the short way of a single vector in memory
(monitor.py); reading (reading/), judging (engine/), disks (ledger/).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from likewise.errors import BadRule, LikewiseError, RepeatedKey
from likewise.ledger.loss_events import BufferBound
from likewise.ledger.notes import LedgerNote
from likewise.ledger.stored import NOT_JUDGED
from likewise.ledger.write_buffer import UnwrittenDecisions
from likewise.monitor import case_work
from likewise.monitor.annotation import VerdictAnnotator
from likewise.monitor.comparison_window import ComparisonWindow
from likewise.monitor.erasure import Erasure
from likewise.monitor.journal import KEEPING, SURE, Journal
from likewise.monitor.memory import Memory
from likewise.monitor.metadata import Metadata, MetadataReader, RawMetadata
from likewise.monitor.readers.protocol import Batch, Reader
from likewise.monitor.remembered_past import RememberedPast
from likewise.monitor.repeats import (
    is_same,
    make_repeated_verdict,
    make_stored_verdict,
    split_repeats,
)
from likewise.monitor.time_span import TimeSpan
from likewise.search.engine.engine import Engine
from likewise.tables.keys import Keys, list_keys
from likewise.tables.positions import SourcePositions
from likewise.tables.rows import Rows
from likewise.tables.times import to_microseconds
from likewise.verdict.context import ComparedRows, VerdictContext
from likewise.verdict.losses import Loss
from likewise.verdict.verdicts import Verdict, Verdicts


def make_loss(
    count: int, reason: str, first: int | None, last: int | None, since: Any, until: Any
) -> Loss:
    """What a caller says was lost; times as `time` of a decision."""
    times = (None if one is None else to_microseconds(one) for one in (since, until))
    return Loss(count, reason, first, last, *times)


class MissingCount:
    """How many decisions are missing, as the verdicts of an engine say."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def count(self) -> int:
        return self._engine.verdict_context.missing

    def update(self, count: int) -> None:
        """Have every verdict from now on say so."""
        if count != self.count:
            self._engine.verdict_context = self._engine.verdict_context._replace(missing=count)


class Sequencer:
    """The calls of one monitor, each of them one step of its history.

    looking: the door by which whoever looks back goes in; within it nothing changes
    """

    def __init__(
        self,
        reader: Reader,
        engine: Engine,
        keys: Keys,
        span: TimeSpan | None,
        lock_for_reading: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.midway = False
        """Whether a call has begun, and not finished."""
        self.rows_taken = 0
        """Rows that all finished calls have left behind; with a journal, its queue says that."""
        self._reader = reader
        self._engine = engine
        self.keys = keys
        self.journal: Journal | None = None
        self.memory = Memory(reader, engine, span)
        self.past = RememberedPast(self.memory, keys, lock_for_reading)
        engine.verdict_context = engine.verdict_context._replace(past=self.past)
        rule = reader.rule
        plain = rule.features is None and not reader.embeds and span is None
        self.can_bypass_reader = plain and rule.compare == "all"
        """Whether a decision goes to the engine as it came. Not once a model is given: then every
        verdict says the models of its witnesses."""
        self._metadata_reader = MetadataReader(reader, keys, span)
        self._comparison_window = ComparisonWindow(span)
        self._annotator = VerdictAnnotator(keys, self.memory.models)
        self.missing = MissingCount(engine)

    def attach_journal(self, journal: Journal) -> None:
        """From here on everything is in a ledger, which memory was made from."""
        self.journal = self._metadata_reader.journal = self._comparison_window.journal = journal
        self.rows_taken = journal.rows
        self.missing.update(journal.missing)

    def require_journal(self) -> Journal:
        """The journal; raise BadRule if there is none."""
        if self.journal is None:
            raise BadRule("this monitor is in memory only; lw.open(folder, rule) has a ledger")
        return self.journal

    # Before and after a call

    @property
    def is_settled(self) -> bool:
        """Whether no call was left half done."""
        journal = self.journal
        sure = journal is None or (journal.unfinished == SURE and journal.store.is_in_sync)
        return not self.midway and sure

    @property
    def needs_only_judging(self) -> bool:
        """Whether nothing was left half done, but decisions that were accepted wait."""
        journal = self.journal
        return not self.midway and journal is not None and bool(journal.accepted_count)

    def settle(self, *, record_fault: bool) -> None:
        """Undo or finish what an earlier call left half done.

        note: whether a ledger is to say so if its disk had refused something
        """
        if self.journal is None:
            self.memory.settle(self.rows_taken)
            self.keys.settle(self.rows_taken, self._engine.are_remembered)
        else:
            self.journal.settle(record_fault=record_fault)
            self.rows_taken = self.journal.rows
            self.missing.update(self.journal.missing)
        self.midway = False

    @contextmanager
    def begin_change(self) -> Iterator[None]:
        """Around all that can be refused, before anything is remembered."""
        self.midway = True
        try:
            yield
        except LikewiseError:
            self.note_refusal()
            raise

    def note_refusal(self) -> None:
        """Something was refused before it was remembered: nothing is left to undo, or little."""
        if self._engine.rows == self.rows_taken and self._engine.undo_refusal():
            self.midway = False

    def after_fork(self) -> None:
        """In a forked process: another thread may have been in the middle of a call."""
        if self.journal is not None:  # the folder's lock is let go of, so every call is refused
            self.journal.after_fork()
        self.midway = self._engine.after_fork(cut_off=self.midway)
        if self._engine.rows == 0:
            self.rows_taken = 0

    def forget_all(self) -> None:
        """The monitor is closed."""
        self._engine.close()
        self._reader.reset()
        self.memory.models.reset()
        self.keys.reset()
        self.rows_taken = 0

    # Decisions

    def observe(self, x: Any, z: Any, raw_metadata: RawMetadata) -> Verdict:
        journal, row = self.journal, self.rows_taken
        if journal is not None:
            journal.flush_in_time()
        self.midway = True
        try:
            batch = self._reader.read_one(x, z)
            try:
                stated = self._metadata_reader.read_one(batch, row, raw_metadata)
            except RepeatedKey as error:
                if journal is None or not is_same(self.memory, error.row, batch):
                    raise
                return self._answer_again(journal, error.row)
            first, over = self._comparison_window.find_first_row(row, stated.times)
            found = self.memory.observe(batch, first)
        except LikewiseError:
            self.note_refusal()
            raise
        self._add_metadata(stated)
        verdict = self._annotator.annotate_one(row, found, stated.keys, batch.models, over)
        if journal is not None:
            one = UnwrittenDecisions.of_one(
                stated.times,
                stated.keys,
                first,
                verdict,
                witnesses=journal.witnesses,
                models=batch.models,
                places=stated.positions,
            )
            journal.append(one, alone=True)
        self._finish_call(batch)
        return verdict

    def observe_group(self, inputs: Any, outputs: Sequence[Any]) -> list[Verdict | LikewiseError]:
        """Vectors with nothing said beside them, one after another: the verdict, or the refusal.

        Those that are not refused are one step: all of them are written together, or none is taken.
        """
        journal, row = self.journal, self.rows_taken
        if journal is not None:
            journal.flush()
        self.midway = True
        times = self._metadata_reader.read_many(Batch(inputs, outputs), row, RawMetadata()).times
        firsts = self._comparison_window.find_first_rows(row, times)
        absent = self._comparison_window.count_erased(firsts)
        answers: list[Verdict | LikewiseError] = []
        verdicts: list[Verdict] = []
        for x, z in zip(inputs, outputs, strict=True):
            taken, over = len(verdicts), None
            first = 0 if firsts is None else int(firsts[taken])
            if absent is not None:
                over = ComparedRows(first, row + taken, int(absent[taken]))
            try:
                found = self.memory.observe(Batch(x, z), first)
            except LikewiseError as error:
                answers.append(error)
                if not self._engine.undo_refusal():
                    self.memory.settle(row + taken)
                continue
            verdicts.append(self._annotator.annotate_one(row + taken, found, None, None, over))
            answers.append(verdicts[-1])
        taken = len(verdicts)
        if journal is not None and firsts is not None and taken:
            singles = [
                UnwrittenDecisions.of_one(
                    times[i : i + 1],
                    None,
                    int(firsts[i]),
                    verdict,
                    witnesses=journal.witnesses,
                    models=None,
                )
                for i, verdict in enumerate(verdicts)
            ]
            journal.append(UnwrittenDecisions.join(singles))
        self.rows_taken = self._engine.rows
        self.midway = False
        return answers

    def _answer_again(self, journal: Journal, row: int) -> Verdict:
        """What was answered to a decision that is sent again."""
        verdict = self._read_stored_verdicts(journal, [row])[row]
        self._engine.undo_refusal()
        self.midway = False
        return verdict

    def _read_stored_verdicts(self, journal: Journal, rows: list[int]) -> dict[int, Verdict]:
        beside, known = (
            VerdictContext(self.past, question=self._engine.verdict_context.question),
            self.memory.models,
        )
        verdicts = {}
        for row, before in journal.find_verdicts(rows).items():
            models = list(known.names(np.array([row]))) if known else None
            verdicts[row] = self._annotator.annotate_one(
                row, make_stored_verdict(row, before, beside), [self.keys.key_of(row)], models, None
            )
        return verdicts

    def observe_many(
        self, x: Any, z: Any, raw_metadata: RawMetadata, threads: int | None
    ) -> Verdicts:
        if self.journal is not None:
            self.journal.flush()
        self.midway = True
        try:
            batch = self._reader.read_many(x, z)
            stated = self._read_metadata_unless_repeated(batch, raw_metadata)
        except LikewiseError:
            self.note_refusal()
            raise
        if stated is None and self.journal is not None:
            return self._observe_with_repeats(self.journal, batch, raw_metadata, threads)
        assert stated is not None
        return self._observe_batch(batch, stated, threads)

    def _read_metadata_unless_repeated(
        self, batch: Batch, raw_metadata: RawMetadata
    ) -> Metadata | None:
        """None if a ledger may have decisions of the batch already."""
        try:
            return self._metadata_reader.read_many(batch, self.rows_taken, raw_metadata)
        except RepeatedKey:
            if self.journal is None:
                raise
            return None

    def _observe_with_repeats(
        self, journal: Journal, batch: Batch, raw_metadata: RawMetadata, threads: int | None
    ) -> Verdicts:
        """Answer what is stored already, and judge and take the other decisions of a batch."""
        with self.begin_change():
            batch.vectors, batch.outputs = self._engine.batch(batch.vectors, batch.outputs)
            given = list_keys(raw_metadata.keys) if batch.keys is None else batch.keys
            fresh, stored, twice = split_repeats(self.memory, self.keys, batch, given)
            stated = self._metadata_reader.read_many(batch, self.rows_taken, raw_metadata, fresh)
            verdicts_before = self._read_stored_verdicts(journal, sorted(set(stored.values())))
            answers = {place: verdicts_before[row] for place, row in stored.items()}
        verdicts: Sequence[Verdict] = ()
        found = None
        if fresh:
            found = self._observe_batch(batch.select(fresh), stated, threads)
            verdicts = list(found)
        else:
            self._engine.undo_refusal()
            self.midway = False
        for place, verdict in zip(fresh, verdicts, strict=True):
            answers[place] = verdict
        for place, first in twice.items():
            answers[place] = make_repeated_verdict(answers[first], journal.witnesses)
        each = [answers[place] for place in range(len(answers))]
        return Verdicts.with_repeats(self.rows_taken - len(fresh), each, found)

    def _observe_batch(self, batch: Batch, metadata: Metadata, threads: int | None) -> Verdicts:
        with self.begin_change():
            firsts = self._comparison_window.find_first_rows(self.rows_taken, metadata.times)
            found = self.memory.observe_many(batch, firsts, threads)
        self._add_metadata(metadata)
        absent = self._comparison_window.count_erased(firsts)
        verdicts = self._annotator.annotate_many(found, metadata.keys, batch.models, firsts, absent)
        self._commit_batch(batch, metadata, verdicts, firsts)
        return verdicts

    def accept(self, x: Any, z: Any, raw_metadata: RawMetadata) -> range:
        """Have decisions on disk that are judged later."""
        journal = self.require_journal()
        if self.rows_taken == 0:
            raise BadRule("the first decision settles what the others look like: observe it.")
        journal.flush()
        with self.begin_change():
            batch = self._reader.read_many(x, z)
            stated = self._metadata_reader.read_many(batch, journal.store.rows, raw_metadata)
            count = self.memory.stage(batch)
        firsts = np.zeros(count, np.int64)
        some = UnwrittenDecisions.of(
            stated.times,
            stated.keys,
            firsts,
            None,
            witnesses=0,
            models=batch.models,
            places=stated.positions,
        )
        rows = journal.accept(some)
        self.midway = False
        return rows

    def judge_accepted(self, most: int) -> Verdicts | None:
        """The verdicts of the next decisions that were accepted; None if there are none.

        Those that were erased in between are passed over.
        """
        journal, found = self.require_journal(), None
        while found is None and journal.accepted_count:
            self.midway = True
            found = journal.judge_accepted(most)
            self.rows_taken = self._engine.rows
            self.midway = False
        if found is None:
            return None
        models = list(self.memory.models.names(found.rows)) if self.memory.models else None
        keys = [self.keys.key_of(row) for row in found.rows.tolist()]
        return self._annotator.annotate_many(found, keys, models, None, None)

    def verdicts_of(self, rows: list[int]) -> list[Verdict | None]:
        """The verdicts that the ledger has; None for a row that was never judged."""
        journal = self.require_journal()
        found = journal.find_verdicts([row for row in rows if row >= journal.store.first])
        told = self._read_stored_verdicts(
            journal, [row for row in found if found[row].count != NOT_JUDGED]
        )
        return [
            Verdict(row, told[row].witnesses, told[row].context._replace(known=False))
            if row in told
            else None
            for row in rows
        ]

    def load(self, x: Any, z: Any, raw_metadata: RawMetadata) -> range:
        if self.journal is not None:
            self.journal.flush()
        with self.begin_change():
            batch = self._reader.read_many(x, z)
            stated = self._metadata_reader.read_many(batch, self.rows_taken, raw_metadata)
            firsts = self._comparison_window.find_first_rows(self.rows_taken, stated.times)
            rows = self.memory.load(batch)
        self._add_metadata(stated)
        self._commit_batch(batch, stated, None, firsts)
        return rows

    def _add_metadata(self, metadata: Metadata) -> None:
        """Memory has taken decisions, whose keys may be those of witnesses in the same batch."""
        if metadata.keys is not None:
            self.keys.add(self.rows_taken, metadata.keys)
        if self._comparison_window.span is not None:
            self._comparison_window.span.add(self.rows_taken, metadata.times)

    def _commit_batch(
        self,
        batch: Batch,
        metadata: Metadata,
        found: Verdicts | None,
        firsts: Rows | None,
        notes: Sequence[LedgerNote] = (),
    ) -> None:
        """Memory has taken decisions: have a ledger take them too, then let them count.

        found   what was found about them; None: they were not judged
        firsts  the first row that each was compared with
        notes   what is said of them, to be kept in the same step
        """
        journal = self.journal
        if journal is not None and firsts is not None:
            some = UnwrittenDecisions.of(
                metadata.times,
                metadata.keys,
                firsts,
                found,
                witnesses=journal.witnesses,
                models=batch.models,
                places=metadata.positions,
                notes=notes,
            )
            journal.append(some)
        self._finish_call(batch)

    def _finish_call(self, batch: Batch) -> None:
        """Memory, and a ledger, have taken decisions: let them count."""
        self.can_bypass_reader = self.can_bypass_reader and batch.models is None
        self.rows_taken = self._engine.rows
        self.midway = False

    # Checks

    def check(self, x: Any, z: Any, time: Any, model: Any) -> Verdict:
        with self.begin_change():
            batch = self._reader.read_one(x, z)
            batch.models = self._metadata_reader.read_models(model)
            verdict = self._check(batch, time)
        self.midway = False
        return verdict

    def _check(self, batch: Batch, time: Any) -> Verdict:
        first, over = self._comparison_window.find_first_row_for_check(self.rows_taken, time)
        found = self.memory.check(batch, first)
        values = self._reader.decode_values(batch)
        if values is not None:
            values |= self.past.output_values(batch.outputs)
        return self._annotator.annotate_one(None, found, None, batch.models, over, values=values)

    def check_many(self, x: Any, z: Any, time: Any, models: Any) -> Verdicts:
        with self.begin_change():
            batch = self._reader.read_many(x, z)
            batch.vectors, batch.outputs = self._engine.batch(batch.vectors, batch.outputs)
            decided = self._metadata_reader.read_models(models, len(batch.outputs))
            each = []
            for i, one in enumerate(self._reader.split(batch)):
                one.models = None if decided is None else decided[i : i + 1]
                each.append(self._check(one, time))
        self.midway = False
        return Verdicts.of_checks(self.rows_taken, each, comparable=self._engine.comparable)

    # Taking away, and what is known later

    def erase(self, wanted: Rows) -> Erasure:
        with self.begin_change():
            if self.journal is not None:
                erasure = self.journal.erase(wanted)
            else:
                gone = self.memory.forget(wanted)
                self.keys.forget(gone)
                erasure = Erasure(tuple(gone.tolist()), complete=True)
        self.midway = False
        return erasure

    def record_loss(self, loss: Loss, places: SourcePositions | None) -> None:
        journal = self.journal if places is None else self.require_journal()
        if journal is None:
            self.missing.update(self.missing.count + loss.count)
            return
        self.midway = True
        journal.record_loss(loss.to_dict(), places)
        self.missing.update(journal.missing)
        self.midway = False

    def record_buffers(self, buffers: dict[str, BufferBound]) -> None:
        journal = self.require_journal()
        self.midway = True
        journal.record_buffers(buffers)
        self.midway = False

    def skip_positions(self, places: SourcePositions | None) -> None:
        journal = self.require_journal()
        self.midway = True
        if places is not None:
            journal.skip_positions(places)
        self.midway = False

    def annotate_late_verdicts(self, found: Verdicts) -> Verdicts:
        """What was found of decisions after they were answered: what counts, with its names."""
        journal, rows = self.require_journal(), found.rows
        journal.flush()
        first, stop = found.first_row, found.first_row + len(found)
        stored = journal.store.reader.decisions(first, stop, keys=False, witnesses=False)
        within = found.witnesses.rows >= stored.firsts[found.owners]
        found = self.memory.filter_late_pairs(found.select_witnesses(within))
        models = list(self.memory.models.names(rows)) if self.memory.models else None
        keys = [self.keys.key_of(row) for row in rows.tolist()]
        return self._annotator.annotate_many(found, keys, models, None, None)

    def event(self, kind: str, body: dict[str, Any]) -> None:
        """Something else that happened, chained as decisions are."""
        journal = self.require_journal()
        journal.flush()
        self.midway = True
        journal.event(kind, body)
        self.midway = False

    def supersede(self, key: Any, output: Any, by: str, why: str, verified: bool) -> Verdict:
        journal, row = self.require_journal(), self.rows_taken
        old = case_work.find_row_to_supersede(self.memory, self.keys, key)
        note = case_work.superseded_note(old, row, by, why, verified)
        journal.flush()
        self.midway = True
        batch = case_work.read_replacement(journal, self.memory, old, output)
        journal.unfinished = KEEPING  # memory is made again if anything fails from here on
        journal.retention.erase(self.memory.forget(np.array([old])))
        stated = Metadata(None, np.array([journal.resolve_time()]))
        first, over = self._comparison_window.find_first_row(row, stated.times)
        found = self.memory.observe_many(batch, np.array([first]), None)
        self._commit_batch(batch, stated, found, np.array([first]), [note])
        return Verdict(row, found[0].witnesses, found[0].context._replace(over=over))
