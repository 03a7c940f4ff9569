"""Spreads files of decisions over the cells: first a sample, to choose the cuts; then every row.

A chunk of a file is loaded into a monitor of its own, which refuses what any monitor would refuse
and knows what is compared. Each good row is then written, as it stands in the file, to the pieces
of its home and of the cells to which it is copied.

Invariant: every row of a file is refused and counted, or at home in one cell.
Cost: one chunk in memory, and BUFFER bytes of pieces that wait to be written.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from likewise.auditing.cell_cuts import CellSpace, CutTree, choose_cuts
from likewise.auditing.cell_folder import AuditFolder, read_json, write_json
from likewise.auditing.favourable import OutputsSeen
from likewise.auditing.feeding import BadRowPolicy, RefusedRows
from likewise.auditing.job import Job
from likewise.errors import BadFile, MissingValue
from likewise.monitor.batching import RejectedRow, isolate_bad_rows
from likewise.monitor.monitor import Monitor
from likewise.reports.totals import stable_number
from likewise.rule.feature import Feature
from likewise.runtime.private_files import write_atomically
from likewise.sources.binding import Binding, read_models
from likewise.sources.file_source import ROWS, DecisionFile
from likewise.sources.protocol import Chunk, Table
from likewise.sources.remarks import Remark
from likewise.sources.time_columns import TimeForm, TimeOrderedSource
from likewise.tables.array_types import Floats, Rows
from likewise.tables.frames import is_missing

SAMPLE = 50_000
"""How many rows cuts are chosen by."""
BUFFER = 1 << 28
"""How many bytes of rows may wait to be written."""
CHUNK = ROWS
"""How many rows are read together."""
INDEX, PLACE, TIME, HOME = "likewise:index", "likewise:place", "likewise:time", "likewise:home"


@dataclass
class TimeTrend:
    """Says how the times of a file follow each other."""

    first: int | None = None
    last: int | None = None
    rises: bool = False
    falls: bool = False

    def add(self, moments: Any) -> None:
        """Add the times of the next rows."""
        times = moments.astype(np.int64)
        if len(times):
            before = times[:1] if self.last is None else np.array([self.last])
            steps = np.diff(times, prepend=before)
            self.rises |= bool((steps > 0).any())
            self.falls |= bool((steps < 0).any())
            self.first = int(times[0]) if self.first is None else self.first
            self.last = int(times[-1])


@dataclass(frozen=True)
class SpreadFile:
    """Describes a file whose rows are in the cells; stored once they all are."""

    name: str
    """What messages call the file."""
    unit: str
    """What a place counts: lines or rows."""
    sha256: str
    size: int
    """In bytes."""
    rows: int
    """How many good rows it has."""
    remarks: tuple[Remark, ...]
    refused: RefusedRows
    pieces: list[tuple[int, str, int, int]]
    """Cell, name, rows, and how many of them are at home."""
    times: TimeTrend
    outputs: dict[str, Any]
    """Which outputs were seen (favourable.py)."""


@dataclass(frozen=True)
class CellPlan:
    """Says where space is cut, and how times are written."""

    cuts: CutTree
    form: TimeForm | None


@dataclass(frozen=True)
class LoadedChunk:
    """Holds good rows, and a monitor that has loaded them."""

    rows: Chunk
    probe: Monitor
    models: list[str | None] | None


class ChunkLoader:
    """Loads each chunk into a monitor of its own."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._key = job.rule.key_column
        self._binding = _without_key(job.binding, self._key)
        self.space = CellSpace(job.rule, job.options.within)

    def load(self, rows: Chunk) -> LoadedChunk:
        """Load rows; raise BadDecision about the first that a monitor refuses."""
        probe = Monitor(self._binding.rule)
        models, model_column = None, self._job.options.model_column
        if model_column is not None:
            models = read_models(rows.table, model_column)
        probe.load(*self._binding.arguments(rows.table), models=models)
        if self._key is not None:
            self._check_keys(rows.table)
        return LoadedChunk(rows, probe, models)

    def _check_keys(self, table: Table) -> None:
        assert not isinstance(table, list) and self._key is not None
        for i, key in enumerate(table[self._key]):
            if is_missing(key):
                raise MissingValue(
                    f"the key {self._key!r} is missing.",
                    place=i,
                    advice="Every decision needs one, or leave the key out of the rule.",
                )

    def points(self, loaded: LoadedChunk) -> Floats:
        return self.space.points(loaded.probe, loaded.rows.times, loaded.models)


