"""Balance the tree without moving a point: lift planes that cut nothing.

Invariant: every point stays on its side of every plane above it.
Cost: a few microseconds, once in a subtree's growth by an eighth; no point is read.
Not here: arrivals for which no plane is clean; rebuild.py replaces subtrees that become too deep.
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.compile import kernel, step, view
from likewise.search.kernels.table import box_of, floats, ints
from likewise.search.kernels.tree import copy_extent, cover_child, spare_pair

# Arrivals that drift or come sorted grow a tree on one side only. A plane further down may serve
# higher up if every subtree beside the path to it lies wholly on one side of it; then the subtrees
# are regrouped under that plane and no point moves (on a single axis this is the familiar
# rotation). Sorted arrivals have such a plane at every other split; drift blurred by noise has few.

_RATIO = 3  # a side with this many times the other's leaves is too heavy
_PATH = 24  # how many levels down a plane is searched for


@kernel
def _side(table: Any, node: int, axis: int, split: float) -> int:
    """Return on which side of a plane a subtree lies: 0 left (if empty, too), 1 right, -1 both."""
    box = box_of(table, node)
    if box[table[t.AXES] + axis] < split:
        return 0
    return 1 if box[axis] >= split else -1


@kernel
def copy_node(table: Any, source: int, target: int) -> None:
    """Copy a node to another slot and update its children; the slot keeps its parent."""
    table[t.MOVES] += 1
    axis = ints(table, t.AXIS)
    left = ints(table, t.LEFT)
    parent = ints(table, t.PARENT)
    axis[target] = axis[source]
    floats(table, t.SPLIT)[target] = floats(table, t.SPLIT)[source]
    left[target] = left[source]
    ints(table, t.LEAVES)[target] = ints(table, t.LEAVES)[source]
    ints(table, t.TRIED)[target] = ints(table, t.TRIED)[source]
    ints(table, t.BUILT)[target] = ints(table, t.BUILT)[source]
    copy_extent(table, source, target)
    if axis[target] >= 0:
        parent[left[target]] = target
        parent[left[target] + 1] = target
    if table[t.JOB_PHASE] != 0 and table[t.JOB_NODE] == source:
        table[t.JOB_NODE] = target


@kernel
def summarise(table: Any, node: int) -> None:
    """Compute leaves, range and box of an inner node from its children's."""
    first = ints(table, t.LEFT)[node]
    leaves = ints(table, t.LEAVES)
    leaves[node] = leaves[first] + leaves[first + 1]
    copy_extent(table, first, node)
    cover_child(table, node, first + 1)


@step
def _note(table: Any, number: int) -> Any:
    """Return one of a few short lists."""
    return view(table[t.NOTES] + number * t.NOTES_WIDTH * 8, np.int64)


@kernel
def _liftable(table: Any, path: Any, length: int) -> int:
    """Return the leaves on the heavier side if the plane of path[length] were lifted to path[0].

    -1 if it cannot be lifted. path[k + 1] is a child of path[k]; all subtrees beside the path must
    be clean.
    """
    axis = ints(table, t.AXIS)
    left = ints(table, t.LEFT)
    leaves = ints(table, t.LEAVES)
    plane = path[length]
    a = axis[plane]
    split = floats(table, t.SPLIT)[plane]
    weight = leaves[left[plane]]
    for k in range(length):
        if k > 0 and table[t.JOB_PHASE] != 0 and table[t.JOB_NODE] == path[k]:
            return -1
        first = left[path[k]]
        beside = first + 1 if path[k + 1] == first else first
        side = _side(table, beside, a, split)
        if side < 0:
            return -1
        if side == 0:
            weight += leaves[beside]
    if table[t.JOB_PHASE] != 0 and table[t.JOB_NODE] == plane:
        return -1
    return max(weight, leaves[path[0]] - weight)


