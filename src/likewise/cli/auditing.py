"""What `likewise audit` does between opening a file and telling what was found.

Cost: the history (every decision is remembered), one chunk of the file, for the curve of a
report the first CURVE_ROWS decisions once more, for what each line of the rule does some of these
(monitors/varying.py), and for a report or a file of pairs the columns that they show and the
history lacks (kept_rows.py). A file that is not in order of its time column is held whole
(sources/time_order.py).
"""

import datetime
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likewise.cli.audit import Wishes
from likewise.cli.bursts import Alarms
from likewise.cli.endings import Stop
from likewise.cli.feeding import PlaceOf, Refusals, feed
from likewise.cli.kept_rows import KeptRows
from likewise.cli.models import insist_on_models
from likewise.cli.screen import progress
from likewise.cli.violations import Violations
from likewise.intake.binding import Binding, judge_with
from likewise.intake.favourable import OutputsSeen
from likewise.intake.models import models_in
from likewise.monitors import opening
from likewise.monitors.calibration import Calibration, calibrate, like_cases
from likewise.monitors.monitor import Monitor
from likewise.monitors.varied import Varied
from likewise.monitors.varying import ROWS as VARIED_ROWS
from likewise.monitors.varying import vary
from likewise.reports.evidence import Evidence, Order, Skipped
from likewise.reports.findings import Findings, Tally
from likewise.reports.loosening import loosening
from likewise.runtime.load import Load
from likewise.sources.chunk import Chunk, Places, Table, joined
from likewise.sources.files import Source
from likewise.sources.time_order import InTimeOrder
from likewise.sources.times import DayOrder
from likewise.values.errors import BadDecision, BadRule
from likewise.values.verdicts import Verdicts

CURVE_ROWS = 200_000


@dataclass(frozen=True)
class Audited:
    """What was found, which rows were bad, and where in the file each decision stood."""

    findings: Findings
    bad: Refusals
    places: Callable[[Places], Places]
    alarms: Alarms | None = None
    pairs_left_out: int = 0
    """For which the file of pairs has no room."""
    file_of: Callable[[int], str] | None = None
    """The file of a row, where there are several."""

    def place(self, row: int) -> int:
        return int(self.places(np.array([row]))[0])


@dataclass(frozen=True)
class Again:
    """How the same file is opened once more, and what was said of its times."""

    open: Callable[[], AbstractContextManager[Source]]
    dates: DayOrder | None = None


def judge(
    source: Source,
    binding: Binding,
    skip: bool,
    wishes: Wishes,
    again: Again,
) -> Audited:
    """Every decision of a file, judged."""
    began, load = time.perf_counter(), Load()
    bad, places = Refusals(source, skip), PlaceOf()
    kept = FirstRows(VARIED_ROWS if wishes.report is None else CURVE_ROWS)
    in_order, ties = None, Ties()
    rows_kept = None
    if wishes.report is not None or wishes.out is not None:
        binding = binding.with_beside(source.columns)
        rows_kept = _kept_rows(binding, wishes, source.unit)
    if wishes.time_column is not None:
        in_order = InTimeOrder(source, wishes.time_column, again=again.open, dates=again.dates)
    with ExitStack() as stack:
        bar = stack.enter_context(progress(f"judging {source.name}"))
        monitor = _begun(binding, wishes)
        stack.enter_context(monitor)
        tally = Tally(monitor, columns=binding.inputs or None)
        alarms = None if wishes.burst is None else Alarms(wishes.burst)
        outputs = OutputsSeen(binding.rule)
        pairs = None
        if wishes.out is not None and rows_kept is not None:
            about = f"Contradicting pairs of {source.name}. {wishes.command or ''}"
            pairs = stack.enter_context(Violations(wishes.out, monitor, rows_kept, about))
        for part in feed(source, binding, _judge(monitor, binding, wishes), bad, in_order):
            verdicts: Verdicts = part.answer
            tally.add(verdicts, part.rows.times)
            ties.add(part.rows)
            outputs.add(part.rows.table)
            places.add(part.rows.places)
            if alarms is not None:
                alarms.add(verdicts)
            if rows_kept is not None:
                rows_kept.add(part.rows)
            if pairs is not None:
                pairs.add(verdicts)
            kept.add(part.rows)
            bar.update(*source.progress, f"{len(monitor):,} decisions")
        outputs.check(source.name)
        if in_order is not None and in_order.form is not None:
            source.add_remarks(in_order.form.remarks)
        digest = source.digest()
        evidence = Evidence(
            source.name,
            order_of(wishes.time_column, wishes.within, in_order, ties.count),
            digest.sha256,
            digest.size,
            wishes.command,
            source.unit,
            tuple(map(str, source.remarks)),
            *skipped_of(bad),
            head=None if wishes.ledger is None else str(monitor.head()),
            seconds=time.perf_counter() - began,
            load=load.so_far(),
            model_column=wishes.model_column,
        )
        curves = kept.curves(binding, wishes)
        findings = tally.findings(
            source=evidence, bad_rows=bad.count, calibration=curves[0], like_cases=curves[1]
        )
        if wishes.report is not None or findings.nothing_compared:
            varied = kept.varied(binding, wishes)
            findings = replace(findings, varied=varied)
            if findings.nothing_compared:
                near = kept.arguments(binding, VARIED_ROWS) if wishes.within is None else ()
                findings = replace(findings, loosening=loosening(varied, *near))
        if rows_kept is not None:
            findings = replace(findings, worst=tuple(map(rows_kept.beside, findings.worst)))
    return Audited(findings, bad, places, alarms, 0 if pairs is None else pairs.left_out)