def _without_key(binding: Binding, key: str | None) -> Binding:
    """Ignore the key: whether it is unique, only the order of all rows tells (ordering.py)."""
    rule = binding.rule
    if key is None or rule.features is None:
        return binding
    features = {**rule.features, key: Feature("ignore")}
    return replace(binding, rule=replace(rule, features=features))


class TimedChunks:
    """Reads the chunks of a file with their times, if a column has these, and notes their order."""

    def __init__(self, job: Job, source: DecisionFile, form: TimeForm | None = None) -> None:
        self._binding = job.binding
        self._source = source
        self._in_order: TimeOrderedSource | None = None
        column = job.options.time_column
        if column is not None:
            self._in_order = TimeOrderedSource(
                source, column, reopen=_refuse_reopen, dates=job.options.dates
            )
            self._in_order.form = form
        self.trend = TimeTrend()

    @property
    def form(self) -> TimeForm | None:
        return None if self._in_order is None else self._in_order.form

    def chunks(self) -> Iterator[Chunk]:
        for chunk in self._source.chunks(self._binding.types, self._binding.columns, CHUNK):
            if isinstance(chunk.table, list):
                raise BadFile(
                    f"{self._source.name} is JSON lines; --partition takes Parquet, Arrow, CSV and"
                    " TSV. Convert it, or audit it without --partition.",
                    path=self._source.name,
                )
            if self._in_order is None:
                yield chunk
            else:
                timed = self._in_order.add_times(chunk)
                self.trend.add(timed.times)
                yield timed


def _refuse_reopen() -> Any:
    raise AssertionError("a spread file is read once")


# The sample


def plan_cells(job: Job, folder: AuditFolder) -> None:
    """Choose the cuts, by rows that are taken evenly from all files."""
    loader, sampler, form = ChunkLoader(job), _Sampler(SAMPLE), None
    reaches = None
    for number in range(len(job.files)):
        with closing(job.open(number)) as source:
            timed = TimedChunks(job, source, form)
            for chunk in timed.chunks():
                form = form or timed.form
                for outcome in isolate_bad_rows(sampler.take(chunk), loader.load):
                    if isinstance(outcome, RejectedRow):
                        continue
                    sampler.add(loader.points(outcome.answer))
                    reaches = reaches or loader.space.reaches(outcome.answer.probe)
    cuts = CutTree()
    if reaches is not None:
        points = sampler.points()
        most = job.cell_rows * len(points) / max(sampler.seen, 1)
        cuts = choose_cuts(points, reaches, most)
    write_json(folder.look, CellPlan(cuts, form))


