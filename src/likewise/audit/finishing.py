"""What the cells came to, put together: totals, the pairs to look at, and who got less.

Totals are added up, and the clearest pairs of all cells are the clearest of all (totals.py and
clearest.py of reports/). Two things look at all decisions together: groups, whose people are
shuffled within neighbourhoods that no cell knows whole, and like cases by model. They are computed
from all decisions, in memory, where there are at most WHOLE of them. Where there are more, groups
are compared among a part of the distinct inputs, chosen by a checksum of their values, and the
share is told (`sampled`); like cases by model are then not told.

Cost: a result of a cell at a time, the rows that a report shows, and WHOLE decisions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.audit.cell_rows import FILE, RANK, Block, Cell, CellReader
from likewise.audit.job import Job
from likewise.audit.judging import WORST, read_result, shown_rows
from likewise.audit.options import ignored_columns, settings_of
from likewise.audit.ordering import RowOrder
from likewise.audit.sides import column_numbers, mixed
from likewise.audit.spreading import PLACE, TIME
from likewise.explaining.comparing import protected_columns
from likewise.explaining.pair_card import Whereabouts
from likewise.monitors.monitor import Monitor
from likewise.reports.clearest import ClearestPairs, ClearPair
from likewise.reports.findings import groups_among, likes_among
from likewise.reports.totals import Totals
from likewise.reports.worst import POOL, WorstPair, choose_pairs, kinds_of, side_by_side
from likewise.values.explanation import Explanation
from likewise.values.groups import Groups
from likewise.values.model_counts import Likes
from likewise.values.times import readable_time

WHOLE = 2_000_000
"""Decisions that are looked at together, at most."""


@dataclass(frozen=True)
class Finished:
    """Everything that a report is made of."""

    totals: Totals
    worst: tuple[WorstPair, ...]
    places: dict[int, tuple[int, int]]
    """By row of pairs that are shown: its file, and its place there."""
    groups: tuple[Groups, ...]
    likes: Likes | None
    first: Block
    """The first decisions in order."""
    explained: Explanation
    """What a monitor of such decisions says of itself."""


def finish(
    job: Job, order: RowOrder, cells: Sequence[Cell], *, units: Sequence[str], ignored: bool
) -> Finished:
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
    clearest = ClearestPairs.merged(POOL * WORST, parts).pairs()
    wanted = {row for one in clearest for row in (one.later, one.earlier)}
    first, shown = _shown(job, cells, wanted)
    worst, explained = _worst(job, clearest, shown, first, units, ignored)
    groups, likes = _together(job, order, cells, totals)
    rows = {row for one in worst for row in (one.pair.row or 0, one.pair.witness.row)}
    told = shown.frame.filter(pl.col(RANK).is_in(sorted(rows))).select(RANK, FILE, PLACE)
    places = {rank: (number, place) for rank, number, place in told.iter_rows()}
    return Finished(totals, worst, places, groups, likes, first, explained)


def _shown(job: Job, cells: Sequence[Cell], wanted: set[int]) -> tuple[Block, Block]:
    """The first decisions of all, and those of the pairs that are wanted, each once."""
    first, shown = [], []
    ranks = np.array(sorted(wanted), np.int64)
    for cell in cells:
        rows = shown_rows(job, cell.number)
        first.append(rows.some(rows.home & (rows.ranks < job.first_rows)))
        shown.append(rows.some(np.isin(rows.ranks, ranks)))
    once = Block.joined(shown).frame.unique(RANK, keep="any")
    return Block.joined(first).sorted(), Block(once).sorted()


def _worst(
    job: Job,
    clearest: Sequence[ClearPair],
    shown: Block,
    first: Block,
    units: Sequence[str],
    ignored: bool,
) -> tuple[tuple[WorstPair, ...], Explanation]:
    """The pairs to look at; and what a monitor of such rows says of itself."""
    with loaded(job, shown if len(shown) else first[:1]) as monitor:
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


def _whereabouts(job: Job, shown: Block, row: int, units: Sequence[str]) -> Whereabouts:
    values = shown.frame.row(row, named=True)
    time = None
    if TIME in values:
        time = readable_time(np.datetime64(values[TIME], "us"))
    return Whereabouts(
        values[PLACE],
        units[values[FILE]],
        time,
        tuple((name, values[name]) for name in ignored_columns(job.binding, job)),
        job.files[values[FILE]] if len(job.files) > 1 else None,
    )


# What looks at all decisions together


def _together(
    job: Job, order: RowOrder, cells: Sequence[Cell], totals: Totals
) -> tuple[tuple[Groups, ...], Likes | None]:
    by_model = job.model_column is not None and job.rule.compare == "all"
    if not protected_columns(job.rule) and not by_model:
        return (), None
    share = 1.0
    while order.rows * share > WHOLE:
        share /= 2
    chosen = [part for part in _at_home(job, order, cells, share) if len(part)]
    if not chosen:
        return (), None
    every = Block.joined(chosen).sorted()
    del chosen
    with loaded(job, every) as monitor:
        rows = range(len(every))
        groups = groups_among(monitor.past, rows)
        likes = None
        if share == 1.0 and totals.comparable is not None:
            likes = likes_among(monitor.past, rows)
    return tuple(replace(one, sampled=one.sampled * share) for one in groups), likes


def _at_home(job: Job, order: RowOrder, cells: Sequence[Cell], share: float) -> Iterator[Block]:
    """The decisions at home in each cell; of distinct inputs that share, where it is not 1."""
    reader = CellReader(job, order)
    measured = [name for name, one in (job.rule.features or {}).items() if one.measured]
    for cell in cells:
        for low, high in reader.blocks(cell, 2 * job.cell_rows):
            block = reader.block(cell, low, high)
            chosen: npt.NDArray[np.bool_] = block.home
            if share < 1.0:
                names = measured or list(job.binding.inputs)
                numbers = mixed([column_numbers(block.frame[one]) for one in names], len(block))
                chosen = chosen & (numbers < np.uint64(share * 2.0**64))
            yield block.some(chosen)


def loaded(job: Job, block: Block) -> Monitor:
    """A monitor that remembers these decisions."""
    monitor = Monitor(job.rule, within=job.within)
    monitor.load(*job.binding.arguments(block.table), **settings_of(job, block))
    return monitor
