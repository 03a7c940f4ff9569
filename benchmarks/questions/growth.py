"""Does a decision cost more as the history grows? Batches of 1,000 rows around each size."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.contenders import Question, warm_up
from benchmarks.measure import timed

EPSILON = 0.01
COLUMNS_WIDE = 12
BATCH = 1_000
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SMALL, SMALL_ROUNDS = 30_000, 9  # small histories have one batch a run, so they get more runs

COLUMNS = {
    "rows": "rows",
    "us": "µs per decision",
    "us_low": "least",
    "us_high": "most",
    "batches": "batches",
}


def ask(setting: Setting) -> Answer:
    source = setting.rows_source()
    n = setting.rows(SIZES[-1])
    sizes = [size for size in SIZES if size <= n]
    points, outputs = source.rows(_window(sizes[-1])[1], COLUMNS_WIDE)
    question = Question("linf", EPSILON)
    warm_up(question, points, outputs)
    batches: dict[int, list[float]] = {size: [] for size in sizes}

    def grow(upto: list[int]) -> None:
        monitor = question.monitor()
        done = 0
        for size in upto:
            start, stop = _window(size)
            if start > done:
                monitor.observe_many(points[done:start], outputs[done:start], threads=1)
            for a in range(start, stop, BATCH):
                x, z = points[a : a + BATCH], outputs[a : a + BATCH]
                _, timing = timed(monitor.observe_many, x, z, threads=1)
                batches[size].append(timing.wall / BATCH * 1e6)
            done = stop
        oracle.require(len(monitor) == done, "rows are missing")

    for _ in range(SMALL_ROUNDS):
        grow([size for size in sizes if size <= SMALL])
    for _ in range(setting.rounds):
        grow(sizes)
    rows: list[dict[str, Any]] = [
        {
            "rows": size,
            "us": statistics.median(each),
            "us_low": min(each),
            "us_high": max(each),
            "batches": len(each),
        }
        for size, each in batches.items()
    ]
    return Answer(
        f"Growth, {COLUMNS_WIDE} columns, {question.label}",
        {"curve": Table(COLUMNS, rows, "Time of one decision in a history of that size.")},
        [oracle.prove(question, points, outputs)],
    )


def _window(size: int) -> tuple[int, int]:
    """First and last row of the batches around a size."""
    batches = max(1, size // 50 // BATCH)
    start = size - batches * BATCH // 2
    return start, start + batches * BATCH