@kernel
def _lift(table: Any, path: Any, length: int, spare: int) -> None:
    """Make the plane of path[length] that of path[0], and regroup what lies beside the path.

    The path's nodes form two chains, by the side on which the subtrees beside them lie; each chain
    ends in the plane's own child of that side. `spare` is a free pair that holds those two.
    """
    axis = ints(table, t.AXIS)
    splits = floats(table, t.SPLIT)
    left = ints(table, t.LEFT)
    parent = ints(table, t.PARENT)
    top = path[0]
    plane = path[length]
    a = axis[plane]
    split = splits[plane]
    pair = left[plane]
    copy_node(table, pair, spare)
    copy_node(table, pair + 1, spare + 1)
    # Each chain grows from the slot in which its next member is to be put.
    kept_axis = _note(table, 1)
    kept_split = view(table[t.NOTES] + 2 * t.NOTES_WIDTH * 8, np.float64)
    kept_left = _note(table, 3)
    kept_side = _note(table, 4)
    kept_turn = _note(table, 5)
    made = _note(table, 6)
    slots = _note(table, 7)
    slots[0] = pair
    slots[1] = pair + 1
    for k in range(length):
        first = left[path[k]]
        kept_axis[k] = axis[path[k]]
        kept_split[k] = splits[path[k]]
        kept_left[k] = first
        kept_turn[k] = path[k + 1] - first
        kept_side[k] = _side(table, first + 1 - kept_turn[k], a, split)
    for k in range(length):
        side = kept_side[k]
        slot = slots[side]
        axis[slot] = kept_axis[k]
        splits[slot] = kept_split[k]
        left[slot] = kept_left[k]
        parent[kept_left[k]] = slot
        parent[kept_left[k] + 1] = slot
        ints(table, t.TRIED)[slot] = 0
        ints(table, t.BUILT)[slot] = 0
        slots[side] = kept_left[k] + kept_turn[k]
        made[k] = slot
    copy_node(table, spare, slots[0])
    copy_node(table, spare + 1, slots[1])
    axis[top] = a
    splits[top] = split
    left[top] = pair
    parent[pair] = top
    parent[pair + 1] = top
    for k in range(length - 1, -1, -1):
        summarise(table, made[k])
    summarise(table, top)
    table[t.LIFTS] += 1


@kernel
def is_lopsided(table: Any, node: int) -> bool:
    """Return whether one side of an inner node has far more leaves than the other."""
    first = ints(table, t.LEFT)[node]
    one = ints(table, t.LEAVES)[first]
    two = ints(table, t.LEAVES)[first + 1]
    return max(one, two) > _RATIO * min(one, two) + 1


@kernel
def level(table: Any, node: int, spare: int) -> bool:
    """Lift the best plane to an unbalanced node, if one helps; `spare` is a pair not in use."""
    axis = ints(table, t.AXIS)
    left = ints(table, t.LEFT)
    leaves = ints(table, t.LEAVES)
    path = _note(table, 0)
    path[0] = node
    first = left[node]
    best_weight = max(leaves[first], leaves[first + 1])
    best = -1
    length = 0
    while length < _PATH - 1:
        first = left[path[length]]
        path[length + 1] = first + (leaves[first + 1] > leaves[first])
        length += 1
        if axis[path[length]] < 0:
            break
        weight = _liftable(table, path, length)
        if 0 <= weight < best_weight:
            best_weight = weight
            best = length
    if best < 0 or best_weight * 8 > max(leaves[left[node]], leaves[left[node] + 1]) * 7:
        return False
    _lift(table, path, best, spare)
    return True


@kernel
def rebalance(table: Any, node: int) -> int:
    """Balance all nodes above a fresh split that grew by an eighth; return its depth."""
    spare = spare_pair(table)
    leaves = ints(table, t.LEAVES)
    tried = ints(table, t.TRIED)
    parent = ints(table, t.PARENT)
    depth = 0
    while node >= 0:
        if leaves[node] * 8 > tried[node] * 9 and is_lopsided(table, node):
            level(table, node, spare)
            tried[node] = leaves[node]
        table[t.TOP] = node
        node = parent[node]
        depth += 1
    return depth
