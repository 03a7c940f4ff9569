"""One `observe` that finds some eight witnesses in a history of a million.

Rows lie in small clouds around real ones and have made-up labels, so that most have near rows of
the other label.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.contenders import Question, warm_up
from benchmarks.measure import medians, single_calls

EPSILON, COLUMNS_WIDE = 0.05, 12
CLOUD, SPREAD = 44, 0.02  # rows around one real row, and how far off
FEW, MANY = 4, 16  # witnesses of the decisions that are looked at
QUERIES = 20_000

COLUMNS = {
    "rows": "rows",
    "looked_at": f"decisions with {FEW} to {MANY} witnesses",
    "witnesses": "their mean",
    "p50_us": "p50",
    "p99_us": "p99",
    "p999_us": "p99.9",
    "max_us": "max",
}


def ask(setting: Setting) -> Answer:
    n, queries = setting.rows(1_000_000), setting.rows(QUERIES, least=500)
    random = np.random.default_rng(17)
    centres, _ = setting.rows_source().rows(max(2, n // CLOUD), COLUMNS_WIDE)
    total = n + queries * setting.rounds
    points = centres[random.integers(0, len(centres), total)]
    points = (points + random.normal(0.0, SPREAD, points.shape)).astype(np.float32)
    outputs = random.integers(0, 2, total)
    question = Question("linf", EPSILON)
    warm_up(question, points, outputs)
    monitor = question.monitor()
    monitor.load(points[:n], outputs[:n])
    each: list[dict[str, Any]] = []
    counts = []
    for start in range(n, total, queries):
        part = slice(start, start + queries)
        run = single_calls(monitor.observe, points[part], outputs[part])
        some = (run.counts >= FEW) & (run.counts <= MANY)
        oracle.require(bool(some.any()), "no decision has a few witnesses")
        counts.append(run.counts[some])
        us = run.nanoseconds[some] / 1e3
        p50, p99, p999 = np.percentile(us, (50, 99, 99.9)).tolist()
        each.append({"p50_us": p50, "p99_us": p99, "p999_us": p999, "max_us": float(us.max())})
    found = np.concatenate(counts)
    row = {
        "rows": n,
        "looked_at": len(found),
        "witnesses": float(found.mean()),
        **medians(each),
    }
    return Answer(
        f"One `observe` with witnesses, {COLUMNS_WIDE} columns, {question.label}",
        {"witnesses": Table(COLUMNS, [row], "Microseconds, the Verdict included.")},
        [oracle.prove(question, points, outputs)],
    )
