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
from likewise.ledger.notes import Note
from likewise.ledger.stored import NOT_JUDGED
from likewise.ledger.write_buffer import Pending
from likewise.monitor import case_work
from likewise.monitor.annotation import Telling
from likewise.monitor.comparison_window import Horizon
from likewise.monitor.erasure import Erasure
from likewise.monitor.journal import KEEPING, SURE, Journal
from likewise.monitor.memory import Memory
from likewise.monitor.metadata import Said, Stated, Stating
from likewise.monitor.readers.protocol import Batch, Reader
from likewise.monitor.remembered_past import RememberedPast
from likewise.monitor.repeats import as_repeated, is_same, sort_out, stored_verdict
from likewise.monitor.time_span import TimeSpan
from likewise.search.engine.engine import Engine
from likewise.tables.keys import Keys, list_keys
from likewise.tables.positions import Places
from likewise.tables.rows import Rows
from likewise.tables.times import microseconds
from likewise.verdict.context import Beside, Compared
from likewise.verdict.losses import Loss
from likewise.verdict.verdicts import Verdict, Verdicts


def loss_of(
    count: int, reason: str, first: int | None, last: int | None, since: Any, until: Any
) -> Loss:
    """What a caller says was lost; times as `time` of a decision."""
    times = (None if one is None else microseconds(one) for one in (since, until))
    return Loss(count, reason, first, last, *times)


