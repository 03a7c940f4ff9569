"""An audit from a file of decisions to findings: in memory, into a ledger, or cell by cell.

Invariant: cells find what one monitor finds; only how it was computed is told otherwise, and what
no cell can know: there is no file of pairs, no ledger and no count of near inputs.
Cost: in memory the history, one chunk of the file, the first decisions once more (FIRST_ROWS), and
for a page or a file of pairs the columns that they show and the history lacks (kept_rows.py). A
file that is not in order of its times is held whole (sources/time_order.py).
Not here: how options are said and results printed (cli/).
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likewise.audit.audit_options import AuditOptions, collect_metadata, ignored_columns
from likewise.audit.feeding import (
    FileDecisions,
    NamedSource,
    Reopen,
    build_evidence,
    describe_order,
)
from likewise.audit.kept_rows import KeptRows
from likewise.audit.refused_rows import RefusedRows
from likewise.errors import BadDecision, BadFile, BadRule, LikewiseError
from likewise.monitor.calibration import calibrate, calibrate_like_cases
from likewise.monitor.monitor import Monitor
from likewise.monitor.sensitivity import MOST_ROWS as VARIED_ROWS
from likewise.monitor.sensitivity import vary
from likewise.monitor.sensitivity_table import SensitivityTable
from likewise.reports.evidence import build_provenance
from likewise.reports.findings import Findings, Loosening, Tally, curve_of, findings_of
from likewise.rule.burst import Burst
from likewise.runtime.machine import MachineLoad
from likewise.sources.binding import Binding, make_judge
from likewise.sources.chunk import Chunk, join_tables
from likewise.sources.file_source import DecisionFile
from likewise.verdict.verdicts import Verdicts

_SHARES = (0.01, 0.1, 0.5)


def find_loosening(varied: SensitivityTable, *decisions: Any) -> Loosening:
    """What would have to change for decisions to be compared.

    decisions: those that were varied, as `vary` takes them; none where nearness is not all that
    counts, so that no epsilon can be named
    """
    freed = [
        (one.column, one.comparable)
        for one in varied.rank_blocking_columns()
        if one.column is not None and one.comparable
    ]
    some = [part[: varied.decisions] for part in decisions]
    return Loosening(varied.decisions, tuple(freed), _epsilons(varied, *some))


def _epsilons(varied: SensitivityTable, *decisions: Any) -> tuple[tuple[float, float], ...]:
    """The smallest epsilons with which certain shares of decisions have an earlier like case."""
    if not decisions or varied.rule.embedders():
        return ()
    try:
        steps, rates = calibrate_like_cases(varied.rule, *decisions).curve()
    except LikewiseError:
        return ()  # a rule by which nearness is more than a distance
    found = []
    for share in _SHARES:
        enough = np.flatnonzero(rates >= share)
        if len(enough):
            found.append((float(steps[enough[0]]), float(rates[enough[0]])))
    return tuple(dict.fromkeys(found))


class AlarmTally:
    """Of a stream: how many decisions raised an alarm, the first of them, the most neighbours."""

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
        """In words; `place` is where the first stands."""
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
            f" inputs {among},"
            f" where {self._burst.alarm:,} raise one"
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
"""Decisions from which the curves of a page are computed."""
Progress = Callable[[int, int | None, str], None]
"""Is told how much is done, of how much if that is known, and what is being done."""


@dataclass(frozen=True)
class AuditResult:
    """What was found, how the data were read, and where each decision stood."""

    findings: Findings
    source: NamedSource
    refused: RefusedRows
    find_place: Callable[[int], tuple[int, str | None]]
    """By row, its line or row in its file; and that file, where there are several."""
    alarms: AlarmTally | None = None
    pairs_left_out: int = 0
    """For which the file of pairs has no room."""


def _ignore_progress(done: int, total: int | None, what: str) -> None:
    pass


def audit_file(
    source: DecisionFile,
    binding: Binding,
    options: AuditOptions,
    *,
    reopen: Reopen,
    ledger: Monitor | None = None,
    progress: Progress = _ignore_progress,
) -> AuditResult:
    """Judge every decision of a file; raise BadFile, BadDecision or BadRule.

    again   opens the file once more
    ledger  an empty monitor with a ledger that is to keep the decisions; else they are judged in
            memory

    With options.cells, `source` is the first of their files and tells their columns.
    """
    if options.cells is not None:
        return _audit_cells(source.columns, binding, options, progress)
    pairs, kept = None, None
    if options.for_report or options.pairs_path is not None:
        binding = binding.with_extra_columns(source.columns)
        ignored = [one for one in binding.columns if one not in binding.remembered_columns]
        columns = ignored if options.pairs_path is None else binding.columns
        kept = KeptRows(columns, ignored_columns(binding, options), source.unit)
    decisions = FileDecisions(source, binding, options, reopen)
    first = _FirstRows(FIRST_ROWS if options.for_report else VARIED_ROWS)
    alarms = None if options.burst is None else AlarmTally(options.burst)
    with ExitStack() as stack:
        monitor = ledger
        if monitor is None:
            settings: dict[str, Any] = {"burst": options.burst, "within": options.within}
            monitor = stack.enter_context(Monitor(binding.rule, comparable=True, **settings))
        if options.pairs_path is not None and kept is not None:
            from likewise.audit.pair_files import ViolationFile

            about = f"Contradicting pairs of {source.name}. {options.command or ''}"
            pairs = stack.enter_context(ViolationFile(options.pairs_path, monitor, kept, about))
        tally = Tally(monitor, columns=binding.inputs or None)
        judge = make_judge(
            monitor,
            binding,
            lambda rows: collect_metadata(options, rows, ledger=ledger is not None),
        )
        for part in decisions.judge_parts(judge):
            tally.add(part.answer, part.rows.times)
            if alarms is not None:
                alarms.add(part.answer)
            if kept is not None:
                kept.add(part.rows)
            if pairs is not None:
                pairs.add(part.answer)
            first.add(part.rows)
            progress(*source.progress, f"{len(monitor):,} decisions")
        decisions.add_remarks()
        head = None if ledger is None else str(ledger.head())
        findings = tally.findings(source=decisions.evidence(head), bad_rows=decisions.refused.count)
        findings = _with_first_rows(findings, first.rows(), binding, options)
        if kept is not None:
            findings = replace(findings, worst=tuple(map(kept.add_whereabouts, findings.worst)))
    return AuditResult(
        findings,
        source,
        decisions.refused,
        lambda row: (int(decisions.places(np.array([row]))[0]), None),
        alarms,
        0 if pairs is None else pairs.left_out,
    )


class _FirstRows:
    """The first rows of a file, so many at most."""

    def __init__(self, most: int) -> None:
        self._room = most
        self._parts: list[Chunk] = []

    def add(self, rows: Chunk) -> None:
        if self._room > 0:
            self._parts.append(rows[: self._room])
            self._room -= len(self._parts[-1])

    def rows(self) -> Chunk:
        times = [part.times for part in self._parts if part.times is not None]
        return Chunk(
            join_tables([part.table for part in self._parts]),
            np.concatenate([part.places for part in self._parts]),
            times=np.concatenate(times) if times else None,
        )


def _with_first_rows(
    findings: Findings, first: Chunk, binding: Binding, options: AuditOptions
) -> Findings:
    """Add what is computed from the first decisions.

    For a page, how contradictions and like cases depend on epsilon. For a page, and where nothing
    could be compared, what each line of the rule does; in the latter case also what would have to
    change.
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
            pass  # a rule by which nearness is more than a distance; see calibrate
    if options.for_report or findings.nothing_compared:
        some = first[:VARIED_ROWS]
        arguments = binding.arguments(some.table)
        settings: dict[str, Any] = collect_metadata(options, some)
        if limited:
            settings["within"] = options.within
        varied = vary(rule, *arguments, columns=binding.inputs or None, **settings)
        findings = replace(findings, varied=varied)
        if findings.nothing_compared:
            found = find_loosening(varied, *(() if limited else arguments))
            findings = replace(findings, loosening=found)
    return findings


