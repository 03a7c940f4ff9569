"""FAISS's flat index over one workload, in whichever release this process has.

Needs NumPy and FAISS only, so that it also runs in the environment of the newest release. The
index holds the very rows that likewise is given, as float32, and is asked about fresh ones.

Invariant: only searching is timed. What is reported is the fastest of its ways to answer (for L∞
the nearest row, or all within the radius where the release can do that) and thread settings.
Not here: judgement. The rows it found go back to the question, which holds them against likewise.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import no_collector, rss_bytes
from benchmarks.pictures import Scenes, Stream, album, as_storage
from benchmarks.workloads import texts

Array = NDArray[Any]
MARGIN = 1e-3  # how much further it looks when its answers are compared, because of float32
# Threads of FAISS, threads of its matrix product; one query alone has no matrix product.
SINGLE_THREADS = ((1, 1), (2, 1))
BATCH_THREADS = ((1, 1), (2, 1), (1, 2), (2, 2))


def search(given: Mapping[str, Any]) -> dict[str, Any]:
    """Build, time, and say what the first queries found."""
    import faiss
    from threadpoolctl import threadpool_limits

    blocks, queries = rows_of(given["source"])
    metric, radius, batch = given["metric"], given["radius"], given["batch"]
    if metric == "cosine":
        queries = unit(queries)
    index: Any = None
    for block in blocks:
        if index is None:
            kind = {"linf": faiss.METRIC_Linf, "l2": faiss.METRIC_L2}
            width, code = block.shape[1], kind.get(metric, faiss.METRIC_INNER_PRODUCT)
            index = faiss.IndexFlat(width, code)
        index.add(unit(block) if metric == "cosine" else block)

    times: list[dict[str, Any]] = []
    for threads, product in SINGLE_THREADS if batch == 1 else BATCH_THREADS:
        faiss.omp_set_num_threads(threads)
        with threadpool_limits({"openmp": threads, "blas": product}):
            for way, ask in _ways(index, metric, radius).items():
                us = _us(ask, queries, batch, given["rounds"])
                times.append({"way": way, "threads": threads, "product": product, "us": us})
    faiss.omp_set_num_threads(1)
    best = min(times, key=lambda one: float(one["us"]))
    return {
        "version": faiss.__version__,
        "us": best["us"],
        "best": best,
        "times": times,
        "found": _found(index, metric, radius, queries[: given["answers"]]),
        "rss_mb": rss_bytes() / 1e6,
    }


def rows_of(source: Mapping[str, Any]) -> tuple[Iterator[Array], Array]:
    """The rows of a workload in float32 blocks, and the fresh queries that follow them."""
    n, queries = source["rows"], source["queries"]
    if source["kind"] == "texts":
        points, _ = texts(source["folder"]).rows(n + queries)
        return iter([points[:n]]), points[n:]
    stream: Stream
    if source["kind"] == "album":
        stream = album(source["folder"], source["levels"])
    else:
        stream = Scenes(source["levels"], source["side"], source["channels"])
    blocks = (_flat(pictures) for pictures, _ in stream.blocks(n))
    return blocks, _flat(stream.rows(n, n + queries)[0])


def unit(points: Array) -> Array:
    """Every row at length 1, where cosine is an inner product."""
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def _flat(pictures: Array) -> Array:
    return as_storage(pictures, "float32").reshape(len(pictures), -1)


def _ways(index: Any, metric: str, radius: float) -> dict[str, Callable[[Array], Any]]:
    """The questions this release can answer."""
    limit = {"linf": radius, "l2": radius * radius}.get(metric, 1.0 - radius)
    ways: dict[str, Callable[[Array], Any]] = {"range": lambda x: index.range_search(x, limit)}
    if metric == "linf":
        try:
            index.range_search(np.zeros((1, index.d), np.float32), limit)
        except RuntimeError:  # older releases: metric type not supported
            ways.clear()
        ways["nearest"] = lambda x: index.search(x, 1)
    return ways


def _us(ask: Callable[[Array], Any], queries: Array, batch: int, rounds: int) -> float:
    """Median over the rounds of the microseconds of one query."""
    pieces = [queries[a : a + batch] for a in range(0, len(queries), batch)]
    ask(pieces[0])
    each = []
    with no_collector():
        for _ in range(rounds):
            start = time.perf_counter()
            for piece in pieces:
                ask(piece)
            each.append((time.perf_counter() - start) / len(queries) * 1e6)
    return statistics.median(each)


def _found(index: Any, metric: str, radius: float, queries: Array) -> list[dict[str, Any]]:
    """Rows and distances of each query: all within a slightly wider radius; for L∞ the nearest."""
    if metric == "linf":
        distances, rows = index.search(queries, 1)
        return [
            {"rows": r.tolist(), "distances": d.tolist()}
            for r, d in zip(rows, distances, strict=True)
        ]
    wide = radius * (1 + MARGIN)
    limits, values, rows = index.range_search(queries, wide**2 if metric == "l2" else 1.0 - wide)
    distances = np.sqrt(np.maximum(values, 0)) if metric == "l2" else 1.0 - values
    return [
        {"rows": rows[a:b].tolist(), "distances": distances[a:b].tolist()}
        for a, b in itertools.pairwise(limits.tolist())
    ]
