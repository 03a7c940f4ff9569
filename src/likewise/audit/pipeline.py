"""Runs an audit from a file of decisions to findings: in memory, into a ledger, or cell by cell.

Invariant: cells find what one monitor finds, but write no file of pairs and no ledger, and do not
count near inputs.
Cost: in memory the history, one chunk of the file, a copy of the first decisions (FIRST_ROWS), and
what a page or a file of pairs shows beside them (kept_rows.py). A file that is not in order of its
times is held whole (sources/time_columns.py).
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likewise.audit.feeding import FileDecisions, NamedSource, RefusedRows, Reopen, build_evidence
from likewise.audit.job import (
    AuditOptions,
    Progress,
    collect_metadata,
    ignore_progress,
    ignored_columns,
)
from likewise.audit.kept_rows import KeptRows
from likewise.errors import BadDecision, BadFile, BadRule, LikewiseError
from likewise.monitor.calibration import calibrate, calibrate_like_cases
from likewise.monitor.monitor import Monitor
from likewise.monitor.sensitivity import MOST_ROWS as VARIED_ROWS
from likewise.monitor.sensitivity import SensitivityTable, vary
from likewise.reports.evidence import build_provenance
from likewise.reports.findings import Findings, Loosening, Tally, curve_of, findings_of
from likewise.reports.not_shown import is_birth_date
from likewise.reports.totals import stable_column
from likewise.rule.burst import Burst
from likewise.runtime.machine import MachineLoad
from likewise.sources.binding import Binding, make_judge
from likewise.sources.file_source import DecisionFile
from likewise.sources.protocol import Chunk, column_values, join_chunks
from likewise.verdict.verdicts import Verdicts

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


class AlarmTally:
    """Counts the decisions of a stream that raised an alarm, and keeps the most neighbours."""

    def __init__(self, burst: Burst) -> None:
        self._burst = burst
        self.count = self.most_neighbours = 0
        self.first: int | None = None

    def add(self, verdicts: Verdicts) -> None:
        raised = np.flatnonzero(verdicts.alarms)
        if len(raised) and self.first is None:
            self.first = int(verdicts.rows[raised[0]])
        self.count += len(raised)
        if verdicts.neighbours is not None:
            self.most_neighbours = max(
                self.most_neighbours, int(verdicts.neighbours.max(initial=0))
            )

    def describe(self, place: str) -> str:
        """Describe the alarms in words; `place` is where the first one stands."""
        among = f"among the {self._burst.last:,} decisions before"
        if self._burst.alarm is None:
            return f"At most {self.most_neighbours:,} near inputs {among}"
        if self.count == 0:
            return (
                f"No alarm: at most {self.most_neighbours:,} near inputs {among}, below"
                f" {self._burst.alarm:,}"
            )
        return (
            f"Alarms: {self.count:,}, first at {place}; up to {self.most_neighbours:,} near"
            f" inputs {among}, where {self._burst.alarm:,} raise one"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "last": self._burst.last,
            "alarm": self._burst.alarm,
            "most_neighbours": self.most_neighbours,
            "alarms": self.count,
            "first_alarm": self.first,
        }


FIRST_ROWS = 200_000
"""How many decisions the curves of a page are computed from."""


@dataclass(frozen=True)
class AuditResult:
    """Holds what was found, how the data were read, and where each decision stood."""

    findings: Findings
    source: NamedSource
    refused: RefusedRows
    find_place: Callable[[int], tuple[int, str | None]]
    """Returns for a row its line or row in its file; and that file, where there are several."""
    alarms: AlarmTally | None = None
    pairs_left_out: int = 0
    """How many pairs the file of pairs has no room for."""


def audit_file(
    source: DecisionFile,
    binding: Binding,
    options: AuditOptions,
    *,
    reopen: Reopen,
    ledger: Monitor | None = None,
    progress: Progress = ignore_progress,
) -> AuditResult:
    """Judge every decision of a file; raise BadFile, BadDecision or BadRule.

    reopen  opens the file again
    ledger  an empty monitor whose ledger is to store the decisions; without it they are judged in
            memory

    With options.cells, `source` is the first of their files and gives the columns.
    """
    binding = binding.with_extra_columns(filter(is_birth_date, source.columns))
    if options.cells is not None:
        return _audit_cells(source.columns, binding, options, progress)
    pairs, kept_rows = None, None
    births = {one: [np.empty(0, np.int64)] for one in binding.columns if is_birth_date(one)}
    if options.for_report or options.pairs_path is not None:
        binding = binding.with_extra_columns(source.columns)
        ignored = [one for one in binding.columns if one not in binding.remembered_columns]
        columns = ignored if options.pairs_path is None else binding.columns
        kept_rows = KeptRows(columns, ignored_columns(binding, options), source.unit)
    decisions = FileDecisions(source, binding, options, reopen)
    first = _FirstRows(FIRST_ROWS if options.for_report else VARIED_ROWS)
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
            stack.enter_context(monitor)
        if options.pairs_path is not None and kept_rows is not None:
            from likewise.audit.pair_files import open_violation_file

            about = f"Contradicting pairs of {source.name}. {options.command or ''}"
            pairs = stack.enter_context(
                open_violation_file(options.pairs_path, monitor, kept_rows, about)
            )
        tally = Tally(monitor, columns=binding.inputs or None)

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
            first.add(part.rows)
            for name, words in births.items():
                words.append(stable_column(list(column_values(part.rows.table, name))))
            progress(*source.progress, f"{len(monitor):,} decisions")
        decisions.add_remarks()
        head = None if ledger is None else str(ledger.ledger.head())
        findings = tally.findings(
            source=decisions.evidence(head),
            bad_rows=decisions.refused.count,
            births={name: np.concatenate(words) for name, words in births.items()},
        )
        findings = _with_first_rows(findings, join_chunks(first.parts), binding, options)
        if kept_rows is not None:
            worst = tuple(map(kept_rows.add_origins, findings.worst))
            findings = replace(findings, worst=worst)
    return AuditResult(
        findings,
        source,
        decisions.refused,
        lambda row: (int(decisions.places.find(np.array([row]))[0]), None),
        alarms,
        0 if pairs is None else pairs.left_out,
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
    columns: Sequence[str], binding: Binding, options: AuditOptions, progress: Progress
) -> AuditResult:
    """Audit files larger than memory."""
    from likewise.audit.cells import audit_partitioned
    from likewise.audit.job import Job, make_runner

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

    return AuditResult(findings, done, done.bad, find_place)


def _match_folder_columns(
    binding: Binding, columns: Sequence[str], options: AuditOptions
) -> Binding:
    """Bind all columns if a page is to show them, or if the cells hold them already."""
    from likewise.audit.cell_folder import AuditFolder

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
