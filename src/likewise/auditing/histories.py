"""Judges whole histories: what a ledger holds, a file, or the rows of one model in it.

Histories that are compared have a monitor each, so no decision of one is compared with a decision
of the other.

Cost: the history in memory; for a comparison with all its contradicting pairs.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likewise.auditing.feeding import FileDecisions, Reopen
from likewise.auditing.job import AuditOptions, Progress, collect_metadata
from likewise.errors import BadFile
from likewise.explaining.pairs import DecisionOrigin
from likewise.ledger.ledger import Ledger
from likewise.ledger.loss_events import bound_of, missing_in
from likewise.monitor.monitor import Monitor
from likewise.monitor.replaying import make_monitor, rejudge
from likewise.reports.evidence import Evidence, build_provenance
from likewise.reports.findings import Findings, Tally
from likewise.reports.judged_history import HistoryTally, JudgedHistory
from likewise.reports.selected_pairs import WorstPair
from likewise.runtime.machine import MachineLoad
from likewise.sources.binding import Binding, make_judge, read_models
from likewise.sources.file_source import DecisionFile
from likewise.tables.array_types import Rows
from likewise.tables.times import readable_time
from likewise.verdict.verdicts import Verdicts


def audit_ledger(ledger: Ledger, command: str | None = None) -> Findings:
    """Return what a monitor finds in what a ledger still holds."""
    load = MachineLoad()
    monitor = make_monitor(ledger, comparable=True, support=True)
    windowed = False
    tally = Tally(monitor)
    places = [np.empty(0, np.int64)]  # by row of this monitor: the ledger's
    moments = [np.empty(0, "datetime64[us]")]
    for part in rejudge_ledger(ledger, monitor):
        windowed |= part.windowed
        places.append(part.places)
        moments.append(part.times)
        tally.add(part.verdicts, part.times)
    place_of, times = np.concatenate(places), np.concatenate(moments)
    findings = tally.findings(source=build_ledger_evidence(ledger, command, load))
    findings = replace(
        findings,
        worst=tuple(_renumber_pair(one, place_of, times) for one in findings.worst),
        missing_decisions=missing_in(ledger.events()),
    )
    return _remove_comparable(findings) if windowed else findings


@dataclass(frozen=True, eq=False)
class RejudgedPart:
    """Holds decisions of a ledger, judged again as far back as they were judged before."""

    verdicts: Verdicts
    times: Any
    places: Rows
    """The rows of the decisions in the ledger."""
    keys: list[Any] | None
    windowed: bool
    """Whether some were compared with a part of the past only."""


def rejudge_ledger(ledger: Ledger, monitor: Monitor) -> Iterator[RejudgedPart]:
    """Judge what a ledger still holds, part by part, with an empty monitor of its rule."""
    place_of: Rows = np.empty(0, np.int64)  # by row of this monitor: the ledger's
    for columns in ledger.columns():
        remaining = np.flatnonzero(~columns.erased)
        if len(remaining) == 0:
            continue
        keys = columns.decisions.keys
        own = None if keys is None else [keys[i] for i in remaining.tolist()]
        verdicts = rejudge(monitor, columns, remaining, own)
        places = columns.first + remaining
        place_of = np.concatenate([place_of, places])
        firsts = columns.decisions.firsts[remaining]
        times = columns.decisions.times[remaining].astype("datetime64[us]")
        within = place_of[verdicts.witnesses.rows] >= firsts[verdicts.owners]
        verdicts, windowed = verdicts.select_witnesses(within), bool(firsts.any())
        if windowed:  # support counts cases that had left the window, too
            verdicts = replace(verdicts, near=None)
        yield RejudgedPart(verdicts, times, places, own, windowed)


def build_ledger_evidence(ledger: Ledger, command: str | None, load: MachineLoad) -> Evidence:
    """Return what is known of a ledger that was judged again."""
    gone, events = len(ledger.erased_rows()), ledger.events()
    missing, bound = missing_in(events), bound_of(events)
    return Evidence(
        f"the ledger {ledger.path}"
        + (f", {gone:,} erased" if gone else "")
        + (f", {bound}{missing:,} known to be missing" if missing else ""),
        command=command,
        head=str(ledger.head),
        seconds=load.seconds,
        machine_load=load.measure(),
    )


def _remove_comparable(findings: Findings) -> Findings:
    """Remove comparables, which count cases that had left the window, too."""
    by_row, by_time = (
        tuple(replace(one, comparable=None) for one in stretches)
        for stretches in (findings.by_row, findings.by_time)
    )
    by_model = tuple(one.without_comparable() for one in findings.by_model)
    return replace(findings, with_earlier=None, by_row=by_row, by_time=by_time, by_model=by_model)


def _renumber_pair(worst: WorstPair, place_of: Rows, moments: Any) -> WorstPair:
    """Name a pair by the rows of the ledger, and add its times."""
    pair = worst.pair
    later, earlier = (
        DecisionOrigin(time=None if np.isnat(moments[row]) else readable_time(moments[row]))
        for row in (pair.row, pair.witness.row)
    )
    witness = replace(pair.witness, row=int(place_of[pair.witness.row]))
    renumbered = replace(pair, row=int(place_of[pair.row]), witness=witness)
    return replace(worst, pair=renumbered, later=later, earlier=earlier)


def judge_history(
    source: DecisionFile,
    binding: Binding,
    options: AuditOptions,
    stack: ExitStack,
    *,
    name: str,
    reopen: Reopen,
    progress: Progress,
    model: tuple[str, str] | None = None,
    numbered: bool,
) -> JudgedHistory:
    """Judge a file with a monitor of its own, which is open as long as the stack.

    model     a column and a model: only decisions of this model are judged
    numbered  whether a case is recognised by the number of its decision, where there are no keys
    """
    decisions, tally = FileDecisions(source, binding, options, reopen, model), HistoryTally()
    monitor = stack.enter_context(Monitor(binding.rule, comparable=True, within=options.within))
    judge = make_judge(
        monitor, binding, lambda rows: collect_metadata(options, rows.table, rows.times)
    )
    for part in decisions.judge_parts(judge):
        tally.add(part.answer, part.rows.places)
        progress(*source.progress, f"{len(monitor):,} decisions")
    evidence = decisions.evidence()
    if model is not None:
        evidence = replace(evidence, source=f"{source.name}, {name}")
    return tally.history(
        name,
        monitor.past,
        build_provenance(evidence, monitor.rule, monitor.explain(), None),
        keys=None if binding.key is None else monitor.past.keys(range(monitor.rows)),
        bad_rows=decisions.refused.count,
        columns=binding.inputs or None,
        numbered=numbered,
    )


def judge_ledger(ledger: Ledger, name: str, command: str | None, stack: ExitStack) -> JudgedHistory:
    """Judge what a ledger holds again, with a monitor that is open as long as the stack."""
    load, tally = MachineLoad(), HistoryTally()
    monitor = stack.enter_context(make_monitor(ledger, comparable=True))
    keys: list[object] = []
    for part in rejudge_ledger(ledger, monitor):
        if part.windowed:
            raise BadFile(
                f"the ledger {ledger.path} has a window, so its decisions were compared with a part"
                " of the past: such a rate cannot be compared. Compare the files of decisions."
            )
        tally.add(part.verdicts, part.places)
        keys += part.keys if part.keys is not None else [None] * len(part.places)
    if not keys:
        raise BadFile(f"the ledger {ledger.path} has no decisions, so there is nothing to compare.")
    evidence = build_ledger_evidence(ledger, command, load)
    return tally.history(
        name,
        monitor.past,
        build_provenance(evidence, monitor.rule, monitor.explain(), None),
        keys=keys if any(key is not None for key in keys) else None,
    )


def models_of(source: DecisionFile, column: str) -> list[str]:
    """Return the models that decided, in the order in which they turn up."""
    models: dict[str, None] = {}
    for chunk in source.chunks({column: "text"}, [column]):
        models.update(dict.fromkeys(one for one in read_models(chunk.table, column) if one))
    return list(models)
