"""What the first decision of a process costs, and every first of its kind after it.

Kernels were compiled ahead of time; nothing is compiled here.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import likewise as lw
from benchmarks import oracle
from benchmarks.harness import Answer, Row, Setting, Skipped, address, benchmark
from benchmarks.measure import no_collector, single_calls
from benchmarks.processes import PROJECT, call
from likewise.search.kernels.compile import way

ROWS = 1_000  # of the file that is audited
HELP, AUDIT = "likewise --help", f"likewise audit, {ROWS:,} rows"
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


@benchmark("The first of everything, in a fresh process")
def first_use(setting: Setting) -> Answer:
    """How long does what happens for the first time take, beside the second time?

    Again, on two monitors alike, one after the other: `forget` of one row of 20,000; the
    `observe` at which a window drops rows; the longest `observe` of a stream in which another
    index takes over.
    """
    if way != "native":
        raise Skipped("the kernels are not compiled ahead of time here: make kernels.")
    rounds = setting.rounds + 2
    firsts = [json.loads(_run(["-c", FIRST], sys.executable)[1]) for _ in range(rounds)]
    first = {key: statistics.median(one[key] for one in firsts) for key in firsts[0]}
    lives = [call(address(measure_firsts), {}) for _ in range(rounds)]
    again = []
    for name in lives[0]:
        pairs = [one[name] for one in lives]
        middle = {key: statistics.median(one[key] for one in pairs) for key in pairs[0]}
        longer = statistics.median(one["first_ms"] - one["next_ms"] for one in pairs)
        again.append({"name": name, **middle, "longer_ms": longer})
    return Answer(
        {"first": [first], "commands": measure_commands(rounds), "again": again},
        ["a planted violation is found by each process; the audit finds the planted pairs"],
        [
            f"Medians of {rounds} processes each. A command is timed beside a process that only"
            " imports what it needs."
        ],
    )


def measure_commands(rounds: int) -> list[Row]:
    """Time commands, each after a process that only imports what the command needs."""
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
            (HELP, ["--help"], "importing Typer and Rich", BARE_HELP),
            (AUDIT, audit, "importing Polars and NumPy", BARE_READING),
        ):
            spent: list[float] = []
            beside: list[float] = []
            for _ in range(rounds):
                beside.append(_run(["-c", code])[0])
                seconds, said = _run(["-m", "likewise", *words])
                spent.append(seconds)
                if words is audit:
                    flagged = json.loads(said)["violations"]
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


def _run(words: list[str], python: str = str(PROJECT)) -> tuple[float, str]:
    """Run a Python; return its seconds and what it printed."""
    start = time.perf_counter()
    done = subprocess.run([python, *words], capture_output=True, text=True, check=False)
    spent = time.perf_counter() - start
    if done.returncode not in (0, 1):  # 1: there are violations
        raise RuntimeError(f"{' '.join(words[:3])} ended with:\n{done.stderr[-2000:]}")
    return spent, done.stdout


def measure_firsts(given: Mapping[str, Any]) -> Row:
    """Time a forgetting, dropping of a window's rows, and change of the index: first and next."""
    with no_collector():
        return {
            name: {"first_ms": life(), "next_ms": life()}
            for name, life in (("forget", _forget), ("drop", _drop), ("change", _change))
        }


def _rows(count: int, width: int) -> Any:
    return np.random.default_rng(1).random((count, width), dtype=np.float32)


def _milliseconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def _forget() -> float:
    monitor = lw.Monitor(lw.Rule(metric="linf", epsilon=0.025))
    monitor.observe_many(_rows(20_000, 12), [0] * 20_000)
    spent = _milliseconds(lambda: monitor.forget([5]))
    assert len(monitor) == 19_999
    return spent


def _drop() -> float:
    """Return the longest `observe` around the one at which a window first drops rows."""
    rule = lw.Rule(metric="linf", epsilon=0.025)
    points, window = _rows(9_000, 12), 4_000
    with (
        tempfile.TemporaryDirectory() as folder,
        lw.open(f"{folder}/ledger", rule, window=f"{window} rows", durability="off") as monitor,
    ):
        monitor.observe_many(points[: window - 50], [0] * (window - 50))
        rest = points[window - 50 :]
        run = single_calls(monitor.observe, rest, np.zeros(len(rest), np.int64))
        assert len(monitor) < len(points)
    return float(run.us[:100].max()) / 1e3


def _change() -> float:
    """Return the longest `observe` of a stream in which another index takes over."""
    random = np.random.default_rng(2)
    centres = random.normal(size=(40, 128))
    points = centres[random.integers(0, 40, 6_000)] + 0.7 * random.normal(size=(6_000, 128))
    points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    monitor = lw.Monitor(lw.Rule(metric="l2", epsilon=0.5))
    run = single_calls(monitor.observe, points, random.integers(0, 2, 6_000))
    assert monitor.explain().changes > 0, "no other index took over"
    return float(run.us.max()) / 1e3
