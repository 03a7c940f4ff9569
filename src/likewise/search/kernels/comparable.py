"""Find any comparable row, an earlier one that is near, or count those that agree.

Invariant: -1 means that no row from `since` on and before `row` is near; `is_near` decides.
Cost: finding mostly takes one descent and one block; counting, a search of what may agree and a
distance for each near row. No row is stored, however many are near.
Not here: the latest near row among given candidates (propose.py), blocks of a flat scan (flat.py).
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.compile import kernel, prefetch, step, view
from likewise.search.kernels.distance import (
    input_distance,
    is_different,
    is_near,
    output_distance,
)
from likewise.search.kernels.rows import read_query, take_output
from likewise.search.kernels.search import (
    collect_ball,
    collect_box,
    fetch_block,
    fetch_row,
    prepare,
    scan_codes,
)
from likewise.search.kernels.table import BLOCK, bytes_of, floats, ints
from likewise.search.kernels.tree import tree_for

# This search is for a decision without a witness, after the usual search. Where outputs are labels,
# that search has looked at every row of another label, and none was near: the rest lies in the tree
# of the decision's own label. Any near row will do. So the leaf to which the point leads is scanned
# first, where most searches end; only then are all cells within reach collected and scanned, up to
# the first near row.

_AHEAD = 8  # rows between prefetching a position and reading it
_SOON = 16  # candidates between prefetching an input and reading it


@kernel
def is_row_near(table: Any, other: int, norm: float) -> bool:
    """Return whether a stored row is near QUERY, whose norm this is."""
    reach = floats(table, t.NUMBERS)[t.REACH]
    return is_near(input_distance(table, other, reach, norm), reach)


@kernel
def _near_in_blocks(table: Any, blocks: int, row: int, since: int, known: int) -> int:
    """Return a row from `since` on, before `row` and near it, in the blocks collected, or -1.

    known: a block that holds none
    """
    found = ints(table, t.FOUND_BLOCKS)
    following = ints(table, t.NEXT)
    mask = bytes_of(table, t.MASK)
    ids = ints(table, t.IDS)
    ready = False
    norm = 1.0
    for k in range(blocks):
        block = found[k] if found[k] != known else -1
        while block >= 0:
            if scan_codes(table, block) > 0:
                for i in range(BLOCK):
                    if mask[i] == 0:
                        continue
                    other = ids[block * BLOCK + i]
                    if other < since or other >= row:
                        continue
                    if not ready:
                        norm = read_query(table, row)
                        ready = True
                    if is_row_near(table, other, norm):
                        return other
            block = following[block]
    return -1


@kernel
def _own_leaf(table: Any, node: int) -> tuple[int, bool]:
    """Return the leaf below `node` to which POINT leads, and whether all within reach lies in it.

    A plane farther away than TREE_REACH has nothing near behind it, whatever the metric.
    """
    point = floats(table, t.POINT)
    reach = floats(table, t.NUMBERS)[t.TREE_REACH]
    gap_scale = floats(table, t.GAP_SCALE)
    axis = ints(table, t.AXIS)
    split = floats(table, t.SPLIT)
    left = ints(table, t.LEFT)
    inside = True
    while axis[node] >= 0:
        a = axis[node]
        gap = (point[a] - split[node]) * gap_scale[a]
        inside &= abs(gap) > reach
        node = left[node] + (gap >= 0.0)
    return node, inside


@step
def find_comparable(table: Any, row: int, since: int) -> int:
    """Return a near row of a written row with output GIVEN that has no witness since, or -1.

    The row is prepared.
    """
    metric = table[t.METRIC]
    output = floats(table, t.GIVEN)[0]
    root = tree_for(table, output)
    leaf, inside = _own_leaf(table, root)
    block = ints(table, t.LEFT)[leaf]
    ints(table, t.FOUND_BLOCKS)[0] = block
    fetch_block(table, block)
    other = _near_in_blocks(table, 1, row, since, -1)
    if other >= 0:
        return other
    first, last = root, root + 1
    if table[t.OUTPUT] == t.LABEL and floats(table, t.NUMBERS)[t.DELTA] >= 1.0:
        first, last = 0, table[t.TREES]  # no two labels differ: no tree was looked at
    if inside and last - first == 1:
        return -1
    if metric == t.LINF:
        blocks = collect_box(table, first, last, False)
    else:
        blocks = collect_ball(table, metric != t.L1, first, last, False)
    return _near_in_blocks(table, blocks, row, since, block)


@step
def find_comparable_of_row(table: Any) -> int:
    """Return a near row from SINCE on of row FIRST with output GIVEN, or -1."""
    prepare(table, table[t.FIRST])
    return find_comparable(table, table[t.FIRST], table[t.SINCE])


@step
def find_comparable_of_rows(table: Any) -> int:
    """Find a near row for each row of a batch that has none in COMPARABLE_ROWS yet."""
    order = ints(table, t.WORK_ORDER)
    comparable_rows = ints(table, t.COMPARABLE_ROWS)
    sinces = ints(table, t.SINCES)
    stop = table[t.STOP]
    for k in range(table[t.START], stop):
        if k + _AHEAD < stop:
            prefetch(table[t.PLACES] + (table[t.FIRST] + order[k + _AHEAD]) * table[t.PLACE_BYTES])
        if comparable_rows[order[k]] >= 0:
            continue
        row = table[t.FIRST] + order[k]
        take_output(table, row)
        prepare(table, row)
        comparable_rows[order[k]] = find_comparable(table, row, sinces[order[k]])
    return stop


@kernel
def agrees(table: Any, other: int) -> bool:
    """Return whether the output of a row does not differ from GIVEN."""
    width = table[t.OUT_WIDTH]
    outputs = floats(table, t.OUTPUTS)
    far = output_distance(table[t.OUTPUT], floats(table, t.GIVEN), outputs, other * width, width)
    return not is_different(far, floats(table, t.NUMBERS)[t.DELTA])


@kernel
def _agreeing_candidates(table: Any, blocks: int, row: int, since: int, apart: bool) -> int:
    """Write the rows that may be near and agree to CANDIDATES; return how many.

    apart: whether all rows of the collected blocks agree
    """
    found = ints(table, t.FOUND_BLOCKS)
    following = ints(table, t.NEXT)
    words = view(table[t.MASK], np.uint64)
    mask = bytes_of(table, t.MASK)
    ids = ints(table, t.IDS)
    candidates = ints(table, t.CANDIDATES)
    places = 0
    for k in range(blocks):
        block = found[k]
        while block >= 0:
            if scan_codes(table, block) > 0:
                for word in range(BLOCK // 8):
                    if words[word] == 0:
                        continue
                    prefetch(table[t.IDS] + (block * BLOCK + word * 8) * 8)
                    for i in range(word * 8, word * 8 + 8):
                        if mask[i] != 0:
                            candidates[places] = block * BLOCK + i
                            places += 1
            block = following[block]
    kept = 0
    for k in range(places):
        other = ids[candidates[k]]
        if since <= other < row and (apart or agrees(table, other)):
            if kept < _SOON:
                fetch_row(table, other)
            candidates[kept] = other
            kept += 1
    return kept


@step
def count_agreeing(table: Any, row: int, since: int) -> int:
    """Return how many rows from `since` on, before a written row with output GIVEN, agree.

    They are near and not different. The row is prepared.
    """
    first, last = 0, table[t.TREES]
    apart = False
    if table[t.OUTPUT] == t.LABEL and floats(table, t.NUMBERS)[t.DELTA] < 1.0:
        first = tree_for(table, floats(table, t.GIVEN)[0])
        apart = first < last - 1  # the last tree is that of several labels
        last = first + 1
    if table[t.METRIC] == t.LINF:
        blocks = collect_box(table, first, last, False)
    else:
        blocks = collect_ball(table, table[t.METRIC] != t.L1, first, last, False)
    kept = _agreeing_candidates(table, blocks, row, since, apart)
    candidates = ints(table, t.CANDIDATES)
    agreeing = 0
    norm = read_query(table, row)
    for k in range(kept):
        if k + _SOON < kept:
            fetch_row(table, candidates[k + _SOON])
        agreeing += is_row_near(table, candidates[k], norm)
    return agreeing


@step
def count_agreeing_of_row(table: Any) -> int:
    """Return how many rows from SINCE on agree with row FIRST, whose output is GIVEN."""
    prepare(table, table[t.FIRST])
    return count_agreeing(table, table[t.FIRST], table[t.SINCE])


@step
def count_agreeing_of_rows(table: Any) -> int:
    """Add to AGREEING, for each row of a batch, how many rows agree with it."""
    order = ints(table, t.WORK_ORDER)
    agreeing = ints(table, t.AGREEING)
    sinces = ints(table, t.SINCES)
    stop = table[t.STOP]
    for k in range(table[t.START], stop):
        if k + _AHEAD < stop:
            prefetch(table[t.PLACES] + (table[t.FIRST] + order[k + _AHEAD]) * table[t.PLACE_BYTES])
        row = table[t.FIRST] + order[k]
        take_output(table, row)
        prepare(table, row)
        agreeing[order[k]] += count_agreeing(table, row, sinces[order[k]])
    return stop
