"""Distances in float64, and the one comparison that decides.

Coordinates are added in order, so a NumPy cumulative sum gives the same bits. A distance may be
abandoned early: the terms are non-negative and floating-point addition never lets a sum shrink, so
a partial sum beyond the reach can only end beyond it.

Invariant: `is_near` and `is_different` are the only places where near and different are decided.
"""

from typing import Any

import numpy as np

from likewise.kernels import table as t
from likewise.kernels.compile import kernel


@kernel
def is_near(distance: float, reach: float) -> bool:
    """The one comparison of inputs: a closed ball."""
    return distance <= reach


@kernel
def is_different(distance: float, delta: float) -> bool:
    """The one comparison of outputs: strict."""
    return distance > delta


@kernel
def linf(x: Any, y: Any, weights: Any, width: int, reach: float) -> float:
    largest = 0.0
    for j in range(width):
        if weights[j] > 0.0:  # a gap may overflow, and 0 times infinity is no number
            largest = max(largest, weights[j] * abs(x[j] - y[j]))
            if largest > reach:
                return np.inf
    return largest


@kernel
def l1(x: Any, y: Any, weights: Any, width: int, reach: float) -> float:
    total = 0.0
    for j in range(width):
        if weights[j] > 0.0:
            total += weights[j] * abs(x[j] - y[j])
            if total > reach:
                return np.inf
    return total


@kernel
def l2(x: Any, y: Any, weights: Any, width: int) -> float:
    total = 0.0
    for j in range(width):
        if weights[j] > 0.0:
            gap = x[j] - y[j]
            total += weights[j] * gap * gap
    return np.sqrt(total)


@kernel
def cosine(x: Any, y: Any, weights: Any, width: int, x_norm: float, y_norm: float) -> float:
    """1 - cos, from squared norms: sqrt(s * s) is s to the bit, so equal inputs are at 0."""
    product = 0.0
    for j in range(width):
        product += weights[j] * x[j] * y[j]
    return max(0.0, 1.0 - product / np.sqrt(x_norm * y_norm))


@kernel
def input_distance(
    metric: int,
    x: Any,
    y: Any,
    weights: Any,
    width: int,
    reach: float,
    x_norm: float,
    y_norm: float,
) -> float:
    """The rule's distance, or infinity once it is certain to exceed `reach`."""
    if metric == t.LINF:
        return linf(x, y, weights, width, reach)
    if metric == t.L1:
        return l1(x, y, weights, width, reach)
    if metric == t.L2:
        return l2(x, y, weights, width)
    return cosine(x, y, weights, width, x_norm, y_norm)


@kernel
def output_distance(kind: int, z: Any, others: Any, at: int, width: int) -> float:
    """How different two outputs are; the second starts at others[at]."""
    if kind == t.LABEL:
        return 0.0 if z[0] == others[at] else 1.0
    if kind == t.NUMBER:
        return abs(z[0] - others[at])
    total = 0.0
    for k in range(width):
        gap = abs(z[k] - others[at + k])
        if kind == t.OUT_LINF:
            total = max(total, gap)
        elif kind == t.OUT_L2:
            total += gap * gap
        else:
            total += gap
    if kind == t.OUT_L2:
        return np.sqrt(total)
    if kind == t.OUT_TV:
        return 0.5 * total
    return total


@kernel
def outputs_agree(
    kind: int, z: Any, low: Any, high: Any, at: int, width: int, corner: Any, delta: float
) -> bool:
    """Whether no output between low and high can differ from z.

    The corner farthest from z is judged by `output_distance` itself; every operation in it is
    monotone, rounding included, so no output inside the range can come out farther than the corner.
    """
    if kind == t.LABEL:
        return delta >= 1.0 or (low[at] == z[0] and high[at] == z[0])
    for k in range(width):
        below = abs(z[k] - low[at + k])
        above = abs(z[k] - high[at + k])
        corner[k] = low[at + k] if below > above else high[at + k]
    return not is_different(output_distance(kind, z, corner, 0, width), delta)
