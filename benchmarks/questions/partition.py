"""Files larger than memory, in cells: the pairs of one monitor, in how much time and memory?"""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks import cells, oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.scratch import scratch

COLUMNS = {
    "way": "",
    "rows": "rows",
    "pairs": "pairs",
    "cells": "cells",
    "copied": "copied",
    "seconds": "seconds",
    "cpu": "CPU seconds",
    "mb": "peak MB",
}
SAME = ("rows", "flagged", "pairs", "comparable", "check")


def _row(way: str, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "way": way,
        "rows": found["rows"],
        "pairs": found["pairs"],
        "cells": found.get("cells", 1),
        "copied": round(found.get("copied", 0.0), 3),
        "seconds": round(found["seconds"], 1),
        "cpu": round(found["cpu"], 1),
        "mb": round(found["mb"]),
    }


def _huge(setting: Setting, count: int, *, beside_one: bool) -> list[dict[str, Any]]:
    """Two workers on as many rows, in cells of a million; one monitor before them, if asked."""
    table = []
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        cells.write(folder, count)
        given = {"folder": folder, "workers": 2, "cell_rows": 1_000_000}
        parts = setting.alone("benchmarks.cells:in_cells", given)
        oracle.require(parts["rows"] == count, "rows are missing")
        oracle.require(parts["pairs"] > 0, "nothing was found")
        if beside_one:
            whole = setting.alone("benchmarks.cells:whole", {"folder": folder})
            for name in SAME:
                oracle.require(parts[name] == whole[name], f"{name} is not what it is as a whole")
            table.append(_row("one monitor", whole))
        table.append(_row("cells, 2 at a time", parts))
    return table


def ask(setting: Setting) -> Answer:
    count = setting.rows(2_000_000, least=20_000)
    table = []
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        cells.write(folder, count)
        whole = setting.alone("benchmarks.cells:whole", {"folder": folder})
        oracle.require(whole["pairs"] > 0, "nothing was found")
        table.append(_row("one monitor", whole))
        for workers in (1, 2):
            given = {"folder": folder, "workers": workers, "cell_rows": max(1_000, count // 10)}
            parts = setting.alone("benchmarks.cells:in_cells", given)
            for name in SAME:
                oracle.require(parts[name] == whole[name], f"{name} is not what it is as a whole")
            table.append(_row(f"cells, {workers} at a time", parts))
    if setting.huge:
        for rows, beside in ((20_000_000, True), (100_000_000, False)):
            table += _huge(setting, rows, beside_one=beside)
    return Answer(
        "Files in cells",
        {"partition": Table(COLUMNS, table, "Parquet files of twelve columns, ε = 0.05, linf.")},
        [f"{whole['pairs']:,} pairs of {count:,} rows, the same in cells as in one monitor"],
        ["Copied: rows in a second cell or more. Peak: this process and twice its largest child."],
    )
