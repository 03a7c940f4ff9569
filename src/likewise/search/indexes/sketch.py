"""Which coordinates a tree holds where there are too many: the few that part most pairs.

Pairs of past inputs are looked at in all coordinates, a pair at a time. Those coordinates come
first that keep most pairs apart, then those that keep apart what the ones before did not:
neighbouring pixels say the same thing, and one of them is enough.

Invariant: any choice gives exact verdicts; a good one rules out almost everything early.
Cost: two passes over some 200 pairs of rows, in pieces, so that no decision waits for it.
"""

from collections.abc import Generator

import numpy as np
import numpy.typing as npt

from likewise.search.history.stored_decisions import History
from likewise.tables.rows import Rows

AXES = 24
UNSKETCHED_WIDTH = 32
"""Inputs of at most so many coordinates are held whole."""

_PAIRS = 192
_SHORTLIST = 192  # best coordinates on their own, and
_OTHERS = 64  # some others, in case the best all say the same
_KEPT = 0.25  # of a pair's weight once a coordinate has parted it

Scores = npt.NDArray[np.float32]


def first_coordinates(history: History) -> Rows:
    """Some of those that count, at random: what there is before anything is known."""
    counting = np.flatnonzero(history.weights[: history.width])
    picked = np.random.default_rng(0).permutation(counting)[:AXES]
    return np.sort(picked).astype(np.int64)


def choose(history: History) -> Generator[int, None, Rows]:
    """Coordinates for a tree over this history; yields 1 after each piece of the work."""
    rows = history.sample(2 * _PAIRS)
    random = np.random.default_rng(len(rows))
    pairs = random.permutation(rows)[: len(rows) // 2 * 2].reshape(-1, 2)
    everything = np.zeros(history.width, dtype=np.float32)
    whole = slice(None)
    for one, two in pairs:
        everything += _separation(history, one, two, whole)
        yield 1
    counting = np.flatnonzero(history.weights[: history.width])
    if len(pairs) == 0 or not everything.max() > 0:
        return first_coordinates(history)
    best = counting[np.argsort(-everything[counting], kind="stable")[:_SHORTLIST]]
    listed = np.union1d(best, random.permutation(counting)[:_OTHERS])
    parting = np.empty((len(pairs), len(listed)), dtype=np.float32)
    for k, (one, two) in enumerate(pairs):
        parting[k] = _separation(history, one, two, listed)
        yield 1
    weight = np.ones(len(pairs), dtype=np.float32)
    taken: list[int] = []
    for _ in range(min(AXES, len(listed))):
        gain = weight @ parting
        gain[taken] = -1.0
        taken.append(int(np.argmax(gain)))
        weight *= 1.0 - (1.0 - _KEPT) * parting[:, taken[-1]]
    return listed[taken].astype(np.int64)


def _separation(history: History, one: int, two: int, which: slice | Rows) -> Scores:
    """How much each coordinate alone says against two rows being near, from 0 to 1."""
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
