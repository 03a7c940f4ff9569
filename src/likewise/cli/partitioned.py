"""`likewise audit --partition`: files larger than memory, and the same report.

Not here: how decisions are sorted into cells and judged (partition/).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.cli.audit import Wishes
from likewise.cli.auditing import CURVE_ROWS, Audited, FirstRows, skipped_of
from likewise.cli.endings import Stop
from likewise.cli.feeding import Refusals
from likewise.cli.models import insist_on_models
from likewise.cli.reading import Reading, say_remarks
from likewise.cli.rules import Quick, ask
from likewise.cli.screen import progress
from likewise.intake.binding import Binding
from likewise.monitors.varying import ROWS as VARIED_ROWS
from likewise.partition.audit import Partitioned, audit
from likewise.partition.folder import Folder
from likewise.partition.job import CELL_ROWS, Job, files_among
from likewise.partition.tasks import Here, Processes, RayTasks, Workers
from likewise.reports.evidence import Evidence, Order, computed
from likewise.reports.findings import Findings, findings_of
from likewise.reports.loosening import loosening
from likewise.runtime.load import Load
from likewise.sources.chunk import Chunk
from likewise.sources.remarks import Remark
from likewise.values.errors import BadFile

LEAST_CELL_ROWS = 1_000
"""Of smaller cells there would be very many, each with some files, and mostly copies in them."""


def judge_in_cells(
    data: Sequence[str], rule: Path | None, quick: Quick, reading: Reading, wishes: Wishes
) -> Audited:
    """Every decision of some files, judged."""
    began, load = time.perf_counter(), Load()
    _check(wishes)
    files = files_among(data)
    binding = _binding(files[0], rule, quick, reading, wishes)
    insist_on_models(binding.rule, wishes.model_column)
    assert wishes.partition is not None
    job = Job(
        folder=wishes.partition.absolute(),
        files=files,
        binding=binding,
        reading=reading.settings,
        dates=reading.day_order,
        time_column=wishes.time_column,
        within=wishes.within,
        model_column=wishes.model_column,
        skip=reading.skip,
        cell_rows=wishes.cell_rows or CELL_ROWS,
        threads=None if wishes.workers == 1 and wishes.ray is None else 1,
        first_rows=CURVE_ROWS,
    )
    with progress(f"judging {_name(files)}") as bar:
        done = audit(
            job,
            _workers(wishes),
            told=lambda what, some, many: bar.update(some, many, what),
            ignored=wishes.report is not None,
        )
    several = _Several(_name(files), done)
    say_remarks(several.name, several.remarks, several=len(several.done.files) > 1)
    bad = Refusals(several, reading.skip, done.bad)
    how = Evidence(
        several.name,
        Order(lines=True)
        if wishes.time_column is None
        else Order(
            wishes.time_column, done.order.arrangement, done.order.ties, True, wishes.within
        ),
        done.sha256,
        sum(one.size for one in done.files),
        wishes.command,
        several.unit,
        tuple(map(str, several.remarks)),
        *skipped_of(bad),
        seconds=time.perf_counter() - began,
        load=load.so_far(),
        model_column=wishes.model_column,
    )
    findings = _findings(job, done, how, bad, wishes)
    names = {row: files[number] for row, (number, _) in done.finished.places.items()}
    return Audited(
        findings,
        bad,
        lambda rows: np.array([done.finished.places[row][1] for row in rows.tolist()], np.int64),
        file_of=None if len(files) == 1 else names.__getitem__,
    )


def _check(wishes: Wishes) -> None:
    unfit = {
        "--ledger": wishes.ledger,
        "--out": wishes.out,
        "--burst": wishes.burst,
        "--max-ahead": wishes.max_ahead,
    }
    for option, value in unfit.items():
        if value is not None:
            raise Stop(
                f"{option} and --partition do not go together: cells know nothing of each other."
                " Leave out one of them."
            )
    if wishes.cell_rows is not None and wishes.cell_rows < LEAST_CELL_ROWS:
        raise Stop(
            f"--cell-rows is {wishes.cell_rows:,}; expected at least {LEAST_CELL_ROWS:,}: smaller"
            " cells would be very many, and mostly hold copies. Say more, or leave it out for"
            f" {CELL_ROWS:,}."
        )
    if wishes.within is not None and wishes.time_column is None:
        raise Stop("--within is about times: say --time-column.")
    if wishes.ray is not None and wishes.workers != 1:
        raise Stop("--ray and --workers do not go together: a cluster knows how many it has.")


def _binding(
    first: str, rule: Path | None, quick: Quick, reading: Reading, wishes: Wishes
) -> Binding:
    with reading.open_again(first) as source:
        binding = ask(
            rule,
            quick,
            source.columns,
            source.name,
            wishes.beside,
            left_out=source.left_out,
            trust_code=wishes.trust_code,
        )
        return _for_report(binding, binding.with_beside(source.columns), wishes)


def _for_report(binding: Binding, whole: Binding, wishes: Wishes) -> Binding:
    """With all columns, if a report is to show them, or if the cells hold them already."""
    assert wishes.partition is not None
    held = Folder(wishes.partition).columns_held()
    if wishes.report is None:
        return whole if held == list(whole.wanted) else binding
    lacking = [name for name in whole.wanted if name not in binding.wanted]
    if lacking and held == list(binding.wanted):
        some = ", ".join(map(repr, lacking[:3])) + (" and more" if len(lacking) > 3 else "")
        raise BadFile(
            f"{wishes.partition} was begun without --report, and its cells do not hold {some},"
            " which a report shows. Leave out --report, or name another folder for --partition."
        )
    return whole


def _workers(wishes: Wishes) -> Workers:
    if wishes.ray is not None:
        return RayTasks(wishes.ray)
    return Here() if wishes.workers == 1 else Processes(wishes.workers)


def _name(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else f"{len(files):,} files from {files[0]} on"


@dataclass(frozen=True)
class _Several:
    """The files of an audit, as messages speak of them."""

    name: str
    done: Partitioned

    @property
    def unit(self) -> str:
        return self.done.files[0].unit

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What was noticed; of several files, each thing once, with the first file that has it."""
        if len(self.done.files) == 1:
            return self.done.files[0].remarks
        seen: dict[tuple[str, str | None], Remark] = {}
        for file in self.done.files:
            for remark in file.remarks:
                told = replace(remark, what=f"{remark.what}, in {file.name}")
                seen.setdefault((remark.what, remark.column), told)
        many = len(self.done.files)
        listed = Remark(f"{many:,} files; their checksum is what sha256sum FILES | sha256sum tells")
        return (listed, *seen.values())

    def place(self, number: int) -> str:
        return f"{self.name}, {self.unit} {number:,}"


