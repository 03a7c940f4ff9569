"""Batches of 1,024 onto 20,000 sentence embeddings: beside FAISS's range search in batches.

As in `embeddings`, but through `observe_many`. Four batches follow each other, so the history
grows by a fifth; FAISS stays at 20,000 rows and compares every query with all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.contenders import Question, explained
from benchmarks.measure import peak_rss_bytes, rss_bytes, timed
from benchmarks.neighbours import near_rows, put_beside, releases, same_within
from benchmarks.questions.embeddings import (
    ANSWERS,
    BRUTE,
    cases,
    flat_of,
    history,
    notes_on_rows,
    source_of,
)
from benchmarks.texts import WIDTH, texts

Array = NDArray[Any]
BATCH, BATCHES = 1_024, 4

COLUMNS = {
    "source": "texts",
    "question": "near",
    "rows": "rows at first",
    "batch": "batch",
    "pairs": "pairs",
    "us_1": "`observe_many`, 1 thread",
    "us_2": "2 threads",
    "pinned_us": "FAISS, pinned",
    "newest_us": "FAISS, newest",
    "pinned_ratio": "pinned ÷ likewise",
    "newest_ratio": "newest ÷ likewise",
}
MEMORY_COLUMNS = {
    "question": "near",
    "index": "index",
    "share_visited": "share of the history looked at",
    "rows_read": "rows read in full",
    "explained_bytes": "bytes per decision by `explain()`",
    "rss_mb": "process, MB",
    "peak_mb": "its peak, MB",
    "pinned_rss_mb": "FAISS's process, pinned, MB",
    "newest_rss_mb": "newest, MB",
}


def ask(setting: Setting) -> Answer:
    source = source_of(setting, BATCH * BATCHES)
    batch = min(BATCH, source["queries"] // BATCHES)
    rows: list[dict[str, Any]] = []
    checks: list[str] = []
    faiss: dict[str, Any] = {}
    for metric, epsilon in cases(setting):
        question = Question(metric, epsilon)
        flat = flat_of(question, source, batch, setting.rounds)
        faiss = setting.beside(flat)
        given = {**source, "metric": metric, "epsilon": epsilon, "rounds": setting.rounds}
        given["batch"] = batch
        row = setting.alone("benchmarks.questions.embedding_batches:run", given)
        faiss = setting.beside(flat, before=faiss)
        told = same_within(question, row.pop("near"), faiss)
        checks.append(
            f"{told}; the {BRUTE} rows of each batch with most witnesses have those that"
            " looking at every row gives, and both thread counts find as many"
        )
        put_beside(row, faiss, {"ratio": min(row["us_1"], row["us_2"])})
        rows.append(row)
    oracle.require(any(row["pairs"] for row in rows), "no batch has a witness")
    return Answer(
        f"Embeddings in batches of {batch:,} onto {source['rows']:,} × {WIDTH}",
        {
            "batches": Table(COLUMNS, rows, "Microseconds per decision or query."),
            "memory": Table(
                MEMORY_COLUMNS, rows, "Work of the last 1,000 decisions, and resident memory."
            ),
        },
        checks,
        [
            notes_on_rows(),
            f"FAISS ({releases(faiss)}) searches the first {source['rows']:,} rows for all"
            " within the radius of each query of a batch: the best of one and two threads for the"
            " search and for its matrix product. It compares with all of these rows, and neither"
            " with those of the batch nor by decision; likewise does both, and inserts. The ratio"
            " takes likewise's better of one and two threads too.",
        ],
    )


def run(given: Mapping[str, Any]) -> dict[str, Any]:
    """likewise at one radius: the row of the tables, and what is near the first queries."""
    n, size = given["rows"], given["batch"]
    queries = size * BATCHES
    us: dict[int, list[float]] = {1: [], 2: []}
    first: Any = None
    near: list[list[int]] = []
    told: dict[str, Any] = {}
    question = Question(given["metric"], given["epsilon"])
    source = texts(given["folder"])
    points, outputs = source.rows(n + queries)
    for turn in range(given["rounds"] + 1):  # the first is not counted: it may compile a little
        for threads, times in us.items():
            monitor = history(question, points[:n], outputs[:n])
            if not near:
                near = near_rows(monitor, points[n : n + ANSWERS])
            counts, seconds = [], 0.0
            for start in range(n, n + queries, size):
                part = slice(start, start + size)
                x, z = points[part], outputs[part]
                verdicts, timing = timed(monitor.observe_many, x, z, threads=threads)
                seconds += timing.wall
                counts.append(np.asarray(verdicts.counts))
                if first is None:
                    _confirm(question, points, outputs, start, verdicts)
            if turn:
                times.append(seconds / queries * 1e6)
            told = explained(monitor)
            found = np.concatenate(counts)
            first = found if first is None else first
            oracle.require(np.array_equal(found, first), f"{threads} threads: other counts")
    return {
        "source": source.name,
        "question": question.label,
        "metric": question.metric,
        "epsilon": question.epsilon,
        "rows": n,
        "batch": size,
        "batches": BATCHES,
        "pairs": int(first.sum()),
        **{f"us_{threads}": statistics.median(times) for threads, times in us.items()},
        **told,
        "rss_mb": rss_bytes() / 1e6,
        "peak_mb": peak_rss_bytes() / 1e6,
        "near": near,
    }


def _confirm(question: Question, points: Array, outputs: Array, start: int, verdicts: Any) -> None:
    """The rows of a batch with most witnesses have those that looking at every row gives."""
    for i in np.argsort(-np.asarray(verdicts.counts), kind="stable")[:BRUTE].tolist():
        row = start + i
        x, z = points[row], outputs[row]
        expected = oracle.witnesses(question, points[:row], outputs[:row], x, z)
        found = verdicts[i].witnesses.rows
        oracle.require(np.array_equal(found, expected), f"row {row}: other witnesses")