# Cell by cell


def _audit_cells(
    columns: Sequence[str], binding: Binding, options: AuditOptions, progress: Progress
) -> AuditResult:
    """The same for files larger than memory."""
    from likewise.audit.cells import audit_partitioned
    from likewise.audit.job import Job
    from likewise.audit.tasks import make_runner

    load, cells = MachineLoad(), options.cells
    assert cells is not None
    job = Job(
        folder=cells.folder.absolute(),
        files=cells.files,
        binding=_match_folder_columns(binding, columns, options),
        reading=cells.reading,
        dates=options.dates,
        time_column=options.time_column,
        within=options.within,
        model_column=options.model_column,
        skip=options.skip,
        cell_rows=cells.rows,
        threads=None if cells.workers == 1 and cells.ray is None else 1,
        first_rows=FIRST_ROWS,
    )
    done = audit_partitioned(
        job,
        make_runner(cells.workers, cells.ray),
        progress=lambda what, some, many: progress(some, many, what),
        ignored=options.for_report,
    )
    order, found = done.order, done.finished
    evidence = build_evidence(
        done,
        (done.sha256, done.size),
        describe_order(options, order.arrangement, order.ties),
        done.bad,
        load,
        options,
    )
    explained = replace(
        found.explained,
        remembered=order.rows,
        reason=f"{found.explained.reason}; decisions were sorted into {len(done.cells):,} cells,"
        f" with {done.copies - 1:.0%} copied to a second one or more (--partition)",
    )
    findings = findings_of(
        found.totals,
        job.rule,
        found.worst,
        build_provenance(evidence, job.rule, explained, None),
        groups=found.groups,
        likes=found.likes,
        bad_rows=done.bad.count,
    )
    first = Chunk(found.first.table, found.first.ranks, times=found.first.times)
    findings = _with_first_rows(findings, first, job.binding, options)

    def place(row: int) -> tuple[int, str | None]:
        number, at = found.places[row]
        return at, cells.files[number] if len(cells.files) > 1 else None

    return AuditResult(findings, done, done.bad, place)


def _match_folder_columns(
    binding: Binding, columns: Sequence[str], options: AuditOptions
) -> Binding:
    """With all columns, if a page is to show them, or if the cells hold them already."""
    from likewise.audit.cell_folder import AuditFolder

    assert options.cells is not None
    whole, folder = binding.with_extra_columns(columns), options.cells.folder
    held = AuditFolder(folder).read_column_names()
    if not options.for_report:
        return whole if held == list(whole.columns) else binding
    lacking = [name for name in whole.columns if name not in binding.columns]
    if lacking and held == list(binding.columns):
        some = ", ".join(map(repr, lacking[:3])) + (" and more" if len(lacking) > 3 else "")
        raise BadFile(
            f"{folder} was begun without --report, and its cells do not hold {some},"
            " which a report shows. Leave out --report, or name another folder for --partition."
        )
    return whole
