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

RADII = (0.01, 0.05)
COLUMNS_WIDE = 12

COLUMNS = {
    "epsilon": "ε",
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
    rows: list[dict[str, Any]] = []
    checks: list[str] = []
    for epsilon in RADII:
        question = Question("linf", epsilon)
        warm_up(question, points, outputs)
        found, pairs = _compare(setting, question, points, outputs)
        rows += found
        checks.append(f"ε={epsilon:g}: the same {pairs:,} pairs, row by row, in every run")
        checks.append(oracle.prove(question, points, outputs))
    return Answer(f"Threads, {n:,} × {COLUMNS_WIDE}, L∞", {"threads": Table(COLUMNS, rows)}, checks)


def _compare(
    setting: Setting, question: Question, points: Any, outputs: Any
) -> tuple[list[dict[str, Any]], int]:
    n = len(points)
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
    one = statistics.median(timing.wall for timing in times["1"])
    return [
        {
            "epsilon": question.epsilon,
            "threads": int(threads),
            "rows": n,
            "pairs": pairs,
            **wall_us(spent, n),
            "speedup": one / statistics.median(timing.wall for timing in spent),
        }
        for threads, spent in times.items()
    ], pairs
