"""Take rows out of the tree, and out of the history.

The row's position leads to its leaf, where the block's last point takes its place. An almost empty
leaf joins its sibling, and the pair and the block become free again.
Invariant: ranges and boxes may stay wider than needed; they never become too narrow.
Cost: a descent and a scan of one leaf's row numbers, chains included.
Not here: releasing whole pages of erased rows (search/history/stored_decisions.py).
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.add import COLLECT, IDLE, LOG, SEGMENT
from likewise.search.kernels.balance import copy_node, summarise
from likewise.search.kernels.compile import entry, kernel, view
from likewise.search.kernels.rows import erase_row, read_point
from likewise.search.kernels.table import BLOCK, floats, ints
from likewise.search.kernels.tree import (
    add_leaves,
    copy_extent,
    descend,
    free_block,
    free_pair,
    job_root,
    tree_of,
)

_SPARSE = BLOCK // 4  # a leaf with fewer points joins its sibling


@kernel
def _take_out(table: Any, leaf: int, row: int) -> bool:
    """Remove a row from a leaf's blocks; return False if it is not there."""
    width = table[t.AXES]
    count = ints(table, t.COUNT)
    following = ints(table, t.NEXT)
    left = ints(table, t.LEFT)
    before = -1
    block = left[leaf]
    while block >= 0:
        ids = view(table[t.IDS] + block * BLOCK * 8, np.int64)
        for i in range(count[block]):
            if ids[i] != row:
                continue
            last = count[block] - 1
            codes = view(table[t.CODES] + block * width * BLOCK, np.uint8)
            for j in range(width):
                codes[j * BLOCK + i] = codes[j * BLOCK + last]
            ids[i] = ids[last]
            count[block] = last
            if last == 0 and table[t.JOB_PHASE] == IDLE:
                if before >= 0:
                    following[before] = following[block]
                    free_block(table, block)
                elif following[block] >= 0:
                    left[leaf] = following[block]
                    free_block(table, block)
            return True
        before = block
        block = following[block]
    return False


@kernel
def _join(table: Any, leaf: int) -> None:
    """Let a sparse leaf and its sibling, if that is a leaf too, share one block."""
    axis = ints(table, t.AXIS)
    left = ints(table, t.LEFT)
    count = ints(table, t.COUNT)
    following = ints(table, t.NEXT)
    parents = ints(table, t.PARENT)
    parent = parents[leaf]
    if parent < 0:
        return
    pair = left[parent]
    sibling = pair + 1 if leaf == pair else pair
    block = left[leaf]
    if following[block] >= 0:
        return
    if count[block] > 0:
        if axis[sibling] >= 0 or count[left[sibling]] + count[block] > BLOCK // 2:
            return
        if following[left[sibling]] >= 0:  # its chain must stay copies of one point
            return
    width = table[t.AXES]
    target = left[sibling]
    if count[block] > 0:
        codes = view(table[t.CODES] + block * width * BLOCK, np.uint8)
        goal = view(table[t.CODES] + target * width * BLOCK, np.uint8)
        for i in range(count[block]):
            slot = count[target] + i
            for j in range(width):
                goal[j * BLOCK + slot] = codes[j * BLOCK + i]
            ints(table, t.IDS)[target * BLOCK + slot] = ints(table, t.IDS)[block * BLOCK + i]
        count[target] += count[block]
        summarise(table, parent)  # keep the union of both boxes and ranges for the shared leaf
        copy_extent(table, parent, sibling)
    free_block(table, block)
    copy_node(table, sibling, parent)
    free_pair(table, pair)
    add_leaves(table, parents[parent], -1)


@kernel
def _being_replaced(table: Any, node: int) -> bool:
    """Return whether a node lies in the subtree that a rebuild will replace, or beside its root.

    A join beside it would move its root, whose number may be on the stack of things to collect.
    """
    if table[t.JOB_PHASE] == IDLE or table[t.JOB_NODE] < 0:
        return False
    parent = ints(table, t.PARENT)
    if table[t.JOB_PHASE] == COLLECT and parent[node] == parent[table[t.JOB_NODE]]:
        return True
    while node >= 0:
        if node == table[t.JOB_NODE]:
            return True
        node = parent[node]
    return False


@entry
def remove_rows(address: int, rows_address: int, row_count: int) -> int:
    """Take remembered rows out of the tree."""
    table = view(address, np.int64)
    rows = view(rows_address, np.int64)
    point = floats(table, t.OTHER)
    for k in range(row_count):
        row = rows[k]
        read_point(table, row, point)
        leaf = descend(table, tree_of(table, row), point)
        _take_out(table, leaf, row)
        if SEGMENT <= table[t.JOB_PHASE] <= LOG:  # there is a new subtree
            other = descend(table, job_root(table), point)
            if ints(table, t.AXIS)[other] == -1:
                _take_out(table, other, row)
        sparse = ints(table, t.COUNT)[ints(table, t.LEFT)[leaf]] < _SPARSE
        if sparse and not _being_replaced(table, leaf):
            _join(table, leaf)
        if table[t.PLACES] != table[t.ROWS]:
            sketch = view(table[t.PLACES] + row * table[t.PLACE_BYTES], np.uint8)
            for i in range(table[t.PLACE_BYTES]):
                sketch[i] = 0
    return 0


@entry
def erase_rows(address: int, rows_address: int, row_count: int) -> int:
    """Overwrite rows that no index holds any more."""
    table = view(address, np.int64)
    rows = view(rows_address, np.int64)
    for k in range(row_count):
        erase_row(table, rows[k])
    return 0
