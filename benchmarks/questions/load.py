"""How long does it take to remember a history that need not be judged?"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.contenders import Question, warm_up
from benchmarks.measure import timed
from benchmarks.workloads import FRESH, Mix

COLUMNS_WIDE = 12
EPSILON = 0.1  # wide enough that fresh rows have witnesses, so the loaded tree can be checked
SAMPLE = 8

COLUMNS = {
    "rows": "rows",
    "seconds": "seconds",
    "seconds_low": "least",
    "seconds_high": "most",
    "cpu_seconds": "processor seconds",
    "rounds": "runs",
}


def ask(setting: Setting) -> Answer:
    source = setting.rows_source()
    row, told = measure_load(source, setting.rows(1_000_000), setting.rounds)
    return Answer(
        f"Loading a history, {COLUMNS_WIDE} columns",
        {"load": Table(COLUMNS, [row], "`load` into an empty monitor, all cores.")},
        [told],
    )


def measure_load(source: Mix, n: int, rounds: int) -> tuple[dict[str, Any], str]:
    """Load `n` rows into fresh monitors; the table's row, and what was checked."""
    points, outputs = source.rows(n, COLUMNS_WIDE)
    question = Question("linf", EPSILON)
    warm_up(question, points, outputs)
    times = []
    monitor: Any = None
    for _ in range(rounds):
        monitor = question.monitor()
        rows, timing = timed(monitor.load, points, outputs)
        oracle.require(len(monitor) == n and rows == range(n), "rows are missing")
        times.append(timing)
    found = _check(question, monitor, points, outputs, *source.rows(200, COLUMNS_WIDE, FRESH))
    seconds = [t.wall for t in times]
    row = {
        "rows": n,
        "seconds": statistics.median(seconds),
        "seconds_low": min(seconds),
        "seconds_high": max(seconds),
        "cpu_seconds": statistics.median(t.cpu for t in times),
        "rounds": rounds,
    }
    return row, f"{n:,} rows: {SAMPLE} fresh rows have {found:,} witnesses, as by brute force"


def _check(
    question: Question,
    monitor: Any,
    points: NDArray[Any],
    outputs: NDArray[Any],
    fresh: NDArray[Any],
    labels: NDArray[Any],
) -> int:
    """The most eventful of the fresh rows, held against looking at every loaded row."""
    verdicts = [monitor.check(x, z) for x, z in zip(fresh, labels.tolist(), strict=True)]
    order = np.argsort([-len(verdict.witnesses) for verdict in verdicts], kind="stable")
    total = 0
    for i in order[:SAMPLE].tolist():
        expected = oracle.witnesses(question, points, outputs, fresh[i], labels[i])
        found = verdicts[i].witnesses.rows
        oracle.require(np.array_equal(found, expected), f"fresh row {i}: other witnesses")
        total += len(expected)
    oracle.require(total > 0, "nothing found, so nothing was checked")
    return total
