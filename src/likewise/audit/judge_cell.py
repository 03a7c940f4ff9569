"""Judges one cell: its rows in order, and the totals of the verdicts of those at home.

Every row near a row at home is in the cell, so the verdict of a row at home is complete. Copies are
remembered, so that others are compared with them; their own verdicts are dropped. A cell that could
not be cut to twice `cell_rows` is judged in blocks of time, each after each block before it.

Invariant: every pair of rows that are near and differ is found once: where its later row is at
home.
Cost: the rows of a cell and its monitor; in blocks, those of two blocks, and work for each two.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.audit.audit_options import collect_metadata
from likewise.audit.cell_folder import AuditFolder
from likewise.audit.cell_rows import Cell, CellBlock, CellReader
from likewise.audit.job import Job
from likewise.audit.ordering import read_order
from likewise.explaining.past import Past
from likewise.monitor.monitor import Monitor
from likewise.reports.clearest import (
    Candidates,
    ClearestPairs,
    ContradictingPairs,
    Firsts,
    Sides,
    find_candidates,
    pairs_in,
)
from likewise.reports.selected_pairs import POOL
from likewise.reports.stable_numbers import to_words
from likewise.reports.totals import Totals
from likewise.runtime.atomic_file import write_atomically
from likewise.sources.binding import Binding
from likewise.tables.array_types import Rows
from likewise.verdict.verdicts import Verdicts
from likewise.verdict.witnesses import Witnesses

WORST = 20
"""How many pairs a report shows."""
TOGETHER = 1 << 16
"""How many decisions are judged together."""
_KINDS = 10_000  # kinds of groups of which a cell keeps pairs apart


def judge_cell(job: Job, cell: Cell) -> None:
    """Judge a cell and write the result, unless it is stored already."""
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
            totals=np.frombuffer(json.dumps(totals.to_dict()).encode(), np.uint8),
            allow_pickle=False,
            in_pairs=totals.in_pairs.rows,
            firsts=np.array([(which, *first) for which, first in firsts.items()], np.int64),
            **vars(best),
        )


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
            models=models,
            witness_models=witness_models,
            row_numbers=block.ranks[self.span][home],
        )


def _judge_block(
    job: Job, block: CellBlock, earlier: Iterator[CellBlock | None], clearest: ClearestPairs
) -> list[_Part]:
    """Judge the decisions of a block after each of the earlier blocks."""
    parts: list[_Part] = []
    for start in range(0, len(block), TOGETHER):
        span = slice(start, min(start + TOGETHER, len(block)))
        parts.append(_Part(span, np.zeros(span.stop - span.start, np.bool_)))
    own = True  # pairs within the block are taken once
    for loaded in earlier:
        monitor = Monitor(job.rule, comparable=True, within=job.options.within)
        every, before = block, 0
        if loaded is not None and len(loaded):
            every, before = CellBlock.concatenate([loaded, block]), len(loaded)
            monitor.load(
                *job.binding.arguments(loaded.table),
                **collect_metadata(job.options, loaded.table, loaded.times),
            )
        ranks = every.ranks
        sides = Sides(monitor.past, partial(_number_values, job.binding, every, monitor.past))
        for part in parts:
            judged = block[part.span]
            verdicts = monitor.observe_many(
                *job.binding.arguments(judged.table),
                **collect_metadata(job.options, judged.table, judged.times),
                threads=job.threads,
            )
            chosen = judged.home[verdicts.owners]
            if not own:
                chosen &= verdicts.witnesses.rows < before
            part.add(verdicts, chosen, ranks)
            clear = find_candidates(verdicts, sides, chosen, clearest.may_enter)
            part.add_clear(*clear, ranks)
        own = False
        monitor.close()
    return parts


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
        fields = json.loads(arrays["totals"].tobytes())
        totals = Totals.from_dict(job.rule.epsilon, fields, arrays["in_pairs"])
        names = list(Candidates.__dataclass_fields__)
        candidates = Candidates(*(arrays[name] for name in names))
        firsts = {
            which: (later, earlier)
            for which, later, earlier in arrays["firsts"].reshape(-1, 3).tolist()
        }
    return totals, (candidates, firsts)


def read_shown_rows(job: Job, cell: int) -> CellBlock:
    """Read the rows of a cell that a report may need."""
    return CellBlock(pl.read_ipc(AuditFolder(job.folder).result(cell, "rows.arrow")))
