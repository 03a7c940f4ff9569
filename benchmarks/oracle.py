"""The right answer, slowly: every distance in float64, one comparison, no index.

Invariant: `decide` is the only place of the harness that says who is a witness. Peers merely
propose neighbours, so a boundary that a peer rounds differently is still judged alike.
Cost: O(rows x columns) a question; meant for a sample of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import contenders

Array = NDArray[Any]
BLOCK_ROWS = 200_000


class Mismatch(AssertionError):
    """Two contenders that claim exactness disagree, or nothing was found."""


def require(holds: bool, complaint: str) -> None:
    """Raise `Mismatch` unless it holds (`assert` would vanish under -O)."""
    if not holds:
        raise Mismatch(complaint)


def distances(metric: str, points: Array, x: Array) -> Array:
    """One float64 distance per row of `points`; coordinates are summed in order."""
    gaps = np.abs(points.astype(np.float64) - x.astype(np.float64))
    if metric == "linf":
        return np.asarray(gaps.max(axis=1, initial=0.0))
    if metric == "l2":
        return np.asarray(np.sqrt(np.cumsum(gaps * gaps, axis=1)[:, -1]))
    raise ValueError(f"no distance written here for metric {metric!r}")


def decide(
    question: contenders.Question, points: Array, outputs: Array, rows: Array, x: Array, z: Any
) -> Array:
    """Those of `rows` that are near x and whose output differs from z, ascending."""
    rows = np.sort(np.asarray(rows, dtype=np.int64))
    near = distances(question.metric, points[rows], x) <= question.reach
    found: Array = rows[near & (outputs[rows] != z)]
    return found


def witnesses(
    question: contenders.Question, points: Array, outputs: Array, x: Array, z: Any
) -> Array:
    """All witnesses of (x, z) among all the rows, by looking at every one of them."""
    found = []
    for start in range(0, len(points), BLOCK_ROWS):
        rows = np.arange(start, min(start + BLOCK_ROWS, len(points)))
        found.append(decide(question, points, outputs, rows, x, z))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def prove(question: contenders.Question, points: Array, outputs: Array, most: int = 1_200) -> str:
    """On a sample in order of arrival, likewise finds what looking at every row finds.

    The radius is doubled until there is something to find. Returns what was checked.
    """
    step = max(1, len(points) // most)
    points, outputs = points[::step][:most], outputs[::step][:most]
    for _ in range(64):
        expected = [
            witnesses(question, points[:i], outputs[:i], points[i], outputs[i])
            for i in range(len(points))
        ]
        pairs = sum(len(rows) for rows in expected)
        if pairs:
            break
        question = question.at(question.epsilon * 2)
    require(pairs > 0, "no radius finds a witness in this sample")
    many = question.monitor().observe_many(points, outputs, threads=1)
    single = question.monitor()
    for i, rows in enumerate(expected):
        one = single.observe(points[i], outputs[i].item())
        for way, verdict in (("observe_many", many[i]), ("observe", one)):
            require(
                np.array_equal(verdict.witnesses.rows, rows),
                f"{way}, row {i}: {verdict.witnesses.rows.tolist()}, expected {rows.tolist()}",
            )
    return (
        f"{len(points):,} rows in this order at {question.label}: observe, observe_many and"
        f" looking at every row find the same {pairs:,} pairs"
    )