class _Sampler:
    """Takes every n-th row of a stream whose length is not known: at most twice `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._every = 1
        self._parts: list[Floats] = []
        self._count = 0
        self.seen = 0

    def take(self, chunk: Chunk) -> Chunk:
        """Return the rows of the next chunk that are looked at."""
        skipped = -self.seen % self._every
        self.seen += len(chunk)
        return chunk[slice(skipped, None, self._every)]

    def add(self, points: Floats) -> None:
        self._parts.append(points)
        self._count += len(points)
        while self._count > 2 * self._most:
            halved = np.concatenate(self._parts)[::2]
            self._parts, self._count = [halved], len(halved)
            self._every *= 2

    def points(self) -> Floats:
        return np.concatenate(self._parts)


# Spreading


@dataclass
class _Pieces:
    """Collects rows by cell, and writes them when there are many."""

    folder: AuditFolder
    number: int
    waiting: dict[int, list[pl.DataFrame]] = field(default_factory=dict)
    written: list[tuple[int, str, int, int]] = field(default_factory=list)
    """Like `SpreadFile.pieces`."""
    _bytes: int = 0

    def add(self, frame: pl.DataFrame, cuts: CutTree, points: Floats) -> None:
        for cell, rows, home in cuts.cells_of(points):
            part = frame[rows].with_columns(pl.Series(HOME, home))
            self.waiting.setdefault(cell, []).append(part)
            self._bytes += int(part.estimated_size())
        if self._bytes > BUFFER:
            self.write()

    def write(self) -> None:
        for cell, frames in self.waiting.items():
            piece = pl.concat(frames, how="vertical_relaxed")
            path = self.folder.new_piece(cell, self.number)
            with write_atomically(path) as file:
                piece.write_ipc(file, compression="lz4")
            self.written.append((cell, path.name, piece.height, int(piece[HOME].sum())))
        self.waiting.clear()
        self._bytes = 0


def spread_file(job: Job, number: int) -> None:
    """Write the rows of one file into the pieces of its cells."""
    folder = AuditFolder(job.folder)
    if folder.spread(number).exists():
        return
    with folder.mark_working():
        folder.remove_leftovers(number)
        plan = read_json(folder.look, CellPlan)
        with closing(job.open(number)) as source:
            _spread_rows(job, folder, number, source, plan)


def _spread_rows(
    job: Job, folder: AuditFolder, number: int, source: DecisionFile, plan: CellPlan
) -> None:
    timed = TimedChunks(job, source, plan.form)
    loader, pieces = ChunkLoader(job), _Pieces(folder, number)
    bad, outputs = BadRowPolicy(source, job.options.skip), OutputsSeen(job.rule)
    times: list[Rows] = []
    keys: list[Rows] = []
    good = 0
    for chunk in timed.chunks():
        for row in chunk.refused:
            bad.add(row)
        for outcome in isolate_bad_rows(chunk, loader.load):
            if isinstance(outcome, RejectedRow):
                bad.add_rejected(outcome)
                continue
            loaded = outcome.answer
            frame = _add_own_columns(loaded.rows, good)
            good += frame.height
            pieces.add(frame, plan.cuts, loader.points(loaded))
            outputs.add(loaded.rows.table)
            if loaded.rows.times is not None:
                times.append(frame[TIME].to_numpy())
            if job.rule.key_column is not None:
                keys.append(_key_numbers(frame[job.rule.key_column]))
    pieces.write()
    digest = source.digest()
    assert digest is not None  # it is a file
    if timed.form is not None:
        source.add_remarks(timed.form.remarks)
    with write_atomically(folder.spread(number, "npz")) as file:
        np.savez(file, times=_concatenate(times), keys=_concatenate(keys).reshape(-1, 2))
    spread = SpreadFile(
        name=source.name,
        unit=source.unit,
        sha256=digest.sha256,
        size=digest.size,
        rows=good,
        remarks=tuple(source.remarks),
        refused=bad.rows,
        pieces=pieces.written,
        times=timed.trend,
        outputs=outputs.to_dict(),
    )
    write_json(folder.spread(number), spread)


def _add_own_columns(rows: Chunk, first: int) -> pl.DataFrame:
    """Add to each row its number among the good rows, its place in the file, and its time."""
    table = rows.table
    assert isinstance(table, pl.DataFrame)
    count = np.arange(first, first + len(rows), dtype=np.int64)
    columns = [pl.Series(INDEX, count), pl.Series(PLACE, rows.places, dtype=pl.Int64)]
    if rows.times is not None:
        moments = rows.times.astype("datetime64[us]").astype(np.int64)
        columns.append(pl.Series(TIME, moments, dtype=pl.Int64))
    return table.with_columns(columns)


def _key_numbers(keys: pl.Series) -> Rows:
    """Return two numbers for each key: both together are never those of another key."""
    both = [(stable_number(key), stable_number(("second", key))) for key in keys.to_list()]
    return np.array(both, np.int64).reshape(-1, 2)


def _concatenate(parts: list[Rows]) -> Rows:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
