"""Hunting for one past decision: the nearest that differs, or the steepest; branch and bound.

The traversal is that of search.py, nearer child first, but what is near shrinks as the hunt goes
on (bounds.py). A subtree is skipped when no output below it matters, or when its cell, or at a leaf
its box, is farther away than what would matter with the farthest of its outputs. The codes of a
block are scanned with a window made for that radius. What is left is measured by the one distance
function, which gives up beyond the radius.

A hunt begins with what the last one found: in a batch that was for a neighbour in the tree, and
what contradicts one mostly contradicts the other. So most hunts know a good radius at once.

Why nothing is lost. Every bound is a lower bound on the distance as computed, as in search.py and
codes.py: cells by planes, the incremental sums with errors far below the margin of
`length_in_tree`; boxes hold every position; over a sketch, distances are at most those over all.
Offsets are capped so that their squares stay finite: that only lowers a bound. A block is scanned
with codes only if the window fits into half of their circle, and into 16-bit sums.

Invariant: the answer does not depend on the shape of the tree, nor on where the hunt began. Of rows
that are equally good, the earliest is named; of equally steep ones, that with the farthest output.
Cost: the cells within the final radius, and those met on the way to it.
Not here: which rows are written or inserted when (indexes/hunt.py).
"""

from typing import Any

import numpy as np

from likewise.kernels import table as t
from likewise.kernels.bounds import (
    box_bound,
    farthest_below,
    length_in_tree,
    radius_of_interest,
    slope_of,
)
from likewise.kernels.codes import scan_box, scan_sum
from likewise.kernels.compile import entry, kernel, prefetch, step, view
from likewise.kernels.distance import input_distance, output_distance
from likewise.kernels.rows import read_row
from likewise.kernels.search import note_search, prepare
from likewise.kernels.table import BLOCK, bytes_of, floats, ints

HUNT_ONE, HUNT_ROWS = 1, 2
"""Tasks: the row START with GIVEN; the rows of a batch from START to STOP, in working order."""

_AHEAD = 8  # rows between asking for one and hunting for it
_TINY = 1e-150  # below this the squares in a distance vanish: it is not given up
_BOX_ERROR = 0.07  # of codes, in units: 2^-52 of the largest position that is not clamped, and more
_SUM_ERROR = 1e-3  # the same for sums, for each coordinate
_BOX_WINDOW = 126  # half of the circle of codes
_SUM_WINDOW = 112  # four capped squares and a sum within the limit fit into 16 bits
_LARGE, _LARGE_SQUARED = 1e300, 1e150  # offsets are capped here, so that no sum is infinite


@kernel
def _consider(table: Any, row: int, norm: float, slot: int, merit: float) -> float:
    """Let a row take the place of the best so far if it is better. The merit of the best."""
    width = table[t.OUT_WIDTH]
    far = output_distance(
        table[t.OUTPUT], floats(table, t.GIVEN), floats(table, t.OUTPUTS), row * width, width
    )
    radius = radius_of_interest(table, far, merit, slot)
    if radius < 0.0:
        return merit
    best = ints(table, t.RESULT_ROWS)[slot]
    nearest = table[t.QUESTION] == t.NEAREST
    if nearest and merit == 0.0 and row > best:
        return merit
    near = input_distance(table, row, max(radius, _TINY), norm)
    if nearest:
        value = near
        better = near < merit or (near == merit and near < np.inf and row < best)
    else:
        value = slope_of(near, far, floats(table, t.NUMBERS)[t.EXPONENT])
        better = value > merit
        if value == merit and value > 0.0:
            farthest = floats(table, t.RESULT_OUTPUT)[slot]
            better = far > farthest or (far == farthest and row < best)
    if not better:
        return merit
    ints(table, t.RESULT_ROWS)[slot] = row
    floats(table, t.RESULT_INPUT)[slot] = near
    floats(table, t.RESULT_OUTPUT)[slot] = far
    return value


@kernel
def _mark(table: Any, block: int, radius: float) -> int:
    """Mark the points of a block that may lie within the radius. Coordinates looked at, 0 for none.

    Negative if no point is left.
    """
    axes = table[t.AXES]
    metric = table[t.METRIC]
    mask = bytes_of(table, t.MASK)
    count = ints(table, t.COUNT)[block]
    units = length_in_tree(table, radius) * floats(table, t.NUMBERS)[t.GRAIN]
    codes = table[t.CODES] + block * axes * BLOCK
    query = bytes_of(table, t.QCODES)
    if metric == t.LINF and units < _BOX_WINDOW:
        return scan_box(codes, query, axes, int(units + _BOX_ERROR) + 1, count, mask)
    units += _SUM_ERROR * (axes if metric == t.L1 else np.sqrt(axes))
    if metric != t.LINF and units < _SUM_WINDOW:
        square = metric != t.L1
        limit = int(units * units if square else units) + 1
        sums = view(table[t.SUMS], np.uint16)
        return scan_sum(codes, query, axes, int(units) + 1, limit, square, count, sums, mask)
    for i in range(BLOCK):
        mask[i] = i < count
    return 0


