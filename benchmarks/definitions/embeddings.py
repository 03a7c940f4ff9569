"""Embeddings of texts and photographs: one at a time and in batches, beside FAISS; exact counts."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import oracle
from benchmarks.contenders import Question, explained, warm_up
from benchmarks.harness import TRIAL, Answer, Row, Setting, benchmark
from benchmarks.measure import (
    Timing,
    medians,
    peak_rss_bytes,
    rss_bytes,
    single_calls,
    timed,
    wall_us,
)
from benchmarks.neighbours import near_rows, put_beside, releases, same_within
from benchmarks.workloads import SMS_FILE, Texts, texts

Array = NDArray[Any]
# At length 1, a cosine distance is half the square of an L2 distance: the same pairs are near.
CASES = (("l2", 0.4), ("l2", 0.8), ("l2", 1.0), ("cosine", 0.08), ("cosine", 0.32))
TRIAL_CASES = (("l2", 0.8), ("cosine", 0.32))
HISTORY, SETTLE, QUERIES, LONGER = 20_000, 2_000, 500, 100_000
BATCH, BATCHES = 1_024, 4
ANSWERS = 100  # queries whose neighbours are compared with FAISS's
BRUTE = 10  # and those that are compared with looking at every row
ROWS_NOTE = (
    "A third of the rows are the real embeddings of SMS messages (float16, widened); the others are"
    " one of them 0.05 to 0.6 off, or a mix of two, at length 1. Decisions are those of the weak"
    " filter; one in fifty of the rows a little off has the other one."
)
UNITS_NOTE = (
    "Microseconds per decision or query. share_visited and rows_read: work of the last 1,000"
    " decisions; explained_bytes: bytes per decision by `explain()`; rss_mb: resident memory."
)


def _source(setting: Setting, queries: int) -> Row:
    """Return what the rows of both benchmarks are made of; of a trial, fewer."""
    n = setting.rows(HISTORY, least=400)
    folder = setting.folder_of(SMS_FILE)
    return {"kind": "texts", "folder": folder, "rows": n, "queries": min(queries, n)}


def _beside_faiss(
    setting: Setting,
    source: Row,
    work: Callable[[Mapping[str, Any]], Row],
    batch: int,
    likewise_us: Callable[[Row], float],
    also_checked: str,
) -> tuple[list[Row], list[str], str]:
    """Measure likewise at each radius, FAISS before and after; rows, checks and FAISS's names."""
    rows, checks = [], []
    faiss: Row = {}
    for metric, epsilon in TRIAL_CASES if setting.scale < TRIAL else CASES:
        question = Question(metric, epsilon)
        flat = {"metric": metric, "radius": question.reach, "source": source, "batch": batch}
        flat |= {"rounds": setting.rounds, "answers": ANSWERS}
        given = {**source, "metric": metric, "epsilon": epsilon, "rounds": setting.rounds}
        faiss = setting.beside(flat)
        row = setting.alone(work, {**given, "batch": batch})
        faiss = setting.beside(flat, before=faiss)
        checks.append(f"{same_within(question, row.pop('near'), faiss)}; {also_checked}")
        put_beside(row, faiss, {"ratio": likewise_us(row)})
        rows.append(row)
    return rows, checks, releases(faiss)


