"""One decision at a time onto 20,000 sentence embeddings: beside FAISS's flat range search.

The history is loaded but for its last 2,000 rows, which are observed, so that whatever index
likewise chooses is in place when it is timed. Each radius has a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import oracle
from benchmarks.answer import TRIAL, Answer, Setting, Table
from benchmarks.contenders import Question, explained, warm_up
from benchmarks.measure import medians, peak_rss_bytes, rss_bytes, single_calls
from benchmarks.neighbours import near_rows, put_beside, releases, same_within
from benchmarks.texts import SMS_FILE, WIDTH, texts

Array = NDArray[Any]
# At length 1, a cosine distance is half the square of an L2 distance: the same pairs are near.
CASES = (("l2", 0.4), ("l2", 0.8), ("l2", 1.0), ("cosine", 0.08), ("cosine", 0.32))
TRIAL_CASES = (("l2", 0.8), ("cosine", 0.32))
HISTORY, SETTLE, QUERIES = 20_000, 2_000, 500
LONGER, LONGER_CASE = 100_000, ("l2", 0.8)
ANSWERS = 100  # queries whose neighbours are compared with FAISS's
BRUTE = 10  # and those that are compared with looking at every row

COLUMNS = {
    "source": "texts",
    "question": "near",
    "rows": "rows",
    "neighbours": "neighbours of a query, mean",
    "most_neighbours": "most",
    "witnesses": "witnesses",
    "mean_us": "`observe`, mean",
    "p50_us": "p50",
    "p99_us": "p99",
    "max_us": "max",
    "check_mean_us": "`check`, mean",
    "check_p50_us": "p50",
    "pinned_us": "FAISS, pinned",
    "newest_us": "FAISS, newest",
    "pinned_ratio": "pinned ÷ `observe`",
    "newest_ratio": "newest ÷ `observe`",
}
MEMORY_COLUMNS = {
    "question": "near",
    "rows": "rows",
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
    source = source_of(setting, QUERIES)
    rows: list[dict[str, Any]] = []
    checks: list[str] = []
    faiss: dict[str, Any] = {}
    for metric, epsilon in cases(setting):
        question = Question(metric, epsilon)
        flat = flat_of(question, source, 1, setting.rounds)
        faiss = setting.beside(flat)
        given = {**source, "metric": metric, "epsilon": epsilon, "rounds": setting.rounds}
        row = setting.alone("benchmarks.questions.embeddings:run", given)
        faiss = setting.beside(flat, before=faiss)
        told = same_within(question, row.pop("near"), faiss)
        checks.append(f"{told}; {BRUTE} have the witnesses that looking at every row gives")
        put_beside(row, faiss, {"ratio": row["mean_us"]})
        rows.append(row)
    oracle.require(any(row["witnesses"] for row in rows), "no query has a witness")
    long = {**source, "rows": setting.rows(LONGER, least=400), "rounds": setting.rounds}
    metric, epsilon = LONGER_CASE
    longer = setting.alone(
        "benchmarks.questions.embeddings:run", {**long, "metric": metric, "epsilon": epsilon}
    )
    del longer["near"]
    return Answer(
        f"Embeddings, one at a time onto {source['rows']:,} × {WIDTH}",
        {
            "embeddings": Table(COLUMNS, rows, "Microseconds per decision or query."),
            "longer": Table(COLUMNS, [longer], "A longer history, likewise alone."),
            "memory": Table(
                MEMORY_COLUMNS, rows, "Work of the last 1,000 decisions, and resident memory."
            ),
        },
        checks,
        [
            notes_on_rows(),
            f"FAISS ({releases(faiss)}) has the first {source['rows']:,} rows and is asked for"
            " all within the radius of one query at a time, the best of one and two threads."
            " likewise compares and inserts; `check` compares only.",
        ],
    )


def cases(setting: Setting) -> tuple[tuple[str, float], ...]:
    """The metrics and radii that are asked about."""
    return TRIAL_CASES if setting.scale < TRIAL else CASES


def source_of(setting: Setting, queries: int) -> dict[str, Any]:
    """The rows of both questions on embeddings; at a trial fewer."""
    folder = setting.folder_of(SMS_FILE)
    n = setting.rows(HISTORY, least=400)
    return {"kind": "texts", "folder": folder, "rows": n, "queries": min(queries, n)}


def flat_of(
    question: Question, source: Mapping[str, Any], batch: int, rounds: int
) -> dict[str, Any]:
    """The same question for FAISS."""
    kind = {"metric": question.metric, "radius": question.reach}
    return {**kind, "source": source, "batch": batch, "rounds": rounds, "answers": ANSWERS}


def notes_on_rows() -> str:
    return (
        "A third of the rows are the real embeddings of SMS messages (float16, widened); the"
        " others are one of them 0.05 to 0.6 off, or a mix of two, at length 1. Decisions are those"
        " of the weak filter; one in fifty of the rows a little off has the other one."
    )


def history(question: Question, points: Array, outputs: Array) -> Any:
    """A monitor that holds these rows; the last ones were observed, for its index to settle."""
    settle = len(points) - min(SETTLE, len(points) // 2)
    monitor = question.monitor()
    monitor.load(points[:settle], outputs[:settle])
    for x, z in zip(points[settle:], outputs[settle:].tolist(), strict=True):
        monitor.observe(x, z)
    return monitor


def run(given: Mapping[str, Any]) -> dict[str, Any]:
    """likewise at one radius; the row of the tables, and what is near the first queries."""
    n, queries, rounds = given["rows"], given["queries"], given["rounds"]
    question = Question(given["metric"], given["epsilon"])
    source = texts(given["folder"])
    points, outputs = source.rows(n + queries * rounds)
    warm_up(question, points, outputs)
    monitor = history(question, points[:n], outputs[:n])
    fresh, labels = points[n : n + queries], outputs[n : n + queries]
    near = near_rows(monitor, fresh)
    checks = [single_calls(monitor.check, fresh, labels) for _ in range(rounds)]
    counts = [int((outputs[rows] != z).sum()) for rows, z in zip(near, labels, strict=True)]
    oracle.require(checks[0].counts.tolist() == counts, "witnesses are not the near that differ")
    for i in range(min(BRUTE, queries)):
        expected = oracle.witnesses(question, points[:n], outputs[:n], fresh[i], labels[i])
        found = monitor.check(fresh[i], int(labels[i])).witnesses.rows
        oracle.require(np.array_equal(found, expected), f"query {i}: other witnesses")
    rss = rss_bytes()
    observes = []
    for start in range(n, n + queries * rounds, queries):
        part = slice(start, start + queries)
        observes.append(single_calls(monitor.observe, points[part], outputs[part]))
    oracle.require(len(monitor) == n + queries * rounds, "rows are missing")
    times = medians([one.percentiles() for one in checks])
    return {
        "source": source.name,
        "question": question.label,
        "metric": question.metric,
        "epsilon": question.epsilon,
        "rows": n,
        "queries": queries,
        "neighbours": float(np.mean([len(rows) for rows in near])),
        "most_neighbours": max(len(rows) for rows in near),
        "witnesses": int(checks[0].counts.sum()),
        **{f"check_{key}": value for key, value in times.items()},
        **medians([one.percentiles() for one in observes]),
        **explained(monitor),
        "rss_mb": rss / 1e6,
        "peak_mb": peak_rss_bytes() / 1e6,
        "near": near[:ANSWERS],
    }
