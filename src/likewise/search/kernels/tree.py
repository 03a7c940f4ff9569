"""Store the live tree: a k-d tree of blocks that splits as it grows.

Invariant: every remembered row is in exactly one block, the one its position leads to.
Invariant: all blocks of a chain but the first hold copies of one point only.
Cost: a descent for a point, a few cache lines for a node.
Not here: splitting (split.py), searching (search.py), balance (balance.py), removal (remove.py).
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.compile import kernel, small, view
from likewise.search.kernels.table import BLOCK, box_of, floats, ints


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
    """Free a pair; free nodes look like leaves, so that stale references do not follow them."""
    ints(table, t.AXIS)[pair] = -1
    ints(table, t.AXIS)[pair + 1] = -1
    ints(table, t.LEFT)[pair] = table[t.FREE_PAIR]
    table[t.FREE_PAIR] = pair


@kernel
def make_leaf(table: Any, node: int, parent: int, block: int) -> None:
    """Make a leaf whose range of outputs and whose box are empty."""
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
    for j in range(table[t.AXES]):
        box[j] = np.inf
        box[table[t.AXES] + j] = -np.inf


@kernel
def add_leaves(table: Any, node: int, more: int) -> None:
    """Count so many more leaves below a node, and below all nodes above it."""
    leaves = ints(table, t.LEAVES)
    parent = ints(table, t.PARENT)
    while node >= 0:
        leaves[node] += more
        node = parent[node]


@kernel
def make_inner(table: Any, node: int, axis: int, split: float, pair: int) -> None:
    """Turn a leaf into an inner node; its range and its parent stay."""
    ints(table, t.AXIS)[node] = axis
    floats(table, t.SPLIT)[node] = split
    ints(table, t.LEFT)[node] = pair


@kernel
def spare_pair(table: Any) -> int:
    """Return two nodes of no tree, to hold what is being moved."""
    return table[t.TREES]


@kernel
def job_root(table: Any) -> int:
    """Return the root of the subtree being built, then of the one being freed."""
    return table[t.TREES] + 2


@kernel
def plant(table: Any) -> None:
    """Make an empty leaf for each tree."""
    table[t.NODES] = table[t.TREES] + 4
    table[t.BLOCKS] = 0
    table[t.FREE_PAIR] = -1
    table[t.FREE_BLOCK] = -1
    for root in range(table[t.TREES]):
        make_leaf(table, root, -1, new_block(table))


@small
def tree_for(table: Any, output: float) -> int:
    """Return the root under which a row with that output belongs."""
    if table[t.OUTPUT] != t.LABEL:
        return 0
    return min(np.int64(output), table[t.TREES] - 1)


@small
def tree_of(table: Any, row: int) -> int:
    """Return the root under which `row` belongs."""
    return tree_for(table, floats(table, t.OUTPUTS)[row * table[t.OUT_WIDTH]])


@small
def descend(table: Any, node: int, point: Any) -> int:
    """Return the leaf below `node` to which `point` leads."""
    axis = ints(table, t.AXIS)
    split = floats(table, t.SPLIT)
    left = ints(table, t.LEFT)
    while axis[node] >= 0:
        node = left[node] + (point[axis[node]] >= split[node])
    return node


@small
def stretch_range(table: Any, node: int, row: int) -> bool:
    """Make a node's range include the output of `row`; return whether it had to grow."""
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


@small
def stretch_box(table: Any, node: int, point: Any) -> bool:
    """Make a node's box include a position; return whether it had to grow."""
    width = table[t.AXES]
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


@small
def widen(table: Any, node: int, row: int, point: Any, above: int) -> None:
    """Make ranges and boxes from `node` upwards, below `above`, include a row.

    A parent's include its children's, so the walk ends at the first that need not grow.
    """
    parent = ints(table, t.PARENT)
    at = node
    while at != above and stretch_range(table, at, row):
        at = parent[at]
    at = node
    while at != above and stretch_box(table, at, point):
        at = parent[at]


@kernel
def copy_extent(table: Any, source: int, target: int) -> None:
    """Copy the range and the box of a node to another."""
    width = table[t.RANGE_WIDTH]
    low = floats(table, t.LOW)
    high = floats(table, t.HIGH)
    for k in range(width):
        low[target * width + k] = low[source * width + k]
        high[target * width + k] = high[source * width + k]
    box_from = box_of(table, source)
    box_to = box_of(table, target)
    for j in range(2 * table[t.AXES]):
        box_to[j] = box_from[j]


@kernel
def cover_child(table: Any, node: int, child: int) -> bool:
    """Make a node's range and box include a child's; return whether one had to grow."""
    width = table[t.RANGE_WIDTH]
    low = floats(table, t.LOW)
    high = floats(table, t.HIGH)
    grown = 0
    for k in range(width):
        at = node * width + k
        of = child * width + k
        grown |= (low[of] < low[at]) | (high[of] > high[at])
        low[at] = min(low[at], low[of])
        high[at] = max(high[at], high[of])
    axes = table[t.AXES]
    box = box_of(table, node)
    inner = box_of(table, child)
    for j in range(axes):
        grown |= (inner[j] < box[j]) | (inner[axes + j] > box[axes + j])
        box[j] = min(box[j], inner[j])
        box[axes + j] = max(box[axes + j], inner[axes + j])
    return grown != 0


@small
def put(table: Any, block: int, row: int, codes: Any) -> None:
    """Append a point to a block that has room."""
    count = ints(table, t.COUNT)
    slot = count[block]
    lanes = view(table[t.CODES] + block * table[t.AXES] * BLOCK + slot, np.uint8)
    for j in range(table[t.AXES]):
        lanes[j * BLOCK] = codes[j]
    ints(table, t.IDS)[block * BLOCK + slot] = row
    count[block] = slot + 1
