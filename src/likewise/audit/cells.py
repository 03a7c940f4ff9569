"""Runs a partitioned audit from beginning to end.

    sample   a sample of the rows says where space is cut                 spreading.py, cell_cuts.py
    spread   each file's rows are written to the cells that they are in   spreading.py
    order    every row gets its rank: by time, then by file and line      ordering.py
    judge    each cell is judged, the largest first                       judge_cell.py
    combine  the results of the cells are put together                    cells.py

Invariant: the verdicts are those that one monitor would give if it saw all rows in order. A run
that was killed continues with the first step, file or cell that is not done.
Cost: the files once more on disk, and what is copied; in memory, one cell for each worker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from likewise.audit.audit_options import collect_metadata, ignored_columns
from likewise.audit.cell_folder import AuditFolder
from likewise.audit.cell_rows import FILE, RANK, Cell, CellBlock, CellReader, cells_of
from likewise.audit.favourable import OutputsSeen
from likewise.audit.feeding import RefusedRows, bad_row_error
from likewise.audit.job import Job, digest_of, name_of
from likewise.audit.judge_cell import WORST, judge_cell, read_result, read_shown_rows
from likewise.audit.ordering import RowOrder, find_order, read_left_out, read_order
from likewise.audit.spreading import INDEX, PLACE, TIME, SpreadFile, plan_cells, spread_file
from likewise.audit.tasks import InlineRunner, Task, TaskRunner
from likewise.errors import BadTable, RepeatedKey
from likewise.explaining.compare_groups import protected_columns
from likewise.explaining.pair_card import DecisionOrigin
from likewise.monitor.monitor import Monitor
from likewise.reports.clearest import ClearestPairs, ClearPair
from likewise.reports.findings import comparables_by_model, groups_among
from likewise.reports.selected_pairs import POOL, WorstPair, choose_pairs, kinds_of, side_by_side
from likewise.reports.totals import Totals
from likewise.sources.chunk import RefusedRow
from likewise.sources.remarks import Remark
from likewise.tables.times import readable_time
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.index_report import Explanation
from likewise.verdict.model_counts import ComparablesByModel

WHOLE = 2_000_000
"""How many decisions are loaded together at most, for what looks at all of them."""


@dataclass(frozen=True)
class ReportData:
    """Holds everything that a report is made of."""

    totals: Totals
    worst: tuple[WorstPair, ...]
    places: dict[int, tuple[int, int]]
    """For each row of a pair that is shown: its file, and its place there."""
    groups: tuple[GroupEffects, ...]
    comparables: ComparablesByModel | None
    first: CellBlock
    """The first decisions in order."""
    explained: Explanation
    """What a monitor of such decisions says about itself."""


def combine_cells(
    job: Job, order: RowOrder, cells: Sequence[Cell], *, units: Sequence[str], ignored: bool
) -> ReportData:
    """Put the results of all cells together.

    units    what a place counts, by file
    ignored  whether pairs say where they stood, and show columns that the rule ignores
    """
    totals = Totals(job.rule.epsilon)
    parts = []
    for cell in cells:
        own, clear = read_result(job, cell.number)
        totals.merge(own)
        parts.append(clear)
    clearest = ClearestPairs.merge_parts(POOL * WORST, parts).pairs()
    first, shown = _read_shown(job, cells, {row for one in clearest for row in one.rows})
    worst, explained = _choose_worst(job, clearest, shown, first, units, ignored)
    groups, comparables = _compare_groups_and_models(job, order, cells, totals)
    rows = {row for one in worst for row in (one.pair.row or 0, one.pair.witness.row)}
    origins = shown.frame.filter(pl.col(RANK).is_in(sorted(rows))).select(RANK, FILE, PLACE)
    places = {rank: (number, place) for rank, number, place in origins.iter_rows()}
    return ReportData(totals, worst, places, groups, comparables, first, explained)


def _read_shown(job: Job, cells: Sequence[Cell], in_pairs: set[int]) -> tuple[CellBlock, CellBlock]:
    """Read the first decisions of all, and those that are in pairs, each once."""
    first, shown = [], []
    ranks = np.array(sorted(in_pairs), np.int64)
    for cell in cells:
        rows = read_shown_rows(job, cell.number)
        first.append(rows.select(rows.home & (rows.ranks < job.first_rows)))
        shown.append(rows.select(np.isin(rows.ranks, ranks)))
    once = CellBlock.concatenate(shown).frame.unique(RANK, keep="any")
    return CellBlock.concatenate(first).sort_by_rank(), CellBlock(once).sort_by_rank()


def _choose_worst(
    job: Job,
    clearest: Sequence[ClearPair],
    shown: CellBlock,
    first: CellBlock,
    units: Sequence[str],
    ignored: bool,
) -> tuple[tuple[WorstPair, ...], Explanation]:
    """Choose the pairs to look at; also return what a monitor of such rows says about itself."""
    with load_monitor(job, shown if len(shown) else first[:1]) as monitor:
        past, ranks = monitor.past, shown.ranks
        places = np.searchsorted(ranks, [one.rows for one in clearest])
        kinds = dict(zip(clearest, kinds_of(past, *places.reshape(-1, 2).T), strict=True))
        rows = dict(zip(clearest, places.tolist(), strict=True))
        worst = []
        for one in choose_pairs(clearest, kinds, WORST):
            pair = side_by_side(past, one, rows[one], names=job.binding.inputs or None)
            if ignored:
                later, earlier = (_find_origin(job, shown, row, units) for row in rows[one])
                pair = replace(pair, later=later, earlier=earlier)
            worst.append(pair)
        return tuple(worst), monitor.explain()


def _find_origin(job: Job, shown: CellBlock, row: int, units: Sequence[str]) -> DecisionOrigin:
    values = shown.frame.row(row, named=True)
    time = None
    if TIME in values:
        time = readable_time(np.datetime64(values[TIME], "us"))
    return DecisionOrigin(
        values[PLACE],
        units[values[FILE]],
        time,
        tuple((name, values[name]) for name in ignored_columns(job.binding, job.options)),
        job.files[values[FILE]] if len(job.files) > 1 else None,
    )


# What looks at all decisions together


def _compare_groups_and_models(
    job: Job, order: RowOrder, cells: Sequence[Cell], totals: Totals
) -> tuple[tuple[GroupEffects, ...], ComparablesByModel | None]:
    by_model = job.options.model_column is not None and job.rule.compare == "all"
    if not protected_columns(job.rule) and not by_model:
        return (), None
    share = 1.0
    while order.rows * share > WHOLE:
        share /= 2
    chosen = [part for part in _read_home(job, order, cells, share) if len(part)]
    if not chosen:
        return (), None
    every = CellBlock.concatenate(chosen).sort_by_rank()
    del chosen
    with load_monitor(job, every) as monitor:
        rows = range(len(every))
        groups = groups_among(monitor.past, rows)
        comparables = None
        if share == 1.0 and totals.comparable is not None:
            comparables = comparables_by_model(monitor.past, rows)
    return tuple(replace(one, sampled=one.sampled * share) for one in groups), comparables


def _read_home(
    job: Job, order: RowOrder, cells: Sequence[Cell], share: float
) -> Iterator[CellBlock]:
    """Read the decisions at home in each cell; if `share` is below 1, of that share of inputs."""
    reader = CellReader(job, order)
    compared = [name for name, one in (job.rule.features or {}).items() if one.is_compared]
    for cell in cells:
        for low, high in reader.blocks(cell, 2 * job.cell_rows):
            block = reader.block(cell, low, high)
            chosen = block.home
            if share < 1.0:
                numbers = block.number_values(compared or list(job.binding.inputs))
                chosen = chosen & (numbers < np.uint64(share * 2.0**64))
            yield block.select(chosen)


def load_monitor(job: Job, block: CellBlock) -> Monitor:
    """Return a monitor that remembers these decisions."""
    monitor = Monitor(job.rule, within=job.options.within)
    metadata = collect_metadata(job.options, block.table, block.times)
    monitor.load(*job.binding.arguments(block.table), **metadata)
    return monitor


StepProgress = Callable[[str, int, int], None]
"""Receives the name of a step, how much of it is done, and of how much."""


@dataclass(frozen=True)
class PartitionedAudit:
    """Holds the results of an audit, and the files as messages name them."""

    names: tuple[str, ...]
    files: tuple[SpreadFile, ...]
    order: RowOrder
    cells: tuple[Cell, ...]
    bad: RefusedRows
    finished: ReportData

    @property
    def name(self) -> str:
        """What messages call the files."""
        return name_of(self.names)

    @property
    def unit(self) -> str:
        return self.files[0].unit

    @property
    def sha256(self) -> str:
        """The checksum of the one file, or of the list of all."""
        digests = (one.sha256 for one in self.files)
        return digest_of(list(zip(self.names, digests, strict=True)))

    @property
    def size(self) -> int:
        return sum(one.size for one in self.files)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What was noticed; each thing once, with the first of several files that has it."""
        if len(self.files) == 1:
            return self.files[0].remarks
        seen: dict[tuple[str, str | None], Remark] = {}
        for name, file in zip(self.names, self.files, strict=True):
            for remark in file.remarks:
                named = replace(remark, what=f"{remark.what}, in {name}")
                seen.setdefault((remark.what, remark.column), named)
        many = len(self.files)
        listed = Remark(
            f"{many:,} files; the checksum is the output of sha256sum FILES | sha256sum"
        )
        return (listed, *seen.values())

    @property
    def copies(self) -> float:
        """Rows in all cells, as a multiple of the number of rows."""
        return sum(one.rows for one in self.cells) / max(self.order.rows, 1)


