"""Files larger than memory, in cells: the pairs of one monitor, in how much time and memory?

Rows are normal in twelve columns, so almost nothing is near anything; COPIED of them are copies of
earlier rows, moved by less than epsilon, with labels of their own. So pairs grow with rows, not
with their square, and many of them lie in different files.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks import oracle
from benchmarks.harness import Answer, Row, Setting, benchmark
from benchmarks.processes import scratch

Array = NDArray[Any]
PIECE = 500_000  # rows in a file, at most
COLUMNS = 12
EPSILON = 0.05
COPIED = 0.02
SAME = ("rows", "flagged", "pairs", "comparable", "check")


@benchmark("Files in cells")
def partition(setting: Setting) -> Answer:
    """Have cells the pairs of one monitor, and what do they cost?

    Parquet files of twelve columns, ε = 0.05, linf. Copied: rows in a second cell or more. mb:
    the peak of this process and twice its largest child.
    """
    count = setting.rows(2_000_000, least=20_000)
    table = _measure(setting, count, (1, 2), cell_rows=max(1_000, count // 10))
    if setting.huge:
        table += _measure(setting, 20_000_000, (2,), cell_rows=1_000_000)
        table += _measure(setting, 100_000_000, (2,), cell_rows=1_000_000, beside_one=False)
    return Answer(
        {"partition": table},
        [f"{table[0]['pairs']:,} pairs of {count:,} rows, the same in cells as in one monitor"],
    )


def _measure(
    setting: Setting, count: int, workers: tuple[int, ...], cell_rows: int, beside_one: bool = True
) -> list[Row]:
    """Audit as many rows with each number of workers, after one monitor if asked."""
    found: list[tuple[str, Row]] = []
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        write(folder, count)
        if beside_one:
            found.append(("one monitor", setting.alone(audit_whole, {"folder": folder})))
        for number in workers:
            given = {"folder": folder, "workers": number, "cell_rows": cell_rows}
            parts = setting.alone(audit_in_cells, given)
            found.append((f"cells, {number} at a time", parts))
    first = found[0][1]
    oracle.require(first["rows"] == count, "rows are missing")
    oracle.require(first["pairs"] > 0, "nothing was found")
    for way, one in found:
        for name in SAME:
            oracle.require(one[name] == first[name], f"{way}: {name} is not what it is as a whole")
    return [
        {
            "way": way,
            "rows": one["rows"],
            "pairs": one["pairs"],
            "cells": one.get("cells", 1),
            "copied": round(one.get("copied", 0.0), 3),
            "seconds": round(one["seconds"], 1),
            "cpu": round(one["cpu"], 1),
            "mb": round(one["mb"]),
        }
        for way, one in found
    ]


def make_rows(piece: int, count: int) -> tuple[Array, Array]:
    """Make the rows of one piece; the same every time."""
    random = np.random.default_rng([17, piece])
    points = random.standard_normal((count, COLUMNS)).astype(np.float32)
    labels = random.integers(0, 2, count)
    some = random.choice(count, int(count * COPIED), replace=False)
    if piece:
        earlier = int(random.integers(max(0, piece - 40), piece))
        source = np.random.default_rng([17, earlier]).standard_normal((count, COLUMNS))
        moved = random.uniform(-0.9, 0.9, (len(some), COLUMNS)) * EPSILON
        points[some] = source[random.integers(0, count, len(some))] + moved
    return points, labels


def write(folder: str, count: int) -> int:
    """Write Parquet files with so many rows; return how many bytes they have."""
    import polars as pl

    size, most = 0, min(PIECE, -(-count // 8))
    for piece in range(-(-count // most)):
        points, labels = make_rows(piece, min(most, count - piece * most))
        columns = {f"x{j:02d}": points[:, j] for j in range(COLUMNS)}
        path = Path(folder) / f"part-{piece:04d}.parquet"
        pl.DataFrame({**columns, "z": labels}).write_parquet(path, compression="lz4")
        size += path.stat().st_size
    return size


def _peak() -> float:
    """Return the megabytes of this process, and of its largest child for each of two."""
    scale = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return (own + 2 * child) * scale / 2**20


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def audit_whole(given: Mapping[str, Any]) -> Row:
    """Audit all files in their order by one monitor."""
    import polars as pl

    monitor = lw.Monitor(lw.Rule("linf", EPSILON), comparable=True)
    start, busy = time.perf_counter(), _cpu()
    flagged = pairs = comparable = 0
    check = 0
    for path in sorted(Path(given["folder"]).glob("*.parquet")):
        frame = pl.read_parquet(path)
        points = frame.drop("z").to_numpy().astype(np.float64)
        verdicts = monitor.observe_many(points, frame["z"].to_list())
        flagged += int(verdicts.violations.sum())
        pairs += verdicts.pairs
        comparable += int(verdicts.comparable.sum())
        later = verdicts.rows[verdicts.owners]
        check ^= _mixed(later, verdicts.witnesses.rows)
    return {
        "rows": len(monitor),
        "flagged": flagged,
        "pairs": pairs,
        "comparable": comparable,
        "check": check,
        "seconds": time.perf_counter() - start,
        "cpu": _cpu() - busy,
        "mb": _peak(),
    }


def _mixed(later: Array, earlier: Array) -> int:
    """Return a number for a set of pairs, whatever their order."""
    numbers = later.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + earlier.astype(np.uint64)
    numbers = (numbers ^ (numbers >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return int(np.bitwise_xor.reduce(numbers, initial=np.uint64(0)))


def audit_in_cells(given: Mapping[str, Any]) -> Row:
    """Audit the same files cell by cell."""
    from likewise.auditing.cell_folder import AuditFolder
    from likewise.auditing.cells import audit_partitioned
    from likewise.auditing.job import InlineRunner, Job, ProcessRunner
    from likewise.sources.binding import bind_vectors

    files = tuple(sorted(map(str, Path(given["folder"]).glob("*.parquet"))))
    rule = lw.Rule("linf", EPSILON)
    columns = [f"x{j:02d}" for j in range(COLUMNS)] + ["z"]
    binding = bind_vectors(
        rule, columns, "z", source="files", rule_name="the rule", named_by="the benchmark"
    )
    workers = given["workers"]
    with tempfile.TemporaryDirectory(dir=given["folder"]) as scratch:
        job = Job(
            Path(scratch) / "cells",
            files,
            binding,
            cell_rows=given["cell_rows"],
            pairs=True,
            threads=None if workers == 1 else 1,
        )
        start, busy = time.perf_counter(), _cpu()
        steps: dict[str, float] = {}

        def told(done: int, total: int | None, what: str) -> None:
            steps.setdefault(what, time.perf_counter() - start)

        done = audit_partitioned(
            job, InlineRunner() if workers == 1 else ProcessRunner(workers), progress=told
        )
        seconds, cpu = time.perf_counter() - start, _cpu() - busy
        check, found = 0, AuditFolder(job.folder)
        for cell in done.cells:
            with np.load(found.result(cell.number, "pairs.npz")) as arrays:
                check ^= _mixed(arrays["later"], arrays["earlier"])
    totals = done.finished.totals
    return {
        "rows": totals.by_row.rows,
        "flagged": totals.flagged,
        "pairs": totals.pairs,
        "comparable": totals.comparable,
        "check": check,
        "seconds": seconds,
        "cpu": cpu,
        "mb": _peak(),
        "cells": len(done.cells),
        "copied": done.copies - 1,
        "largest": done.cells[0].rows,
        "steps": {name: round(at, 1) for name, at in steps.items()},
    }