def _kept_rows(binding: Binding, wishes: Wishes, unit: str) -> KeptRows:
    """All columns for a file of pairs; for a report those that the monitor does not remember."""
    ignored = [name for name in binding.wanted if name not in binding.remembered]
    columns = ignored if wishes.out is None else binding.wanted
    shown = [name for name in ignored if name not in wishes.beside]
    return KeptRows(columns, shown, unit)


def _begun(binding: Binding, wishes: Wishes) -> Monitor:
    insist_on_models(binding.rule, wishes.model_column)
    if wishes.ledger is None:
        if wishes.max_ahead is not None:
            raise Stop("--max-ahead is about a ledger: say --ledger.")
        if wishes.within is not None and wishes.time_column is None:
            raise Stop("--within is about times: say --time-column.")
        return Monitor(binding.rule, burst=wishes.burst, comparable=True, within=wishes.within)
    if wishes.within is not None:
        raise Stop(
            "--within and --ledger do not go together: a ledger says by its own window how far back"
            " it compares, and forgets the rest. Leave out one of them."
        )
    settings: dict[str, Any] = {"burst": wishes.burst, "comparable": True}
    if wishes.max_ahead is not None:
        settings["max_ahead"] = wishes.max_ahead
    ledger = opening.open(wishes.ledger, binding.rule, durability="batch", **settings)
    if ledger.rows:
        many = ledger.rows
        ledger.close()
        raise Stop(
            f"--ledger {wishes.ledger} has {many:,} decisions already. An audit begins a ledger:"
            " name a new folder; to go on with one: likewise watch --ledger."
        )
    return ledger


def _judge(monitor: Monitor, binding: Binding, wishes: Wishes) -> Any:
    """A ledger, and a monitor that compares within some time, are told the times, too."""

    def settings(rows: Chunk) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if wishes.within is not None:
            given["times"] = rows.times
        elif wishes.ledger is not None and wishes.time_column is not None:
            given["times"] = _moments(rows)
        if wishes.model_column is not None:
            given["models"] = models_in(rows.table, wishes.model_column)
        return given

    return judge_with(monitor, binding, settings)


def _moments(rows: Chunk) -> list[datetime.datetime]:
    """Times as a ledger takes them."""
    assert rows.times is not None
    return [moment.replace(tzinfo=datetime.UTC) for moment in rows.times.tolist()]


class Ties:
    """Decisions with the time of the one before: their order is that of their lines."""

    def __init__(self) -> None:
        self.count = 0
        self._last: Any = None

    def add(self, rows: Chunk) -> None:
        times = rows.times
        if times is None or len(times) == 0:
            return
        self.count += int((times[1:] == times[:-1]).sum()) + bool(times[0] == self._last)
        self._last = times[-1]


def order_of(
    column: str | None, within: str | None, in_order: InTimeOrder | None, ties: int
) -> Order:
    """In which order a file was judged."""
    if in_order is None:
        return Order(lines=True)
    return Order(column, in_order.arrangement, ties, True, within)


def skipped_of(bad: Refusals) -> tuple[tuple[Skipped, ...], int]:
    """Rows left out by kind of reason, and those for reasons of further kinds."""
    kinds = tuple(Skipped(first.why, first.place, many) for first, many in bad.kinds())
    return kinds, bad.count - sum(one.rows for one in kinds)


class FirstRows:
    """The first rows of a file, so many at most: what is computed from a part rests on these."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._tables: list[Table] = []
        self._times: list[Any] = []

    def add(self, rows: Chunk) -> None:
        room = self._most - self._count
        if room > 0:
            self._tables.append(rows.table[:room])
            self._count += len(self._tables[-1])
            if rows.times is not None:
                self._times.append(rows.times[:room])

    def arguments(self, binding: Binding, most: int | None = None) -> tuple[Any, ...]:
        """What a monitor takes of them, or of the first `most`."""
        return binding.arguments(joined(self._tables)[:most])

    def varied(self, binding: Binding, wishes: Wishes) -> Varied:
        """What the rule comes to with each line of it changed."""
        arguments = self.arguments(binding, VARIED_ROWS)
        settings: dict[str, Any] = {"columns": binding.inputs or None}
        if wishes.within is not None:
            times = np.concatenate(self._times)[:VARIED_ROWS]
            settings |= {"within": wishes.within, "times": times}
        if wishes.model_column is not None:
            table = joined(self._tables)[:VARIED_ROWS]
            settings["models"] = models_in(table, wishes.model_column)
        return vary(binding.rule, *arguments, **settings)

    def curves(
        self, binding: Binding, wishes: Wishes
    ) -> tuple[Calibration | None, Calibration | None]:
        """How contradictions and like cases depend on epsilon; None where that has no answer."""
        if wishes.report is None or wishes.within is not None:
            return None, None
        arguments = self.arguments(binding)
        try:
            return calibrate(binding.rule, *arguments), like_cases(binding.rule, *arguments)
        except (BadRule, BadDecision):
            return None, None  # a rule by which nearness is more than a distance; see calibrate
