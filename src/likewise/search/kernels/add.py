"""Add a row to the tree, while a rebuild may be under way.

Invariant: a row added below the subtree being rebuilt is in that rebuild's log until it is applied.
"""

from typing import Any

from likewise.search.kernels import table as t
from likewise.search.kernels.compile import kernel, small
from likewise.search.kernels.split import split_leaf
from likewise.search.kernels.table import BLOCK, bytes_of, ints
from likewise.search.kernels.tree import add_leaves, descend, new_block, put, widen

IDLE, COLLECT, SEGMENT, PARTITION, EQUAL, CHAIN, LOG, FREE = 0, 1, 2, 3, 4, 5, 6, 7
"""The phases of a rebuild (rebuild.py)."""

_EVERY = 16  # insertions between two pieces of work on a rebuild
_ROOM = 64  # nodes and blocks kept free for one insertion and one such piece


@small
def has_room(table: Any, rows: int) -> bool:
    """Return whether so many more rows, and the nodes and blocks of one insertion, fit."""
    return (
        table[t.TOTAL] + rows <= table[t.ROW_CAPACITY]
        and table[t.NODES] + 2 * _ROOM <= table[t.NODE_CAPACITY]
        and table[t.BLOCKS] + _ROOM <= table[t.BLOCK_CAPACITY]
    )


@kernel
def note_split(table: Any, node: int) -> None:
    """Note a node above which the tree may need balancing."""
    ints(table, t.PARTED)[table[t.PARTED_COUNT]] = node
    table[t.PARTED_COUNT] += 1


@kernel
def insert(table: Any, row: int, node: int, point: Any, codes: Any, apart: bool) -> int:
    """Add a row at or below `node`; return the node that was split for it, or -1.

    With `apart`, beside other threads, nodes above `node` are not updated: splits, of which there
    are at most two, are noted in PARTED and counted later.
    """
    above = ints(table, t.PARENT)[node] if apart else -1
    left = ints(table, t.LEFT)
    count = ints(table, t.COUNT)
    parted = -1
    node = descend(table, node, point)
    while count[left[node]] == BLOCK:
        if split_leaf(table, node):
            parted = node
            if apart:
                note_split(table, node)
            else:
                add_leaves(table, node, 1)
            node = descend(table, node, point)
        else:  # equal points only: chain
            block = new_block(table)
            ints(table, t.NEXT)[block] = left[node]
            left[node] = block
    put(table, left[node], row, codes)
    widen(table, node, row, point, above)
    table[t.LANDED] = node
    return parted


@kernel
def _log(table: Any, row: int) -> None:
    """Log a row just inserted if the subtree being rebuilt is above it."""
    parent = ints(table, t.PARENT)
    node = table[t.LANDED]
    while node >= 0 and node != table[t.JOB_NODE]:
        node = parent[node]
    if node >= 0:
        ints(table, t.JOB_LOG)[table[t.JOB_LOGGED]] = row
        table[t.JOB_LOGGED] += 1
        bytes_of(table, t.JOB_MARKS)[row] = 1


@kernel
def add(table: Any, row: int, node: int, point: Any, codes: Any) -> bool:
    """Add a written row at or below `node`; return whether the tree now needs maintenance."""
    parted = insert(table, row, node, point, codes, False)
    if parted >= 0:
        note_split(table, parted)
    phase = table[t.JOB_PHASE]
    if phase == IDLE:
        return table[t.PARTED_COUNT] == t.PARTED_MOST
    if phase != FREE:
        _log(table, row)
    return table[t.PARTED_COUNT] == t.PARTED_MOST or row % _EVERY == 0
