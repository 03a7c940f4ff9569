"""Choose a few coordinates for a tree over long inputs: those that separate most pairs.

First come coordinates that separate most pairs of past inputs, then those that separate what the
ones before did not: neighbouring pixels carry the same information, and one of them is enough.
Invariant: any choice gives exact verdicts; a good one rules out almost everything early.
Cost: two passes over some 200 pairs of rows, in pieces, so that no decision waits for it.
"""

from collections.abc import Generator

import numpy as np
import numpy.typing as npt

from likewise.search.history.stored_decisions import History
from likewise.tables.array_types import Rows

AXES = 24
UNSKETCHED_WIDTH = 32
"""Inputs of at most so many coordinates are held whole."""

_PAIRS = 192
_SHORTLIST = 192  # best coordinates on their own, and
_OTHERS = 64  # some others, in case the best all say the same
_REMAINING = 0.25  # of a pair's weight once a coordinate has separated it

Scores = npt.NDArray[np.float32]


def first_coordinates(history: History) -> Rows:
    """Return random coordinates of non-zero weight, for use before any data are known."""
    weighted = np.flatnonzero(history.weights[: history.width])
    chosen = np.random.default_rng(0).permutation(weighted)[:AXES]
    return np.sort(chosen).astype(np.int64)


def choose(history: History) -> Generator[int, None, Rows]:
    """Choose coordinates for a tree over this history; yield 1 after each piece of the work."""
    rows = history.sample(2 * _PAIRS)
    random = np.random.default_rng(len(rows))
    pairs = random.permutation(rows)[: len(rows) // 2 * 2].reshape(-1, 2)
    total = np.zeros(history.width, dtype=np.float32)
    for one, two in pairs:
        total += _separation(history, one, two, slice(None))
        yield 1
    weighted = np.flatnonzero(history.weights[: history.width])
    if len(pairs) == 0 or not total.max() > 0:
        return first_coordinates(history)
    best = weighted[np.argsort(-total[weighted], kind="stable")[:_SHORTLIST]]
    shortlist = np.union1d(best, random.permutation(weighted)[:_OTHERS])
    separations = np.empty((len(pairs), len(shortlist)), dtype=np.float32)
    for k, (one, two) in enumerate(pairs):
        separations[k] = _separation(history, one, two, shortlist)
        yield 1
    weight = np.ones(len(pairs), dtype=np.float32)
    chosen: list[int] = []
    for _ in range(min(AXES, len(shortlist))):
        gain = weight @ separations
        gain[chosen] = -1.0
        chosen.append(int(np.argmax(gain)))
        weight *= 1.0 - (1.0 - _REMAINING) * separations[:, chosen[-1]]
    return shortlist[chosen].astype(np.int64)


def _separation(history: History, one: int, two: int, which: slice | Rows) -> Scores:
    """Return how strongly each coordinate alone separates two rows, from 0 to 1."""
    history.note_touched(2)
    rule = history.rule
    weights = history.weights[: history.width][which]
    with np.errstate(all="ignore"):
        x, y = (history.rows[row].reshape(-1)[which].astype(np.float64) for row in (one, two))
        reach = rule.epsilon
        if history.cosine:
            norms = (np.linalg.norm(history.rows[row].astype(np.float64)) for row in (one, two))
            x, y = (z / max(norm, 1e-300) for z, norm in zip((x, y), norms, strict=True))
            reach = np.sqrt(2.0 * reach)
        if rule.metric in ("l2", "cosine"):
            weights = np.sqrt(weights)
        gaps = np.abs(x - y) * weights / reach
    if rule.metric == "linf":
        return np.asarray(gaps > 1.0, dtype=np.float32)
    gaps = np.minimum(np.nan_to_num(gaps, nan=1.0), 1.0)
    return np.asarray(gaps if rule.metric == "l1" else gaps * gaps, dtype=np.float32)
