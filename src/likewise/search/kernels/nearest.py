"""Search for one past decision, the nearest that differs or the steepest, by branch and bound.

Invariant: the answer does not depend on the shape of the tree, nor on where the search began. Of
equally good rows, the earliest is named; of equally steep ones, that with the farthest output.
Cost: the cells within the final radius, and those met on the way to it.
Not here: which rows are written or inserted when (search/indexes/best_index.py).
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.bounds import (
    box_bound,
    farthest_below,
    length_in_tree,
    radius_of_interest,
    slope_of,
)
from likewise.search.kernels.codes import scan_sum
from likewise.search.kernels.compile import entry, kernel, prefetch, small, step, view
from likewise.search.kernels.distance import input_distance, output_distance
from likewise.search.kernels.rows import read_query, take_output
from likewise.search.kernels.search import note_search, prepare
from likewise.search.kernels.table import BLOCK, bytes_of, floats, ints

# The traversal is that of search.py, nearer child first, but the radius shrinks as the search goes
# on (bounds.py). A subtree is skipped when no output below it matters, or when its cell, or at a
# leaf its box, is farther away than what would matter with the farthest of its outputs. The codes
# of a block are scanned with a window made for that radius. What is left is measured by the one
# distance function, which gives up beyond the radius.
#
# A search begins with what the last one found: in a batch that was for a neighbour in the tree, and
# what contradicts one mostly contradicts the other. So most searches know a good radius at once.
#
# Why nothing is lost. Every bound is a lower bound on the distance as computed, as in search.py and
# codes.py: cells by planes, the incremental sums with errors far below the margin of
# `length_in_tree`; boxes hold every position; over a sketch, distances are at most those over all.
# Offsets are capped so that their squares stay finite: that only lowers a bound. A block is scanned
# with codes only if the window fits into half of their circle, and into 16-bit sums.
#
# Ties. On a grid, thousands of rows may be equally near in linf. There bounds are exact, rounding
# included, so cells that can only tie are left out at first. If the best is tied, the earliest of
# its equals is searched for among the first rows of all, then by a second traversal that leaves out
# none.

_AHEAD = 8  # rows between prefetching one and searching for it
_TINY = 1e-150  # below this the squares in a distance vanish: it is not given up
_BOX_ERROR = 0.07  # of codes, in units: 2^-52 of the largest position that is not clamped, and more
_SUM_ERROR = 1e-3  # of sums of codes, for each coordinate
_BOX_MOST = 126  # units: half of the circle of codes
_SUM_MOST = 111  # four capped squares and a sum within the limit fit into 16 bits
_ALL = 65535
_CHECK = 4  # coordinates between two checks whether any point is left
_PREFIX = 256  # rows looked through for the earliest of many that are equally good
_FIRST = 4  # points of a block that are compared, nearest first, before the rest
_LARGE, _LARGE_SQUARED = 1e300, 1e150  # offsets are capped here, so that no sum is infinite


@kernel
def _consider(table: Any, row: int, far: float, norm: float, slot: int, merit: float) -> float:
    """Let a row at output distance `far` take the best one's place if it is better.

    Return the merit of the best.
    """
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
def _consider_alone(table: Any, row: int, norm: float, slot: int, merit: float) -> float:
    """Consider a row that no leaf led to, and return the merit of the best."""
    width = table[t.OUT_WIDTH]
    outputs = floats(table, t.OUTPUTS)
    far = output_distance(table[t.OUTPUT], floats(table, t.GIVEN), outputs, row * width, width)
    return _consider(table, row, far, norm, slot, merit)


@small
def _slip(metric: int, axes: int) -> float:
    """Return by how many units codes may err, all coordinates together."""
    if metric == t.LINF:
        return _BOX_ERROR
    return _SUM_ERROR * (axes if metric == t.L1 else np.sqrt(axes))


@small
def _window(metric: int, length: float, grain: float, slip: float) -> int:
    """Return a length in the tree in code units, rounded up; no more than codes can tell."""
    return int(min(length * grain + slip, _BOX_MOST if metric == t.LINF else _SUM_MOST)) + 1


@small
def _score_limit(metric: int, window: int) -> int:
    """Return the largest score of a point within the window; a larger score lies outside.

    If the window is as wide as can be, all scores pass: codes cannot tell what lies beyond.
    """
    if metric == t.LINF:
        return window if window <= _BOX_MOST else _ALL
    if window > _SUM_MOST:
        return _ALL
    return window if metric == t.L1 else window * window


@kernel
def _score_gaps(codes: int, query: Any, axes: int, window: int, mask: Any, scores: Any) -> None:
    """Compute the largest gap of codes of each marked point of the block at address `codes`."""
    for i in range(BLOCK):
        mask[i] = mask[i] - 1  # 0, or 255 for no point
    for j in range(axes):
        lane = view(codes + j * BLOCK, np.uint8)
        code = query[j]
        for i in range(BLOCK):
            gap = min(np.uint8((lane[i] - code) & 255), np.uint8((code - lane[i]) & 255))
            mask[i] = max(mask[i], gap)
        if j % _CHECK == _CHECK - 1:
            least = np.uint8(255)
            for i in range(BLOCK):
                least = min(least, mask[i])
            if least > window:
                break
    for i in range(BLOCK):
        scores[i] = mask[i]


@kernel
def _score(table: Any, block: int, window: int) -> int:
    """Score the points of a block by the distance of their codes.

    Return how many coordinates were read. A score is the largest gap for linf, else a sum as in
    codes.py. Once all points are out of the window, the scores are lower bounds.
    """
    axes = table[t.AXES]
    metric = table[t.METRIC]
    mask = bytes_of(table, t.MASK)
    scores = view(table[t.SUMS], np.uint16)
    count = ints(table, t.COUNT)[block]
    codes = table[t.CODES] + block * axes * BLOCK
    query = bytes_of(table, t.QCODES)
    if metric == t.LINF:
        for i in range(BLOCK):
            mask[i] = i < count
        _score_gaps(codes, query, axes, window, mask, scores)
        return axes
    square = metric != t.L1
    limit = window * window if square else window
    return abs(scan_sum(codes, query, axes, window, limit, square, count, scores, mask))


@kernel
def _least(scores: Any) -> int:
    """Return the point with the smallest score."""
    least = np.uint16(_ALL)
    for i in range(BLOCK):
        least = min(least, scores[i])
    i = 0
    while scores[i] != least:
        i += 1
    return i


@small
def _note_promising(scores: Any, count: int, limit: int, promising: Any) -> int:
    """Note the points of a block with scores within the limit; return how many."""
    left = 0
    for i in range(count):
        promising[left] = i
        left += scores[i] <= limit and scores[i] != _ALL
    return left


@kernel
def _search_leaf(table: Any, node: int, before: int, norm: float, slot: int, merit: float) -> float:
    """Consider the points of a leaf, the most promising first; return the merit of the best."""
    metric = table[t.METRIC]
    farthest = farthest_below(table, node)
    far = -1.0
    if table[t.RANGE_WIDTH] == 1 and floats(table, t.LOW)[node] == floats(table, t.HIGH)[node]:
        far = farthest  # of all rows here
    kind = table[t.OUTPUT]
    width = table[t.OUT_WIDTH]
    given = floats(table, t.GIVEN)
    outputs = floats(table, t.OUTPUTS)
    following = ints(table, t.NEXT)
    count = ints(table, t.COUNT)
    scores = view(table[t.SUMS], np.uint16)
    promising = ints(table, t.ORDER)
    recent = ints(table, t.RECENT)
    at = (before % t.RECENT_MOST) * 3
    grain = floats(table, t.NUMBERS)[t.GRAIN]
    slip = _slip(metric, table[t.AXES])
    block = ints(table, t.LEFT)[node]
    while block >= 0:
        radius = radius_of_interest(table, farthest, merit, slot)
        if radius < 0.0:
            return merit
        window = _window(metric, length_in_tree(table, radius), grain, slip)
        limit = _score_limit(metric, window)
        recent[at] += 1
        recent[at + 1] += _score(table, block, window) * BLOCK
        ids = view(table[t.IDS] + block * BLOCK * 8, np.int64)
        left = 0
        for turn in range(_FIRST + BLOCK):
            if turn < _FIRST:
                i = _least(scores)
                if scores[i] > limit or scores[i] == _ALL:
                    break
            else:  # the rest, as they come
                if turn == _FIRST:
                    left = _note_promising(scores, count[block], limit, promising)
                if turn - _FIRST >= left:
                    break
                i = promising[turn - _FIRST]
            score = scores[i]
            scores[i] = _ALL
            if score > limit or i >= count[block] or ids[i] >= before:
                continue
            apart = far
            if apart < 0.0:
                apart = output_distance(kind, given, outputs, ids[i] * width, width)
                own = radius_of_interest(table, apart, merit, slot)
                if own < 0.0:
                    continue
                window = _window(metric, length_in_tree(table, own), grain, slip)
                if score > _score_limit(metric, window):
                    continue
            recent[at + 2] += 1
            old = merit
            merit = _consider(table, ids[i], apart, norm, slot, merit)
            if merit != old:
                radius = radius_of_interest(table, farthest, merit, slot)
                window = _window(metric, length_in_tree(table, radius), grain, slip)
                limit = _score_limit(metric, window)
        block = following[block]
    return merit


@kernel
def _is_monotone(table: Any) -> bool:
    """Return whether a nearer or more different row never has less merit, rounding included."""
    return table[t.QUESTION] == t.NEAREST or floats(table, t.NUMBERS)[t.EXPONENT] == 1.0


@kernel
def _rank(table: Any, near: float, far: float, merit: float, slot: int) -> int:
    """Compare a row at these distances with the best: 1 if better, 0 if equal, else -1.

    For linf a bound on the distance is exact: the distance rounds in the same places.
    """
    if table[t.QUESTION] == t.NEAREST:
        return 1 if near < merit else 0 if near == merit else -1
    value = slope_of(near, far, 1.0)
    if value != merit:
        return 1 if value > merit else -1
    farthest = floats(table, t.RESULT_OUTPUT)[slot]
    return 1 if far > farthest else 0 if far == farthest else -1


@kernel
def _descend(
    table: Any, root: int, before: int, norm: float, slot: int, merit: float, ties: bool
) -> float:
    """Search below a root; return the merit of the best.

    Without `ties`, what is sure to be no better than the best may be left out; KEYS then holds the
    merit at which something that may be as good was left out.
    """
    metric = table[t.METRIC]
    tied = floats(table, t.KEYS)
    best = ints(table, t.RESULT_ROWS)
    leave_ties = not ties and metric == t.LINF and _is_monotone(table)
    square = metric >= t.L2
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
        fresh = True
        while True:
            far = farthest_below(table, node)
            radius = radius_of_interest(table, far, merit, slot)
            if radius < 0.0:
                break
            limit = length_in_tree(table, radius)
            if square:
                limit = limit * limit
            leaf = axis[node] < 0
            bound = total
            if leaf or fresh:
                bound = max(total, box_bound(table, node))
            if bound > limit:
                break
            if leave_ties and best[slot] < before:
                rank = _rank(table, bound, far, merit, slot)
                if rank == 0:
                    tied[0] = merit
                if rank <= 0:
                    break
            if leaf:
                merit = _search_leaf(table, node, before, norm, slot, merit)
                break
            fresh = False
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
def _settle_tie(table: Any, norm: float, slot: int, merit: float) -> float:
    """Find the earliest of the rows that are as good as the best.

    Where there are many, it is among the first rows of all; where it is not, there are few.
    """
    best = ints(table, t.RESULT_ROWS)
    alive = bytes_of(table, t.ALIVE)
    found = best[slot]
    for row in range(min(_PREFIX, found)):
        if alive[row] != 0:
            merit = _consider_alone(table, row, norm, slot, merit)
            if best[slot] == row:
                return merit
    if found > _PREFIX:
        for root in range(table[t.TREES]):
            merit = _descend(table, root, found, norm, slot, merit, True)
    return merit


@kernel
def search_best_of_row(table: Any, row: int, slot: int) -> bool:
    """Search for a written row and GIVEN among the rows before it; write the answer to a slot.

    Return whether there is one; if not, the slot's row is -1. PLACES holds the row's sketch
    already.
    """
    prepare(table, row)
    norm = read_query(table, row)
    note_search(table, row, 0, 0, 0)
    rows = ints(table, t.RESULT_ROWS)
    rows[slot] = row  # no one's: all others are earlier
    floats(table, t.RESULT_INPUT)[slot] = np.inf
    floats(table, t.RESULT_OUTPUT)[slot] = 0.0
    merit = 0.0
    if table[t.QUESTION] == t.NEAREST:
        merit = floats(table, t.NUMBERS)[t.BEST_LIMIT]
    trail = table[t.TRAIL]
    if trail < row and bytes_of(table, t.ALIVE)[trail] != 0:
        merit = _consider_alone(table, trail, norm, slot, merit)
    floats(table, t.KEYS)[0] = -1.0
    for root in range(table[t.TREES]):
        merit = _descend(table, root, row, norm, slot, merit, False)
    if floats(table, t.KEYS)[0] == merit:
        merit = _settle_tie(table, norm, slot, merit)
    if rows[slot] == row:
        rows[slot] = -1
        return False
    table[t.TRAIL] = rows[slot]
    return True


@step
def _search_best_of_rows(table: Any) -> int:
    """Search for rows of a batch in the working order, one result each."""
    order = ints(table, t.WORK_ORDER)
    start = table[t.START]
    stop = min(table[t.STOP], start + table[t.RESULT_CAPACITY])
    for k in range(start, stop):
        if k + _AHEAD < stop:
            ahead = table[t.FIRST] + order[k + _AHEAD]
            prefetch(table[t.ROWS] + ahead * table[t.ROW_BYTES])
            prefetch(table[t.OUTPUTS] + ahead * table[t.OUT_WIDTH] * 8)
        row = table[t.FIRST] + order[k]
        take_output(table, row)
        search_best_of_row(table, row, k - start)
    table[t.FOUND] = stop - start
    return stop


@entry
def search_best(address: int, row: int) -> int:
    """Search for a written row with GIVEN; return 1 if a match was found, else 0.

    If `row` is below 0, search for the rows of a batch from START to STOP, in the working order,
    and return how far the work has come.
    """
    table = view(address, np.int64)
    if row < 0:
        return _search_best_of_rows(table)
    return 1 if search_best_of_row(table, row, 0) else 0
