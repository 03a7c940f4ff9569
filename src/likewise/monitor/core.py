"""The core of a monitor: one lock, and how each call begins and ends.

The rest of likewise uses it where it needs more than users do (`Monitor.core`). If a call is
interrupted, `midway` stays set, and the next call first undoes what it left half done.
Invariant: every call is one step of the history, whichever thread makes it.
Not here: the steps of a call (sequencer.py), and what users call (monitor.py, monitor_ledger.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from likewise.errors import BadDecision, BadFile, BadRule, LikewiseError, NestedCall
from likewise.monitor.batching import FEW_DECISIONS, MOST_JOINED, join_decisions
from likewise.monitor.erasure import Erasure
from likewise.monitor.group_commit import CommitQueue
from likewise.monitor.metadata import RawMetadata
from likewise.monitor.monitor_ledger import MonitorLedger
from likewise.monitor.readers.protocol import Decision, Reader
from likewise.monitor.sequencer import Sequencer, ShardCoordinator
from likewise.monitor.time_span import TimeSpan
from likewise.rule.burst import Burst
from likewise.runtime.forking import is_called_within, register_after_fork
from likewise.runtime.log import logger
from likewise.search.engine.engine import Engine
from likewise.search.engine.refusal import rows_of
from likewise.tables.array_types import Rows
from likewise.tables.keys import Keys
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.verdicts import Verdict

_T = TypeVar("_T")


class MonitorCore:
    """Holds the parts of one monitor, and makes its calls one after another."""

    def __init__(
        self,
        reader: Reader,
        engine: Engine,
        keys: Keys | None = None,
        span: TimeSpan | None = None,
    ) -> None:
        self.lock = RLock()
        self.commits: CommitQueue[Decision, Verdict] = CommitQueue(self)
        self.reader = reader
        self.engine = engine
        self.keys = Keys() if keys is None else keys
        self.span = span
        self.sequencer = Sequencer(reader, engine, self.keys, span, self.enter)
        self.memory = self.sequencer.memory
        """What is remembered, for a journal to copy; other code reads `Monitor.past`."""
        self.embeds = reader.embeds
        self.ledger: MonitorLedger | None = None
        self.shards: ShardCoordinator | None = None
        self.callers: list[object] = [self]
        """The objects whose methods are calls of this monitor."""
        self.erasure_listeners: list[Callable[[Rows | None], None]] = []
        """Callables that keep data about decisions elsewhere. Each is called with the rows after
        an erasure; with None if an erasure failed half way, so that any row may be erased."""
        self.closed = False
        self._can_join = reader.rule.features is None and span is None and not self.embeds
        register_after_fork(self)

    def attach_ledger(self, ledger: MonitorLedger) -> None:
        """Keep everything in a ledger from now on; memory was made from it."""
        self.sequencer.attach_journal(ledger.journal)
        self.ledger = ledger
        self.callers.append(ledger)

    def use_shards(self, shards: ShardCoordinator) -> None:
        """Have these shards search the history from now on."""
        self.shards, self._can_join = shards, False

    @property
    def burst(self) -> Burst | None:
        """The setting that counts near inputs among the last decisions, if there is one."""
        return self.engine.burst

    @property
    def within(self) -> str | None:
        """How long before a decision the past begins that it is compared with, if limited."""
        return None if self.span is None else self.span.text

    @property
    def slope(self) -> SlopeQuestion | None:
        """The question about slopes; None if the monitor finds contradictions."""
        return self.engine.verdict_context.question

    def require_contradictions(self) -> None:
        """Raise BadRule if the monitor measures slopes, since nearly every decision has one."""
        if self.slope is not None:
            raise BadRule(
                "this monitor names slopes, and this is about contradictions. Ask it for verdicts,"
                " its past, head, verify or erase.",
                setting="slope",
            )

    @property
    def call_lock(self) -> "RLock | None":
        """The lock that calls take, if a call waits for nothing else: no disk, shard or embedder.

        Callers that must not wait try it, and have another thread make the call if it is taken.
        """
        waits = self.ledger is not None or self.shards is not None or self.embeds
        return None if waits else self.lock

    # Before a call

    def make_ready(self, *, record_fault: bool = False, judge: bool = True) -> None:
        """Undo or finish what an earlier call left half done, and judge what was accepted.

        record_fault    whether a ledger records that its disk had refused something
        judge           whether accepted decisions are judged first
        """
        steps, ledger = self.sequencer, self.ledger
        if ledger is not None and self.closed:
            raise BadFile(
                f"the ledger {str(ledger.path)!r} is closed. Open it again.", path=ledger.path
            )
        if steps.is_settled or (not judge and steps.needs_only_judging):
            return
        if ledger is not None:
            ledger.check_process()
        if is_called_within(*self.callers):
            name = "this monitor" if ledger is None else f"the ledger {str(ledger.path)!r}"
            raise NestedCall(
                f"{name} is in the middle of another call, out of which it was called again: by a"
                " signal handler, a finalizer, or a label, index or embedder of yours.",
                advice="Call it afterwards.",
            )
        steps.settle(record_fault=record_fault)

    @contextmanager
    def enter(self, *, record_fault: bool = False, judge: bool = True) -> Iterator[Sequencer]:
        """Hold the lock during a call, with the arguments of `make_ready`."""
        with self.lock:
            self.make_ready(record_fault=record_fault, judge=judge)
            yield self.sequencer

    def is_in_a_call(self) -> bool:
        """Whether this thread calls the monitor from inside another call of the monitor."""
        return self.lock._is_owned() and is_called_within(*self.callers)  # type: ignore[attr-defined]

    def _after_fork(self) -> None:
        """Start afresh in a forked process: another thread may have held the lock there."""
        self.lock = RLock()
        self.commits.after_fork(self)
        self.sequencer.after_fork()

    # Decisions

    def take_batch(
        self,
        step: Callable[..., _T],
        x: Any,
        *arguments: Any,
        record_fault: bool = True,
        judge: bool = True,
    ) -> _T:
        """Run a step of the sequencer on a batch; inputs are embedded before the lock is taken."""
        if self.embeds:
            x = self.reader.embed_inputs(x, many=True)
        with self.lock:
            self.make_ready(record_fault=record_fault, judge=judge)
            return step(x, *arguments)

    def observe_each(self, decisions: Sequence[Decision]) -> list[Verdict | LikewiseError]:
        """Observe decisions one after another; return for each its verdict, or why it was refused.

        With a ledger those that are not refused share a transaction. Raises BadFile, and none is
        taken, if they cannot be written.
        """
        if not self.embeds:
            return list(map(_answer_or_refusal, self.commit_group(decisions)))
        embedded = [self._embed(decision) for decision in decisions]
        good = [one for one in embedded if not isinstance(one, LikewiseError)]
        answers = map(_answer_or_refusal, self.commit_group(good))
        return [one if isinstance(one, LikewiseError) else next(answers) for one in embedded]

    def commit_group(self, decisions: Sequence[Decision]) -> "list[Verdict | Exception]":
        """Take embedded decisions whose turn it is; errors of the caller's code are returned."""
        if self._can_join:
            answers = self._observe_joined(decisions)
            if answers is not None:
                return answers
        with self.enter(record_fault=True) as steps:
            journal = steps.journal
            with nullcontext() if journal is None else journal.group_writes():
                if self.shards is not None:
                    return self._take_in_batches(self.shards, decisions)
                return self._take_each(decisions)

    def _take_in_batches(
        self, sharded: ShardCoordinator, decisions: Sequence[Decision]
    ) -> "list[Verdict | Exception]":
        """Take decisions in batches, or one by one where shards cannot judge a batch."""
        answers: list[Verdict | Exception] = []
        for start in range(0, len(decisions), MOST_JOINED):
            batch = decisions[start : start + MOST_JOINED]
            self.make_ready(record_fault=True)
            answers += sharded.observe_together(self.sequencer, batch) or self._take_each(batch)
        return answers

    def _take_each(self, decisions: Sequence[Decision]) -> "list[Verdict | Exception]":
        """Take decisions one after another; return each verdict, or the error."""
        answers: list[Verdict | Exception] = []
        for decision in decisions:
            try:
                answers.append(self.observe_next(decision))
            except Exception as error:
                answers.append(error)
        return answers

    def _observe_joined(self, decisions: Sequence[Decision]) -> "list[Verdict | Exception] | None":
        """Take decisions as one call; None if they have to be taken one by one."""
        batch = join_decisions(decisions)
        if batch is None:
            return None
        with self.lock:
            self.make_ready(record_fault=True)
            steps = self.sequencer
            rows = steps.rows_taken
            try:
                if batch.raw_metadata.is_empty and len(decisions) <= FEW_DECISIONS:
                    return [*steps.observe_group(batch.inputs, batch.outputs)]
                return [*steps.observe_many(batch.inputs, batch.outputs, batch.raw_metadata, 1)]
            except BadFile:
                raise
            except Exception:
                self.make_ready(record_fault=True)
                if steps.rows_taken != rows:
                    raise  # they were taken, so they must not be taken again
                return None

    def _embed(self, decision: Decision) -> "Decision | LikewiseError":
        try:
            return decision._replace(x=self.reader.embed_inputs(decision.x, many=False))
        except LikewiseError as error:
            return error

    def observe_next(self, decision: Decision) -> Verdict:
        """Observe a decision whose turn it is."""
        with self.lock:
            self.make_ready(record_fault=True)
            return self.sequencer.observe(decision.x, decision.z, RawMetadata(*decision[2:]))

    # Erasing

    def erase(self, find_rows: Callable[[], Rows]) -> Erasure:
        """Erase the rows that are found under the lock, here and where listeners keep them."""
        failed: BaseException | None = None
        with self.enter(record_fault=True, judge=False) as steps:
            rows = find_rows()
            try:
                erasure = steps.erase(rows)
            except BaseException as error:
                if steps.is_settled or steps.needs_only_judging:  # it was refused
                    raise
                failed = error
        if failed is not None:
            self._notify_erasure(None)
            raise failed
        # Rows that were erased before are included: a listener that failed then gets another try.
        complete = self._notify_erasure(np.union1d(rows, np.array(erasure.rows, np.int64)))
        return erasure if complete else replace(erasure, complete=False)

    def _notify_erasure(self, rows: Rows | None) -> bool:
        """Call the listeners, without the lock, since they may wait for it; whether all succeed."""
        complete = True
        for forget in self.erasure_listeners:
            try:
                forget(rows)
            except Exception as error:
                logger.error("something about erased rows is still kept: %s", type(error).__name__)
                complete = False
        return complete

    def resolve_rows(self, rows: Any) -> Rows:
        """Return rows that are to be erased in ascending order; BadRow if one was never taken."""
        what = "forgotten" if self.ledger is None else "erased"
        return np.unique(rows_of(rows, self.sequencer.count_taken(), f"Nothing was {what}."))

    # Bounds

    def limit_words(self, most: int) -> None:
        """Limit the number of distinct labels, values of each column, models and sources.

        Decisions with more are refused. For services that take decisions from strangers: every new
        word stays in memory and on disk.
        """
        with self.enter() as steps:
            steps.memory.limit_words(most)
            if steps.journal is not None:
                steps.journal.most_sources = most

    # Disk, and the end

    def flush(self) -> None:
        """Write everything that was answered to disk."""
        with self.enter(judge=False) as steps:
            if steps.journal is not None:
                steps.journal.flush()

    def close(self) -> None:
        """Let go of the history; if a signal interrupts it, a second call does what is left."""
        ledger = self.ledger
        if ledger is not None and not self.closed:
            ledger.drain()
        self.commits.finish()
        with self.lock:
            if self.closed:
                if ledger is not None and ledger.is_own_process:
                    ledger.release()
                return
            if ledger is None:
                self.make_ready()
                self.closed = True
                self.sequencer.forget_all()
                return
            if not ledger.is_own_process:  # this process was forked: the ledger is the parent's
                self.closed = True
                return
            try:
                self.make_ready(judge=False)
                ledger.journal.flush()
            finally:
                self.closed = True
                ledger.release()
                self.sequencer.forget_all()


def _answer_or_refusal(answer: Verdict | Exception) -> Verdict | LikewiseError:
    """Turn an error of the caller's own label, index or embedder into a refusal."""
    if not isinstance(answer, Exception) or isinstance(answer, LikewiseError):
        return answer
    refusal = BadDecision(f"judging it raised {type(answer).__name__}: {answer}.")
    refusal.__cause__ = answer
    return refusal
