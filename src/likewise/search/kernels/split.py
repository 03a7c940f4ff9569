"""Split a full leaf at the median of its most varied coordinate.

Invariant: both sides get points, every point lies on its side of the plane, and a chain of equal
points goes to one side whole.
Cost: reads one block's rows, which lie scattered over the history; every BLOCK/2 insertions.
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.compile import kernel, prefetch, view
from likewise.search.kernels.rows import read_point
from likewise.search.kernels.table import BLOCK, box_of, floats, ints
from likewise.search.kernels.tree import (
    make_inner,
    make_leaf,
    new_block,
    new_pair,
    round_down,
    round_up,
)


@kernel
def _variance(points: Any, count: int, width: int, j: int) -> float:
    """Return the variance of coordinate j, times count."""
    origin = points[j]
    total = 0.0
    squares = 0.0
    for i in range(1, count):
        step = points[i * width + j] - origin
        total += step
        squares += step * step
    return squares - total * total / count


@kernel
def _four_variances(
    points: Any, count: int, width: int, j: int
) -> tuple[float, float, float, float]:
    """Return the variances of coordinates j to j + 3, times count, computed in one register."""
    o0, o1, o2, o3 = points[j], points[j + 1], points[j + 2], points[j + 3]
    t0 = t1 = t2 = t3 = 0.0
    s0 = s1 = s2 = s3 = 0.0
    for i in range(1, count):
        at = i * width + j
        d0 = points[at] - o0
        d1 = points[at + 1] - o1
        d2 = points[at + 2] - o2
        d3 = points[at + 3] - o3
        t0 += d0
        t1 += d1
        t2 += d2
        t3 += d3
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
    return (
        s0 - t0 * t0 / count,
        s1 - t1 * t1 / count,
        s2 - t2 * t2 / count,
        s3 - t3 * t3 / count,
    )


@kernel
def choose_axis(points: Any, count: int, width: int, gap_scale: Any, unit: float) -> int:
    """Return the coordinate of largest variance, as the metric weighs it; -1 if all are equal.

    Where no variance is a positive number (they vanish, or overflow), the widest coordinate serves.
    """
    best = -1
    most = 0.0
    for start in range(0, width, 4):
        if start + 4 <= width:
            variances = _four_variances(points, count, width, start)
        else:
            first = _variance(points, count, width, start)
            second = _variance(points, count, width, min(start + 1, width - 1))
            third = _variance(points, count, width, min(start + 2, width - 1))
            variances = (first, second, third, third)
        for k in range(4):
            j = min(start + k, width - 1)
            scale = gap_scale[j] / unit
            variance = variances[k] * scale * scale
            if most < variance < np.inf:
                most = variance
                best = j
    if best >= 0:
        return best
    for j in range(width):
        low = points[j]
        high = points[j]
        for i in range(1, count):
            low = min(low, points[i * width + j])
            high = max(high, points[i * width + j])
        extent = min((high * 0.5 - low * 0.5) * (gap_scale[j] / unit), 1e300)
        if gap_scale[j] > 0.0 and high > low and (best < 0 or extent > most):
            most = extent
            best = j
    return best


@kernel
def median(keys: Any, count: int) -> float:
    """Return the value at count // 2 in order; reorders `keys` (Hoare's selection)."""
    target = count // 2
    low = 0
    high = count - 1
    while low < high:
        pivot = keys[(low + high) // 2]
        i = low
        j = high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                held = keys[i]
                keys[i] = keys[j]
                keys[j] = held
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return keys[target]


@kernel
def choose_split(keys: Any, count: int) -> float:
    """Return a plane near the median with points on both sides; `keys` are not all equal."""
    middle = median(keys, count)
    below = 0
    equal = 0
    above = np.inf
    for i in range(count):
        if keys[i] < middle:
            below += 1
        elif keys[i] == middle:
            equal += 1
        else:
            above = min(above, keys[i])
    if above < np.inf and (below == 0 or abs(below + equal - count // 2) < abs(below - count // 2)):
        return above
    return middle


@kernel
def _move_points(table: Any, source: int, target: int, order: Any, count: int) -> None:
    """Copy the points at slots order[:count] of a block to the start of another (or the same)."""
    width = table[t.AXES]
    for j in range(width):
        lane_from = view(table[t.CODES] + (source * width + j) * BLOCK, np.uint8)
        lane_to = view(table[t.CODES] + (target * width + j) * BLOCK, np.uint8)
        for i in range(count):
            lane_to[i] = lane_from[order[i]]
    ids_from = view(table[t.IDS] + source * BLOCK * 8, np.int64)
    ids_to = view(table[t.IDS] + target * BLOCK * 8, np.int64)
    for i in range(count):
        ids_to[i] = ids_from[order[i]]
    ints(table, t.COUNT)[target] = count


@kernel
def fetch_rows(table: Any, ids: Any, count: int) -> None:
    """Prefetch positions, which lie scattered over the history."""
    size = table[t.PLACE_BYTES]
    for i in range(count):
        start = table[t.PLACES] + ids[i] * size
        for byte in range(0, min(size, 1024), 64):
            prefetch(start + byte)
        prefetch(start + min(size, 1024) - 1)


@kernel
def split_leaf(table: Any, node: int) -> bool:
    """Split a leaf whose first block is full; `add_leaves` must follow. False if no plane can."""
    width = table[t.AXES]
    left = ints(table, t.LEFT)
    following = ints(table, t.NEXT)
    points = floats(table, t.POINTS)
    keys = floats(table, t.KEYS)
    order = ints(table, t.ORDER)
    block = left[node]
    tail = following[block]
    ids = view(table[t.IDS] + block * BLOCK * 8, np.int64)
    fetch_rows(table, ids, BLOCK)
    for i in range(BLOCK):
        read_point(table, ids[i], view(table[t.POINTS] + i * width * 8, np.float64))
    count = BLOCK
    filled = tail
    while filled >= 0 and ints(table, t.COUNT)[filled] == 0:
        filled = following[filled]
    if filled >= 0:  # one point stands for the whole tail
        copy = ints(table, t.IDS)[filled * BLOCK]
        read_point(table, copy, view(table[t.POINTS] + BLOCK * width * 8, np.float64))
        count += 1
    unit = floats(table, t.NUMBERS)[t.TREE_REACH]
    axis = choose_axis(points, count, width, floats(table, t.GAP_SCALE), unit)
    if axis < 0:
        return False
    for i in range(count):
        keys[i] = points[i * width + axis]
    split = choose_split(keys, count)

    pair = new_pair(table)
    other = new_block(table)
    make_leaf(table, pair, node, block)
    make_leaf(table, pair + 1, node, other)
    outgoing = 0
    staying = 0
    for i in range(BLOCK):
        if points[i * width + axis] >= split:
            order[BLOCK - 1 - outgoing] = i
            outgoing += 1
        else:
            order[staying] = i
            staying += 1
    _move_points(table, block, other, order[staying:], outgoing)
    _move_points(table, block, block, order, staying)
    if filled >= 0 and points[BLOCK * width + axis] >= split:
        following[other] = tail
        following[block] = -1
    _cut_box(table, node, pair, axis, split)
    make_inner(table, node, axis, split, pair)
    _measure_range(table, pair)
    _measure_range(table, pair + 1)
    return True


@kernel
def _cut_box(table: Any, node: int, pair: int, axis: int, split: float) -> None:
    """Set the boxes of two new leaves to their parent's, cut by the plane."""
    width = table[t.AXES]
    whole = box_of(table, node)
    below = box_of(table, pair)
    above = box_of(table, pair + 1)
    for j in range(2 * width):
        below[j] = whole[j]
        above[j] = whole[j]
    below[width + axis] = min(whole[width + axis], round_up(split))
    above[axis] = max(whole[axis], round_down(split))


@kernel
def _measure_range(table: Any, node: int) -> None:
    """Set the range of a new leaf's outputs; its parent's if that is one value or a chain's."""
    width = table[t.RANGE_WIDTH]
    low = floats(table, t.LOW)
    high = floats(table, t.HIGH)
    outputs = floats(table, t.OUTPUTS)
    block = ints(table, t.LEFT)[node]
    parent = ints(table, t.PARENT)[node]
    alike = width == 1 and low[parent] == high[parent]
    if alike or ints(table, t.NEXT)[block] >= 0:
        for k in range(width):
            low[node * width + k] = low[parent * width + k]
            high[node * width + k] = high[parent * width + k]
        return
    ids = view(table[t.IDS] + block * BLOCK * 8, np.int64)
    for i in range(ints(table, t.COUNT)[block]):
        for k in range(width):
            z = outputs[ids[i] * width + k]
            low[node * width + k] = min(low[node * width + k], z)
            high[node * width + k] = max(high[node * width + k], z)
