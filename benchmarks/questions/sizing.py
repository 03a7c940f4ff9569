"""How much disk, memory and time does a service need for so many decisions with keys?"""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.child import call
from benchmarks.measure import rss_bytes
from benchmarks.scratch import scratch

COLUMNS_WIDE = 12
EPSILON = 0.05
_EACH = 50_000

COLUMNS = {
    "rows": "decisions",
    "disk_bytes": "disk, bytes each",
    "memory_bytes": "memory, bytes each",
    "open_seconds": "opening, CPU s",
    "open_wall_seconds": "opening, s",
    "peak_mb": "resident at most, MB",
}


def ask(setting: Setting) -> Answer:
    rows = setting.rows(2_000_000, least=20_000)
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        given = {"path": str(Path(folder) / "ledger"), "rows": rows}
        written = call("benchmarks.questions.sizing:fill", given)
        opened = call("benchmarks.questions.sizing:reopen", given)
    oracle.require(opened["rows"] == rows, f"{opened['rows']} of {rows} decisions are there")
    return Answer(
        "Sizing",
        {
            "sizing": Table(
                COLUMNS,
                [{**opened, **written}],
                f"{COLUMNS_WIDE} float64 numbers and a text key of 12 characters for each decision,"
                " two labels; the ledger is closed, and opened in a new process.",
            )
        },
        ["all decisions are there, and the key of the last is known"],
    )


def fill(given: dict[str, Any]) -> dict[str, Any]:
    """Write a ledger; the bytes that its folder takes for each decision."""
    import likewise as lw

    rng = np.random.default_rng(0)
    rows, path = given["rows"], Path(given["path"])
    with lw.open(path, lw.Rule("linf", EPSILON)) as monitor:
        for start in range(0, rows, _EACH):
            count = min(_EACH, rows - start)
            keys = [f"key-{i:08}" for i in range(start, start + count)]
            monitor.observe_many(
                rng.random((count, COLUMNS_WIDE)), rng.integers(0, 2, count), keys=keys
            )
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return {"disk_bytes": size / rows}


def reopen(given: dict[str, Any]) -> dict[str, Any]:
    """Open a ledger; what that costs, and the memory that each decision takes."""
    import resource

    import likewise as lw

    lw.Monitor(lw.Rule("linf", EPSILON)).observe(np.zeros(COLUMNS_WIDE), 0)  # loads the kernels
    gc.collect()
    resident, cpu, wall = rss_bytes(), time.process_time(), time.perf_counter()
    monitor = lw.open(given["path"])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    gc.collect()
    rows = monitor.rows
    oracle.require(monitor.row_of(f"key-{rows - 1:08}") == rows - 1, "a key is not known")
    return {
        "rows": rows,
        "memory_bytes": (rss_bytes() - resident) / rows,
        "open_seconds": cpu,
        "open_wall_seconds": wall,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }
