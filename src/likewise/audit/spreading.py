"""One file of decisions spread over the cells: looked at for a sample first, then row by row.

A chunk of the file is loaded into a monitor of its own, which refuses what any monitor would refuse
and says what is compared. Each good row then goes, as it stands in the file, to the pieces of its
home and of the cells to which it is copied.

Invariant: every row of the file is refused and counted, or at home in one cell.
Cost: one chunk, and pieces that wait to be written, BUFFER bytes of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from likewise.audit.cell_cuts import CellSpace, CutTree, Floats, choose_cuts
from likewise.audit.cell_folder import AuditFolder, read_json, write_json
from likewise.audit.favourable import OutputsSeen
from likewise.audit.feeding import BadRowPolicy
from likewise.audit.job import Job, form_to_dict, time_form_from_dict
from likewise.audit.refused_rows import refused_row
from likewise.audit.sides import stable_number
from likewise.errors import BadFile, MissingValue
from likewise.monitor.bad_rows import RejectedRow, isolate_bad_rows
from likewise.monitor.monitor import Monitor
from likewise.rule.feature import Feature
from likewise.runtime.atomic_file import write_atomically
from likewise.sources.binding import Binding, read_models
from likewise.sources.chunk import Chunk, Table
from likewise.sources.file_source import ROWS, DecisionFile
from likewise.sources.time_order import TimeOrderedSource
from likewise.tables.frames import is_missing

SAMPLE = 50_000
"""Rows that cuts are chosen by."""
BUFFER = 1 << 28
"""Bytes of rows that wait to be written."""
CHUNK = ROWS
"""Rows that are read together."""
INDEX, PLACE, TIME, HOME = "likewise:index", "likewise:place", "likewise:time", "likewise:home"


@dataclass(frozen=True)
class LoadedChunk:
    """Good rows, and a monitor that has them."""

    rows: Chunk
    probe: Monitor
    models: list[str | None] | None


class ChunkLoader:
    """Loads chunks into monitors, each into its own."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._key = job.rule.key_column
        self._binding = _without_key(job.binding, self._key)
        self.space = CellSpace(job.rule, job.within)

    def load(self, rows: Chunk) -> LoadedChunk:
        """Rows that a monitor takes; raise BadDecision about the first that it does not."""
        probe = Monitor(self._binding.rule)
        models = None
        if self._job.model_column is not None:
            models = read_models(rows.table, self._job.model_column)
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
    """Keys are unique in the order of time, which a chunk does not know; see ordering.py."""
    rule = binding.rule
    if key is None or rule.features is None:
        return binding
    features = {**rule.features, key: Feature("ignore")}
    return replace(binding, rule=replace(rule, features=features))


class TimedChunks:
    """The chunks of a file with their times, where a column has these, and how they lie."""

    def __init__(self, job: Job, source: DecisionFile, form: Any = None) -> None:
        self._job = job
        self._source = source
        self._in_order: TimeOrderedSource | None = None
        if job.time_column is not None:
            self._in_order = TimeOrderedSource(
                source, job.time_column, reopen=_refuse_reopen, dates=job.dates
            )
            self._in_order.form = form
        self.first: int | None = None
        self.last: int | None = None
        self.rises = self.falls = False

    @property
    def form(self) -> Any:
        return None if self._in_order is None else self._in_order.form

    def chunks(self) -> Iterator[Chunk]:
        binding = self._job.binding
        for chunk in self._source.chunks(binding.types, binding.columns, CHUNK):
            if isinstance(chunk.table, list):
                raise BadFile(
                    f"{self._source.name} is JSON lines; --partition takes Parquet, Arrow, CSV and"
                    " TSV. Convert it, or audit it without --partition.",
                    path=self._source.name,
                )
            yield (
                chunk
                if self._in_order is None
                else self._track_order(self._in_order.add_times(chunk))
            )

    def _track_order(self, chunk: Chunk) -> Chunk:
        assert chunk.times is not None
        times = chunk.times.astype(np.int64)
        if len(times):
            before = times[:1] if self.last is None else np.array([self.last])
            steps = np.diff(times, prepend=before)
            self.rises |= bool((steps > 0).any())
            self.falls |= bool((steps < 0).any())
            self.first = int(times[0]) if self.first is None else self.first
            self.last = int(times[-1])
        return chunk

    def to_dict(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "last": self.last,
            "rises": self.rises,
            "falls": self.falls,
        }


def _refuse_reopen() -> Any:
    raise AssertionError("a spread file is read once")


# The sample


