"""likewise and FAISS name the same neighbours, and stand in the same row of a table.

FAISS knows no decisions, so likewise is asked with one that no row has: then every near row is a
witness. FAISS computes in float32, so rows within a thousandth of the radius are left open.

Invariant: nothing is reported beside FAISS unless both agree on the queries that were compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import oracle
from benchmarks.contenders import Question
from benchmarks.flat import MARGIN

NOBODY = -1  # a decision that no row has


def near_rows(monitor: Any, points: Any) -> list[list[int]]:
    """All remembered rows near each point, whatever their decision."""
    return [monitor.check(x, NOBODY).witnesses.rows.tolist() for x in points]


def same_nearest(
    near: Sequence[list[int]], found: Sequence[Mapping[str, Any]], radius: float
) -> None:
    """Where FAISS's nearest row is within the radius likewise names it, and nowhere else any."""
    oracle.require(any(near), "no query is near any row")
    for mine, theirs in zip(near, found, strict=True):
        (row,), (distance,) = theirs["rows"], theirs["distances"]
        told = f"FAISS's nearest is row {row} at {distance}, likewise has {mine[:20]}"
        oracle.require((row in mine) if distance <= radius else not mine, told)


def same_within(question: Question, near: Sequence[list[int]], faiss: Mapping[str, Any]) -> str:
    """FAISS finds what likewise finds, but for pairs it cannot tell apart; what was checked."""
    total = sum(len(rows) for rows in near)
    oracle.require(total > 0, f"{question.label}: no query has a neighbour")
    for name, one in faiss.items():
        for mine, theirs in zip(near, one["found"], strict=True):
            rows, distances = np.array(theirs["rows"], np.int64), np.array(theirs["distances"])
            sure = rows[distances <= question.reach * (1 - MARGIN)]
            told = f"{question.label}: FAISS {name} and likewise have other neighbours"
            oracle.require(not set(mine) - set(rows.tolist()), told)
            oracle.require(not set(sure.tolist()) - set(mine), told)
    names = ", ".join(["likewise", *(f"FAISS {one['version']}" for one in faiss.values())])
    return f"{question.label}: {len(near)} queries have the same {total:,} neighbours from {names}"


def put_beside(row: dict[str, Any], faiss: Mapping[str, Any], mine: Mapping[str, float]) -> None:
    """Each release's time, memory and settings, and its time over each of likewise's."""
    for name, one in faiss.items():
        row[f"{name}_us"], row[f"{name}_rss_mb"] = one["us"], one["rss_mb"]
        row[f"{name}_best"] = one["best"]
        for ratio, us in mine.items():
            row[f"{name}_{ratio}"] = one["us"] / us


def releases(faiss: Mapping[str, Any]) -> str:
    """Which is which, for a note."""
    return ", ".join(f"{name} is {one['version']}" for name, one in faiss.items()) or "not here"
