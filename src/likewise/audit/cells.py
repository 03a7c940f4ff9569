"""A partitioned audit from beginning to end: look, spread, order, judge, put together.

    look     a sample of the rows says where space is cut                 spreading.py, cell_cuts.py
    spread   each file's rows go to the cells that they are in            spreading.py
    order    every row gets its rank: by time, then by file and line      ordering.py
    judge    each cell is judged, the largest first                       judge_cell.py
    finish   what the cells came to is put together                       cells.py

Invariant: the verdicts are those that one monitor would give, told all rows in order. A run that
was killed goes on with the first step, file or cell that is not done.
Cost: the files once more on disk, and what is copied; in memory, one cell for each worker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.audit.audit_options import collect_metadata, ignored_columns
from likewise.audit.cell_folder import AuditFolder, read_json
from likewise.audit.cell_rows import FILE, RANK, Cell, CellBlock, CellReader, cells_of
from likewise.audit.favourable import OutputsSeen
from likewise.audit.feeding import bad_row_error
from likewise.audit.job import Job, digest_of, name_of
from likewise.audit.judge_cell import WORST, judge_cell, read_result, shown_rows
from likewise.audit.ordering import RowOrder, find_order, read_order
from likewise.audit.refused_rows import RefusedRows
from likewise.audit.sides import column_numbers, mix_columns
from likewise.audit.spreading import INDEX, PLACE, TIME, plan_cells, spread_file
from likewise.audit.tasks import InlineRunner, Task, TaskRunner
from likewise.errors import BadTable, RepeatedKey
from likewise.explaining.compare_groups import protected_columns
from likewise.explaining.pair_card import DecisionOrigin
from likewise.monitor.monitor import Monitor
from likewise.reports.clearest import ClearestPairs, ClearPair
from likewise.reports.findings import groups_among, likes_among
from likewise.reports.selected_pairs import POOL, WorstPair, choose_pairs, kinds_of, side_by_side
from likewise.reports.totals import Totals
from likewise.sources.chunk import RefusedRow
from likewise.sources.remarks import Remark
from likewise.tables.times import readable_time
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.index_report import Explanation
from likewise.verdict.model_counts import ComparablesByModel

WHOLE = 2_000_000
"""Decisions that are looked at together, at most."""


@dataclass(frozen=True)
class ReportData:
    """Everything that a report is made of."""

    totals: Totals
    worst: tuple[WorstPair, ...]
    places: dict[int, tuple[int, int]]
    """By row of pairs that are shown: its file, and its place there."""
    groups: tuple[GroupEffects, ...]
    likes: ComparablesByModel | None
    first: CellBlock
    """The first decisions in order."""
    explained: Explanation
    """What a monitor of such decisions says of itself."""


def combine_cells(
    job: Job, order: RowOrder, cells: Sequence[Cell], *, units: Sequence[str], ignored: bool
) -> ReportData:
    """Put together what all cells came to.

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
    wanted = {row for one in clearest for row in (one.later, one.earlier)}
    first, shown = _read_shown(job, cells, wanted)
    worst, explained = _worst(job, clearest, shown, first, units, ignored)
    groups, likes = _compare_groups_and_models(job, order, cells, totals)
    rows = {row for one in worst for row in (one.pair.row or 0, one.pair.witness.row)}
    told = shown.frame.filter(pl.col(RANK).is_in(sorted(rows))).select(RANK, FILE, PLACE)
    places = {rank: (number, place) for rank, number, place in told.iter_rows()}
    return ReportData(totals, worst, places, groups, likes, first, explained)


def _read_shown(job: Job, cells: Sequence[Cell], wanted: set[int]) -> tuple[CellBlock, CellBlock]:
    """The first decisions of all, and those of the pairs that are wanted, each once."""
    first, shown = [], []
    ranks = np.array(sorted(wanted), np.int64)
    for cell in cells:
        rows = shown_rows(job, cell.number)
        first.append(rows.select(rows.home & (rows.ranks < job.first_rows)))
        shown.append(rows.select(np.isin(rows.ranks, ranks)))
    once = CellBlock.concatenate(shown).frame.unique(RANK, keep="any")
    return CellBlock.concatenate(first).sort_by_rank(), CellBlock(once).sort_by_rank()


