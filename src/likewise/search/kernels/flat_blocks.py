"""Store the points of a flat scan in blocks of 128, each block of one group.

A block stores the codes of the front coordinates coordinate by coordinate, and those of the others
point by point. A point that leaves is replaced by the last of its block, and the block takes new
points again.
Invariant: every remembered row is in exactly one block, where BLOCK_PLACES says; empty places are
zero.
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.compile import entry, kernel, view
from likewise.search.kernels.table import BLOCK, bytes_of, floats, ints
from likewise.search.kernels.tree import stretch_range, tree_of

EXTENT = 8  # blocks that a group gets together


@kernel
def _open_blocks(table: Any, group: int) -> None:
    """Give a group some adjacent blocks, so that a scan of the group reads sequentially."""
    first = table[t.BLOCKS]
    table[t.BLOCKS] += EXTENT
    width = table[t.RANGE_WIDTH]
    for block in range(first, first + EXTENT):
        ints(table, t.COUNT)[block] = 0
        ints(table, t.NEXT)[block] = block + 1 if block + 1 < first + EXTENT else -1
        floats(table, t.ERRORS)[2 * block] = 0.0
        floats(table, t.ERRORS)[2 * block + 1] = 0.0
        for n in range(block * width, (block + 1) * width):
            floats(table, t.LOW)[n] = np.inf
            floats(table, t.HIGH)[n] = -np.inf
    ints(table, t.LEFT)[group] = first


@kernel
def add_to_block(table: Any, row: int, k: int) -> None:
    """Put a rotated row into a block of its group that has room."""
    front = table[t.FRONT_AXES]
    tail = table[t.ROTATED_BYTES] - front
    count = ints(table, t.COUNT)
    open_block = ints(table, t.LEFT)
    group = tree_of(table, row)
    if open_block[group] < 0:
        _open_blocks(table, group)
    block = open_block[group]
    slot = count[block]
    codes = view(table[t.ROTATED] + k * table[t.ROTATED_BYTES], np.uint8)
    lanes = view(table[t.CODES] + block * front * BLOCK + slot, np.uint8)
    for i in range(front):
        lanes[i * BLOCK] = codes[i]
    rest = view(table[t.TAILS] + (block * BLOCK + slot) * tail, np.uint8)
    for i in range(tail):
        rest[i] = codes[front + i]
    errors = floats(table, t.ERRORS)
    rotated_error = floats(table, t.ROTATED_ERROR)
    errors[2 * block] = max(errors[2 * block], rotated_error[2 * k])
    errors[2 * block + 1] = max(errors[2 * block + 1], rotated_error[2 * k + 1])
    ints(table, t.IDS)[block * BLOCK + slot] = row
    ints(table, t.BLOCK_PLACES)[row] = block * BLOCK + slot
    stretch_range(table, block, row)
    count[block] = slot + 1
    if slot + 1 == BLOCK:
        open_block[group] = ints(table, t.NEXT)[block]
        ints(table, t.NEXT)[block] = -1


@entry
def take_from_blocks(address: int, rows_address: int, row_count: int) -> int:
    """Take remembered rows out of their blocks; the last point of a block takes the free place."""
    table = view(address, np.int64)
    rows = view(rows_address, np.int64)
    front = table[t.FRONT_AXES]
    tail = table[t.ROTATED_BYTES] - front
    count = ints(table, t.COUNT)
    ids = ints(table, t.IDS)
    places = ints(table, t.BLOCK_PLACES)
    tails = bytes_of(table, t.TAILS)
    for k in range(row_count):
        place = places[rows[k]]
        block = place // BLOCK
        last = block * BLOCK + count[block] - 1
        lanes = view(table[t.CODES] + block * front * BLOCK, np.uint8)
        for i in range(front):
            lanes[i * BLOCK + place % BLOCK] = lanes[i * BLOCK + last % BLOCK]
            lanes[i * BLOCK + last % BLOCK] = np.uint8(0)
        for i in range(tail):
            tails[place * tail + i] = tails[last * tail + i]
            tails[last * tail + i] = np.uint8(0)
        ids[place] = ids[last]
        places[ids[place]] = place
        if count[block] == BLOCK:
            group = tree_of(table, rows[k])
            ints(table, t.NEXT)[block] = ints(table, t.LEFT)[group]
            ints(table, t.LEFT)[group] = block
        count[block] -= 1
    return 0