def _ignore_progress(step: str, done: int, total: int) -> None:
    pass


def audit_partitioned(
    job: Job,
    workers: TaskRunner | None = None,
    *,
    progress: StepProgress = _ignore_progress,
    ignored: bool = False,
) -> PartitionedAudit:
    """Judge all decisions of a job's files; raise BadDecision or BadFile.

    workers   who does the tasks; this process by default
    progress  is called with the step, how much of it is done, and of how much
    ignored   whether pairs say where they stood, and show columns that the rule ignores
    """
    runner: TaskRunner = workers or InlineRunner()
    folder, numbers = AuditFolder(job.folder), range(len(job.files))
    with folder.lock():
        folder.begin(job)
        if not folder.look.exists():
            progress("sampling rows", 0, len(job.files))
            plan_cells(job, folder)
        _run_tasks(
            runner, "sorting rows into cells", spread_file, [(job, i) for i in numbers], progress
        )
        files = [SpreadFile.read(folder, number) for number in numbers]
        if sum(one.rows for one in files) == 0:
            raise BadTable(_no_rows(job, files), path=job.files[0])
        find_order(job, folder, files)
        order = read_order(folder)
        bad = _collect_refused(job, folder, order, files)
        _check_outputs(job, files)
        cells = cells_of(files)
        _run_tasks(runner, "judging cells", judge_cell, [(job, cell) for cell in cells], progress)
        progress("combining cells", 0, len(cells))
        units = [one.unit for one in files]
        finished = combine_cells(job, order, cells, units=units, ignored=ignored)
    return PartitionedAudit(job.files, tuple(files), order, tuple(cells), bad, finished)