def _worst(
    job: Job,
    clearest: Sequence[ClearPair],
    shown: CellBlock,
    first: CellBlock,
    units: Sequence[str],
    ignored: bool,
) -> tuple[tuple[WorstPair, ...], Explanation]:
    """The pairs to look at; and what a monitor of such rows says of itself."""
    with load_monitor(job, shown if len(shown) else first[:1]) as monitor:
        past, ranks = monitor.past, shown.ranks
        places = np.searchsorted(ranks, [(one.later, one.earlier) for one in clearest])
        kinds = dict(zip(clearest, kinds_of(past, *places.reshape(-1, 2).T), strict=True))
        rows = dict(zip(clearest, places.tolist(), strict=True))
        worst = []
        for one in choose_pairs(clearest, kinds, WORST):
            pair = side_by_side(past, one, rows[one], names=job.binding.inputs or None)
            if ignored:
                later, earlier = (_whereabouts(job, shown, row, units) for row in rows[one])
                pair = replace(pair, later=later, earlier=earlier)
            worst.append(pair)
        return tuple(worst), monitor.explain()


def _whereabouts(job: Job, shown: CellBlock, row: int, units: Sequence[str]) -> DecisionOrigin:
    values = shown.frame.row(row, named=True)
    time = None
    if TIME in values:
        time = readable_time(np.datetime64(values[TIME], "us"))
    return DecisionOrigin(
        values[PLACE],
        units[values[FILE]],
        time,
        tuple((name, values[name]) for name in ignored_columns(job.binding, job)),
        job.files[values[FILE]] if len(job.files) > 1 else None,
    )


# What looks at all decisions together


def _compare_groups_and_models(
    job: Job, order: RowOrder, cells: Sequence[Cell], totals: Totals
) -> tuple[tuple[GroupEffects, ...], ComparablesByModel | None]:
    by_model = job.model_column is not None and job.rule.compare == "all"
    if not protected_columns(job.rule) and not by_model:
        return (), None
    share = 1.0
    while order.rows * share > WHOLE:
        share /= 2
    chosen = [part for part in _at_home(job, order, cells, share) if len(part)]
    if not chosen:
        return (), None
    every = CellBlock.concatenate(chosen).sort_by_rank()
    del chosen
    with load_monitor(job, every) as monitor:
        rows = range(len(every))
        groups = groups_among(monitor.past, rows)
        likes = None
        if share == 1.0 and totals.comparable is not None:
            likes = likes_among(monitor.past, rows)
    return tuple(replace(one, sampled=one.sampled * share) for one in groups), likes


def _at_home(job: Job, order: RowOrder, cells: Sequence[Cell], share: float) -> Iterator[CellBlock]:
    """The decisions at home in each cell; of distinct inputs that share, where it is not 1."""
    reader = CellReader(job, order)
    measured = [name for name, one in (job.rule.features or {}).items() if one.is_compared]
    for cell in cells:
        for low, high in reader.blocks(cell, 2 * job.cell_rows):
            block = reader.block(cell, low, high)
            chosen: npt.NDArray[np.bool_] = block.home
            if share < 1.0:
                names = measured or list(job.binding.inputs)
                numbers = mix_columns(
                    [column_numbers(block.frame[one]) for one in names], len(block)
                )
                chosen = chosen & (numbers < np.uint64(share * 2.0**64))
            yield block.select(chosen)


def load_monitor(job: Job, block: CellBlock) -> Monitor:
    """A monitor that remembers these decisions."""
    monitor = Monitor(job.rule, within=job.within)
    monitor.load(*job.binding.arguments(block.table), **collect_metadata(job, block))
    return monitor


FileRecord = dict[str, Any]
"""What the record of a spread file says."""
StepProgress = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and of how much."""


@dataclass(frozen=True)
class SpreadFile:
    """A file, once it is spread."""

    name: str
    unit: str
    sha256: str
    size: int
    rows: int
    remarks: tuple[Remark, ...]


@dataclass(frozen=True)
class PartitionedAudit:
    """What came of an audit."""

    files: tuple[SpreadFile, ...]
    order: RowOrder
    cells: tuple[Cell, ...]
    bad: RefusedRows
    finished: ReportData

    @property
    def name(self) -> str:
        """What messages call the files."""
        return name_of([one.name for one in self.files])

    @property
    def unit(self) -> str:
        return self.files[0].unit

    @property
    def sha256(self) -> str:
        """Of the one file, or of the list of all."""
        return digest_of([(one.name, one.sha256) for one in self.files])

    @property
    def size(self) -> int:
        return sum(one.size for one in self.files)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What was noticed; of several files, each thing once, with the first file that has it."""
        if len(self.files) == 1:
            return self.files[0].remarks
        seen: dict[tuple[str, str | None], Remark] = {}
        for file in self.files:
            for remark in file.remarks:
                told = replace(remark, what=f"{remark.what}, in {file.name}")
                seen.setdefault((remark.what, remark.column), told)
        many = len(self.files)
        listed = Remark(f"{many:,} files; their checksum is what sha256sum FILES | sha256sum tells")
        return (listed, *seen.values())

    @property
    def copies(self) -> float:
        """Rows in all cells, as a multiple of the rows that there are."""
        return sum(one.rows for one in self.cells) / max(self.order.rows, 1)


