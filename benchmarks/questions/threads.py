"""Two threads over one: how much faster is a batch, and is it the same batch?"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Skipped, Table
from benchmarks.contenders import Question, judge_all, warm_up
from benchmarks.measure import alternate, machine, wall_us

EPSILON = 0.05
COLUMNS_WIDE = 12

COLUMNS = {
    "threads": "threads",
    "us": "µs per decision",
    "us_low": "least",
    "us_high": "most",
    "cpu_us": "processor µs",
    "speedup": "over one thread",
    "pairs": "pairs",
}


def ask(setting: Setting) -> Answer:
    if machine()["cores"] < 2:
        raise Skipped("this machine has one core")
    source = setting.rows_source()
    n = setting.rows(1_000_000)
    points, outputs = source.rows(n, COLUMNS_WIDE)
    question = Question("linf", EPSILON)
    warm_up(question, points, outputs)
    first: dict[str, Any] = {}

    def keep(threads: str, result: Any) -> None:
        _, verdicts = result
        known = first.setdefault("verdicts", verdicts)
        for part in ("offsets", "counts"):
            same = np.array_equal(getattr(known, part), getattr(verdicts, part))
            oracle.require(same, f"{threads} threads: other {part}")
        same = np.array_equal(known.witnesses.rows, verdicts.witnesses.rows)
        oracle.require(same, f"{threads} threads: other witnesses")

    runs = {
        str(threads): partial(judge_all, question, points, outputs, threads) for threads in (1, 2)
    }
    times = alternate(runs, setting.rounds + 2, keep)
    pairs = int(first["verdicts"].pairs)
    rows: list[dict[str, Any]] = [
        {"threads": int(t), "rows": n, "pairs": pairs, **wall_us(times[t], n)} for t in runs
    ]
    one = statistics.median(timing.wall for timing in times["1"])
    for row in rows:
        row["speedup"] = one / statistics.median(t.wall for t in times[str(row["threads"])])
    return Answer(
        f"Threads, {n:,} × {COLUMNS_WIDE}, {question.label}",
        {"threads": Table(COLUMNS, rows)},
        [
            f"both name the same {pairs:,} pairs, row by row, in every run",
            oracle.prove(question, points, outputs),
        ],
    )
