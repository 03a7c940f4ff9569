"""The steps of each call: read, judge and remember, write to the ledger, then count the rows.

An exception may arrive between any two steps (a signal, a user's index, a full disk). Then `midway`
stays set, and `settle` goes back to the first `rows_taken` rows before anything else is done.
Invariant: a rejected decision, or batch, leaves no trace; what was answered is remembered.
Not here: the lock that is held during all of this, and the shortcut for a single vector in memory
(monitor.py); reading (readers/), judging (search/), disks (ledger/).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np

from likewise.errors import BadRule, LikewiseError, RepeatedKey
from likewise.ledger.loss_events import BufferBound
from likewise.ledger.notes import LedgerNote
from likewise.ledger.stored import NOT_JUDGED
from likewise.ledger.write_buffer import UnwrittenDecisions
from likewise.monitor import case_work
from likewise.monitor.erasure import Erasure
from likewise.monitor.journal import KEEPING, SURE, Journal
from likewise.monitor.memory import Memory
from likewise.monitor.metadata import ComparisonWindow, Metadata, MetadataReader, RawMetadata
from likewise.monitor.precedent_lookup import describe_precedents
from likewise.monitor.readers.protocol import Batch, Decision, Reader
from likewise.monitor.remembered_past import RememberedPast
from likewise.monitor.repeats import (
    VerdictAnnotator,
    is_same,
    make_repeated_verdict,
    make_stored_verdict,
    split_repeats,
)
from likewise.monitor.row_models import ModelNames
from likewise.monitor.time_span import TimeSpan
from likewise.search.engine.engine import Engine
from likewise.tables.array_types import Rows
from likewise.tables.keys import Keys, list_keys
from likewise.tables.positions import SourcePositions
from likewise.tables.times import to_microseconds
from likewise.verdict.context import ComparedRows, VerdictContext
from likewise.verdict.losses import Loss
from likewise.verdict.precedents import Precedents
from likewise.verdict.verdicts import Verdict, Verdicts


def make_loss(
    count: int, reason: str, first: int | None, last: int | None, since: Any, until: Any
) -> Loss:
    """Make a loss from what a caller reports; times are given like the `time` of a decision."""
    times = (None if one is None else to_microseconds(one) for one in (since, until))
    return Loss(count, reason, first, last, *times)


class Sequencer:
    """Makes each call of one monitor a single step of its history.

    lock_for_reading: context manager that holds the monitor's lock while the past is read
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
        """Rows that count, after all finished calls; with a journal, a copy of its own count."""
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
        """Whether a vector goes to the engine as it came. False once a model is given: from then
        on every verdict names the models of its witnesses."""
        self._comparison_window = ComparisonWindow(span)
        self._metadata_reader = MetadataReader(reader, keys, self._comparison_window)
        self._annotator = VerdictAnnotator(keys, self.memory.models)

    def attach_journal(self, journal: Journal) -> None:
        """Write everything to a ledger from now on; memory was made from it."""
        self.journal = self._comparison_window.journal = journal
        self.rows_taken = journal.rows
        self._set_missing(journal.missing)

    def require_journal(self) -> Journal:
        """Return the journal; raise BadRule if there is none."""
        if self.journal is None:
            raise BadRule("this monitor is in memory only; lw.open(folder, rule) has a ledger")
        return self.journal

    def count_taken(self) -> int:
        """Count the decisions that were taken, with those that wait to be judged."""
        return self.rows_taken + (0 if self.journal is None else self.journal.accepted_count)

    @property
    def missing_decisions(self) -> int:
        """How many decisions are known to be missing, as every verdict says."""
        return self._engine.verdict_context.missing_decisions

    def _set_missing(self, count: int) -> None:
        if count != self.missing_decisions:
            self._engine.verdict_context = self._engine.verdict_context._replace(
                missing_decisions=count
            )

    # Before and after a call

    @property
    def is_settled(self) -> bool:
        """Whether no call was left half done."""
        journal = self.journal
        sure = journal is None or (journal.unfinished == SURE and journal.store.is_in_sync)
        return not self.midway and sure

    @property
    def needs_only_judging(self) -> bool:
        """Whether nothing was left half done, but accepted decisions wait to be judged."""
        journal = self.journal
        return not self.midway and journal is not None and bool(journal.accepted_count)

    def settle(self, *, record_fault: bool) -> None:
        """Undo or finish what an earlier call left half done.

        record_fault: whether a ledger records that its disk had refused something
        """
        if self.journal is None:
            self.memory.settle(self.rows_taken)
            self.keys.settle(self.rows_taken, self._engine.are_remembered)
        else:
            self.journal.settle(record_fault=record_fault)
            self.rows_taken = self.journal.rows
            self._set_missing(self.journal.missing)
        self.midway = False

    @contextmanager
    def begin_change(self) -> Iterator[None]:
        """Begin a call; if the block refuses its input, the call is over and leaves no trace."""
        self.midway = True
        try:
            yield
        except LikewiseError:
            self.note_refusal()
            raise

    def note_refusal(self) -> None:
        """End a call that was refused before anything was remembered, if that is easily undone."""
        if self._engine.rows == self.rows_taken and self._engine.undo_refusal():
            self.midway = False

    @contextmanager
    def _whole_call(self) -> Iterator[None]:
        """Mark a call as begun; it stays so if the block raises, and `settle` undoes it."""
        self.midway = True
        yield
        self.midway = False

    def after_fork(self) -> None:
        """Start afresh in a forked process: another thread may have been in a call at the fork."""
        if self.journal is not None:  # the folder's lock is released, so every call is refused
            self.journal.after_fork()
        self.midway = self._engine.after_fork(cut_off=self.midway)
        if self._engine.rows == 0:
            self.rows_taken = 0

    def forget_all(self) -> None:
        """Free the memory of a monitor that is closed."""
        self._engine.close()
        self._reader.reset()
        self.memory.models.reset()
        self.keys.reset()
        self.rows_taken = 0

    # Decisions

    def observe(self, x: Any, z: Any, raw_metadata: RawMetadata) -> Verdict:
        """Judge a decision, remember it and, with a ledger, write it."""
        journal, row = self.journal, self.rows_taken
        if journal is not None:
            journal.flush_in_time()
        self.midway = True
        try:
            batch = self._reader.read_one(x, z)
            try:
                metadata = self._metadata_reader.read_one(batch, row, raw_metadata)
            except RepeatedKey as error:
                if journal is None or not is_same(self.memory, error.row, batch):
                    raise
                return self._answer_again(journal, error.row)
            first, compared = self._comparison_window.find_first_row(row, metadata.times)
            verdict = self.memory.observe(batch, first)
        except LikewiseError:
            self.note_refusal()
            raise
        self._add_metadata(metadata)
        verdict = self._annotator.annotate_one(row, verdict, metadata.keys, batch.models, compared)
        if journal is not None:
            unwritten = UnwrittenDecisions.of_one(
                metadata.times,
                metadata.keys,
                first,
                verdict,
                witnesses=journal.witnesses,
                models=batch.models,
                places=metadata.positions,
            )
            journal.append(unwritten, alone=True)
        self._finish_call(batch)
        return verdict

    def observe_group(self, inputs: Any, outputs: Sequence[Any]) -> list[Verdict | LikewiseError]:
        """Judge vectors without metadata one after another: return each verdict, or the refusal.

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
            taken, compared = len(verdicts), None
            first = 0 if firsts is None else int(firsts[taken])
            if absent is not None:
                compared = ComparedRows(first, row + taken, int(absent[taken]))
            try:
                verdict = self.memory.observe(Batch(x, z), first)
            except LikewiseError as error:
                answers.append(error)
                if not self._engine.undo_refusal():
                    self.memory.settle(row + taken)
                continue
            verdict = self._annotator.annotate_one(row + taken, verdict, None, None, compared)
            verdicts.append(verdict)
            answers.append(verdict)
        if journal is not None and firsts is not None and verdicts:
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
        """Answer a decision that is sent again as it was answered the first time."""
        verdict = self._read_stored_verdicts(journal, [row])[row]
        self._engine.undo_refusal()
        self.midway = False
        return verdict

    def _read_stored_verdicts(self, journal: Journal, rows: list[int]) -> dict[int, Verdict]:
        context = VerdictContext(self.past, question=self._engine.verdict_context.question)
        verdicts = {}
        for row, stored in journal.find_verdicts(rows).items():
            keys, models = self._keys_and_models([row])
            verdict = make_stored_verdict(row, stored, context)
            verdicts[row] = self._annotator.annotate_one(row, verdict, keys, models, None)
        return verdicts

    def _keys_and_models(self, rows: Sequence[int]) -> tuple[list[Any], ModelNames]:
        """Look up the keys and models of remembered rows; None if no row has a model."""
        models = self.memory.models
        names = list(models.names(np.array(rows, np.int64))) if models else None
        return [self.keys.key_of(row) for row in rows], names

    def observe_many(
        self, x: Any, z: Any, raw_metadata: RawMetadata, threads: int | None
    ) -> Verdicts:
        """Judge decisions, remember them all or none and, with a ledger, write them."""
        if self.journal is not None:
            self.journal.flush()
        metadata = None
        with self.begin_change():
            batch = self._reader.read_many(x, z)
            try:
                metadata = self._metadata_reader.read_many(batch, self.rows_taken, raw_metadata)
            except RepeatedKey:
                if self.journal is None:
                    raise
        if metadata is None:
            return self._observe_with_repeats(batch, raw_metadata, threads)
        return self._observe_batch(batch, metadata, threads)

    def _observe_with_repeats(
        self, batch: Batch, raw_metadata: RawMetadata, threads: int | None
    ) -> Verdicts:
        """Answer what the ledger has already, and judge and take the other decisions of a batch."""
        journal = self.require_journal()
        with self.begin_change():
            batch.vectors, batch.outputs = self._engine.batch(batch.vectors, batch.outputs)
            keys = list_keys(raw_metadata.keys) if batch.keys is None else batch.keys
            fresh, stored, twice = split_repeats(self.memory, self.keys, batch, keys)
            metadata = self._metadata_reader.read_many(batch, self.rows_taken, raw_metadata, fresh)
            verdicts_before = self._read_stored_verdicts(journal, sorted(set(stored.values())))
            answers = {place: verdicts_before[row] for place, row in stored.items()}
        verdicts = None
        if fresh:
            verdicts = self._observe_batch(batch.select(fresh), metadata, threads)
            answers |= zip(fresh, verdicts, strict=True)
        else:
            self._engine.undo_refusal()
            self.midway = False
        for place, first in twice.items():
            answers[place] = make_repeated_verdict(answers[first], journal.witnesses)
        each = [answers[place] for place in range(len(answers))]
        return Verdicts.with_repeats(self.rows_taken - len(fresh), each, verdicts)

    def _observe_batch(self, batch: Batch, metadata: Metadata, threads: int | None) -> Verdicts:
        with self.begin_change():
            firsts = self._comparison_window.find_first_rows(self.rows_taken, metadata.times)
            verdicts = self.memory.observe_many(batch, firsts, threads)
        self._add_metadata(metadata)
        absent = self._comparison_window.count_erased(firsts)
        verdicts = self._annotator.annotate_many(
            verdicts, metadata.keys, batch.models, firsts, absent
        )
        self._commit_batch(batch, metadata, verdicts, firsts)
        return verdicts

    def accept(self, x: Any, z: Any, raw_metadata: RawMetadata) -> range:
        """Write decisions to the ledger that are judged later; return their rows."""
        journal = self.require_journal()
        if self.rows_taken == 0:
            raise BadRule("the first decision settles what the others look like: observe it.")
        journal.flush()
        with self.begin_change():
            batch = self._reader.read_many(x, z)
            metadata = self._metadata_reader.read_many(batch, journal.store.rows, raw_metadata)
            count = self.memory.stage(batch)
        firsts = np.zeros(count, np.int64)
        rows = journal.accept(self._make_unwritten(batch, metadata, None, firsts))
        self.midway = False
        return rows

    def judge_accepted(self, most: int) -> Verdicts | None:
        """Judge the next decisions that were accepted; None if there are none.

        Those that were erased in between are skipped.
        """
        journal, verdicts = self.require_journal(), None
        while verdicts is None and journal.accepted_count:
            with self._whole_call():
                verdicts = journal.judge_accepted(most)
                self.rows_taken = self._engine.rows
        return None if verdicts is None else self._annotate_again(verdicts)

    def _annotate_again(self, verdicts: Verdicts) -> Verdicts:
        """Add the keys and models of rows that were remembered by an earlier call."""
        keys, models = self._keys_and_models(verdicts.rows.tolist())
        return self._annotator.annotate_many(verdicts, keys, models, None, None)

    def verdicts_of(self, rows: list[int]) -> list[Verdict | None]:
        """Read the verdicts that the ledger has; None for a row that was never judged."""
        journal = self.require_journal()
        stored = journal.find_verdicts([row for row in rows if row >= journal.store.first])
        judged = [row for row, verdict in stored.items() if verdict.count != NOT_JUDGED]
        verdicts = self._read_stored_verdicts(journal, judged)
        return [
            Verdict(row, verdicts[row].witnesses, verdicts[row].context._replace(repeated=False))
            if row in verdicts
            else None
            for row in rows
        ]

    def load(self, x: Any, z: Any, raw_metadata: RawMetadata) -> range:
        """Remember decisions without judging them; return their rows."""
        if self.journal is not None:
            self.journal.flush()
        with self.begin_change():
            batch = self._reader.read_many(x, z)
            metadata = self._metadata_reader.read_many(batch, self.rows_taken, raw_metadata)
            firsts = self._comparison_window.find_first_rows(self.rows_taken, metadata.times)
            rows = self.memory.load(batch)
        self._add_metadata(metadata)
        self._commit_batch(batch, metadata, None, firsts)
        return rows

    def _add_metadata(self, metadata: Metadata) -> None:
        """Remember keys and times of new rows, which may be witnesses in the same batch."""
        if metadata.keys is not None:
            self.keys.add(self.rows_taken, metadata.keys)
        if self._comparison_window.span is not None:
            self._comparison_window.span.add(self.rows_taken, metadata.times)

    def _commit_batch(
        self,
        batch: Batch,
        metadata: Metadata,
        verdicts: Verdicts | None,
        firsts: Rows | None,
        notes: Sequence[LedgerNote] = (),
    ) -> None:
        """Write decisions that memory has taken, if there is a ledger; then let them count.

        verdicts    None if they were not judged
        firsts      the first row that each was compared with
        notes       what people say about them, written in the same transaction
        """
        if self.journal is not None and firsts is not None:
            self.journal.append(self._make_unwritten(batch, metadata, verdicts, firsts, notes))
        self._finish_call(batch)

    def _make_unwritten(
        self,
        batch: Batch,
        metadata: Metadata,
        verdicts: Verdicts | None,
        firsts: Rows,
        notes: Sequence[LedgerNote] = (),
    ) -> UnwrittenDecisions:
        """Put together what a ledger writes of a batch."""
        return UnwrittenDecisions.of(
            metadata.times,
            metadata.keys,
            firsts,
            verdicts,
            witnesses=self.require_journal().witnesses,
            models=batch.models,
            places=metadata.positions,
            notes=notes,
        )

    def _finish_call(self, batch: Batch) -> None:
        """Let decisions count that memory, and a ledger, have taken."""
        self.can_bypass_reader = self.can_bypass_reader and batch.models is None
        self.rows_taken = self._engine.rows
        self.midway = False

    # Checks

    def check(self, x: Any, z: Any, time: Any, model: Any) -> Verdict:
        """Judge a decision as if it came now, without remembering it."""
        with self.begin_change():
            batch = self._reader.read_one(x, z)
            batch.models = self._metadata_reader.read_models(model)
            verdict = self._check(batch, time)
        self.midway = False
        return verdict

    def _check(self, batch: Batch, time: Any) -> Verdict:
        first, compared = self._comparison_window.find_first_row_for_check(self.rows_taken, time)
        verdict = self.memory.check(batch, first)
        values = self._reader.decode_values(batch)
        if values is not None:
            values |= self.past.output_values(batch.outputs)
        return self._annotator.annotate_one(
            None, verdict, None, batch.models, compared, values=values
        )

    def check_many(self, x: Any, z: Any, time: Any, models: Any) -> Verdicts:
        """Judge each decision as if it alone came now, without remembering any."""
        with self.begin_change():
            batch = self._reader.read_many(x, z)
            batch.vectors, batch.outputs = self._engine.batch(batch.vectors, batch.outputs)
            batch.models = self._metadata_reader.read_models(models, len(batch.outputs))
            verdicts = []
            for i, decision in enumerate(self._reader.split(batch)):
                decision.models = None if batch.models is None else batch.models[i : i + 1]
                verdicts.append(self._check(decision, time))
        self.midway = False
        return Verdicts.of_checks(self.rows_taken, verdicts, comparable=self._engine.comparable)

    def like(self, x: Any, limit: int | None, time: Any, model: Any, person: Any) -> Precedents:
        """Find the past decisions near an input, as if it came now; nothing is remembered."""
        with self.begin_change():
            batch = self._reader.read_case(x, person)
            batch.models = self._metadata_reader.read_models(model)
            first, _ = self._comparison_window.find_first_row_for_check(self.rows_taken, time)
            near, not_compared = self.memory.find_precedents(batch, first)
        self.midway = False
        return describe_precedents(self.memory, self.keys, self.journal, near, limit, not_compared)

    # Erasure, and what is known later

    def erase(self, rows: Rows) -> Erasure:
        """Erase rows in memory and in the ledger."""
        with self.begin_change():
            if self.journal is not None:
                erasure = self.journal.erase(rows)
            else:
                gone = self.memory.forget(rows)
                self.keys.forget(gone)
                erasure = Erasure(tuple(gone.tolist()), complete=True)
        self.midway = False
        return erasure

    def record_loss(self, loss: Loss, places: SourcePositions | None) -> None:
        """Count decisions as missing from now on; a ledger records the loss."""
        journal = self.journal if places is None else self.require_journal()
        if journal is None:
            self._set_missing(self.missing_decisions + loss.count)
            return
        with self._whole_call():
            journal.record_loss(loss.to_dict(), places)
            self._set_missing(journal.missing)

    def record_buffers(self, buffers: dict[str, BufferBound]) -> None:
        """Record in the ledger which buffers hold decisions in memory from now on."""
        journal = self.require_journal()
        with self._whole_call():
            journal.record_buffers(buffers)

    def skip_positions(self, places: SourcePositions | None) -> None:
        """Record in the ledger up to where sources were read."""
        journal = self.require_journal()
        if places is not None:
            with self._whole_call():
                journal.skip_positions(places)

    def annotate_late_verdicts(self, verdicts: Verdicts) -> Verdicts:
        """Keep of pairs that were found late those that count, with their keys and models."""
        journal = self.require_journal()
        journal.flush()
        first, stop = verdicts.first_row, verdicts.first_row + len(verdicts)
        stored = journal.store.reader.decisions(first, stop, keys=False, witnesses=False)
        within = verdicts.witnesses.rows >= stored.firsts[verdicts.owners]
        late = self.memory.filter_late_pairs(verdicts.select_witnesses(within))
        return self._annotate_again(late)

    def event(self, kind: str, body: dict[str, Any]) -> None:
        """Record in the ledger's chain something other than a decision."""
        journal = self.require_journal()
        journal.flush()
        with self._whole_call():
            journal.event(kind, body)

    def supersede(self, key: Any, output: Any, by: str, why: str, verified: bool) -> Verdict:
        """Put a decision with another output in the place of an earlier one, and judge it."""
        journal, row = self.require_journal(), self.rows_taken
        old = case_work.find_row_to_supersede(self.memory, self.keys, key)
        note = case_work.superseded_note(old, row, by, why, verified)
        journal.flush()
        self.midway = True
        batch = case_work.read_replacement(journal, self.memory, old, output)
        journal.unfinished = KEEPING  # memory is read from disk again if anything fails after this
        journal.retention.erase(self.memory.forget(np.array([old])))
        metadata = Metadata(None, np.array([journal.resolve_time()]))
        first, compared = self._comparison_window.find_first_row(row, metadata.times)
        firsts = np.array([first])
        verdicts = self.memory.observe_many(batch, firsts, None)
        self._commit_batch(batch, metadata, verdicts, firsts, [note])
        witnesses, context = verdicts[0].witnesses, verdicts[0].context
        return Verdict(row, witnesses, context._replace(compared_with=compared))


class ShardCoordinator(Protocol):
    """The part of a monitor whose history is searched elsewhere, by shards.

    `sharding/shard_calls.py` implements it; a monitor without shards has no such part. Its methods
    are called under the monitor's lock, when no call is half done.
    """

    @property
    def incomplete_count(self) -> int:
        """How many decisions were answered without a shard that has not been asked since."""

    def collect_late_verdicts(self, sequencer: Sequencer) -> list[Verdict]:
        """Find the witnesses that shards name only now, for `MonitorLedger`."""

    def observe_together(
        self, sequencer: Sequencer, decisions: Sequence[Decision]
    ) -> list[Verdict] | None:
        """Judge decisions as one batch, since each call costs a round trip.

        None, and nothing is taken, if they have to be taken one by one.
        """
