"""The live tree: a k-d tree of blocks that splits as it grows.

A node is a slot in a few arrays; children lie side by side, so a node keeps the first only. A leaf
holds a block of up to BLOCK points; equal points that no plane can part chain further blocks.
Points below SPLIT on AXIS are left, all others right. Each node knows a range that holds every
output below it and a box that holds every position. There is one tree for each of the first labels
and one for all others (TREES).

Invariant: every remembered row is in exactly one block, the one its position leads to.
Invariant: all blocks of a chain but the first hold copies of one point only.
Cost: a descent; every BLOCK/2 insertions a split, which reads one block's rows.
Not here: searching (search.py), balance (balance.py), removal (remove.py).
"""

from typing import Any

import numpy as np

from likewise.kernels import table as t
from likewise.kernels.compile import kernel, prefetch, view
from likewise.kernels.rows import read_point
from likewise.kernels.table import BLOCK, box_of, floats, ints


@kernel
def new_block(table: Any) -> int:
    block = table[t.FREE_BLOCK]
    if block >= 0:
        table[t.FREE_BLOCK] = ints(table, t.NEXT)[block]
    else:
        block = table[t.BLOCKS]
        table[t.BLOCKS] += 1
    ints(table, t.COUNT)[block] = 0
    ints(table, t.NEXT)[block] = -1
    return block


@kernel
def free_block(table: Any, block: int) -> None:
    ints(table, t.NEXT)[block] = table[t.FREE_BLOCK]
    table[t.FREE_BLOCK] = block


@kernel
def new_pair(table: Any) -> int:
    pair = table[t.FREE_PAIR]
    if pair >= 0:
        table[t.FREE_PAIR] = ints(table, t.LEFT)[pair]
    else:
        pair = table[t.NODES]
        table[t.NODES] += 2
    return pair


@kernel
def free_pair(table: Any, pair: int) -> None:
    """Free nodes look like leaves, so that no one who still knows their number follows them."""
    ints(table, t.AXIS)[pair] = -1
    ints(table, t.AXIS)[pair + 1] = -1
    ints(table, t.LEFT)[pair] = table[t.FREE_PAIR]
    table[t.FREE_PAIR] = pair


@kernel
def make_leaf(table: Any, node: int, parent: int, block: int) -> None:
    """A leaf whose range of outputs and whose box are empty."""
    ints(table, t.AXIS)[node] = -1
    ints(table, t.LEFT)[node] = block
    ints(table, t.PARENT)[node] = parent
    ints(table, t.LEAVES)[node] = 1
    ints(table, t.TRIED)[node] = 0
    ints(table, t.BUILT)[node] = 0
    low = floats(table, t.LOW)
    high = floats(table, t.HIGH)
    width = table[t.RANGE_WIDTH]
    for k in range(width):
        low[node * width + k] = np.inf
        high[node * width + k] = -np.inf
    box = box_of(table, node)
    for j in range(table[t.WIDTH]):
        box[j] = np.inf
        box[table[t.WIDTH] + j] = -np.inf


@kernel
def make_inner(table: Any, node: int, axis: int, split: float, pair: int) -> None:
    """Turn a leaf into an inner node; its range and its parent stay."""
    ints(table, t.AXIS)[node] = axis
    floats(table, t.SPLIT)[node] = split
    ints(table, t.LEFT)[node] = pair


@kernel
def spare_pair(table: Any) -> int:
    """Two nodes of no tree, for keeping what is being moved."""
    return table[t.TREES]


@kernel
def job_root(table: Any) -> int:
    """The root of the subtree being built, then of the one being given back."""
    return table[t.TREES] + 2


@kernel
def plant(table: Any) -> None:
    """An empty leaf for each tree."""
    table[t.NODES] = table[t.TREES] + 4
    table[t.BLOCKS] = 0
    table[t.FREE_PAIR] = -1
    table[t.FREE_BLOCK] = -1
    for root in range(table[t.TREES]):
        make_leaf(table, root, -1, new_block(table))


@kernel
def tree_of(table: Any, row: int) -> int:
    """The root under which `row` belongs."""
    if table[t.OUTPUT] != t.LABEL:
        return 0
    return min(np.int64(floats(table, t.OUTPUTS)[row]), table[t.TREES] - 1)


@kernel
def descend(table: Any, node: int, point: Any) -> int:
    """The leaf below `node` to which `point` leads."""
    axis = ints(table, t.AXIS)
    split = floats(table, t.SPLIT)
    left = ints(table, t.LEFT)
    while axis[node] >= 0:
        node = left[node] + (point[axis[node]] >= split[node])
    return node


@kernel
def stretch_range(table: Any, node: int, row: int) -> bool:
    """Make a node's range hold the output of `row`. Whether it had to grow."""
    width = table[t.RANGE_WIDTH]
    low = floats(table, t.LOW)
    high = floats(table, t.HIGH)
    outputs = floats(table, t.OUTPUTS)
    grown = False
    for k in range(width):
        z = outputs[row * width + k]
        at = node * width + k
        if z < low[at]:
            low[at] = z
            grown = True
        if z > high[at]:
            high[at] = z
            grown = True
    return grown


@kernel
def round_down(value: float) -> Any:
    single = np.float32(value)
    return single if single <= value else np.nextafter(single, np.float32(-np.inf))


