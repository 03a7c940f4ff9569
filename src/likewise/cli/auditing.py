"""What `likewise audit` does between opening a file and telling what was found.

Cost: the history (every decision is remembered), one chunk of the file, and for the curve of a
report the first CURVE_ROWS decisions once more.
"""

import datetime
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.cli.audit import Wishes
from likewise.cli.bursts import Alarms
from likewise.cli.endings import Stop
from likewise.cli.feeding import PlaceOf, Refusals, feed
from likewise.cli.screen import progress
from likewise.cli.violations import Violations
from likewise.intake.binding import Binding, judge_with
from likewise.monitors import opening
from likewise.monitors.calibration import Calibration, calibrate
from likewise.monitors.monitor import Monitor
from likewise.reports.findings import Findings, Tally
from likewise.sources.chunk import Table, joined
from likewise.sources.files import Source
from likewise.values.errors import BadDecision, BadRule
from likewise.values.verdicts import Verdicts

CURVE_ROWS = 200_000


@dataclass(frozen=True)
class Audited:
    """What was found, which rows were bad, and where in the file each decision stood."""

    findings: Findings
    bad: Refusals
    places: PlaceOf
    alarms: Alarms | None = None

    def place(self, row: int) -> int:
        return int(self.places(np.array([row]))[0])


def judge(source: Source, binding: Binding, skip: bool, wishes: Wishes) -> Audited:
    """Every decision of a file, judged."""
    began = time.perf_counter()
    bad, places, kept = Refusals(source, skip), PlaceOf(), _First(CURVE_ROWS)
    with ExitStack() as stack:
        bar = stack.enter_context(progress(f"judging {source.name}"))
        monitor = _begun(binding, wishes)
        stack.enter_context(monitor)
        tally = Tally(monitor, columns=binding.inputs or None)
        alarms = None if wishes.burst is None else Alarms(wishes.burst)
        pairs = None
        if wishes.out is not None:
            pairs = stack.enter_context(Violations(wishes.out, monitor, binding.key is not None))
        for part in feed(source, binding, _judge(monitor, binding, wishes), bad):
            verdicts: Verdicts = part.answer
            tally.add(verdicts, _times(part.rows.table, wishes.time_column))
            places.add(part.rows.places)
            if alarms is not None:
                alarms.add(verdicts)
            if pairs is not None:
                pairs.add(verdicts, places)
            if wishes.report is not None:
                kept.add(part.rows.table)
            bar.update(*source.progress, f"{len(monitor):,} decisions")
        curve = None if wishes.report is None else kept.curve(binding)
        findings = tally.findings(
            source=source.name,
            bad_rows=bad.count,
            calibration=curve,
            head=None if wishes.ledger is None else str(monitor.head()),
            seconds=time.perf_counter() - began,
        )
    return Audited(findings, bad, places, alarms)


def _begun(binding: Binding, wishes: Wishes) -> Monitor:
    if wishes.ledger is None:
        if wishes.max_ahead is not None:
            raise Stop("--max-ahead is about a ledger: say --ledger.")
        return Monitor(binding.rule, burst=wishes.burst)
    settings: dict[str, Any] = {}
    if wishes.max_ahead is not None:
        settings["max_ahead"] = wishes.max_ahead
    ledger = opening.open(
        wishes.ledger, binding.rule, durability="batch", burst=wishes.burst, **settings
    )
    if ledger.rows:
        many = ledger.rows
        ledger.close()
        raise Stop(
            f"--ledger {wishes.ledger} has {many:,} decisions already. An audit begins a ledger:"
            " name a new folder; to go on with one: likewise watch --ledger."
        )
    return ledger


def _judge(monitor: Monitor, binding: Binding, wishes: Wishes) -> Any:
    """A ledger is told the times, too."""
    if wishes.ledger is None or wishes.time_column is None:
        return judge_with(monitor, binding)
    return judge_with(
        monitor, binding, lambda rows: {"times": _moments(rows.table, wishes.time_column)}
    )


def _moments(table: Table, column: str | None) -> list[Any]:
    """Times as a ledger takes them: a day is its beginning."""
    midnight = datetime.time(tzinfo=datetime.UTC)
    return [
        datetime.datetime.combine(one, midnight) if type(one) is datetime.date else one
        for one in _times(table, column) or ()
    ]


def _times(table: Table, column: str | None) -> list[Any] | None:
    if column is None:
        return None
    if isinstance(table, list):
        return [row.get(column) for row in table]
    return table[column].to_list()


class _First:
    """The first rows of a file, so many at most: what the curve of a report is drawn from."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._tables: list[Table] = []

    def add(self, table: Table) -> None:
        room = self._most - self._count
        if room > 0:
            self._tables.append(table[:room])
            self._count += len(self._tables[-1])

    def curve(self, binding: Binding) -> Calibration | None:
        """How the rate depends on epsilon; None where that has no answer."""
        table = joined(self._tables)
        try:
            return calibrate(binding.rule, *binding.arguments(table))
        except (BadRule, BadDecision):
            return None  # a rule by which nearness is more than a distance; see calibrate
