"""The monitor: what users ask of a history.

Cost: `observe` of a vector in memory is one Python call more than the engine's own.
Not here: the lock and the order of calls (core.py), the ledger's own calls (monitor_ledger.py),
reading (readers/), judging (search/)
"""

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from likewise.errors import BadRule, LikewiseError
from likewise.explaining.past import Past
from likewise.ledger.retention import RetentionWindow
from likewise.monitor.core import MonitorCore
from likewise.monitor.erasure import Erasure
from likewise.monitor.factory import make_reader, make_time_span, read_slope_options
from likewise.monitor.group_commit import AwaitableFuture
from likewise.monitor.metadata import RawMetadata
from likewise.monitor.monitor_ledger import MonitorLedger
from likewise.monitor.readers.protocol import FROM_ROW, Decision, ForEach, Reader
from likewise.monitor.sequencer import make_loss
from likewise.rule.burst import Burst
from likewise.rule.rule import Rule
from likewise.search.engine.engine import Engine
from likewise.tables.copy_input import copy_input
from likewise.tables.keys import Keys
from likewise.tables.named_array import NAMELESS
from likewise.tables.positions import Position, check_position
from likewise.tables.setting_checks import check_whole_number
from likewise.verdict.html import render_in_notebook
from likewise.verdict.losses import Explanation
from likewise.verdict.precedents import Precedents
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.verdicts import Verdict, Verdicts


