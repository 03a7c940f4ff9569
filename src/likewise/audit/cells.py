"""A partitioned audit from beginning to end: look, spread, order, judge, put together.

    look     a sample of the rows says where space is cut                 spreading.py, cuts.py
    spread   each file's rows go to the cells that they are in            spreading.py
    order    every row gets its rank: by time, then by file and line      ordering.py
    judge    each cell is judged, the largest first                       judging.py
    finish   what the cells came to is put together                       finishing.py

Invariant: the verdicts are those that one monitor would give, told all rows in order. A run that
was killed goes on with the first step, file or cell that is not done.
Cost: the files once more on disk, and what is copied; in memory, one cell for each worker.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from likewise.audit.cell_rows import Cell, cells_of
from likewise.audit.feeding import refusal
from likewise.audit.finishing import Finished, finish
from likewise.audit.folder import Folder, read_json
from likewise.audit.job import Job, digest_of, name_of
from likewise.audit.judging import judge
from likewise.audit.ordering import RowOrder, order, read_order
from likewise.audit.spreading import INDEX, PLACE, look, spread
from likewise.audit.tasks import Here, Task, Workers
from likewise.intake.favourable import OutputsSeen
from likewise.intake.refused_rows import RefusedRows
from likewise.sources.chunk import Refused
from likewise.sources.remarks import Remark
from likewise.values.errors import BadTable, RepeatedKey

FileTold = dict[str, Any]
"""What the record of a spread file says."""
Told = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and of how much."""


@dataclass(frozen=True)
class FileRead:
    """A file, once it is spread."""

    name: str
    unit: str
    sha256: str
    size: int
    rows: int
    remarks: tuple[Remark, ...]


@dataclass(frozen=True)
class Partitioned:
    """What came of an audit."""

    files: tuple[FileRead, ...]
    order: RowOrder
    cells: tuple[Cell, ...]
    bad: RefusedRows
    finished: Finished

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


def _nothing(what: str, done: int, total: int) -> None:
    pass


def audit(
    job: Job, workers: Workers | None = None, *, told: Told = _nothing, ignored: bool = False
) -> Partitioned:
    """Judge all decisions of a job's files; raise BadDecision or BadFile.

    workers  who does the tasks; this process, unless given
    told     is told how far it is
    ignored  whether pairs say where they stood, and show columns that the rule ignores
    """
    doing: Workers = workers or Here()
    folder = Folder(job.folder)
    with folder.alone():
        folder.begin(job)
        if not folder.look.exists():
            told("looking at a sample", 0, len(job.files))
            look(job, folder)
        _do(doing, "spreading files", spread, [(job, i) for i in range(len(job.files))], told)
        spread_files = [read_json(folder.spread(number)) for number in range(len(job.files))]
        if sum(one["rows"] for one in spread_files) == 0:
            raise BadTable(_no_rows(job, spread_files), path=job.files[0])
        order(job, folder)
        ranked = read_order(folder)
        bad = _refused(job, folder, spread_files)
        _check_outputs(job, spread_files)
        cells = cells_of([one["pieces"] for one in spread_files])
        _do(doing, "judging cells", judge, [(job, cell) for cell in cells], told)
        told("putting cells together", 0, len(cells))
        units = [one["unit"] for one in spread_files]
        finished = finish(job, ranked, cells, units=units, ignored=ignored)
    files = tuple(
        FileRead(
            name,
            one["unit"],
            one["sha256"],
            one["size"],
            one["rows"],
            tuple(Remark(**remark) for remark in one["remarks"]),
        )
        for name, one in zip(job.files, spread_files, strict=True)
    )
    return Partitioned(files, ranked, tuple(cells), bad, finished)


def _do(
    workers: Workers, what: str, function: Callable[..., None], tasks: list[Task], told: Told
) -> None:
    told(what, 0, len(tasks))
    for done, _ in enumerate(workers.run(function, tasks), 1):
        told(what, done, len(tasks))


def _no_rows(job: Job, files: list[FileTold]) -> str:
    many = sum(one["refused"]["count"] for one in files)
    if many == 0:
        return f"{job.files[0]}: there are no rows; expected decisions."
    first = next(one for one in files if one["refused"]["count"])
    place, why = first["refused"]["first"][0]
    return (
        f"none of the {many:,} rows can be used. The first, {first['name']}, {first['unit']}"
        f" {place:,}: {why}"
    )


def _check_outputs(job: Job, files: list[FileTold]) -> None:
    """Raise BadDecision if no decision has the output that the rule calls favourable."""
    seen = OutputsSeen(job.rule)
    for one in files:
        seen.merge(one["outputs"])
    seen.check(files[0]["name"] if len(files) == 1 else f"{len(files):,} files")


def _refused(job: Job, folder: Folder, files: list[FileTold]) -> RefusedRows:
    """Rows that could not be read or judged, and rows whose key another one has."""
    bad = RefusedRows()
    for name, one in zip(job.files, files, strict=True):
        own = RefusedRows.of_dict(one["refused"])
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
    row = Refused(place, why, RepeatedKey.code)
    if not job.skip:
        raise refusal(files[at]["name"], files[at]["unit"], row)
    bad.add(row, len(numbers))
    return bad


def _place(folder: Folder, file: FileTold, index: int) -> int:
    """Where a row stood in its file."""
    for cell, name, _, _ in file["pieces"]:
        piece = pl.read_ipc(folder.cell(cell) / name, columns=[INDEX, PLACE])
        found = piece.filter(pl.col(INDEX) == index)
        if found.height:
            return int(found[PLACE][0])
    raise AssertionError("a row is in no piece")