class Missing:
    """How many decisions are missing, as the verdicts of an engine say."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def count(self) -> int:
        return self._engine.beside.missing

    def say(self, count: int) -> None:
        """Have every verdict from now on say so."""
        if count != self.count:
            self._engine.beside = self._engine.beside._replace(missing=count)


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
        looking: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.midway = False
        """Whether a call has begun, and not finished."""
        self.taken = 0
        """Rows that all finished calls have left behind; with a journal, its queue says that."""
        self._reader = reader
        self._engine = engine
        self.keys = keys
        self.journal: Journal | None = None
        self.memory = Memory(reader, engine, span)
        self.past = RememberedPast(self.memory, keys, looking)
        engine.beside = engine.beside._replace(past=self.past)
        rule = reader.rule
        plain = rule.features is None and not reader.embeds and span is None
        self.direct = plain and rule.compare == "all"
        """Whether a decision goes to the engine as it came. Not once a model is given: then every
        verdict says the models of its witnesses."""
        self._stating = Stating(reader, keys, span)
        self._horizon = Horizon(span)
        self._telling = Telling(keys, self.memory.models)
        self.missing = Missing(engine)

    def keep_in(self, journal: Journal) -> None:
        """From here on everything is in a ledger, which memory was made from."""
        self.journal = self._stating.journal = self._horizon.journal = journal
        self.taken = journal.rows
        self.missing.say(journal.missing)

    def ledger(self) -> Journal:
        """The journal; raise BadRule if there is none."""
        if self.journal is None:
            raise BadRule("this monitor is in memory only; lw.open(folder, rule) has a ledger")
        return self.journal

    # Before and after a call

    @property
    def settled(self) -> bool:
        """Whether no call was left half done."""
        journal = self.journal
        sure = journal is None or (journal.unsure == SURE and journal.store.sure)
        return not self.midway and sure

    @property
    def only_accepted(self) -> bool:
        """Whether nothing was left half done, but decisions that were accepted wait."""
        journal = self.journal
        return not self.midway and journal is not None and bool(journal.accepted)

    def settle(self, *, note: bool) -> None:
        """Undo or finish what an earlier call left half done.

        note: whether a ledger is to say so if its disk had refused something
        """
        if self.journal is None:
            self.memory.settle(self.taken)
            self.keys.settle(self.taken, self._engine.alive)
        else:
            self.journal.settle(note=note)
            self.taken = self.journal.rows
            self.missing.say(self.journal.missing)
        self.midway = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Around all that can be refused, before anything is remembered."""
        self.midway = True
        try:
            yield
        except LikewiseError:
            self.refused()
            raise

    def refused(self) -> None:
        """Something was refused before it was remembered: nothing is left to undo, or little."""
        if self._engine.rows == self.taken and self._engine.refused():
            self.midway = False

    def after_fork(self) -> None:
        """In a forked process: another thread may have been in the middle of a call."""
        if self.journal is not None:  # the folder's lock is let go of, so every call is refused
            self.journal.after_fork()
        self.midway = self._engine.after_fork(cut_off=self.midway)
        if self._engine.rows == 0:
            self.taken = 0

    def forget_all(self) -> None:
        """The monitor is closed."""
        self._engine.close()
        self._reader.reset()
        self.memory.models.reset()
        self.keys.reset()
        self.taken = 0

    # Decisions

    def observe(self, x: Any, z: Any, said: Said) -> Verdict:
        journal, row = self.journal, self.taken
        if journal is not None:
            journal.flush_in_time()
        self.midway = True
        try:
            batch = self._reader.one(x, z)
            try:
                stated = self._stating.one(batch, row, said)
            except RepeatedKey as error:
                if journal is None or not is_same(self.memory, error.row, batch):
                    raise
                return self._answer_again(journal, error.row)
            first, over = self._horizon.of_one(row, stated.times)
            found = self.memory.observe(batch, first)
        except LikewiseError:
            self.refused()
            raise
        self._learn(stated)
        verdict = self._telling.one(row, found, stated.keys, batch.models, over)
        if journal is not None:
            one = Pending.of_one(
                stated.times,
                stated.keys,
                first,
                verdict,
                witnesses=journal.witnesses,
                models=batch.models,
                places=stated.places,
            )
            journal.took(one, alone=True)
        self._count(batch)
        return verdict

    def observe_group(self, inputs: Any, outputs: Sequence[Any]) -> list[Verdict | LikewiseError]:
        """Vectors with nothing said beside them, one after another: the verdict, or the refusal.

        Those that are not refused are one step: all of them are written together, or none is taken.
        """
        journal, row = self.journal, self.taken
        if journal is not None:
            journal.flush()
        self.midway = True
        times = self._stating.many(Batch(inputs, outputs), row, Said()).times
        firsts = self._horizon.of_many(row, times)
        absent = self._horizon.absent(firsts)
        answers: list[Verdict | LikewiseError] = []
        verdicts: list[Verdict] = []
        for x, z in zip(inputs, outputs, strict=True):
            taken, over = len(verdicts), None
            first = 0 if firsts is None else int(firsts[taken])
            if absent is not None:
                over = Compared(first, row + taken, int(absent[taken]))
            try:
                found = self.memory.observe(Batch(x, z), first)
            except LikewiseError as error:
                answers.append(error)
                if not self._engine.refused():
                    self.memory.settle(row + taken)
                continue
            verdicts.append(self._telling.one(row + taken, found, None, None, over))
            answers.append(verdicts[-1])
        taken = len(verdicts)
        if journal is not None and firsts is not None and taken:
            singles = [
                Pending.of_one(
                    times[i : i + 1],
                    None,
                    int(firsts[i]),
                    verdict,
                    witnesses=journal.witnesses,
                    models=None,
                )
                for i, verdict in enumerate(verdicts)
            ]
            journal.took(Pending.join(singles))
        self.taken = self._engine.rows
        self.midway = False
        return answers

    def _answer_again(self, journal: Journal, row: int) -> Verdict:
        """What was answered to a decision that is sent again."""
        verdict = self._stored(journal, [row])[row]
        self._engine.refused()
        self.midway = False
        return verdict

    def _stored(self, journal: Journal, rows: list[int]) -> dict[int, Verdict]:
        beside, known = Beside(self.past, question=self._engine.beside.question), self.memory.models
        verdicts = {}
        for row, before in journal.judged(rows).items():
            models = list(known.names(np.array([row]))) if known else None
            verdicts[row] = self._telling.one(
                row, stored_verdict(row, before, beside), [self.keys.key_of(row)], models, None
            )
        return verdicts

    def observe_many(self, x: Any, z: Any, said: Said, threads: int | None) -> Verdicts:
        if self.journal is not None:
            self.journal.flush()
        self.midway = True
        try:
            batch = self._reader.many(x, z)
            stated = self._stating_unless_repeated(batch, said)
        except LikewiseError:
            self.refused()
            raise
        if stated is None and self.journal is not None:
            return self._observe_rest(self.journal, batch, said, threads)
        assert stated is not None
        return self._observe_batch(batch, stated, threads)

    def _stating_unless_repeated(self, batch: Batch, said: Said) -> Stated | None:
        """None if a ledger may have decisions of the batch already."""
        try:
            return self._stating.many(batch, self.taken, said)
        except RepeatedKey:
            if self.journal is None:
                raise
            return None

    def _observe_rest(
        self, journal: Journal, batch: Batch, said: Said, threads: int | None
    ) -> Verdicts:
        """Answer what is stored already, and judge and take the other decisions of a batch."""
        with self.changing():
            batch.vectors, batch.outputs = self._engine.batch(batch.vectors, batch.outputs)
            given = list_keys(said.keys) if batch.keys is None else batch.keys
            fresh, stored, twice = sort_out(self.memory, self.keys, batch, given)
            stated = self._stating.many(batch, self.taken, said, fresh)
            verdicts_before = self._stored(journal, sorted(set(stored.values())))
            answers = {place: verdicts_before[row] for place, row in stored.items()}
        verdicts: Sequence[Verdict] = ()
        found = None
        if fresh:
            found = self._observe_batch(batch.some(fresh), stated, threads)
            verdicts = list(found)
        else:
            self._engine.refused()
            self.midway = False
        for place, verdict in zip(fresh, verdicts, strict=True):
            answers[place] = verdict
        for place, first in twice.items():
            answers[place] = as_repeated(answers[first], journal.witnesses)
        each = [answers[place] for place in range(len(answers))]
        return Verdicts.with_repeats(self.taken - len(fresh), each, found)

    def _observe_batch(self, batch: Batch, stated: Stated, threads: int | None) -> Verdicts:
        with self.changing():
            firsts = self._horizon.of_many(self.taken, stated.times)
            found = self.memory.observe_many(batch, firsts, threads)
        self._learn(stated)
        absent = self._horizon.absent(firsts)
        verdicts = self._telling.many(found, stated.keys, batch.models, firsts, absent)
        self._took(batch, stated, verdicts, firsts)
        return verdicts

    def accept(self, x: Any, z: Any, said: Said) -> range:
        """Have decisions on disk that are judged later."""
        journal = self.ledger()
        if self.taken == 0:
            raise BadRule("the first decision settles what the others look like: observe it.")
        journal.flush()
        with self.changing():
            batch = self._reader.many(x, z)
            stated = self._stating.many(batch, journal.store.rows, said)
            count = self.memory.stage(batch)
        firsts = np.zeros(count, np.int64)
        some = Pending.of(
            stated.times,
            stated.keys,
            firsts,
            None,
            witnesses=0,
            models=batch.models,
            places=stated.places,
        )
        rows = journal.accept(some)
        self.midway = False
        return rows

    def judge_accepted(self, most: int) -> Verdicts | None:
        """The verdicts of the next decisions that were accepted; None if there are none.

        Those that were erased in between are passed over.
        """
        journal, found = self.ledger(), None
        while found is None and journal.accepted:
            self.midway = True
            found = journal.judge_accepted(most)
            self.taken = self._engine.rows
            self.midway = False
        if found is None:
            return None
        models = list(self.memory.models.names(found.rows)) if self.memory.models else None
        keys = [self.keys.key_of(row) for row in found.rows.tolist()]
        return self._telling.many(found, keys, models, None, None)

    def verdicts_of(self, rows: list[int]) -> list[Verdict | None]:
        """The verdicts that the ledger has; None for a row that was never judged."""
        journal = self.ledger()
        found = journal.judged([row for row in rows if row >= journal.store.first])
        told = self._stored(journal, [row for row in found if found[row].count != NOT_JUDGED])
        return [
            Verdict(row, told[row].witnesses, told[row].beside._replace(known=False))
            if row in told
            else None
            for row in rows
        ]

    def load(self, x: Any, z: Any, said: Said) -> range:
        if self.journal is not None:
            self.journal.flush()
        with self.changing():
            batch = self._reader.many(x, z)
            stated = self._stating.many(batch, self.taken, said)
            firsts = self._horizon.of_many(self.taken, stated.times)
            rows = self.memory.load(batch)
        self._learn(stated)
        self._took(batch, stated, None, firsts)
        return rows

    def _learn(self, stated: Stated) -> None:
        """Memory has taken decisions, whose keys may be those of witnesses in the same batch."""
        if stated.keys is not None:
            self.keys.add(self.taken, stated.keys)
        if self._horizon.span is not None:
            self._horizon.span.took(self.taken, stated.times)

    def _took(
        self,
        batch: Batch,
        stated: Stated,
        found: Verdicts | None,
        firsts: Rows | None,
        notes: Sequence[Note] = (),
    ) -> None:
        """Memory has taken decisions: have a ledger take them too, then let them count.

        found   what was found about them; None: they were not judged
        firsts  the first row that each was compared with
        notes   what is said of them, to be kept in the same step
        """
        journal = self.journal
        if journal is not None and firsts is not None:
            some = Pending.of(
                stated.times,
                stated.keys,
                firsts,
                found,
                witnesses=journal.witnesses,
                models=batch.models,
                places=stated.places,
                notes=notes,
            )
            journal.took(some)
        self._count(batch)

    def _count(self, batch: Batch) -> None:
        """Memory, and a ledger, have taken decisions: let them count."""
        self.direct = self.direct and batch.models is None
        self.taken = self._engine.rows
        self.midway = False

    # Checks

    def check(self, x: Any, z: Any, time: Any, model: Any) -> Verdict:
        with self.changing():
            batch = self._reader.one(x, z)
            batch.models = self._stating.models(model)
            verdict = self._check(batch, time)
        self.midway = False
        return verdict

    def _check(self, batch: Batch, time: Any) -> Verdict:
        first, over = self._horizon.of_check(self.taken, time)
        found = self.memory.check(batch, first)
        values = self._reader.values_read(batch)
        if values is not None:
            values |= self.past.output_values(batch.outputs)
        return self._telling.one(None, found, None, batch.models, over, values=values)

    def check_many(self, x: Any, z: Any, time: Any, models: Any) -> Verdicts:
        with self.changing():
            batch = self._reader.many(x, z)
            batch.vectors, batch.outputs = self._engine.batch(batch.vectors, batch.outputs)
            decided = self._stating.models(models, len(batch.outputs))
            each = []
            for i, one in enumerate(self._reader.split(batch)):
                one.models = None if decided is None else decided[i : i + 1]
                each.append(self._check(one, time))
        self.midway = False
        return Verdicts.of_checks(self.taken, each, comparable=self._engine.comparable)

    # Taking away, and what is known later

    def erase(self, wanted: Rows) -> Erasure:
        with self.changing():
            if self.journal is not None:
                erasure = self.journal.erase(wanted)
            else:
                gone = self.memory.forget(wanted)
                self.keys.forget(gone)
                erasure = Erasure(tuple(gone.tolist()), complete=True)
        self.midway = False
        return erasure

    def lost(self, loss: Loss, places: Places | None) -> None:
        journal = self.journal if places is None else self.ledger()
        if journal is None:
            self.missing.say(self.missing.count + loss.count)
            return
        self.midway = True
        journal.lost(loss.to_dict(), places)
        self.missing.say(journal.missing)
        self.midway = False

    def tell_buffers(self, buffers: dict[str, BufferBound]) -> None:
        journal = self.ledger()
        self.midway = True
        journal.tell_buffers(buffers)
        self.midway = False

    def passed(self, places: Places | None) -> None:
        journal = self.ledger()
        self.midway = True
        if places is not None:
            journal.passed(places)
        self.midway = False

    def told_late(self, found: Verdicts) -> Verdicts:
        """What was found of decisions after they were answered: what counts, with its names."""
        journal, rows = self.ledger(), found.rows
        journal.flush()
        first, stop = found.first_row, found.first_row + len(found)
        stored = journal.store.reader.decisions(first, stop, keys=False, witnesses=False)
        within = found.witnesses.rows >= stored.firsts[found.owners]
        found = self.memory.that_count(found.some_witnesses(within))
        models = list(self.memory.models.names(rows)) if self.memory.models else None
        keys = [self.keys.key_of(row) for row in rows.tolist()]
        return self._telling.many(found, keys, models, None, None)

    def event(self, kind: str, body: dict[str, Any]) -> None:
        """Something else that happened, chained as decisions are."""
        journal = self.ledger()
        journal.flush()
        self.midway = True
        journal.event(kind, body)
        self.midway = False

    def supersede(self, key: Any, output: Any, by: str, why: str, verified: bool) -> Verdict:
        journal, row = self.ledger(), self.taken
        old = case_work.row_to_overrule(self.memory, self.keys, key)
        note = case_work.superseded_note(old, row, by, why, verified)
        journal.flush()
        self.midway = True
        batch = case_work.read_again(journal, self.memory, old, output)
        journal.unsure = KEEPING  # memory is made again if anything fails from here on
        journal.retention.erase(self.memory.forget(np.array([old])))
        stated = Stated(None, np.array([journal.now()]))
        first, over = self._horizon.of_one(row, stated.times)
        found = self.memory.observe_many(batch, np.array([first]), None)
        self._took(batch, stated, found, np.array([first]), [note])
        return Verdict(row, found[0].witnesses, found[0].beside._replace(over=over))
