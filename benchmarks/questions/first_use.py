"""What does the first decision of a process cost, and every first of its kind after it?

Kernels were compiled ahead of time; nothing is compiled here.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Skipped, Table
from benchmarks.child import PROJECT, call
from likewise.search.kernels.compile import way

ROWS = 1_000  # of the file that is audited
# What Typer itself imports to print any help with Rich.
BARE_HELP = "import typer, rich, typer.rich_utils"
BARE_READING = "import polars, numpy"
FIRST = """
import time
start = time.perf_counter()
import numpy as np
import likewise as lw
imported = time.perf_counter()
monitor = lw.Monitor(lw.Rule(metric="linf", epsilon=0.025))
lines = open("/proc/self/status").read().splitlines()
resident = next((int(one.split()[1]) for one in lines if one.startswith("VmHWM:")), 0)
monitor.observe(np.zeros(12, np.float32), 0)
observed = time.perf_counter()
assert monitor.observe(np.zeros(12, np.float32), 1).violation
import json
print(json.dumps({
    "seconds": observed - start,
    "import_seconds": imported - start,
    "observe_seconds": observed - imported,
    "empty_mb": resident * 1024 / 1e6,
}))
"""

FIRST_COLUMNS = {
    "seconds": "first `observe`, imports included",
    "import_seconds": "imports of NumPy and likewise",
    "observe_seconds": "monitor and `observe`",
    "empty_mb": "resident with one empty monitor, MB",
}
COMMAND_COLUMNS = {
    "command": "command",
    "seconds": "whole process, s",
    "bare": "beside",
    "bare_seconds": "s",
    "above_seconds": "above it, s",
}
AGAIN_COLUMNS = {
    "what": "what",
    "first_ms": "first, ms",
    "next_ms": "next, ms",
    "longer_ms": "longer by, ms",
}
AGAIN = {
    "forget": "`forget` of one row of 20,000",
    "drop": "the `observe` at which a window drops rows",
    "change": "the longest `observe` of a stream in which another index takes over",
}


def ask(setting: Setting) -> Answer:
    if way != "native":
        raise Skipped("the kernels are not compiled ahead of time here: make kernels.")
    rounds = setting.rounds + 2
    firsts = [json.loads(_seconds(["-c", FIRST], sys.executable)[1]) for _ in range(rounds)]
    first = {key: statistics.median(one[key] for one in firsts) for key in firsts[0]}
    lives = [call("benchmarks.firsts:again", {}) for _ in range(rounds)]
    again = []
    for name, what in AGAIN.items():
        middle = {
            key: statistics.median(one[name][key] for one in lives)
            for key in ("first_ms", "next_ms")
        }
        longer = statistics.median(one[name]["first_ms"] - one[name]["next_ms"] for one in lives)
        again.append({"what": what, "name": name, **middle, "longer_ms": longer})
    return Answer(
        "The first of everything, in a fresh process",
        {
            "first": Table(FIRST_COLUMNS, [first], "Seconds."),
            "commands": Table(COMMAND_COLUMNS, _commands(rounds)),
            "again": Table(AGAIN_COLUMNS, again, "On two monitors alike, one after the other."),
        },
        ["a planted violation is found by each process; the audit finds the planted pairs"],
        [f"Medians of {rounds} processes each."],
    )


def _commands(rounds: int) -> list[dict[str, Any]]:
    if not PROJECT.exists():
        raise Skipped("the command line is in the environment that `make test` sets up.")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "decisions.csv"
        values = np.random.default_rng(3).random((ROWS, 6)).round(2)
        values[1::2] = values[::2]  # each row twice, with two labels
        lines = [",".join([*map(str, row), "yn"[i % 2]]) for i, row in enumerate(values.tolist())]
        data.write_text("a,b,c,d,e,f,decision\n" + "\n".join(lines) + "\n")
        near = ["--metric", "linf", "--epsilon", "0.001", "--output-column", "decision"]
        audit = ["audit", str(data), *near, "--json"]
        for command, words, bare, code in (
            ("likewise --help", ["--help"], "importing Typer and Rich", BARE_HELP),
            (f"likewise audit, {ROWS:,} rows", audit, "importing Polars and NumPy", BARE_READING),
        ):
            spent: list[float] = []
            beside: list[float] = []
            for _ in range(rounds):
                beside.append(_seconds(["-c", code])[0])
                seconds, said = _seconds(["-m", "likewise", *words])
                spent.append(seconds)
                if words is audit:
                    flagged = json.loads(said)["flagged"]
                    oracle.require(flagged == ROWS // 2, f"the audit flags {flagged} decisions")
            above = statistics.median(a - b for a, b in zip(spent, beside, strict=True))
            rows.append(
                {
                    "command": command,
                    "seconds": statistics.median(spent),
                    "bare": bare,
                    "bare_seconds": statistics.median(beside),
                    "above_seconds": above,
                }
            )
    return rows


def _seconds(words: list[str], python: str = str(PROJECT)) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run([python, *words], capture_output=True, text=True, check=False)
    spent = time.perf_counter() - start
    if done.returncode not in (0, 1):  # 1: there are violations
        raise RuntimeError(f"{' '.join(words[:3])} ended with:\n{done.stderr[-2000:]}")
    return spent, done.stdout