def _findings(
    job: Job, done: Partitioned, how: Evidence, bad: Refusals, wishes: Wishes
) -> Findings:
    finished = done.finished
    kept = FirstRows(VARIED_ROWS if wishes.report is None else CURVE_ROWS)
    first = finished.first
    kept.add(Chunk(first.table, np.zeros(len(first), np.int64), times=first.times))
    curves = kept.curves(job.binding, wishes)
    explained = replace(
        finished.explained,
        remembered=done.order.rows,
        reason=f"{finished.explained.reason}; decisions were sorted into {len(done.cells):,} cells,"
        f" with {done.copies - 1:.0%} copied to a second one or more (--partition)",
    )
    findings = findings_of(
        finished.totals,
        job.rule,
        finished.worst,
        computed(how, job.rule, explained, None),
        groups=finished.groups,
        likes=finished.likes,
        bad_rows=bad.count,
        calibration=curves[0],
        like_cases=curves[1],
    )
    if wishes.report is not None or findings.nothing_compared:
        varied = kept.varied(job.binding, wishes)
        findings = replace(findings, varied=varied)
        if findings.nothing_compared:
            near: tuple[Any, ...] = ()
            if wishes.within is None:
                near = kept.arguments(job.binding, VARIED_ROWS)
            findings = replace(findings, loosening=loosening(varied, *near))
    return findings
