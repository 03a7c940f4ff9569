"""What does the very first decision on a machine cost, and the first one of the next process?"""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.child import run_child

COLUMNS = {
    "cache": "kernel cache",
    "import_seconds": "`import likewise`",
    "observe_seconds": "first `observe`",
    "observe_many_seconds": "first `observe_many`",
    "load_seconds": "first `load`",
    "first_use_seconds": "first use",
}


def ask(setting: Setting) -> Answer:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        for state in ("empty", "filled"):
            found = run_child("first-use", env={"NUMBA_CACHE_DIR": cache})
            oracle.require(found.pop("violation"), "two equal inputs, two labels, no violation")
            total = found["observe_seconds"] + found["observe_many_seconds"]
            rows.append({"cache": state, **found, "first_use_seconds": total})
    return Answer(
        "First use, float32, 12 columns, L∞",
        {"first_use": Table(COLUMNS, rows, "Seconds, each row a fresh process.")},
        ["a planted violation is found by both processes"],
        ["First use is `observe` and `observe_many`, the compiler's own import included."],
    )