def _history(question: Question, points: Array, outputs: Array) -> Any:
    """Return a monitor of these rows; the last were observed, for its index to settle."""
    settle = len(points) - min(SETTLE, len(points) // 2)
    monitor = question.monitor()
    monitor.load(points[:settle], outputs[:settle])
    for x, z in zip(points[settle:], outputs[settle:].tolist(), strict=True):
        monitor.observe(x, z)
    return monitor


def _described(source: Texts, question: Question, rows: int) -> Row:
    return {
        "source": source.name,
        "question": question.label,
        "metric": question.metric,
        "epsilon": question.epsilon,
        "rows": rows,
    }


@benchmark("Embeddings, one at a time onto 20,000 × 384")
def embeddings(setting: Setting) -> Answer:
    """How does a decision compare with FAISS's flat range search? Each radius in a process."""
    source = _source(setting, QUERIES)
    rows, checks, faiss = _beside_faiss(
        setting,
        source,
        measure_single,
        1,
        lambda row: float(row["mean_us"]),
        f"{BRUTE} have the witnesses that looking at every row gives",
    )
    oracle.require(any(row["witnesses"] for row in rows), "no query has a witness")
    long = {**source, "rows": setting.rows(LONGER, least=400), "rounds": setting.rounds}
    longer = setting.alone(measure_single, {**long, "metric": "l2", "epsilon": 0.8})
    del longer["near"]
    return Answer(
        {"embeddings": rows, "longer": [longer]},
        checks,
        [
            UNITS_NOTE,
            ROWS_NOTE,
            f"FAISS ({faiss}) has the first {source['rows']:,} rows and is asked for all within the"
            " radius of one query at a time, the best of one and two threads. likewise compares"
            " and inserts; `check` compares only. The longer history is likewise's alone.",
        ],
    )


def measure_single(given: Mapping[str, Any]) -> Row:
    """Measure likewise at one radius; return the row, and what is near the first queries."""
    n, queries, rounds = given["rows"], given["queries"], given["rounds"]
    question = Question(given["metric"], given["epsilon"])
    source = texts(given["folder"])
    points, outputs = source.rows(n + queries * rounds)
    warm_up(question, points, outputs)
    monitor = _history(question, points[:n], outputs[:n])
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
        **_described(source, question, n),
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


@benchmark("Embeddings in batches of 1,024 onto 20,000 × 384")
def embedding_batches(setting: Setting) -> Answer:
    """How do four batches through `observe_many` compare with FAISS's range search in batches?

    Microseconds per decision or query. share_visited and rows_read: work of the last 1,000
    decisions; explained_bytes: bytes per decision by `explain()`; rss_mb: resident memory. us_1
    and us_2: `observe_many` on one and on two threads.
    """
    source = _source(setting, BATCH * BATCHES)
    rows, checks, faiss = _beside_faiss(
        setting,
        source,
        measure_batches,
        min(BATCH, source["queries"] // BATCHES),
        lambda row: float(min(row["us_1"], row["us_2"])),
        f"the {BRUTE} rows of each batch with most witnesses have those that looking at every row"
        " gives, and both thread counts find as many",
    )
    oracle.require(any(row["pairs"] for row in rows), "no batch has a witness")
    return Answer(
        {"batches": rows},
        checks,
        [
            ROWS_NOTE,
            f"FAISS ({faiss}) searches the first {source['rows']:,} rows for all within the radius"
            " of each query of a batch: the best of one and two threads for the search and for its"
            " matrix product. It compares with all of these rows, and neither with those of the"
            " batch nor by decision; likewise does both, and inserts, so its history grows by a"
            " fifth. The ratio takes likewise's better of one and two threads too.",
        ],
    )


def measure_batches(given: Mapping[str, Any]) -> Row:
    """Measure likewise at one radius; return the row, and what is near the first queries."""
    n, size = given["rows"], given["batch"]
    queries = size * BATCHES
    us: dict[int, list[float]] = {1: [], 2: []}
    first: Any = None
    near: list[list[int]] = []
    index: Row = {}
    question = Question(given["metric"], given["epsilon"])
    source = texts(given["folder"])
    points, outputs = source.rows(n + queries)
    for turn in range(given["rounds"] + 1):  # the first is not counted: it may compile a little
        for threads, times in us.items():
            monitor = _history(question, points[:n], outputs[:n])
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
            index = explained(monitor)
            found = np.concatenate(counts)
            first = found if first is None else first
            oracle.require(np.array_equal(found, first), f"{threads} threads: other counts")
    return {
        **_described(source, question, n),
        "batch": size,
        "batches": BATCHES,
        "pairs": int(first.sum()),
        **{f"us_{threads}": statistics.median(times) for threads, times in us.items()},
        **index,
        "rss_mb": rss_bytes() / 1e6,
        "peak_mb": peak_rss_bytes() / 1e6,
        "near": near,
    }


def _confirm(question: Question, points: Array, outputs: Array, start: int, verdicts: Any) -> None:
    """Hold the rows of a batch with most witnesses against looking at every row."""
    for i in np.argsort(-np.asarray(verdicts.counts), kind="stable")[:BRUTE].tolist():
        row = start + i
        x, z = points[row], outputs[row]
        expected = oracle.witnesses(question, points[:row], outputs[:row], x, z)
        found = verdicts[i].witnesses.rows
        oracle.require(np.array_equal(found, expected), f"row {row}: other witnesses")


IMAGENET_FILE, EXPECTED_FILE = "imagenet1k_mobilenet_emb.npz", "expected_derived.json"


@benchmark("ImageNet embeddings, 1,000 × 1,024 clean, then corrupted")
def imagenet_embeddings(setting: Setting) -> Answer:
    """Are counts those of brute force, as uint8 and as float32, one by one and in a batch?

    Microseconds per decision, one thread; mean_us and percentiles of `observe`, us of
    `observe_many`. The history grows from nothing to 2,000 decisions.
    """
    path, expected = setting.data_file(IMAGENET_FILE), setting.data_file(EXPECTED_FILE)
    rows = []
    for corruption, classifier, known in _known(expected):
        with np.load(path, allow_pickle=False) as file:
            points = np.concatenate([file["emb_clean"], file[f"emb_{corruption}"]])
            names = (f"pred_{classifier}_clean", f"pred_{classifier}_{corruption}")
            outputs = np.concatenate([file[name] for name in names]).astype(np.int64)
        for storage in ("uint8", "float32"):
            for one in known:
                row = _photographs(setting, points.astype(storage), outputs, one)
                rows.append({"corruption": corruption, "classifier": classifier, **row})
    oracle.require(len(rows) == 24, f"{len(rows)} cases of 24 are in {EXPECTED_FILE}")
    return Answer(
        {"embeddings": rows, "equal": [{"runs": len(rows)}]},
        [f"all {len(rows)} runs have the flagged rows and pairs that brute force gave"],
    )


def _known(expected: Path) -> Iterator[tuple[str, str, list[Row]]]:
    """Read what brute force gave at each radius, for each corruption and classifier."""
    for entry in json.loads(expected.read_text(encoding="utf-8")):
        if not entry["file"].startswith("imagenet1k_mobilenet_emb"):
            continue
        words = entry["stream"]
        (corruption,) = (name for name in ("brightness", "jpeg25") if f"{name} rows" in words)
        (classifier,) = (name for name in ("v1s", "v2") if f"pred_{name}_" in words)
        yield corruption, classifier, entry["result"]


def _photographs(setting: Setting, points: Array, outputs: Array, known: Row) -> Row:
    question = Question("l2", float(known["eps"]), 0.0 if points.dtype == np.uint8 else 1e-5)
    warm_up(question, points, outputs)
    many: list[Timing] = []
    singles = []
    monitor: Any = None
    verdicts: Any = None
    for _ in range(setting.rounds):
        monitor = question.monitor()
        verdicts, timing = timed(monitor.observe_many, points, outputs, threads=1)
        many.append(timing)
        run = single_calls(question.monitor().observe, points, outputs)
        oracle.require(np.array_equal(run.counts, verdicts.counts), "other counts by observe")
        singles.append(run.percentiles())
    found = (int(np.count_nonzero(verdicts.violations)), int(verdicts.pairs))
    complaint = f"{question.label}: {found} flagged and pairs, expected {known}"
    oracle.require(found == (known["flagged"], known["pairs"]), complaint)
    return {
        "storage": points.dtype.name,
        "question": question.label,
        "epsilon": question.epsilon,
        "rows": len(points),
        "flagged": found[0],
        "pairs": found[1],
        **wall_us(many, len(points)),
        **medians(singles),
        **explained(monitor),
        "rss_mb": rss_bytes() / 1e6,
    }
