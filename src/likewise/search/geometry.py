"""Derive from a rule the numbers that the kernels work with.

The tree measures gaps between positions coordinate by coordinate. Positions, gaps, codes and
margins follow from the metric, so that a cell or a code that is out of reach can hold nothing near
(search/kernels/codes.py and search/kernels/search.py say why).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from likewise.rule.rule import Rule
from likewise.search.kernels import table as t

# For cosine the positions are x * sqrt(w) / norm, on the unit sphere, where the squared straight
# distance is twice the cosine distance. The distance as computed errs by less than (d + 8) * 2^-52,
# and a norm by that much, relatively: the reach allows for more.

METRICS = {"linf": t.LINF, "l1": t.L1, "l2": t.L2, "cosine": t.COSINE}
GRID = {"linf": 16, "l1": 64, "l2": 32, "cosine": 32}
"""Code units within the reach, in the coordinate that has most of them."""
_CLAMP = {"linf": 2.0**48, "l1": 2.0**40, "l2": 2.0**40, "cosine": 2.0**40}
_MARGIN = 1e-10  # relative; far above the roundings on the way, far below anything that costs time


@dataclass(frozen=True)
class Geometry:
    """Holds a rule's metric as numbers; the arrays have an entry for each axis of the index."""

    reach: float
    tree_reach: float
    clamp: float
    window: int
    limit: int
    prescale: npt.NDArray[np.float64]
    gap_scale: npt.NDArray[np.float64]
    code_scale: npt.NDArray[np.float64]


def _grids(metric: str, width: int) -> npt.NDArray[np.float64]:
    """Return the code units within the reach for each coordinate: at most the metric's grid.

    Codes of far points can coincide modulo 256. For linf the units differ a little from coordinate
    to coordinate, so that where columns move together their coincidences do not.
    """
    grid = float(GRID[metric])
    if metric != "linf":
        return np.full(width, grid)
    turns = np.arange(width, dtype=np.float64) * 0.6180339887498949 % 1.0
    return np.asarray(grid * (1.0 - 0.2 * turns), dtype=np.float64)


def geometry(
    rule: Rule, width: int, slack: float, coordinates: npt.NDArray[np.int64] | None = None
) -> Geometry:
    """Return the geometry of an index over some coordinates of inputs of `width`; None for all.

    Each metric's distance over some coordinates is at most that over all, so what is near stays
    within reach.
    """
    weights = np.ones(width) if rule.weights is None else np.array(rule.weights, dtype=np.float64)
    if coordinates is not None:
        weights = weights[coordinates]
    axes = len(weights)
    reach = rule.epsilon * (1.0 + slack)
    grid = GRID[rule.metric]
    clamp = _CLAMP[rule.metric]
    prescale, gap_scale, tree_reach = np.ones(axes), weights, reach
    if rule.metric == "l2":
        gap_scale = np.sqrt(weights)
    elif rule.metric == "cosine":
        prescale = np.sqrt(weights)
        gap_scale = (weights > 0).astype(np.float64)
        tree_reach = math.sqrt(2.0 * (reach + (width + 8) * 2.0**-51)) + (width + 64) * 2.0**-50
    tree_reach *= 1.0 + _MARGIN
    if rule.metric == "linf":
        limit = grid
    else:
        error = 2.0**-51 * clamp  # of one coordinate, in code units, with room to spare
        if rule.metric == "l1":
            limit = math.ceil(grid + 1e-6 + error * axes)
        else:
            limit = math.ceil((grid + 1e-6 + error * math.sqrt(axes)) ** 2)
    return Geometry(
        reach=reach,
        tree_reach=tree_reach,
        clamp=clamp,
        window=min(limit + 1, 127) if rule.metric == "l1" else grid + 1,
        limit=min(limit, 60_000),
        prescale=prescale,
        gap_scale=gap_scale,
        code_scale=gap_scale * _grids(rule.metric, axes) / tree_reach,
    )
