"""One cell: its rows judged in order, and what the verdicts of those at home come to.

A row that is near a row at home is in the cell, too, so the verdict of a row at home is whole, and
is made nowhere else. Copies are remembered, so that others find them, and what is found about them
is left aside.

A cell that holds more than twice the rows that were wanted, since it could not be cut, is judged in
blocks of time: each block after each block before it is loaded, and what was found is put together.

Invariant: every pair of rows that are near and differ is found once: where its later row is at
home.
Cost: the rows of a cell and its monitor; in blocks, those of two blocks, and work for each two.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.audit.audit_options import collect_metadata
from likewise.audit.cell_folder import AuditFolder
from likewise.audit.cell_rows import Cell, CellBlock, CellReader
from likewise.audit.job import Job
from likewise.audit.ordering import read_order
from likewise.audit.sides import StableSides
from likewise.monitor.monitor import Monitor
from likewise.reports.clearest import Candidates, ClearestPairs, Firsts, candidates_of
from likewise.reports.judged_history import ContradictingPairs
from likewise.reports.selected_pairs import POOL
from likewise.reports.totals import Totals
from likewise.runtime.atomic_file import write_atomically
from likewise.tables.rows import Rows
from likewise.verdict.verdicts import Verdicts
from likewise.verdict.witnesses import Witnesses

WORST = 20
"""Pairs that a report shows."""
TOGETHER = 1 << 16
"""Decisions that are judged together."""
_KINDS = 10_000  # kinds of groups of which a cell keeps pairs apart


def judge_cell(job: Job, cell: Cell) -> None:
    """Judge a cell, and write what it came to, unless that is there."""
    folder = AuditFolder(job.folder)
    if folder.result(cell.number).exists():
        return
    with folder.mark_working():
        _judge(job, cell, folder)


def _judge(job: Job, cell: Cell, folder: AuditFolder) -> None:
    reader = CellReader(job, read_order(folder))
    totals = Totals(job.rule.epsilon)
    clearest = ClearestPairs(POOL * WORST, _KINDS)
    pairs: list[ContradictingPairs] = []
    bounds = reader.blocks(cell, 2 * job.cell_rows)
    if len(bounds) > 1:
        bounds = reader.blocks(cell, job.cell_rows)
    block = None
    for i, (low, high) in enumerate(bounds):
        block = reader.block(cell, low, high)
        earlier = (reader.block(cell, *one) for one in bounds[:i]) if i else iter([None])
        for part in _judge_block(job, block, earlier, clearest):
            verdicts = part.verdicts(block)
            times = None if block.times is None else block.times[part.span][block.home[part.span]]
            totals.add(verdicts, times, placed=True)
            clearest.add(part.candidates(), part.firsts)
            if job.pairs:
                pairs.append(ContradictingPairs.of(verdicts))
    assert block is not None
    wanted = clearest.export_pairs()
    shown = np.union1d(wanted[0].later, wanted[0].earlier)
    if len(bounds) == 1:
        frames = [_select_shown(job, block, shown)]
    else:
        frames = [_select_shown(job, reader.block(cell, *one), shown) for one in bounds]
    with write_atomically(folder.result(cell.number, "rows.arrow")) as file:
        pl.concat(frames, how="vertical_relaxed").write_ipc(file, compression="lz4")
    if job.pairs:
        with write_atomically(folder.result(cell.number, "pairs.npz")) as file:
            np.savez(file, allow_pickle=False, **vars(ContradictingPairs.concatenate(pairs)))
    _write(folder, cell.number, totals, wanted)


def _select_shown(job: Job, block: CellBlock, ranks: Rows) -> pl.DataFrame:
    """The rows that a report may need: of clear pairs, and the first of all."""
    first = block.home & (block.ranks < job.first_rows)
    return block.select(first | np.isin(block.ranks, ranks)).frame


# Judging


@dataclass
class _Part:
    """Decisions of a block that are judged together, and what was found so far."""

    span: slice
    comparable: npt.NDArray[np.bool_]
    owners: list[Rows] = field(default_factory=list)
    witnesses: list[Witnesses] = field(default_factory=list)
    models: tuple[str | None, ...] | None = None
    witness_models: list[str | None] = field(default_factory=list)
    clear: list[Candidates] = field(default_factory=list)
    firsts: Firsts = field(default_factory=dict)

    def add(self, verdicts: Verdicts, chosen: npt.NDArray[np.bool_], ranks: Rows) -> None:
        """Witnesses that count, under their ranks."""
        some = verdicts.select_witnesses(chosen)
        found = some.witnesses
        self.owners.append(some.owners)
        self.witnesses.append(
            Witnesses(ranks[found.rows], found.input_distances, found.output_distances)
        )
        if some.comparable is not None:
            self.comparable |= some.comparable
        self.models = some.models
        self.witness_models += some.witness_models or ()

    def add_clear(self, candidates: Candidates, firsts: Firsts, ranks: Rows) -> None:
        self.clear.append(candidates.with_rows(ranks))
        for which, (later, earlier) in firsts.items():
            first = int(ranks[later]), int(ranks[earlier])
            self.firsts[which] = min(first, self.firsts.get(which, first))

    def candidates(self) -> Candidates:
        every = Candidates.concatenate(self.clear)
        return every if len(self.clear) == 1 else every.reclassify(every.classes)

    def verdicts(self, block: CellBlock) -> Verdicts:
        """Those of the decisions at home, by rank."""
        home = block.home[self.span]
        owners = np.concatenate(self.owners)
        rows = np.concatenate([one.rows for one in self.witnesses])
        near = np.concatenate([one.input_distances for one in self.witnesses])
        far = np.concatenate([one.output_distances for one in self.witnesses])
        by_owner = np.lexsort((rows, owners))
        counts = np.bincount(owners, minlength=len(home))[home]
        models = self.models
        return Verdicts(
            0,
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            Witnesses(rows[by_owner], near[by_owner], far[by_owner]),
            comparable=self.comparable[home],
            models=None if models is None else tuple(np.array(models, object)[home]),
            witness_models=None
            if models is None
            else tuple(self.witness_models[i] for i in by_owner.tolist()),
            row_numbers=block.ranks[self.span][home],
        )


def _judge_block(
    job: Job, block: CellBlock, earlier: Iterator[CellBlock | None], clearest: ClearestPairs
) -> list[_Part]:
    """The decisions of a block, judged after each of the earlier blocks."""
    parts: list[_Part] = []
    for start in range(0, len(block), TOGETHER):
        span = slice(start, min(start + TOGETHER, len(block)))
        parts.append(_Part(span, np.zeros(span.stop - span.start, np.bool_)))
    own = True  # what is found within the block is taken once
    for loaded in earlier:
        monitor = Monitor(job.rule, comparable=True, within=job.within)
        whole_block = block if loaded is None else CellBlock.concatenate([loaded, block])
        before = 0
        if loaded is not None and len(loaded):
            before = len(loaded)
            monitor.load(*job.binding.arguments(loaded.table), **collect_metadata(job, loaded))
        ranks = whole_block.ranks
        sides = StableSides(job.binding, whole_block.frame, monitor.past)
        for part in parts:
            some = block[part.span]
            verdicts = monitor.observe_many(
                *job.binding.arguments(some.table),
                **collect_metadata(job, some),
                threads=job.threads,
            )
            chosen = some.home[verdicts.owners]
            if not own:
                chosen &= verdicts.witnesses.rows < before
            part.add(verdicts, chosen, ranks)
            clear = candidates_of(verdicts, sides, chosen, clearest.may_enter)
            part.add_clear(*clear, ranks)
        own = False
        monitor.close()
    return parts


# What a cell leaves


def _write(
    folder: AuditFolder, cell: int, totals: Totals, clear: tuple[Candidates, Firsts]
) -> None:
    candidates, firsts = clear
    told = np.frombuffer(json.dumps(totals.to_dict()).encode(), np.uint8)
    with write_atomically(folder.result(cell)) as file:
        np.savez(
            file,
            totals=told,
            allow_pickle=False,
            in_pairs=totals.in_pairs.rows,
            firsts=np.array([(which, *first) for which, first in firsts.items()], np.int64),
            **vars(candidates),
        )


def read_result(job: Job, cell: int) -> tuple[Totals, tuple[Candidates, Firsts]]:
    """What a cell came to."""
    with np.load(AuditFolder(job.folder).result(cell), allow_pickle=False) as arrays:
        told = json.loads(arrays["totals"].tobytes())
        totals = Totals.from_dict(job.rule.epsilon, told, arrays["in_pairs"])
        names = list(Candidates.__dataclass_fields__)
        candidates = Candidates(*(arrays[name] for name in names))
        firsts = {
            which: (later, earlier)
            for which, later, earlier in arrays["firsts"].reshape(-1, 3).tolist()
        }
    return totals, (candidates, firsts)


def shown_rows(job: Job, cell: int) -> CellBlock:
    """The rows of a cell that a report may need."""
    return CellBlock(pl.read_ipc(AuditFolder(job.folder).result(cell, "rows.arrow")))
