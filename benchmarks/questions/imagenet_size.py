"""10,000 pictures of 224 × 224 × 3, rows on disk, L∞ within 4 of 255: time and resident memory.

Each storage in a process of its own. A picture is made just before it is observed, off the clock,
so the process never holds more than one of them besides what the monitor keeps.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Skipped, Table
from benchmarks.child import call
from benchmarks.contenders import Question, explained
from benchmarks.measure import Singles, no_collector, peak_rss_bytes, rss_bytes
from benchmarks.pictures import Scenes
from benchmarks.planted import EVERY, as_storage, radius_of
from benchmarks.scratch import scratch

SIDE, CHANNELS, LEVELS = 224, 3, 4
WARM_ROWS = 300
SAMPLE = 2  # rows held against every row of the file: the last planted one, and the last of all

COLUMNS = {
    "storage": "kept as",
    "rows": "rows",
    "width": "coordinates",
    "pairs": "pairs",
    "mean_ms": "mean, ms",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "max_ms": "max, ms",
    "rss_gb": "resident at the end, GB",
    "peak_gb": "at its peak, GB",
    "before_gb": "before the first decision, GB",
    "file_gb": "on disk, GB",
    "rows_read": "rows read in full, of the last 1,000 decisions",
    "explained_bytes": "bytes per decision by `explain()`",
}


def ask(setting: Setting) -> Answer:
    n = setting.rows(10_000, least=2 * EVERY)
    rows = []
    folder = scratch()
    for storage in ("uint8", "float32"):
        needed = n * SIDE * SIDE * CHANNELS * np.dtype(storage).itemsize
        if shutil.disk_usage(folder).free < needed + 2e9:
            raise Skipped(f"{needed / 1e9:.1f} GB of rows do not fit on this disk")
        with tempfile.TemporaryDirectory(dir=folder) as place:
            given = {"rows": n, "storage": storage, "folder": place}
            # Even a trial has one process of its own, to show that it runs.
            alone = call if storage == "uint8" else setting.alone
            rows.append(alone("benchmarks.questions.imagenet_size:run", given))
    return Answer(
        f"Pictures of the size of ImageNet's, {n:,} × {SIDE * SIDE * CHANNELS:,}, rows on disk",
        {"pictures": Table(COLUMNS, rows, f"One `observe` at a time, L∞ within {LEVELS} of 255.")},
        [
            f"{row['storage']}: every verdict is as planted ({row['pairs']:,} pairs); the file on"
            f" disk holds the rows, and looking at all of them confirms {row['confirmed']} rows"
            for row in rows
        ],
        [
            "Made-up pictures (32 scenes of smooth waves, shifted, faded, with noise), one at a"
            f" time and off the clock; every {EVERY}th is an earlier one within {LEVELS} levels"
            " with another decision.",
            "Resident memory is that of the whole process, Python, the compiler and mapped pages"
            " of the file included. The peak is the larger of a look after every decision and the"
            " kernel's own account.",
        ],
    )


def run(given: Mapping[str, Any]) -> dict[str, Any]:
    """The whole run of one storage; the row of the table."""
    n, storage, folder = given["rows"], given["storage"], Path(given["folder"])
    stream = Scenes(LEVELS, SIDE, CHANNELS)
    slack = 0.0 if storage == "uint8" else 1e-5
    question = Question("linf", radius_of(LEVELS, storage), slack)
    with question.monitor(rows=str(folder / "warm")) as monitor:
        for i in range(min(n, WARM_ROWS)):
            row = stream.row(i)
            monitor.observe(as_storage(row.picture, storage), row.decision)
    (folder / "warm").unlink()

    before = peak = rss_bytes()
    path = folder / "rows"
    spent, counts = np.empty(n, np.int64), np.empty(n, np.int64)
    clock = time.perf_counter_ns
    with question.monitor(rows=str(path)) as monitor:
        with no_collector():
            for i in range(n):
                row = stream.row(i)
                x, z = as_storage(row.picture, storage), row.decision
                start = clock()
                verdict = monitor.observe(x, z)
                spent[i] = clock() - start
                counts[i] = len(verdict.witnesses)
                peak = max(peak, rss_bytes())
                expected = [] if row.origin is None else [row.origin]
                found = verdict.witnesses.rows.tolist()
                oracle.require(found == expected, f"row {i}: {found}, planted: {expected}")
        after, highest = rss_bytes(), peak_rss_bytes()
        told = explained(monitor)
    size = path.stat().st_size
    _confirm(question, stream, storage, path, n)
    times = Singles(spent, counts).percentiles()
    return {
        "storage": storage,
        "rows": n,
        "width": SIDE * SIDE * CHANNELS,
        "pairs": int(counts.sum()),
        **{key.replace("_us", "_ms"): us and us / 1e3 for key, us in times.items()},
        "seconds": float(spent.sum()) / 1e9,
        "before_gb": before / 1e9,
        "rss_gb": after / 1e9,
        "peak_gb": max(peak, highest) / 1e9,
        "file_gb": size / 1e9,
        **told,
        "confirmed": SAMPLE,
    }


def _confirm(question: Question, stream: Scenes, storage: str, path: Path, n: int) -> None:
    """Looking at every row of the file gives what was planted."""
    kept = np.memmap(path, dtype=storage, mode="r").reshape(n, -1)
    outputs = np.array([stream.row(i).decision for i in range(n)])
    planted = (n // EVERY) * EVERY - 1
    for i in (planted, n - 1):
        row = stream.row(i)
        x = as_storage(row.picture, storage)
        oracle.require(np.array_equal(kept[i], x.reshape(-1)), f"row {i} is not as it came")
        found = oracle.witnesses(question, kept[:i], outputs[:i], x, row.decision).tolist()
        expected = [] if row.origin is None else [row.origin]
        oracle.require(found == expected, f"row {i}: the file has {found}, planted: {expected}")
