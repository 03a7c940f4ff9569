"""20,000 CIFAR-10 pictures, L∞ within 8 of 255 levels: a decision beside FAISS's flat search.

The same pictures once as they are (uint8) and once scaled to [0, 1] (float32), each in a process
of its own, from an empty history on. Every verdict is held against looking at every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.contenders import Question, explained, warm_up
from benchmarks.measure import (
    fresh_memory_us,
    medians,
    peak_rss_bytes,
    rss_bytes,
    single_calls,
    timed,
    wall_us,
)
from benchmarks.neighbours import near_rows, put_beside, releases, same_nearest
from benchmarks.pictures import CIFAR_FILE, album
from benchmarks.planted import EVERY, as_storage, radius_of

LEVELS = 8
QUERIES = EVERY  # fresh pictures that FAISS is asked about; one of them is planted

COLUMNS = {
    "source": "pictures",
    "storage": "kept as",
    "rows": "rows",
    "pairs": "pairs",
    "mean_us": "`observe`, mean",
    "p50_us": "p50",
    "p99_us": "p99",
    "max_us": "max",
    "us": "`observe_many`",
    "pinned_us": "FAISS, pinned",
    "newest_us": "FAISS, newest",
    "pinned_ratio": "pinned ÷ `observe`",
    "newest_ratio": "newest ÷ `observe`",
    "pinned_many_ratio": "pinned ÷ `observe_many`",
    "newest_many_ratio": "newest ÷ `observe_many`",
}
MEMORY_COLUMNS = {
    "storage": "kept as",
    "rows": "rows",
    "index": "index",
    "share_visited": "share of the history looked at",
    "rows_read": "rows read in full",
    "explained_bytes": "bytes per decision by `explain()`",
    "fresh_us": "writing such a row to fresh memory, µs",
    "grown_mb": "growth of the process, MB",
    "rss_mb": "process, MB",
    "peak_mb": "its peak, MB",
    "pinned_rss_mb": "FAISS's process, pinned, MB",
    "newest_rss_mb": "newest, MB",
}


def ask(setting: Setting) -> Answer:
    folder = setting.folder_of(CIFAR_FILE)
    n = setting.rows(20_000, least=600)
    source = {"kind": "album", "folder": folder, "levels": LEVELS, "rows": n, "queries": QUERIES}
    radius = radius_of(LEVELS, "float32") * (1 + 1e-5)
    flat = {
        "source": source,
        "metric": "linf",
        "radius": radius,
        "batch": 1,
        "rounds": setting.rounds,
        "answers": QUERIES,
    }
    faiss = setting.beside(flat)
    rows, checks = [], []
    for storage in ("uint8", "float32"):
        given = {**source, "storage": storage, "rounds": setting.rounds}
        row = setting.alone("benchmarks.questions.pictures:run", given)
        near = row.pop("near")
        for one in faiss.values():
            same_nearest(near, one["found"], radius)
        checks.append(
            f"{storage}: all {n:,} verdicts name the witnesses that looking at every row gives,"
            f" {row['pairs']:,} of them, by `observe` and by `observe_many`"
        )
        rows.append(row)
    faiss = setting.beside(flat, before=faiss)
    for row in rows:
        put_beside(row, faiss, {"ratio": row["mean_us"], "many_ratio": row["us"]})
    if faiss:
        checks.append(f"{QUERIES} fresh pictures: FAISS's nearest is near where likewise says so")
    return Answer(
        f"Pictures, {n:,} × 3,072, L∞ within {LEVELS} of 255",
        {
            "pictures": Table(COLUMNS, rows, "Microseconds per decision or query, one thread."),
            "memory": Table(
                MEMORY_COLUMNS,
                rows,
                "Work of the last 1,000 decisions; resident memory, with the pictures given.",
            ),
        },
        checks,
        [
            "The 3,000 real pictures in order, then one of them shifted by up to 4 pixels with"
            f" noise; every {EVERY}th row is an earlier one within {LEVELS} levels with another"
            " decision. likewise starts empty and compares and inserts every row; its times are"
            " means over the whole run, except percentiles (medians of the runs) and max (the"
            " worst of all).",
            f"FAISS ({releases(faiss)}) has all rows as float32 and is asked for the nearest"
            " one, or for all within the radius where the release can; one fresh picture at a"
            " time, the best of one and two threads.",
        ],
    )


def run(given: Mapping[str, Any]) -> dict[str, Any]:
    """likewise on one storage; the row of the tables, and what is near the fresh pictures."""
    n, storage = given["rows"], given["storage"]
    made = album(given["folder"], given["levels"])
    pictures, outputs = made.rows(0, n + given["queries"])
    points = as_storage(pictures, storage)
    stream, labels = points[:n], outputs[:n]
    slack = 0.0 if storage == "uint8" else 1e-5
    question = Question("linf", radius_of(given["levels"], storage), slack)
    warm_up(question, stream, labels)
    before = rss_bytes()
    monitor: Any = question.monitor()
    monitor.observe_many(stream, labels, threads=1)  # not timed: it may compile a little more
    grown = rss_bytes() - before
    many, singles = [], []
    verdicts: Any = None
    for _ in range(given["rounds"]):
        monitor = question.monitor()
        verdicts, timing = timed(monitor.observe_many, stream, labels, threads=1)
        many.append(timing)
        run = single_calls(question.monitor().observe, stream, labels)
        oracle.require(np.array_equal(run.counts, verdicts.counts), "other counts by observe")
        singles.append(run.percentiles())
    oracle.require_all(question, stream, labels, verdicts)
    oracle.require(verdicts.pairs >= n // EVERY, "a planted row was missed")
    return {
        "source": made.name,
        "storage": storage,
        "rows": n,
        "pairs": int(verdicts.pairs),
        "flagged": int(np.count_nonzero(verdicts.violations)),
        **wall_us(many, n),
        **medians(singles),
        **explained(monitor),
        "fresh_us": fresh_memory_us(points[0].nbytes),
        "grown_mb": grown / 1e6,
        "rss_mb": rss_bytes() / 1e6,
        "peak_mb": peak_rss_bytes() / 1e6,
        "near": near_rows(monitor, points[n:]),
    }
