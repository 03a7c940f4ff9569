"""Ten million decisions, once: the time of each half million, memory on the way, and `load`."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Skipped, Table
from benchmarks.contenders import Question, warm_up
from benchmarks.measure import rss_bytes, timed
from benchmarks.questions import load

EPSILON = 0.05
COLUMNS_WIDE = 12
BLOCKS = 20
SAMPLE = 10

COLUMNS = {
    "rows": "rows",
    "us": "µs per decision",
    "cpu_us": "processor µs",
    "pairs": "pairs so far",
    "seconds": "seconds so far",
    "rss_gb": "growth of the process, GB",
}


def ask(setting: Setting) -> Answer:
    if not setting.huge:
        raise Skipped("asked only with --huge")
    source = setting.rows_source()
    n = setting.rows(10_000_000, least=20_000)
    points, outputs = source.rows(n, COLUMNS_WIDE)
    question = Question("linf", EPSILON)
    warm_up(question, points, outputs)
    before = rss_bytes()
    monitor = question.monitor()
    block = n // BLOCKS
    rows: list[dict[str, Any]] = []
    eventful = []
    pairs, seconds = 0, 0.0
    for start in range(0, block * BLOCKS, block):
        x, z = points[start : start + block], outputs[start : start + block]
        verdicts, timing = timed(monitor.observe_many, x, z, threads=1)
        pairs += int(verdicts.pairs)
        seconds += timing.wall
        for i in np.flatnonzero(verdicts.violations)[-2:].tolist():
            eventful.append((start + i, verdicts[i].witnesses.rows.copy()))
        del verdicts
        rows.append(
            {
                "rows": start + block,
                "us": timing.wall / block * 1e6,
                "cpu_us": timing.cpu / block * 1e6,
                "pairs": pairs,
                "seconds": seconds,
                "rss_gb": (rss_bytes() - before) / 2**30,
            }
        )
    for row, found in eventful[-SAMPLE:]:
        expected = oracle.witnesses(
            question, points[:row], outputs[:row], points[row], outputs[row]
        )
        oracle.require(np.array_equal(found, expected), f"row {row}: other witnesses")
    if not eventful:
        checks = [oracle.prove(question, points, outputs)]
    else:
        checks = [
            f"{pairs:,} pairs; the last {len(eventful[-SAMPLE:])} flagged rows looked at have the"
            " witnesses that brute force over all earlier rows gives"
        ]
    del monitor
    loaded, told = load.measure_load(source, n, rounds=2)
    return Answer(
        f"Ten million decisions, {COLUMNS_WIDE} columns, {question.label}",
        {
            "curve": Table(COLUMNS, rows, "`observe_many`, one thread, block by block."),
            "load": Table(load.COLUMNS, [loaded], "`load` into an empty monitor, all cores."),
        },
        [*checks, told],
        [f"{n:,} rows in {seconds:,.1f} seconds, insertion included."],
    )