def _ignore_progress(what: str, done: int, total: int) -> None:
    pass


def audit_partitioned(
    job: Job,
    workers: TaskRunner | None = None,
    *,
    progress: StepProgress = _ignore_progress,
    ignored: bool = False,
) -> PartitionedAudit:
    """Judge all decisions of a job's files; raise BadDecision or BadFile.

    workers  who does the tasks; this process, unless given
    told     is told how far it is
    ignored  whether pairs say where they stood, and show columns that the rule ignores
    """
    doing: TaskRunner = workers or InlineRunner()
    folder = AuditFolder(job.folder)
    with folder.lock():
        folder.begin(job)
        if not folder.look.exists():
            progress("looking at a sample", 0, len(job.files))
            plan_cells(job, folder)
        _run_tasks(
            doing,
            "spreading files",
            spread_file,
            [(job, i) for i in range(len(job.files))],
            progress,
        )
        spread_files = [read_json(folder.spread(number)) for number in range(len(job.files))]
        if sum(one["rows"] for one in spread_files) == 0:
            raise BadTable(_no_rows(job, spread_files), path=job.files[0])
        find_order(job, folder)
        ranked = read_order(folder)
        bad = _collect_refused(job, folder, spread_files)
        _check_outputs(job, spread_files)
        cells = cells_of([one["pieces"] for one in spread_files])
        _run_tasks(doing, "judging cells", judge_cell, [(job, cell) for cell in cells], progress)
        progress("putting cells together", 0, len(cells))
        units = [one["unit"] for one in spread_files]
        finished = combine_cells(job, ranked, cells, units=units, ignored=ignored)
    files = tuple(
        SpreadFile(
            name,
            one["unit"],
            one["sha256"],
            one["size"],
            one["rows"],
            tuple(Remark(**remark) for remark in one["remarks"]),
        )
        for name, one in zip(job.files, spread_files, strict=True)
    )
    return PartitionedAudit(files, ranked, tuple(cells), bad, finished)


def _run_tasks(
    workers: TaskRunner,
    what: str,
    function: Callable[..., None],
    tasks: list[Task],
    progress: StepProgress,
) -> None:
    progress(what, 0, len(tasks))
    for done, _ in enumerate(workers.run(function, tasks), 1):
        progress(what, done, len(tasks))


def _no_rows(job: Job, files: list[FileRecord]) -> str:
    many = sum(one["refused"]["count"] for one in files)
    if many == 0:
        return f"{job.files[0]}: there are no rows; expected decisions."
    first = next(one for one in files if one["refused"]["count"])
    place, why = first["refused"]["first"][0]
    return (
        f"none of the {many:,} rows can be used. The first, {first['name']}, {first['unit']}"
        f" {place:,}: {why}"
    )


def _check_outputs(job: Job, files: list[FileRecord]) -> None:
    """Raise BadDecision if no decision has the output that the rule calls favourable."""
    seen = OutputsSeen(job.rule)
    for one in files:
        seen.merge(one["outputs"])
    seen.check(files[0]["name"] if len(files) == 1 else f"{len(files):,} files")


def _collect_refused(job: Job, folder: AuditFolder, files: list[FileRecord]) -> RefusedRows:
    """Rows that could not be read or judged, and rows whose key another one has."""
    bad = RefusedRows()
    for name, one in zip(job.files, files, strict=True):
        own = RefusedRows.from_dict(one["refused"])
        if len(files) > 1:
            own.first = [replace(row, why=f"{row.why} (in {name})") for row in own.first]
        bad.merge(own)
    if not folder.left_out.exists():
        return bad
    numbers = np.load(folder.left_out, allow_pickle=False)
    bases = np.array(read_order(folder).bases)
    at = int(np.searchsorted(bases, numbers[0], side="right")) - 1
    place = _place(folder, files[at], int(numbers[0] - bases[at]))
    why = f"its {job.rule.key_column!r} is the key of an earlier decision already: keys are unique."
    row = RefusedRow(place, why, RepeatedKey.code)
    if not job.skip:
        raise bad_row_error(files[at]["name"], files[at]["unit"], row)
    bad.add(row, len(numbers))
    return bad


def _place(folder: AuditFolder, file: FileRecord, index: int) -> int:
    """Where a row stood in its file."""
    for cell, name, _, _ in file["pieces"]:
        piece = pl.read_ipc(folder.cell(cell) / name, columns=[INDEX, PLACE])
        found = piece.filter(pl.col(INDEX) == index)
        if found.height:
            return int(found[PLACE][0])
    raise AssertionError("a row is in no piece")
