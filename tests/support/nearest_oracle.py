"""What a hunt must find, worked out the slow and obvious way.

`nearest` and `steepest` look at every past decision, by the oracle's distances. `hunt` replays a
stream and gives for each decision what one of them finds.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import likewise as lw
from tests.support.oracle import as_stored, input_distances, output_distances, storage_of

Answer = tuple[int, float, float]
NOTHING: Answer = (-1, math.inf, 0.0)


def nearest(rule: lw.Rule, rows: np.ndarray, near: np.ndarray, far: np.ndarray) -> Answer:
    """The nearest row that differs, the earliest of several."""
    best = NOTHING
    for row, d, apart in zip(rows, near, far, strict=True):
        if apart > rule.delta and d < best[1]:
            best = int(row), float(d), float(apart)
    return best


def slope(near: float, far: float, exponent: float) -> float:
    if far == 0:
        return 0.0
    try:
        power = math.pow(near, exponent)
    except OverflowError:
        return 0.0
    if power == 0:
        return math.inf
    return 0.0 if math.isinf(power) else far / power


def steepest(exponent: float) -> Callable[..., Answer]:
    """The steepest row; of several the one whose output is farthest, then the earliest."""

    def find(rule: lw.Rule, rows: np.ndarray, near: np.ndarray, far: np.ndarray) -> Answer:
        best, merit = NOTHING, (0.0, 0.0)
        for row, d, apart in zip(rows.tolist(), near.tolist(), far.tolist(), strict=True):
            mine = slope(d, apart, exponent), apart
            if mine[0] > 0 and mine > merit:
                best, merit = (row, d, apart), mine
        return best

    return find


def hunt(
    find: Callable[..., Answer],
    rule: lw.Rule,
    x: np.ndarray,
    z: Any,
    which: Any = None,
    alive: np.ndarray | None = None,
) -> list[Answer]:
    """What is found for each decision among those before it (and alive); or for `which` only."""
    stored = as_stored(storage_of(rule, x), x).reshape(len(x), -1)
    answers = []
    for i in range(len(x)) if which is None else which:
        rows = np.arange(i) if alive is None else np.flatnonzero(alive[:i])
        if len(rows) == 0:
            answers.append(NOTHING)
            continue
        near = input_distances(rule, stored[rows], stored[i])
        far = output_distances(rule, [z[row] for row in rows], z[i])
        answers.append(find(rule, rows, near, far))
    return answers