class Monitor:
    """Finds decisions that treat similar cases differently, while they are being made.

    >>> from likewise import Rule
    >>> monitor = Monitor(Rule(metric="linf", epsilon=0.1))
    >>> monitor.observe([0.50, 0.20], "yes").violation
    False
    >>> monitor.observe([0.45, 0.25], "no").witnesses.rows
    array([0])

    index       how near inputs are found: "auto", "live", …; row_file: where inputs are kept
    burst       count near inputs among the last decisions, whatever their output
    comparable  whether verdicts say if a past input was near; support: how many were, and agree
    within      compare only with decisions made at most this long before: "90 days"
    slope       name the steepest past pair instead, by slope_limit and input_exponent

    Under a rule with features, an input is a row of a table. Methods may be called from several
    threads. `lw.open` makes a monitor with a ledger. Reference: docs/reference/monitors.md
    """

    def __init__(
        self,
        rule: Rule,
        *,
        index: Any = "auto",
        row_file: str | os.PathLike[str] | None = None,
        burst: Burst | None = None,
        comparable: bool = False,
        support: bool = False,
        within: str | None = None,
        slope: bool = False,
        slope_limit: float | None = None,
        input_exponent: float | None = None,
    ) -> None:
        reader = make_reader(rule)
        slope_options = read_slope_options(
            slope,
            slope_limit,
            input_exponent,
            comparable=comparable,
            support=support,
            index=index,
            row_file=row_file,
            burst=burst,
            within=within,
        )
        span = None if within is None else make_time_span(within)
        if slope_options is not None:
            # Imported here, so that other monitors start without it.
            from likewise.monitor.best_match import make_slope_engine

            engine = make_slope_engine(rule, SlopeQuestion(**slope_options))
        else:
            engine = Engine(
                reader.vector_rule,
                index=index,
                rows=row_file,
                burst=burst,
                comparable=comparable,
                support=support,
            )
        self._begin(MonitorCore(reader, engine, span=span))

    def _begin(self, core: MonitorCore) -> None:
        self.core = core
        self.remote: None = None
        core.callers.append(self)

    @property
    def rule(self) -> Rule:
        """The rule by which decisions are judged."""
        return self.core.reader.rule

    @property
    def comparable(self) -> bool:
        """Whether verdicts say if any past input was near, whatever its output."""
        return self.core.engine.comparable

    @property
    def support(self) -> bool:
        """Whether verdicts say how many past inputs were near, and how many of those agree."""
        return self.core.engine.support

    @property
    def slope(self) -> SlopeQuestion | None:
        """The question about slopes, with its `limit`; None if this finds contradictions."""
        return self.core.slope

    @property
    def past(self) -> Past:
        """The past by row: values, inputs, outputs, keys and models, whole columns at once."""
        return self.core.sequencer.past

    # Decisions

    def observe(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        key: Any = None,
        time: Any = None,
        model: str | None = None,
        source: str | None = None,
        position: Position | None = None,
    ) -> Verdict:
        """Compare a decision with the past, then make it part of the past.

        x, z    the input, and the output unless it is a column of the row
        key, time, model    your own unique name for it; when it was made; which model made it
        source, position    with a ledger: the sequence it comes from, and its place there
        """
        core = self.core
        if core.embeds:
            x = core.reader.embed_inputs(x, many=False)
        steps = core.sequencer
        if steps.journal is not None:
            decision = Decision(x, z, key, time, model, source, position)
            return core.commits.observe(decision)
        with core.lock:
            if steps.midway:
                core.make_ready()
            alone = key is None and time is None and model is None and type(x) in NAMELESS
            if not (alone and steps.can_bypass_reader and source is None and position is None):
                return steps.observe(x, z, RawMetadata(key, time, model, source, position))
            steps.midway = True
            try:
                if z is FROM_ROW:
                    core.reader.read_one(x, z)  # raises, and says what is missing
                verdict = core.engine.observe(x, z)
            except LikewiseError:
                steps.note_refusal()
                raise
            steps.rows_taken = core.engine.rows  # from here on the decision is remembered
            steps.midway = False
            return verdict

    def submit(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        key: Any = None,
        time: Any = None,
        model: str | None = None,
        source: str | None = None,
        position: Position | None = None,
    ) -> AwaitableFuture[Verdict]:
        """Observe a copy of a decision soon; `result()` or `await` gives the verdict."""
        if self.core.embeds:
            x = self.core.reader.embed_inputs(x, many=False)
        else:
            x = copy_input(x, columns=self.rule.features is not None)
        return self.core.commits.submit(Decision(x, z, key, time, model, source, position))

    def check(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
    ) -> Verdict:
        """Judge a decision as if it came now; nothing is remembered."""
        core = self.core
        if core.embeds:
            x = core.reader.embed_inputs(x, many=False)
        with core.lock:
            core.make_ready()
            return core.sequencer.check(x, z, time, model)

    def observe_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: ForEach = None,
        sources: ForEach = None,
        positions: Sequence[Position | None] | None = None,
        threads: int | None = None,
    ) -> Verdicts:
        """Observe many decisions, all or none; the verdicts are those of `observe` one by one."""
        metadata = RawMetadata(keys, times, models, sources, positions)
        return self.core.take_batch(self.core.sequencer.observe_many, x, z, metadata, threads)

    def check_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        time: Any = None,
        models: ForEach = None,
    ) -> Verdicts:
        """Judge each decision as if it alone came now; nothing is remembered."""
        step = self.core.sequencer.check_many
        return self.core.take_batch(step, x, z, time, models, record_fault=False)

    def like(
        self,
        x: Any,
        *,
        limit: int | None = None,
        model: str | None = None,
        time: Any = None,
        person: Any = None,
    ) -> Precedents:
        """Find the past decisions near an input, whatever their outputs; nothing is remembered.

        The nearest `limit` are listed, all are counted; those of `person` are left out.
        """
        core = self.core
        if limit is not None:
            limit = check_whole_number("limit", limit, 0)
        if core.embeds:
            x = core.reader.embed_inputs(x, many=False)
        with core.enter() as steps:
            return steps.like(x, limit, time, model, person)

    def load(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: ForEach = None,
        sources: ForEach = None,
        positions: Sequence[Position | None] | None = None,
    ) -> range:
        """Remember decisions without judging them; return their rows."""
        metadata = RawMetadata(keys, times, models, sources, positions)
        return self.core.take_batch(self.core.sequencer.load, x, z, metadata)

    # Forgetting

    def forget(self, rows: Any) -> int:
        """Erase rows, so that they are never witnesses again; return how many were remembered."""
        return len(self.core.erase(lambda: self.core.resolve_rows(rows)).rows)

    def erase(self, *, key: Any = None, rows: Any = None) -> Erasure:
        """Destroy decisions by key, by a list of keys, or by rows: in memory and in every file."""
        if (key is None) == (rows is None):
            raise TypeError("erase takes a key, or keys, or rows")
        core = self.core
        several = key if isinstance(key, list | tuple | set) else [key]
        return core.erase(
            lambda: (
                core.resolve_rows(rows)
                if key is None
                else np.unique(np.array([core.keys.row_on_disk(one) for one in several]))
            )
        )

    # Losses

    def record_loss(
        self,
        count: int,
        reason: str,
        *,
        first: int | None = None,
        last: int | None = None,
        since: Any = None,
        until: Any = None,
        source: str | None = None,
        position: Position | None = None,
    ) -> None:
        """Record that decisions were made that will never be observed; later verdicts say so."""
        loss = make_loss(count, reason, first, last, since, until)
        places = check_position(source, position)
        with self.core.lock:
            if self.durable:
                self.core.make_ready(record_fault=True, judge=False)
            self.core.sequencer.record_loss(loss, places)

    @property
    def missing_decisions(self) -> int:
        """How many decisions are known to be missing: the sum of all `record_loss` calls."""
        with self.core.enter(judge=False) as steps:
            return steps.missing_decisions

    # What is there

    @property
    def rows(self) -> int:
        """How many decisions were ever taken, which is the row of the next one."""
        with self.core.enter() as steps:
            return steps.rows_taken

    def __len__(self) -> int:
        """Return how many decisions are remembered now."""
        with self.core.enter():
            return len(self.core.engine)

    def row_of(self, key: Any) -> int | None:
        """Return the row of a key, or None if it is not remembered."""
        return self.past.row_of(key)

    def explain(self) -> Explanation:
        """Say which index is in use, why, and what it costs."""
        with self.core.enter():
            return self.core.engine.explain()

    def __repr__(self) -> str:
        ledger = f", ledger {str(self.ledger.path)!r}" if self.durable else ""
        if self.closed:
            return f"<Monitor: closed{ledger}>"
        rule = self.rule
        near = f"{rule.metric} within {rule.epsilon:g}"
        if rule.features is not None:
            near = f"{len(rule.features)} columns, {near}"
        return f"<Monitor: {len(self):,} decisions remembered, {near}{ledger}>"

    def _repr_html_(self) -> str | None:
        index = None if self.closed else str(self.explain())
        rule = self.rule.explain()
        return render_in_notebook("monitor/monitor.html", title=repr(self), rule=rule, index=index)

    # The disk, and the end

    @property
    def durable(self) -> bool:
        """Whether the history outlives this process, in a ledger."""
        return self.core.ledger is not None

    @property
    def ledger(self) -> MonitorLedger:
        """The ledger: verify, head, stats, review, …; BadRule for a monitor in memory."""
        if self.core.ledger is None:
            raise BadRule("this monitor is in memory only; lw.open(folder, rule) has a ledger")
        return self.core.ledger

    @property
    def window(self) -> RetentionWindow:
        """How much of the past a ledger keeps; everything for a monitor in memory."""
        journal = self.core.sequencer.journal
        return RetentionWindow() if journal is None else journal.window

    def flush(self) -> None:
        """Write everything that was answered to disk."""
        self.core.flush()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self.core.closed

    def close(self) -> None:
        """Let go of the history; a file of rows, or a ledger, keeps what was observed."""
        self.core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def assemble_monitor(reader: Reader, engine: Engine, keys: Keys | None = None) -> Monitor:
    """Make a monitor in memory from a reader, an engine and the keys of its rows."""
    monitor = Monitor.__new__(Monitor)
    monitor._begin(MonitorCore(reader, engine, keys))
    return monitor
