"""Compute distances in float64, and make the one comparison that decides.

A sum runs in eight lanes: lane k adds the terms of coordinates k, k + 8, k + 16, … in that order,
and the lanes are added in pairs at the end. So it vectorises, and a few lines of NumPy give the
same bits. Invariant: only `is_near` and `is_different` decide what is near and what is different.
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.compile import kernel, small, view
from likewise.search.kernels.rows import load_values
from likewise.search.kernels.table import CHUNK, floats


@small
def is_near(distance: float, reach: float) -> bool:
    """Compare inputs: near means inside a closed ball."""
    return distance <= reach


@small
def is_different(distance: float, delta: float) -> bool:
    """Compare outputs: different means strictly farther than delta."""
    return distance > delta


@kernel
def largest(values: Any, count: int) -> float:
    """Return the largest of some non-negative numbers, in four lanes."""
    a = b = c = d = 0.0
    whole = count - count % 4
    for j in range(0, whole, 4):
        a = values[j] if values[j] > a else a
        b = values[j + 1] if values[j + 1] > b else b
        c = values[j + 2] if values[j + 2] > c else c
        d = values[j + 3] if values[j + 3] > d else d
    for j in range(whole, count):
        a = values[j] if values[j] > a else a
    return max(a, b, c, d)


@kernel
def gap_terms(metric: int, x: Any, y: Any, weights: Any, count: int) -> None:
    """Overwrite y with what each coordinate contributes; nothing where the weight is 0.

    A gap may overflow, and 0 times infinity is no number: that is why the weight is checked.
    """
    if metric == t.L2:
        for j in range(count):
            gap = x[j] - y[j] if weights[j] > 0.0 else 0.0
            y[j] = weights[j] * gap * gap
    elif metric == t.COSINE:
        for j in range(count):
            y[j] = weights[j] * x[j] * y[j]
    else:
        for j in range(count):
            gap = abs(x[j] - y[j]) if weights[j] > 0.0 else 0.0
            y[j] = weights[j] * gap


@kernel
def _chunk_terms(table: Any, row: int, start: int, count: int) -> None:
    """Write to PART what `count` coordinates from `start` on contribute to the distance.

    The distance is that from QUERY. A row is read in such chunks and may be abandoned early: the
    terms are non-negative and floating-point addition never lets a sum shrink, so a partial sum
    beyond the reach can only end beyond it.
    """
    part = floats(table, t.PART)
    size = table[t.ROW_BYTES] // table[t.WIDTH]
    address = table[t.ROWS] + row * table[t.ROW_BYTES] + start * size
    load_values(address, table[t.STORAGE], count, part)
    query = view(table[t.QUERY] + start * 8, np.float64)
    weights = view(table[t.WEIGHTS] + start * 8, np.float64)
    gap_terms(table[t.METRIC], query, part, weights, count)


@kernel
def _largest_term(table: Any, row: int, reach: float) -> float:
    """Return the largest term; infinity once it exceeds the reach."""
    width = table[t.WIDTH]
    most = 0.0
    for start in range(0, width, CHUNK):
        count = min(CHUNK, width - start)
        _chunk_terms(table, row, start, count)
        most = max(most, largest(floats(table, t.PART), count))
        if most > reach:
            return np.inf
    return most


@kernel
def _sum_of_terms(table: Any, row: int, limit: float) -> float:
    """Return the sum of the terms, in eight lanes; infinity once it exceeds the limit."""
    width = table[t.WIDTH]
    part = floats(table, t.PART)
    a = b = c = d = e = f = g = h = 0.0
    for start in range(0, width, CHUNK):
        count = min(CHUNK, width - start)
        _chunk_terms(table, row, start, count)
        while count % 8 != 0:
            part[count] = 0.0
            count += 1
        for j in range(0, count, 8):
            a += part[j]
            b += part[j + 1]
            c += part[j + 2]
            d += part[j + 3]
            e += part[j + 4]
            f += part[j + 5]
            g += part[j + 6]
            h += part[j + 7]
        if ((a + b) + (c + d)) + ((e + f) + (g + h)) > limit:
            return np.inf
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@kernel
def input_distance(table: Any, row: int, reach: float, norm: float) -> float:
    """Return the rule's distance from QUERY to a row, or infinity once it must exceed `reach`.

    For cosine it is 1 - cos, from squared norms (QUERY's is `norm`): sqrt(s * s) is s to the bit,
    so equal inputs are at 0.
    """
    metric = table[t.METRIC]
    if metric == t.LINF:
        return _largest_term(table, row, reach)
    if metric == t.L1:
        return _sum_of_terms(table, row, reach)
    if metric == t.L2:  # a little above the squared reach, for the rounding of the root
        return np.sqrt(_sum_of_terms(table, row, reach * reach * (1.0 + 1e-9)))
    product = _sum_of_terms(table, row, np.inf)
    return max(0.0, 1.0 - product / np.sqrt(norm * floats(table, t.NORMS)[row]))


@small
def output_distance(kind: int, z: Any, others: Any, at: int, width: int) -> float:
    """Return how different two outputs are; the second starts at others[at]."""
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
def farthest_output(
    kind: int, z: Any, low: Any, high: Any, at: int, width: int, corner: Any
) -> float:
    """Return the largest distance from z of any output between low and high.

    The corner farthest from z is judged by `output_distance` itself; every operation in it is
    monotone, rounding included, so no output inside the range can come out farther than the corner.
    """
    if kind == t.LABEL:
        return 0.0 if low[at] == z[0] and high[at] == z[0] else 1.0
    for k in range(width):
        below = abs(z[k] - low[at + k])
        above = abs(z[k] - high[at + k])
        corner[k] = low[at + k] if below > above else high[at + k]
    return output_distance(kind, z, corner, 0, width)


@kernel
def outputs_agree(
    kind: int, z: Any, low: Any, high: Any, at: int, width: int, corner: Any, delta: float
) -> bool:
    """Return whether no output between low and high can differ from z."""
    return not is_different(farthest_output(kind, z, low, high, at, width, corner), delta)
