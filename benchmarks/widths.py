"""One point of the dimension curve: made-up pictures of one width, in a process of its own.

likewise loads a history, settles by observing its last rows, and is then timed on fresh ones; each
is made just before it is observed, off the clock. SciPy's tree has the same rows beforehand.

Invariant: before anything is timed, the near rows of fresh ones are held against looking at every
row of the history while it is made.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import oracle
from benchmarks.contenders import Question, explained, warm_up
from benchmarks.flat import rows_of
from benchmarks.measure import fresh_memory_us, no_collector, rss_bytes
from benchmarks.neighbours import NOBODY, near_rows
from benchmarks.pictures import Scenes
from benchmarks.planted import as_storage, radius_of

LEVELS = 4
SETTLE, TIMED, CHECKED = 2_000, 500, 100


def run(given: Mapping[str, Any]) -> dict[str, Any]:
    """likewise at one width: load, settle, check, time."""
    n, storage = given["rows"], given["storage"]
    stream = Scenes(LEVELS, given["side"], given["channels"])
    question = Question("linf", radius_of(LEVELS, storage), 0.0 if storage == "uint8" else 1e-5)
    few, labels = stream.rows(0, 200)
    warm_up(question, as_storage(few, storage), labels)
    fresh = as_storage(stream.rows(n, n + CHECKED)[0], storage)
    expected: list[list[int]] = [[] for _ in fresh]
    monitor: Any = question.monitor()
    settle = n - min(SETTLE, n // 4)
    for pictures, outputs in stream.blocks(n):
        points, start = as_storage(pictures, storage), len(monitor)
        sieve = oracle.Sieve(points)
        for x, known in zip(fresh, expected, strict=True):
            some = sieve.rows(x, question.reach, len(points))
            rows = oracle.decide(question, points, outputs, some, x, NOBODY)
            known.extend((start + rows).tolist())
        loaded = min(max(settle - start, 0), len(points))
        if loaded:
            monitor.load(points[:loaded], outputs[:loaded])
        for x, z in zip(points[loaded:], outputs[loaded:].tolist(), strict=True):
            monitor.observe(x, z)
    found = near_rows(monitor, fresh)
    oracle.require(found == expected, f"{given['side']}, {storage}: other rows are near")
    oracle.require(any(found), f"{given['side']}, {storage}: no row is near any")

    spent = np.empty((given["rounds"], TIMED), np.int64)
    clock = time.perf_counter_ns
    with no_collector():
        for k in range(spent.size):
            row = stream.row(n + k)
            x, z = as_storage(row.picture, storage), row.decision
            begin = clock()
            monitor.observe(x, z)
            spent.flat[k] = clock() - begin
    us = spent / 1e3
    return {
        "rows": n,
        "us": statistics.median(us.mean(axis=1).tolist()),
        "p50_us": float(np.median(us)),
        "p99_us": float(np.percentile(us, 99)),
        "max_us": float(us.max()),
        **explained(monitor),
        "rss_mb": rss_bytes() / 1e6,
        "fresh_us": fresh_memory_us(fresh[0].nbytes),
        "checked": len(fresh),
        "neighbours": float(np.mean([len(rows) for rows in found])),
        "near": found[: given["queries"]],
    }


def tree(given: Mapping[str, Any]) -> dict[str, Any]:
    """SciPy's k-d tree over the same rows, asked for all within the radius of one row at a time."""
    from scipy.spatial import cKDTree

    blocks, queries = rows_of(given)
    points = np.empty((given["rows"], queries.shape[1]))
    done = 0
    for block in blocks:
        points[done : done + len(block)] = block
        done += len(block)
    start = time.perf_counter()
    built = cKDTree(points)
    seconds = time.perf_counter() - start
    radius = radius_of(LEVELS, "float32") * (1 + 1e-5)
    near, spent = [], 0.0
    for x in queries:
        start = time.perf_counter()
        rows = built.query_ball_point(x, radius, p=np.inf, workers=1, return_sorted=False)
        spent += time.perf_counter() - start
        near.append(sorted(rows))
    us = spent / len(queries) * 1e6
    return {"us": us, "build_seconds": seconds, "rss_mb": rss_bytes() / 1e6, "near": near}