def _run_tasks(
    workers: TaskRunner,
    step: str,
    function: Callable[..., None],
    tasks: list[Task],
    progress: StepProgress,
) -> None:
    progress(step, 0, len(tasks))
    for done, _ in enumerate(workers.run(function, tasks), 1):
        progress(step, done, len(tasks))


def _no_rows(job: Job, files: Sequence[SpreadFile]) -> str:
    many = sum(one.refused.count for one in files)
    if many == 0:
        return f"{job.files[0]}: there are no rows; expected decisions."
    file = next(one for one in files if one.refused.count)
    row = file.refused.first[0]
    return (
        f"none of the {many:,} rows can be used. The first, {file.name}, {file.unit}"
        f" {row.place:,}: {row.why}"
    )


def _check_outputs(job: Job, files: Sequence[SpreadFile]) -> None:
    """Raise BadTable if no decision has the output that the rule calls favourable."""
    seen = OutputsSeen(job.rule)
    for one in files:
        seen.merge(one.outputs)
    seen.check(files[0].name if len(files) == 1 else f"{len(files):,} files")


def _collect_refused(
    job: Job, folder: AuditFolder, order: RowOrder, files: Sequence[SpreadFile]
) -> RefusedRows:
    """Collect rows that could not be read or judged, and rows whose key another one has."""
    bad = RefusedRows()
    for name, file in zip(job.files, files, strict=True):
        if len(files) > 1:
            file.refused.first = [
                replace(row, why=f"{row.why} (in {name})") for row in file.refused.first
            ]
        bad.merge(file.refused)
    left_out = read_left_out(folder)
    if len(left_out) == 0:
        return bad
    at = int(np.searchsorted(order.bases, left_out[0], side="right")) - 1
    place = _find_place(folder, files[at], int(left_out[0] - order.bases[at]))
    why = f"its {job.rule.key_column!r} is the key of an earlier decision already: keys are unique."
    row = RefusedRow(place, why, RepeatedKey.code)
    if not job.options.skip:
        raise bad_row_error(files[at].name, files[at].unit, row)
    bad.add(row, len(left_out))
    return bad


def _find_place(folder: AuditFolder, file: SpreadFile, index: int) -> int:
    """Return where a row stood in its file."""
    for cell, name, _, _ in file.pieces:
        piece = pl.read_ipc(folder.cell(cell) / name, columns=[INDEX, PLACE])
        row = piece.filter(pl.col(INDEX) == index)
        if row.height:
            return int(row[PLACE][0])
    raise AssertionError("a row is in no piece")
