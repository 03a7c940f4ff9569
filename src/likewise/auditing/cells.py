"""Runs a partitioned audit from beginning to end.

    sample   a sample of the rows says where space is cut                 spreading.py, cell_cuts.py
    spread   each file's rows are written to the cells that they are in   spreading.py
    order    every row gets its rank: by time, then by file and line      ordering.py
    judge    each cell is judged, the largest first                       cells.py
    combine  the results of the cells are put together                    cells.py

Invariant: the verdicts are those that one monitor would give if it saw all rows in order. A run
that was killed continues with the first step, file or cell that is not done.
Cost: the files once more on disk, and what is copied; in memory, one cell for each worker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.auditing.cell_folder import AuditFolder, read_json
from likewise.auditing.cell_rows import FILE, RANK, Cell, CellBlock, CellReader, cells_of
from likewise.auditing.favourable import OutputsSeen
from likewise.auditing.feeding import RefusedRows, bad_row_error
from likewise.auditing.job import (
    InlineRunner,
    Job,
    Progress,
    Task,
    TaskRunner,
    collect_metadata,
    digest_of,
    ignore_progress,
    ignored_columns,
    name_of,
)
from likewise.auditing.ordering import RowOrder, find_order, read_left_out
from likewise.auditing.spreading import INDEX, PLACE, TIME, SpreadFile, plan_cells, spread_file
from likewise.errors import BadTable, RepeatedKey
from likewise.explaining.agreement import measure_agreement, not_counted
from likewise.explaining.compare_groups import protected_columns
from likewise.explaining.pairs import DecisionOrigin
from likewise.explaining.past import Past
from likewise.monitor.monitor import Monitor
from likewise.reports.clearest import (
    Candidates,
    ClearestPairs,
    ClearPair,
    ContradictingPairs,
    Firsts,
    Sides,
    find_candidates,
    pairs_in,
    support_of,
)
from likewise.reports.findings import comparables_by_model, groups_among
from likewise.reports.not_shown import BirthDates, find_repeated
from likewise.reports.selected_pairs import POOL, WorstPair, choose_pairs, kinds_of, side_by_side
from likewise.reports.totals import PairMarks, Totals, to_words
from likewise.runtime.private_files import write_atomically
from likewise.sources.binding import Binding
from likewise.sources.protocol import RefusedRow
from likewise.sources.remarks import Remark
from likewise.tables.array_types import Rows
from likewise.tables.times import readable_time
from likewise.verdict.losses import Explanation
from likewise.verdict.verdicts import Verdicts
from likewise.verdict.witnesses import Witnesses

WORST = 20
"""How many pairs a report shows."""
TOGETHER = 1 << 16
"""How many decisions are judged together."""
_KINDS = 10_000  # kinds of groups of which a cell keeps pairs apart


# Judges one cell: its rows in order, and the totals of the verdicts of those at home. Every row
# near a row at home is in the cell, so the verdict of a row at home is complete. Copies are
# remembered, so that others are compared with them; their own verdicts are dropped. A cell that
# could not be cut to twice `cell_rows` is judged in blocks of time, each after each block before
# it.
#
# Invariant: every pair of rows that are near and differ is found once: where its later row is at
# home.
# Cost: the rows of a cell and its monitor; in blocks, those of two blocks, and work for each two.


def judge_cell(job: Job, cell: Cell) -> None:
    """Judge a cell and write the result, unless it is stored already."""
    folder = AuditFolder(job.folder)
    if folder.result(cell.number).exists():
        return
    with folder.mark_working():
        _judge(job, cell, folder)


def _judge(job: Job, cell: Cell, folder: AuditFolder) -> None:
    reader = CellReader(job, read_json(folder.order, RowOrder))
    totals = Totals(job.rule.epsilon)
    clearest = ClearestPairs(POOL * WORST, _KINDS)
    pairs: list[ContradictingPairs] = []
    bounds = reader.blocks(cell, 2 * job.cell_rows)
    if len(bounds) > 1:
        bounds = reader.blocks(cell, job.cell_rows)
    block = None
    for i, (low, high) in enumerate(bounds):
        block = reader.block(cell, low, high)
        earlier = [partial(reader.block, cell, *one) for one in bounds[:i]]
        for part in _judge_block(job, block, earlier, clearest):
            verdicts = part.verdicts(block)
            times = None if block.times is None else block.times[part.span][block.home[part.span]]
            totals.add(verdicts, times, placed=True)
            clearest.add(part.candidates(), part.firsts)
            if job.pairs:
                pairs.append(pairs_in(verdicts))
    assert block is not None
    best, firsts = clearest.export_pairs()
    shown = np.union1d(best.later, best.earlier)
    if len(bounds) == 1:
        frames = [_select_shown(job, block, shown)]
    else:
        frames = [_select_shown(job, reader.block(cell, *one), shown) for one in bounds]
    with write_atomically(folder.result(cell.number, "rows.arrow")) as file:
        pl.concat(frames, how="vertical_relaxed").write_ipc(file, compression="lz4")
    if job.pairs:
        with write_atomically(folder.result(cell.number, "pairs.npz")) as file:
            np.savez(file, allow_pickle=False, **vars(ContradictingPairs.concatenate(pairs)))
    with write_atomically(folder.result(cell.number)) as file:
        np.savez(
            file,
            totals=np.frombuffer(encode_totals(totals), np.uint8),
            allow_pickle=False,
            in_pairs=totals.in_pairs.rows,
            firsts=np.array([(which, *first) for which, first in firsts.items()], np.int64),
            **vars(best),
        )


def encode_totals(totals: Totals) -> bytes:
    """Encode totals, except for the decisions in pairs, which are fewer than their bits."""
    return msgspec.msgpack.encode(replace(totals, in_pairs=PairMarks()), enc_hook=np.ndarray.tolist)


def _select_shown(job: Job, block: CellBlock, ranks: Rows) -> pl.DataFrame:
    """Select the rows that a report may need: of clear pairs, and the first of all."""
    first = block.home & (block.ranks < job.first_rows)
    return block.select(first | np.isin(block.ranks, ranks)).frame


# Judging


@dataclass
class _Part:
    """Collects what is found about decisions of a block that are judged together."""

    span: slice
    comparable: npt.NDArray[np.bool_]
    near: Rows
    """How many similar cases each decision has in all blocks, and how many of them agree."""
    agree: Rows
    own_near: Rows = field(init=False)
    own_agree: Rows = field(init=False)
    """How many of these similar cases lie within the block."""
    owners: list[Rows] = field(default_factory=list)
    witnesses: list[Witnesses] = field(default_factory=list)
    models: tuple[str | None, ...] | None = None
    witness_models: list[str | None] = field(default_factory=list)
    clear: list[Candidates] = field(default_factory=list)
    firsts: Firsts = field(default_factory=dict)

    def add(self, verdicts: Verdicts, chosen: npt.NDArray[np.bool_], ranks: Rows) -> None:
        """Add the witnesses that count, under their ranks."""
        verdicts = verdicts.select_witnesses(chosen)
        witnesses = verdicts.witnesses
        self.owners.append(verdicts.owners)
        self.witnesses.append(
            Witnesses(ranks[witnesses.rows], witnesses.input_distances, witnesses.output_distances)
        )
        if verdicts.comparable is not None:
            self.comparable |= verdicts.comparable
        self.models = verdicts.models
        self.witness_models += verdicts.witness_models or ()

    def add_clear(self, candidates: Candidates, firsts: Firsts, ranks: Rows) -> None:
        self.clear.append(candidates.with_rows(ranks))
        for which, (later, earlier) in firsts.items():
            first = int(ranks[later]), int(ranks[earlier])
            self.firsts[which] = min(first, self.firsts.get(which, first))

    def candidates(self) -> Candidates:
        every = Candidates.concatenate(self.clear)
        return every if len(self.clear) == 1 else every.reclassify(every.classes)

    def verdicts(self, block: CellBlock) -> Verdicts:
        """Return the verdicts of the decisions at home, by rank."""
        home = block.home[self.span]
        owners = np.concatenate(self.owners)
        rows = np.concatenate([one.rows for one in self.witnesses])
        near = np.concatenate([one.input_distances for one in self.witnesses])
        far = np.concatenate([one.output_distances for one in self.witnesses])
        by_owner = np.lexsort((rows, owners))
        counts = np.bincount(owners, minlength=len(home))[home]
        models, witness_models = None, None
        if self.models is not None:
            models = tuple(np.array(self.models, object)[home])
            witness_models = tuple(self.witness_models[i] for i in by_owner.tolist())
        return Verdicts(
            0,
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            Witnesses(rows[by_owner], near[by_owner], far[by_owner]),
            comparable=self.comparable[home],
            near=self.near[home],
            models=models,
            witness_models=witness_models,
            row_numbers=block.ranks[self.span][home],
        )


def _judge_block(
    job: Job,
    block: CellBlock,
    earlier: Sequence[Callable[[], CellBlock]],
    clearest: ClearestPairs,
) -> list[_Part]:
    """Judge the decisions of a block after each of the earlier blocks, which are loaded for it."""
    parts: list[_Part] = []
    for start in range(0, len(block), TOGETHER):
        span = slice(start, min(start + TOGETHER, len(block)))
        nothing = np.zeros(span.stop - span.start, np.int64)
        parts.append(_Part(span, nothing.astype(np.bool_), nothing, nothing))
    # A pair is clearer the more cases agree, in all blocks: count them before pairs are chosen.
    for load in (None, *earlier) if earlier else ():
        for part, verdicts, *_ in _observe_block(job, block, parts, load):
            near, agree = support_of(verdicts)
            if load is None:
                part.own_near, part.own_agree, part.near, part.agree = near, agree, near, agree
            else:
                part.near = part.near + near - part.own_near
                part.agree = part.agree + agree - part.own_agree
    for number, load in enumerate(earlier or [None]):
        for part, verdicts, every, before, sides in _observe_block(job, block, parts, load):
            ranks = every.ranks
            chosen = block.home[part.span][verdicts.owners]
            if number:  # pairs within the block are taken once
                chosen &= verdicts.witnesses.rows < before
            if not earlier:
                part.near, part.agree = support_of(verdicts)
            part.add(verdicts, chosen, ranks)
            support = part.near, part.agree
            clear = find_candidates(verdicts, sides, chosen, clearest.may_enter, support)
            part.add_clear(*clear, ranks)
    return parts


def _observe_block(
    job: Job, block: CellBlock, parts: list[_Part], load: Callable[[], CellBlock] | None
) -> Iterator[tuple[_Part, Verdicts, CellBlock, int, Sides]]:
    """Judge the parts of a block after an earlier block, if one is to be loaded.

    Yield each part, its verdicts, all decisions, how many of them are earlier, and `Sides`.
    """
    loaded = None if load is None else load()
    monitor = Monitor(job.rule, comparable=True, support=True, within=job.options.within)
    every, before = block, 0
    if loaded is not None and len(loaded):
        every, before = CellBlock.concatenate([loaded, block]), len(loaded)
        monitor.load(
            *job.binding.arguments(loaded.table),
            **collect_metadata(job.options, loaded.table, loaded.times),
        )
    sides = Sides(monitor.past, partial(_number_values, job.binding, every, monitor.past))
    for part in parts:
        judged = block[part.span]
        verdicts = monitor.observe_many(
            *job.binding.arguments(judged.table),
            **collect_metadata(job.options, judged.table, judged.times),
            threads=job.threads,
        )
        yield part, verdicts, every, before, sides
    monitor.close()


def _number_values(
    binding: Binding, block: CellBlock, past: Past, rows: Rows
) -> npt.NDArray[np.uint64]:
    """Number the compared values and the output of rows, the same in every cell.

    With features they are taken as they stand in the file; a monitor has codes, which differ from
    cell to cell. (For values so near that their logarithms are equal, a monitor has one number.)
    """
    rule = binding.rule
    if rule.features is None:
        assert binding.output_column is not None
        vectors = to_words(past.points(rows).vectors)
        return block.number_values([binding.output_column], rows, *vectors.T)
    names = [name for name, one in rule.features.items() if one.is_compared]
    return block.number_values([*names, *rule.output_columns], rows)


def read_result(job: Job, cell: int) -> tuple[Totals, tuple[Candidates, Firsts]]:
    """Read the totals of a cell, and its clearest pairs."""
    with np.load(AuditFolder(job.folder).result(cell), allow_pickle=False) as arrays:
        totals = msgspec.msgpack.decode(
            arrays["totals"].tobytes(), type=Totals, dec_hook=lambda _, values: np.array(values)
        )
        totals.in_pairs = PairMarks()
        totals.in_pairs.mark(arrays["in_pairs"])
        names = list(Candidates.__dataclass_fields__)
        candidates = Candidates(*(arrays[name] for name in names))
        firsts = {
            which: (later, earlier)
            for which, later, earlier in arrays["firsts"].reshape(-1, 3).tolist()
        }
    return totals, (candidates, firsts)


WHOLE = 2_000_000
"""How many decisions are loaded together at most, for what looks at all of them."""


@dataclass(frozen=True)
class ReportData:
    """Holds everything that a report is made of."""

    totals: Totals
    worst: tuple[WorstPair, ...]
    places: dict[int, tuple[int, int]]
    """For each row of a pair that is shown: its file, and its place there."""
    together: dict[str, Any]
    """What is computed from all decisions together: arguments of `findings_of`."""
    first: CellBlock
    """The first decisions in order."""
    explained: Explanation
    """What a monitor of such decisions says about itself."""


def combine_cells(
    job: Job, order: RowOrder, cells: Sequence[Cell], units: Sequence[str]
) -> ReportData:
    """Put the results of all cells together.

    units: what a place counts, by file
    """
    totals = Totals(job.rule.epsilon)
    parts = []
    for cell in cells:
        own, clear = read_result(job, cell.number)
        totals.merge(own)
        parts.append(clear)
    clearest = ClearestPairs.merge_parts(POOL * WORST, parts).pairs()
    first, shown = _read_shown(job, cells, {row for one in clearest for row in one.rows})
    worst, explained = _choose_worst(job, clearest, shown, first, units)
    together = _look_at_all(job, order, cells)
    rows = {row for one in worst for row in (one.pair.row or 0, one.pair.witness.row)}
    origins = shown.frame.filter(pl.col(RANK).is_in(sorted(rows))).select(RANK, FILE, PLACE)
    places = {rank: (number, place) for rank, number, place in origins.iter_rows()}
    return ReportData(totals, worst, places, together, first, explained)


def _read_shown(job: Job, cells: Sequence[Cell], in_pairs: set[int]) -> tuple[CellBlock, CellBlock]:
    """Read the first decisions of all, and those that are in pairs, each once."""
    first, shown, folder = [], [], AuditFolder(job.folder)
    ranks = np.array(sorted(in_pairs), np.int64)
    for cell in cells:
        rows = CellBlock(pl.read_ipc(folder.result(cell.number, "rows.arrow")))
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
            if job.options.for_report:
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


def _look_at_all(job: Job, order: RowOrder, cells: Sequence[Cell]) -> dict[str, Any]:
    """Measure the agreement, and compare groups and models; with more than WHOLE, groups alone."""
    together: dict[str, Any] = {"agreement": not_counted("too-many-decisions")}
    share = 1.0
    while order.rows * share > WHOLE:
        share /= 2
    if share < 1.0 and not protected_columns(job.rule):
        return together
    chosen = [part for part in _read_home(job, order, cells, share) if len(part)]
    if not chosen:
        return together
    every = CellBlock.concatenate(chosen).sort_by_rank()
    del chosen
    with load_monitor(job, every) as monitor:
        past, rows = monitor.past, range(len(every))
        groups = groups_among(past, rows)
        together["groups"] = tuple(replace(one, sampled=one.sampled * share) for one in groups)
        if share == 1.0:
            births = BirthDates(job.binding.columns)
            births.add(every.table)
            together["agreement"] = measure_agreement(past, rows)
            together["comparables"] = comparables_by_model(past, rows)
            together["repeated"] = find_repeated(past, rows, births.words)
    return together


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


def audit_partitioned(
    job: Job, workers: TaskRunner | None = None, *, progress: Progress = ignore_progress
) -> PartitionedAudit:
    """Judge all decisions of a job's files; raise BadDecision or BadFile.

    workers   who does the tasks; this process by default
    """
    runner: TaskRunner = workers or InlineRunner()
    folder, numbers = AuditFolder(job.folder), range(len(job.files))

    def run(function: Callable[..., None], tasks: list[Task], step: str) -> None:
        progress(0, len(tasks), step)
        for done, _ in enumerate(runner.run(function, tasks), 1):
            progress(done, len(tasks), step)

    with folder.lock():
        folder.begin(job)
        if not folder.look.exists():
            progress(0, len(job.files), "sampling rows")
            plan_cells(job, folder)
        run(spread_file, [(job, i) for i in numbers], "sorting rows into cells")
        files = [read_json(folder.spread(number), SpreadFile) for number in numbers]
        if sum(one.rows for one in files) == 0:
            raise BadTable(_no_rows(job, files), path=job.files[0])
        find_order(job, folder, files)
        order = read_json(folder.order, RowOrder)
        bad = _collect_refused(job, folder, order, files)
        _check_outputs(job, files)
        cells = cells_of(files)
        run(judge_cell, [(job, cell) for cell in cells], "judging cells")
        progress(0, len(cells), "combining cells")
        finished = combine_cells(job, order, cells, [one.unit for one in files])
    return PartitionedAudit(job.files, tuple(files), order, tuple(cells), bad, finished)


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
