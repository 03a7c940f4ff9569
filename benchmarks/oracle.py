"""The right answer, slowly: every distance in float64, one comparison, no index.

Invariant: `decide` is the only place of the harness that says who is a witness. Peers merely
propose neighbours, so a boundary that a peer rounds differently is still judged alike.
Cost: O(rows x columns) a question; meant for a sample of them. With a `Sieve` (L∞ only) most rows
are set aside by a few coordinates, and every decision of a long stream can be looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import contenders

Array = NDArray[Any]
BLOCK_VALUES = 2_400_000
LANES = 8  # sums are taken in so many lanes, which are then added pairwise


class Mismatch(AssertionError):
    """Two contenders that claim exactness disagree, or nothing was found."""


def require(holds: bool, complaint: str) -> None:
    """Raise `Mismatch` unless it holds (`assert` would vanish under -O)."""
    if not holds:
        raise Mismatch(complaint)


def sums(terms: Array) -> Array:
    """The sum of each row, its terms in lanes: k, k + 8, k + 16, ... in order, then pairwise."""
    width = terms.shape[1]
    steps = -(-width // LANES)
    lanes = np.zeros((len(terms), steps * LANES))
    lanes[:, :width] = terms
    a, b, c, d, e, f, g, h = np.cumsum(lanes.reshape(-1, steps, LANES), axis=1)[:, -1].T
    return np.asarray(((a + b) + (c + d)) + ((e + f) + (g + h)))


def distances(metric: str, points: Array, x: Array) -> Array:
    """One float64 distance per row of `points`, of whatever shape the rows are."""
    points = points.reshape(len(points), x.size).astype(np.float64)
    x = x.reshape(-1).astype(np.float64)
    if metric == "linf":
        return np.asarray(np.abs(points - x).max(axis=1, initial=0.0))
    if metric == "l2":
        return np.asarray(np.sqrt(sums(np.square(points - x))))
    if metric == "cosine":
        norms = sums(np.square(points)) * sums(np.square(x[None]))
        return np.asarray(np.maximum(1.0 - sums(points * x) / np.sqrt(norms), 0.0))
    raise ValueError(f"no distance written here for metric {metric!r}")


class Sieve:
    """Sets aside the rows that are too far in one of a few coordinates, for L∞."""

    def __init__(self, points: Array, columns: int = 8) -> None:
        flat = points.reshape(len(points), -1)
        width = flat.shape[1]
        self.columns = np.unique(np.linspace(0, width - 1, min(columns, width)).astype(np.int64))
        self.values = np.ascontiguousarray(flat[:, self.columns].T, dtype=np.float64)

    def rows(self, x: Array, reach: float, before: int) -> Array:
        """The rows below `before` that may be near."""
        asked = x.reshape(-1)[self.columns].astype(np.float64)
        rows: Array = np.arange(before)
        for value, column in zip(asked, self.values, strict=True):
            rows = rows[np.abs(column[rows] - value) <= reach]
        return rows


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
    size = max(1, BLOCK_VALUES // max(1, x.size))
    for start in range(0, len(points), size):
        rows = np.arange(start, min(start + size, len(points)))
        found.append(decide(question, points, outputs, rows, x, z))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def require_all(
    question: contenders.Question, points: Array, outputs: Array, verdicts: Any
) -> None:
    """Every verdict of the stream names the witnesses it should (L∞)."""
    sieve = Sieve(points)
    named, offsets = np.asarray(verdicts.witnesses.rows), np.asarray(verdicts.offsets)
    for i, (x, z) in enumerate(zip(points, outputs, strict=True)):
        rows = sieve.rows(x, question.reach, i)
        expected = decide(question, points, outputs, rows, x, z)
        found = named[offsets[i] : offsets[i + 1]]
        require(
            np.array_equal(found, expected),
            f"row {i}: {found.tolist()[:20]}, expected {expected.tolist()[:20]}",
        )


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
