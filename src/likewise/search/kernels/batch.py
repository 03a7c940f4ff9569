"""Process a batch of decisions: write, find leaves, sort by leaf, insert, search.

Every row is searched only against rows before it, so inserting the whole batch first changes no
witness. Neighbours in the tree follow each other, which keeps their blocks in the cache; finding
leaves and searching only read the tree, so threads can share that work.
Invariant: the order of work within a batch has no effect on its verdicts.
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.add import add, has_room, insert
from likewise.search.kernels.compile import kernel, prefetch, step, view
from likewise.search.kernels.rows import (
    admit,
    admit_output,
    read_point,
    sketch_row,
    take_output,
)
from likewise.search.kernels.search import prepare, search
from likewise.search.kernels.sort import PATH_BITS
from likewise.search.kernels.split import fetch_rows
from likewise.search.kernels.table import BLOCK, bytes_of, floats, ints
from likewise.search.kernels.tree import add_leaves, cover_child, tree_of

_AHEAD = 8  # rows between prefetching a leaf and inserting into it
_TREE_BITS = 4  # of a path, for the root
_LANES = 8  # rows whose leaves are found together


@step
def write_rows(table: Any) -> int:
    """Write rows START to STOP behind the history; return 0, or an error code (FOUND: which)."""
    width = table[t.WIDTH]
    out_width = table[t.OUT_WIDTH]
    stored = floats(table, t.OUTPUTS)
    first = table[t.FIRST] + table[t.START]
    raw = table[t.INPUTS] == 0
    for i in range(table[t.STOP] - table[t.START]):
        given = view(table[t.GIVENS] + i * out_width * 8, np.float64)
        came = table[t.INPUT] if raw else table[t.INPUTS] + i * width * 8
        bad = admit(table, first + i, view(came, np.float64), raw)
        if bad == 0:
            bad = admit_output(table, given)
        if bad != 0:
            table[t.FOUND] = i
            return bad
        for k in range(out_width):
            stored[(first + i) * out_width + k] = given[k]
    return 0


@step
def route_rows(table: Any) -> int:
    """Find the leaf of each written row, and the turns that lead there, first turn highest.

    A few rows descend side by side: each step waits for memory, and the waits overlap.
    """
    width = table[t.AXES]
    axis = ints(table, t.AXIS)
    split = floats(table, t.SPLIT)
    left = ints(table, t.LEFT)
    points = floats(table, t.LANES)
    leaf_of = ints(table, t.LEAF_OF)
    path_of = view(table[t.PATH_OF], np.uint64)
    table[t.ROUTED] = table[t.MOVES]
    for start in range(table[t.START], table[t.STOP], _LANES):
        stop = min(start + _LANES, table[t.STOP])
        for i in range(start, stop):
            row = table[t.FIRST] + i
            sketch_row(table, row)
            read_point(table, row, view(table[t.LANES] + (i - start) * width * 8, np.float64))
            leaf_of[i] = tree_of(table, row)
            path_of[i] = np.uint64(min(leaf_of[i], (1 << _TREE_BITS) - 1))
        turns = PATH_BITS - _TREE_BITS
        descending = True
        while descending:
            descending = False
            for i in range(start, stop):
                node = leaf_of[i]
                right = False
                if axis[node] >= 0:
                    right = points[(i - start) * width + axis[node]] >= split[node]
                    leaf_of[i] = left[node] + right
                    descending = True
                if turns > 0:
                    path_of[i] = (path_of[i] << np.uint64(1)) | np.uint64(right)
            turns -= 1
        if turns > 0:
            for i in range(start, stop):
                path_of[i] = path_of[i] << np.uint64(turns)
    return table[t.STOP]


@kernel
def _fetch_row(table: Any, row: int) -> None:
    """Prefetch the position of a row of the batch, and its output."""
    start = table[t.PLACES] + row * table[t.PLACE_BYTES]
    prefetch(start)
    prefetch(start + min(table[t.PLACE_BYTES], 256) - 1)
    prefetch(table[t.OUTPUTS] + row * table[t.OUT_WIDTH] * 8)


@step
def fetch_leaf(table: Any, node: int, coming: int) -> None:
    """Prefetch what inserting that many rows into a leaf will touch."""
    block = ints(table, t.LEFT)[node]
    slot = ints(table, t.COUNT)[block]
    lanes = table[t.CODES] + block * table[t.AXES] * BLOCK + slot
    for j in range(min(table[t.AXES], 32)):
        prefetch(lanes + j * BLOCK)
    prefetch(table[t.IDS] + (block * BLOCK + slot) * 8)
    for byte in range(0, min(8 * table[t.AXES], 256), 64):
        prefetch(table[t.BOX] + node * table[t.AXES] * 8 + byte)
    if slot + coming > BLOCK:  # it is going to split
        fetch_rows(table, view(table[t.IDS] + block * BLOCK * 8, np.int64), slot)


@kernel
def _fetch_ahead(table: Any, k: int, stop: int) -> None:
    """Prefetch the next rows in the working order, up to `stop`, and their leaves."""
    axis = ints(table, t.AXIS)
    order = ints(table, t.WORK_ORDER)
    leaf_of = ints(table, t.LEAF_OF)
    if table[t.ROUTED] == table[t.MOVES] and k + _AHEAD < stop:
        coming = leaf_of[order[k + _AHEAD]]
        if axis[coming] == -1 and coming != leaf_of[order[k + _AHEAD - 1]]:
            last = k + _AHEAD + 1
            while last < stop and leaf_of[order[last]] == coming:
                last += 1
            fetch_leaf(table, coming, last - k - _AHEAD)
    if k + 2 * _AHEAD < stop:
        _fetch_row(table, table[t.FIRST] + order[k + 2 * _AHEAD])


@step
def insert_rows(table: Any) -> int:
    """Insert routed rows in the working order, until the tree needs maintenance or memory.

    Return how far the work has come; the next call continues there. Where maintenance has moved
    nodes since the rows were routed, they start at the root again.
    """
    point = floats(table, t.POINT)
    codes = bytes_of(table, t.QCODES)
    order = ints(table, t.WORK_ORDER)
    leaf_of = ints(table, t.LEAF_OF)
    alive = bytes_of(table, t.ALIVE)
    stop = table[t.STOP]
    routed = table[t.ROUTED] == table[t.MOVES]
    for k in range(table[t.START], stop):
        if not has_room(table, 0):
            return k
        _fetch_ahead(table, k, stop)
        row = table[t.FIRST] + order[k]
        if alive[row] == 0:  # forgotten before this index came to it
            continue
        prepare(table, row)
        start = leaf_of[order[k]] if routed else tree_of(table, row)
        if add(table, row, start, point, codes):
            return k + 1
    return stop


@step
def insert_apart(table: Any) -> int:
    """Insert routed rows whose leaves no other thread touches, while memory and notes have room.

    Nodes above those leaves are not updated: `join_rows` does that. Return how far the work came.
    """
    point = floats(table, t.POINT)
    codes = bytes_of(table, t.QCODES)
    order = ints(table, t.WORK_ORDER)
    leaf_of = ints(table, t.LEAF_OF)
    alive = bytes_of(table, t.ALIVE)
    stop = table[t.STOP]
    for k in range(table[t.START], stop):
        if not has_room(table, 0) or table[t.PARTED_COUNT] + 2 > t.PARTED_ROOM:
            return k
        _fetch_ahead(table, k, stop)
        row = table[t.FIRST] + order[k]
        if alive[row] != 0:  # else forgotten before this index came to it
            prepare(table, row)
            insert(table, row, leaf_of[order[k]], point, codes, True)
    return stop


@step
def join_rows(table: Any) -> int:
    """Update the nodes above the leaves of rows START to STOP, which were inserted apart."""
    order = ints(table, t.WORK_ORDER)
    leaf_of = ints(table, t.LEAF_OF)
    parent = ints(table, t.PARENT)
    last = -1
    for k in range(table[t.START], table[t.STOP]):
        node = leaf_of[order[k]]
        if node == last:
            continue
        last = node
        while parent[node] >= 0 and cover_child(table, parent[node], node):
            node = parent[node]
    return table[t.STOP]


@step
def count_splits(table: Any) -> int:
    """Count the leaves that splits of the nodes in PARTED have made."""
    parted = ints(table, t.PARTED)
    for k in range(table[t.PARTED_COUNT]):
        add_leaves(table, parted[k], 1)
    return 0


@step
def search_rows(table: Any) -> int:
    """Search for rows among the rows before each, in the working order, while results have room.

    Return how far the work has come. COUNTS has the number of witnesses of each row, FOUND of all.
    """
    order = ints(table, t.WORK_ORDER)
    counts = ints(table, t.COUNTS)
    results = 0
    stop = table[t.STOP]
    for k in range(table[t.START], stop):
        if k + _AHEAD < stop:
            _fetch_row(table, table[t.FIRST] + order[k + _AHEAD])
        row = table[t.FIRST] + order[k]
        if results + row > table[t.RESULT_CAPACITY]:
            stop = k
            break
        take_output(table, row)
        prepare(table, row)
        found = search(table, row, results)
        counts[order[k]] = found
        results += found
    table[t.FOUND] = results
    return stop