@kernel
def round_up(value: float) -> Any:
    single = np.float32(value)
    return single if single >= value else np.nextafter(single, np.float32(np.inf))


@kernel
def stretch_box(table: Any, node: int, point: Any) -> bool:
    """Make a node's box hold a position. Whether it had to grow."""
    width = table[t.WIDTH]
    low = box_of(table, node)
    high = view(table[t.BOX] + (2 * node + 1) * width * 4, np.float32)
    outside = 0
    for j in range(width):
        outside += (point[j] < low[j]) | (point[j] > high[j])
    if outside == 0:
        return False
    for j in range(width):
        if point[j] < low[j]:
            low[j] = round_down(point[j])
        if point[j] > high[j]:
            high[j] = round_up(point[j])
    return True


@kernel
def widen(table: Any, node: int, row: int, point: Any) -> None:
    """Make ranges and boxes from `node` upwards hold a row.

    A parent's hold its children's, so the first that need not grow end the walk.
    """
    parent = ints(table, t.PARENT)
    above = node
    while above >= 0 and stretch_range(table, above, row):
        above = parent[above]
    above = node
    while above >= 0 and stretch_box(table, above, point):
        above = parent[above]


@kernel
def put(table: Any, block: int, row: int, codes: Any) -> None:
    """Append a point to a block that has room."""
    count = ints(table, t.COUNT)
    slot = count[block]
    lanes = view(table[t.CODES] + block * table[t.WIDTH] * BLOCK + slot, np.uint8)
    for j in range(table[t.WIDTH]):
        lanes[j * BLOCK] = codes[j]
    ints(table, t.IDS)[block * BLOCK + slot] = row
    count[block] = slot + 1


@kernel
def _variance(points: Any, count: int, width: int, j: int) -> float:
    """The variance of coordinate j, times count; in four sums so that additions can overlap."""
    origin = points[j]
    total = 0.0
    squares = 0.0
    total_2 = 0.0
    squares_2 = 0.0
    for i in range(1, count, 2):
        step = points[i * width + j] - origin
        total += step
        squares += step * step
        if i + 1 < count:
            step = points[(i + 1) * width + j] - origin
            total_2 += step
            squares_2 += step * step
    total += total_2
    return squares + squares_2 - total * total / count


@kernel
def choose_axis(points: Any, count: int, width: int, gap_scale: Any, unit: float) -> int:
    """The coordinate of largest variance, as the metric weighs it; -1 if all points are equal.

    Where no variance is a positive number (they vanish, or overflow), the widest coordinate serves.
    """
    best = -1
    most = 0.0
    for j in range(width):
        scale = gap_scale[j] / unit
        variance = _variance(points, count, width, j) * scale * scale
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
    """The value at count // 2 in order; reorders `keys` (Hoare's selection)."""
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
    """A plane near the median with points on both sides; `keys` are not all equal."""
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
    if above < np.inf and abs(below + equal - count // 2) < abs(below - count // 2):
        return above
    return middle


@kernel
def _move_points(table: Any, source: int, target: int, order: Any, count: int) -> None:
    """Copy the points at slots order[:count] of a block to the start of another (or the same)."""
    width = table[t.WIDTH]
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
    """Ask for stored rows ahead of reading them: they lie scattered over the history."""
    size = table[t.ROW_BYTES]
    for i in range(count):
        start = table[t.ROWS] + ids[i] * size
        for byte in range(0, min(size, 1024), 64):
            prefetch(start + byte)
        prefetch(start + min(size, 1024) - 1)


@kernel
def split_leaf(table: Any, node: int) -> bool:
    """Part a leaf whose first block is full. False if no plane can."""
    width = table[t.WIDTH]
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
    if tail >= 0:  # one point stands for the whole tail
        copy = ints(table, t.IDS)[tail * BLOCK]
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
    if tail >= 0 and points[BLOCK * width + axis] >= split:
        following[other] = tail
        following[block] = -1
    _cut_box(table, node, pair, axis, split)
    make_inner(table, node, axis, split, pair)
    _measure_range(table, pair)
    _measure_range(table, pair + 1)
    while node >= 0:
        ints(table, t.LEAVES)[node] += 1
        node = ints(table, t.PARENT)[node]
    return True


@kernel
def _cut_box(table: Any, node: int, pair: int, axis: int, split: float) -> None:
    """The boxes of two new leaves: their parent's, cut by the plane."""
    width = table[t.WIDTH]
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
    """The range of a new leaf's outputs; its parent's where that is a single value or a chain's."""
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


@kernel
def insert(table: Any, row: int, node: int, point: Any, codes: Any) -> int:
    """Add a row at or below `node`. The node that was split for it, or -1."""
    left = ints(table, t.LEFT)
    count = ints(table, t.COUNT)
    parted = -1
    node = descend(table, node, point)
    if count[left[node]] == BLOCK:
        if split_leaf(table, node):
            parted = node
            node = descend(table, node, point)
        if count[left[node]] == BLOCK:  # equal points only: chain
            block = new_block(table)
            ints(table, t.NEXT)[block] = left[node]
            left[node] = block
    put(table, left[node], row, codes)
    widen(table, node, row, point)
    table[t.LANDED] = node
    return parted