@kernel
def _look(table: Any, node: int, before: int, norm: float, slot: int, merit: float) -> float:
    """Consider the points of a leaf. The merit of the best."""
    far = farthest_below(table, node)
    following = ints(table, t.NEXT)
    mask = bytes_of(table, t.MASK)
    words = view(table[t.MASK], np.uint64)
    block = ints(table, t.LEFT)[node]
    recent = ints(table, t.RECENT)
    at = (before % t.RECENT_MOST) * 3
    while block >= 0:
        radius = radius_of_interest(table, far, merit, slot)
        if radius < 0.0:
            return merit
        lanes = _mark(table, block, radius)
        recent[at] += 1
        recent[at + 1] += abs(lanes) * BLOCK
        if lanes >= 0:
            ids = view(table[t.IDS] + block * BLOCK * 8, np.int64)
            for word in range(BLOCK // 8):
                if words[word] == 0:
                    continue
                for i in range(word * 8, word * 8 + 8):
                    if mask[i] != 0 and ids[i] < before:
                        recent[at + 2] += 1
                        merit = _consider(table, ids[i], norm, slot, merit)
        block = following[block]
    return merit


@kernel
def _descend(table: Any, root: int, before: int, norm: float, slot: int, merit: float) -> float:
    """Hunt below a root. The merit of the best."""
    metric = table[t.METRIC]
    square = metric == t.L2 or metric == t.COSINE
    cap = _LARGE_SQUARED if square else _LARGE
    point = floats(table, t.POINT)
    gap_scale = floats(table, t.GAP_SCALE)
    axis = ints(table, t.AXIS)
    split = floats(table, t.SPLIT)
    left = ints(table, t.LEFT)
    offsets = floats(table, t.OFFSETS)
    stack = ints(table, t.STACK)
    stack_sum = floats(table, t.STACK_SUM)
    stack_axis = ints(table, t.STACK_AXIS)
    stack_offset = floats(table, t.STACK_OFFSET)
    for j in range(table[t.AXES]):
        offsets[j] = 0.0
    top = 1
    stack[0] = root
    stack_sum[0] = 0.0
    stack_axis[0] = 0
    stack_offset[0] = 0.0
    while top > 0:
        top -= 1
        node = stack[top]
        offsets[stack_axis[top]] = stack_offset[top]
        if node < 0:  # back from a far side: only its offset was to be undone
            continue
        total = stack_sum[top]
        while True:
            radius = radius_of_interest(table, farthest_below(table, node), merit, slot)
            if radius < 0.0:
                break
            limit = length_in_tree(table, radius)
            if square:
                limit = limit * limit
            if total > limit:
                break
            if axis[node] < 0:
                if not box_bound(table, node) > limit:
                    merit = _look(table, node, before, norm, slot, merit)
                break
            a = axis[node]
            child = left[node]
            gap = (point[a] - split[node]) * gap_scale[a]
            right = gap >= 0.0
            old = offsets[a]
            new = min(abs(gap), cap)
            if metric == t.LINF:
                farther = max(total, new)
            elif square:
                farther = total - old * old + new * new
            else:
                farther = total - old + new
            if farther <= limit:
                stack[top] = -1
                stack_axis[top] = a
                stack_offset[top] = old
                top += 1
                stack[top] = child + 1 - right
                stack_sum[top] = farther
                stack_axis[top] = a
                stack_offset[top] = new
                top += 1
            node = child + right
    return merit


@kernel
def hunt_row(table: Any, row: int, slot: int) -> bool:
    """Hunt for a written row and GIVEN among the rows before it; the answer goes to a result slot.

    Whether there is one; if not, the slot's row is -1. PLACES holds the row's sketch already.
    """
    prepare(table, row)
    read_row(table, row, floats(table, t.QUERY))
    norm = floats(table, t.NORMS)[row] if table[t.METRIC] == t.COSINE else 1.0
    note_search(table, row, 0, 0, 0)
    rows = ints(table, t.RESULT_ROWS)
    rows[slot] = row  # no one's: all others are earlier
    floats(table, t.RESULT_INPUT)[slot] = np.inf
    floats(table, t.RESULT_OUTPUT)[slot] = 0.0
    merit = 0.0
    if table[t.QUESTION] == t.NEAREST:
        merit = floats(table, t.NUMBERS)[t.HUNT_LIMIT]
    trail = table[t.TRAIL]
    if trail < row and bytes_of(table, t.ALIVE)[trail] != 0:
        merit = _consider(table, trail, norm, slot, merit)
    for root in range(table[t.TREES]):
        merit = _descend(table, root, row, norm, slot, merit)
    if rows[slot] == row:
        rows[slot] = -1
        return False
    table[t.TRAIL] = rows[slot]
    return True


@step
def _hunt_rows(table: Any) -> int:
    """Hunt for rows of a batch in the working order, one result each."""
    width = table[t.OUT_WIDTH]
    given = floats(table, t.GIVEN)
    outputs = floats(table, t.OUTPUTS)
    order = ints(table, t.WORK_ORDER)
    start = table[t.START]
    stop = min(table[t.STOP], start + table[t.RESULT_CAPACITY])
    for k in range(start, stop):
        if k + _AHEAD < stop:
            ahead = table[t.FIRST] + order[k + _AHEAD]
            prefetch(table[t.ROWS] + ahead * table[t.ROW_BYTES])
            prefetch(table[t.OUTPUTS] + ahead * width * 8)
        row = table[t.FIRST] + order[k]
        for j in range(width):
            given[j] = outputs[row * width + j]
        hunt_row(table, row, k - start)
    table[t.FOUND] = stop - start
    return stop


@entry
def hunt(table: Any) -> int:
    """Do the TASK: 1 or 0, whether one was found; or how far the batch has come."""
    if table[t.TASK] == HUNT_ROWS:
        return _hunt_rows(table)
    return 1 if hunt_row(table, table[t.START], 0) else 0
