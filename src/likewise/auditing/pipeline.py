"""Runs an audit from a file of decisions to findings: in memory, into a ledger, or cell by cell.

Invariant: cells find what one monitor finds, but write no file of pairs and no ledger, and do not
count near inputs.
Cost: in memory the history, one chunk of the file, a copy of the first decisions (FIRST_ROWS), and
what a page or a file of pairs shows beside them (kept_rows.py). A file that is not in order of its
times is held whole (sources/time_columns.py).
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from likewise.auditing.audit_result import AlarmTally, Audit, KeptPairs
from likewise.auditing.feeding import FileDecisions, Reopen, build_evidence
from likewise.auditing.job import (
    AuditOptions,
    Progress,
    collect_metadata,
    ignore_progress,
    ignored_columns,
)
from likewise.auditing.kept_rows import KeptRows
from likewise.auditing.limits import AuditLimits
from likewise.errors import BadDecision, BadFile, BadRule, LikewiseError
from likewise.monitor.calibration import calibrate, calibrate_like_cases
from likewise.monitor.monitor import Monitor
from likewise.monitor.sensitivity import MOST_ROWS as VARIED_ROWS
from likewise.monitor.sensitivity import SensitivityTable, vary
from likewise.reports.evidence import build_provenance
from likewise.reports.findings import Findings, Loosening, Tally, curve_of, findings_of
from likewise.reports.not_shown import BirthDates, is_birth_date
from likewise.runtime.machine import MachineLoad
from likewise.sources.binding import Binding, make_judge
from likewise.sources.file_source import DecisionFile
from likewise.sources.protocol import Chunk, join_chunks

_SHARES = (0.01, 0.1, 0.5)


def find_loosening(varied: SensitivityTable, *decisions: Any) -> Loosening:
    """Find what would have to change for decisions to be compared.

    decisions: those that were varied, as `vary` takes them; none where nearness is not all that
    counts, so that no epsilon can be named
    """
    columns = tuple(
        (one.column, one.comparable)
        for one in varied.rank_blocking_columns()
        if one.column is not None and one.comparable
    )
    decisions = tuple(part[: varied.decisions] for part in decisions)
    return Loosening(varied.decisions, columns, _find_epsilons(varied, *decisions))


def _find_epsilons(varied: SensitivityTable, *decisions: Any) -> tuple[tuple[float, float], ...]:
    """Find the smallest epsilons with which certain shares of decisions are comparable."""
    if not decisions or varied.rule.embedders():
        return ()
    try:
        steps, rates = calibrate_like_cases(varied.rule, *decisions).curve()
    except LikewiseError:
        return ()  # a rule for which nearness is more than a distance
    reached = [np.flatnonzero(rates >= share)[:1] for share in _SHARES]
    firsts = dict.fromkeys(int(one[0]) for one in reached if len(one))
    return tuple((float(steps[at]), float(rates[at])) for at in firsts)


FIRST_ROWS = 200_000
"""How many decisions the curves of a page are computed from."""


def audit_file(
    source: DecisionFile,
    binding: Binding,
    options: AuditOptions,
    *,
    reopen: Reopen,
    ledger: Monitor | None = None,
    progress: Progress = ignore_progress,
    limits: AuditLimits | None = None,
) -> Audit:
    """Judge every decision of a file; raise BadFile, BadDecision or BadRule.

    reopen  opens the file again
    ledger  an empty monitor whose ledger is to store the decisions; without it they are judged in
            memory
    limits  what the audit may find

    With options.cells, `source` is the first of their files and gives the columns.
    """
    binding = binding.with_extra_columns(filter(is_birth_date, source.columns))
    if options.cells is not None:
        return _audit_cells(source.columns, binding, options, progress, limits)
    births = BirthDates(binding.columns)
    pairs, kept_rows, kept_pairs = None, None, None
    shows_pairs = options.pairs_path is not None or options.keeps_pairs
    if options.for_report or shows_pairs:
        binding = binding.with_extra_columns(source.columns)
        ignored = [one for one in binding.columns if one not in binding.remembered_columns]
        columns = binding.columns if shows_pairs else ignored
        kept_rows = KeptRows(columns, ignored_columns(binding, options), source.unit)
    decisions = FileDecisions(source, binding, options, reopen)
    for_page = options.for_report or options.keeps_pairs
    first = _FirstRows(FIRST_ROWS if for_page else VARIED_ROWS)
    alarms = None if options.burst is None else AlarmTally(options.burst)
    with ExitStack() as stack:
        monitor = ledger
        if monitor is None:
            monitor = Monitor(
                binding.rule,
                comparable=True,
                support=True,
                burst=options.burst,
                within=options.within,
            )
            if not options.keeps_pairs:
                stack.enter_context(monitor)
        if options.pairs_path is not None and kept_rows is not None:
            from likewise.auditing.pair_files import open_violation_file

            about = f"Contradicting pairs of {source.name}. {options.command or ''}"
            pairs = stack.enter_context(
                open_violation_file(options.pairs_path, monitor, kept_rows, about)
            )
        tally = Tally(monitor, columns=binding.inputs or None)
        if options.keeps_pairs and kept_rows is not None:
            kept_pairs = KeptPairs(monitor.past, kept_rows)

        def read_metadata(rows: Chunk) -> dict[str, Any]:
            return collect_metadata(options, rows.table, rows.times, ledger=ledger is not None)

        judge = make_judge(monitor, binding, read_metadata)
        for part in decisions.judge_parts(judge):
            tally.add(part.answer, part.rows.times)
            if alarms is not None:
                alarms.add(part.answer)
            if kept_rows is not None:
                kept_rows.add(part.rows)
            if pairs is not None:
                pairs.add(part.answer)
            if kept_pairs is not None:
                kept_pairs.add(part.answer)
            first.add(part.rows)
            births.add(part.rows.table)
            progress(*source.progress, f"{len(monitor):,} decisions")
        decisions.add_remarks()
        findings = tally.findings(
            source=decisions.evidence(None if ledger is None else str(ledger.ledger.head())),
            bad_rows=decisions.refused.count,
            births=births.words,
        )
        first_rows = join_chunks(first.parts)
        findings = _with_first_rows(findings, first_rows, binding, options)
        if kept_rows is not None and (options.for_report or options.pairs_path is not None):
            findings = kept_rows.add_all_origins(findings)

    def complete() -> Findings:
        whole = _with_first_rows(findings, first_rows, binding, replace(options, for_report=True))
        return whole if kept_rows is None else kept_rows.add_all_origins(whole)

    return Audit(
        findings,
        source,
        decisions.refused,
        lambda row: (int(decisions.places.find(np.array([row]))[0]), None),
        alarms,
        None if pairs is None else pairs.left_out,
        limits or AuditLimits(),
        kept_pairs=kept_pairs,
        complete=complete if options.keeps_pairs else None,
    )


class _FirstRows:
    """Collects the first rows of a file, at most `most`."""

    def __init__(self, most: int) -> None:
        self._room = most
        self.parts: list[Chunk] = []

    def add(self, rows: Chunk) -> None:
        if self._room > 0:
            self.parts.append(rows[: self._room])
            self._room -= len(self.parts[-1])


def _with_first_rows(
    findings: Findings, first: Chunk, binding: Binding, options: AuditOptions
) -> Findings:
    """Add what is computed from the first decisions.

    For a page: how contradictions and similar cases depend on epsilon. For a page, and where
    nothing could be compared: what each line of the rule does; in the latter case also what would
    have to change.
    """
    rule, limited = binding.rule, options.within is not None
    if options.for_report and not limited:
        arguments = binding.arguments(first.table)
        try:
            curve = curve_of(
                calibrate(rule, *arguments), rule, calibrate_like_cases(rule, *arguments)
            )
            findings = replace(findings, curve=curve)
        except (BadRule, BadDecision):
            pass  # a rule for which nearness is more than a distance; see calibrate
    if options.for_report or findings.nothing_compared:
        first = first[:VARIED_ROWS]
        arguments = binding.arguments(first.table)
        settings: dict[str, Any] = collect_metadata(options, first.table, first.times)
        if limited:
            settings["within"] = options.within
        varied = vary(rule, *arguments, columns=binding.inputs or None, **settings)
        findings = replace(findings, varied=varied)
        if findings.nothing_compared:
            loosening = find_loosening(varied, *(() if limited else arguments))
            findings = replace(findings, loosening=loosening)
    return findings


# Cell by cell


def _audit_cells(
    columns: Sequence[str],
    binding: Binding,
    options: AuditOptions,
    progress: Progress,
    limits: AuditLimits | None,
) -> Audit:
    """Audit files larger than memory."""
    from likewise.auditing.cells import audit_partitioned
    from likewise.auditing.job import Job, make_runner

    load, cells = MachineLoad(), options.cells
    assert cells is not None
    job = Job(
        folder=cells.folder.absolute(),
        files=cells.files,
        binding=_match_folder_columns(binding, columns, options),
        options=replace(options, cells=None),
        reading=cells.reading,
        cell_rows=cells.rows,
        threads=None if cells.workers == 1 and cells.ray is None else 1,
        first_rows=FIRST_ROWS,
    )
    runner = make_runner(cells.workers, cells.ray)
    done = audit_partitioned(job, runner, progress=progress)
    order, data = done.order, done.finished
    evidence = build_evidence(
        done, (done.sha256, done.size), (order.arrangement, order.ties), done.bad, load, options
    )
    explained = replace(
        data.explained,
        remembered=order.rows,
        reason=f"{data.explained.reason}; decisions were sorted into {len(done.cells):,} cells,"
        f" with {done.copies - 1:.0%} copied to more than one (--partition)",
    )
    findings = findings_of(
        data.totals,
        job.rule,
        data.worst,
        build_provenance(evidence, job.rule, explained, None),
        bad_rows=done.bad.count,
        **data.together,
    )
    first = Chunk(data.first.table, data.first.ranks, times=data.first.times)
    findings = _with_first_rows(findings, first, job.binding, options)

    def find_place(row: int) -> tuple[int, str | None]:
        number, place = data.places[row]
        return place, cells.files[number] if len(cells.files) > 1 else None

    return Audit(findings, done, done.bad, find_place, limits=limits or AuditLimits())


def _match_folder_columns(
    binding: Binding, columns: Sequence[str], options: AuditOptions
) -> Binding:
    """Bind all columns if a page is to show them, or if the cells hold them already."""
    from likewise.auditing.cell_folder import AuditFolder

    assert options.cells is not None
    whole, folder = binding.with_extra_columns(columns), options.cells.folder
    held = AuditFolder(folder).read_column_names()
    if not options.for_report:
        return whole if held == list(whole.columns) else binding
    lacking = [name for name in whole.columns if name not in binding.columns]
    if lacking and held == list(binding.columns):
        names = ", ".join(map(repr, lacking[:3])) + (" and more" if len(lacking) > 3 else "")
        raise BadFile(
            f"{folder} was begun without --report, and its cells do not hold {names},"
            " which a report shows. Leave out --report, or name another folder for --partition."
        )
    return whole