def plan_cells(job: Job, folder: AuditFolder) -> None:
    """Choose the cuts, by rows that are taken evenly from all files."""
    prober, thinned, form = ChunkLoader(job), _Sampler(SAMPLE), None
    reaches = None
    for number in range(len(job.files)):
        source = job.open(number)
        try:
            timed = TimedChunks(job, source, form)
            for chunk in timed.chunks():
                form = form or timed.form
                some = thinned.of(chunk)
                for outcome in isolate_bad_rows(some, prober.load):
                    if isinstance(outcome, RejectedRow):
                        continue
                    thinned.add(prober.points(outcome.answer))
                    reaches = reaches or prober.space.reaches(outcome.answer.probe)
        finally:
            source.close()
    cuts = CutTree()
    if reaches is not None:
        points = thinned.points()
        most = job.cell_rows * len(points) / max(thinned.seen, 1)
        cuts = choose_cuts(points, reaches, most)
    write_json(
        folder.look, {"cuts": cuts.to_list(), "form": form_to_dict(form), "rows": thinned.seen}
    )


class _Sampler:
    """Every so manieth row of a stream whose length is not known: at most twice `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._every = 1
        self._parts: list[Floats] = []
        self._count = 0
        self.seen = 0

    def of(self, chunk: Chunk) -> Chunk:
        """The rows of the next chunk that are looked at."""
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
    """Rows by cell, written when there are many of them."""

    folder: AuditFolder
    number: int
    waiting: dict[int, list[pl.DataFrame]] = field(default_factory=dict)
    written: list[tuple[int, str, int, int]] = field(default_factory=list)
    """Cell, name, rows, and how many of them are at home."""
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
            whole_piece = pl.concat(frames, how="vertical_relaxed")
            path = self.folder.new_piece(cell, self.number)
            with write_atomically(path) as file:
                whole_piece.write_ipc(file, compression="lz4")
            home = int(whole_piece[HOME].sum())
            self.written.append((cell, path.name, whole_piece.height, home))
        self.waiting.clear()
        self._bytes = 0


def spread_file(job: Job, number: int) -> None:
    """Write the rows of one file into the pieces of its cells."""
    folder = AuditFolder(job.folder)
    if folder.spread(number).exists():
        return
    with folder.mark_working():
        folder.remove_leftovers(number)
        told = read_json(folder.look)
        cuts, form = CutTree.from_list(told["cuts"]), time_form_from_dict(told["form"])
        source = job.open(number)
        try:
            _spread_rows(job, folder, number, source, cuts, form)
        finally:
            source.close()


def _spread_rows(
    job: Job, folder: AuditFolder, number: int, source: DecisionFile, cuts: CutTree, form: Any
) -> None:
    prober, bad, pieces = ChunkLoader(job), BadRowPolicy(source, job.skip), _Pieces(folder, number)
    outputs = OutputsSeen(job.rule)
    timed = TimedChunks(job, source, form)
    times: list[npt.NDArray[np.int64]] = []
    keys: list[npt.NDArray[np.int64]] = []
    good = 0
    for chunk in timed.chunks():
        for row in chunk.refused:
            bad.add(row)
        for outcome in isolate_bad_rows(chunk, prober.load):
            if isinstance(outcome, RejectedRow):
                bad.add(refused_row(outcome))
                continue
            loaded = outcome.answer
            frame = _add_own_columns(loaded.rows, good)
            good += frame.height
            pieces.add(frame, cuts, prober.points(loaded))
            outputs.add(loaded.rows.table)
            if loaded.rows.times is not None:
                times.append(frame[TIME].to_numpy())
            if job.rule.key_column is not None:
                keys.append(_key_numbers(frame[job.rule.key_column]))
    pieces.write()
    digest = source.digest()
    if timed.form is not None:
        source.add_remarks(timed.form.remarks)
    with write_atomically(folder.spread(number, "npz")) as file:
        np.savez(file, times=_concatenate(times), keys=_concatenate(keys).reshape(-1, 2))
    write_json(
        folder.spread(number),
        {
            "rows": good,
            "name": source.name,
            "unit": source.unit,
            "sha256": digest.sha256,
            "size": digest.size,
            "remarks": [one.to_dict() for one in source.remarks],
            "refused": bad.rows.to_dict(),
            "pieces": pieces.written,
            "times": timed.to_dict(),
            "outputs": outputs.to_dict(),
        },
    )


def _add_own_columns(rows: Chunk, first: int) -> pl.DataFrame:
    """The rows of a chunk, with where each stands among the good rows of its file, and when."""
    table = rows.table
    assert isinstance(table, pl.DataFrame)
    count = np.arange(first, first + len(rows), dtype=np.int64)
    columns = [pl.Series(INDEX, count), pl.Series(PLACE, rows.places, dtype=pl.Int64)]
    if rows.times is not None:
        moments = rows.times.astype("datetime64[us]").astype(np.int64)
        columns.append(pl.Series(TIME, moments, dtype=pl.Int64))
    return table.with_columns(columns)


def _key_numbers(keys: pl.Series) -> npt.NDArray[np.int64]:
    """Two numbers for each key: that they coincide for different ones does not happen."""
    both = [(stable_number(key), stable_number(("second", key))) for key in keys.to_list()]
    return np.array(both, np.int64).reshape(-1, 2)


def _concatenate(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
