"""Search the live tree: collect the blocks a query may touch, scan their codes, decide by row.

Collecting first lets the blocks' cache lines travel while other nodes are visited. A subtree is
skipped when its cell is out of reach or when none of its outputs can differ from the query's.
Invariant: the candidates include every row within reach whose output differs.
Cost: the stack never holds more than there are nodes, so it cannot overflow.
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.codes import encode, scan_box, scan_sum
from likewise.search.kernels.compile import kernel, prefetch, small, view
from likewise.search.kernels.distance import (
    input_distance,
    is_different,
    is_near,
    output_distance,
    outputs_agree,
)
from likewise.search.kernels.rows import read_point, read_query
from likewise.search.kernels.sort import sort_rows
from likewise.search.kernels.table import BLOCK, RECENT_MOST, bytes_of, floats, ints

# Why no cell within reach is skipped. For linf a cell's distance is that of the plane; TREE_REACH
# exceeds the reach by more than the roundings of both. For sums (l1, l2) each visited cell carries
# the distance from the query to it, coordinate by coordinate (Arya and Mount's incremental
# distance): leaving one plane's offset and adding the next errs by at most 2^-51 of the limit per
# step, since a sum above the limit is not followed, and TREE_REACH allows for 10^5 steps.

_LINES = 14  # cache lines of a block asked for when it is collected
_SOON = 64  # candidates whose rows are asked for as soon as they are known


@small
def prepare(table: Any, row: int) -> None:
    """Compute the position and the codes of a written row that is to be searched for."""
    point = floats(table, t.POINT)
    read_point(table, row, point)
    clamp = floats(table, t.NUMBERS)[t.CLAMP]
    encode(point, floats(table, t.CODE_SCALE), clamp, table[t.AXES], bytes_of(table, t.QCODES))


@small
def fetch_block(table: Any, block: int) -> None:
    address = table[t.CODES] + block * table[t.AXES] * BLOCK
    prefetch(table[t.COUNT] + block * 8)
    for line in range(min(_LINES, 2 * table[t.AXES])):
        prefetch(address + line * 64)


@small
def note_search(table: Any, row: int, blocks: int, looks: int, kept: int) -> None:
    """Note what a search touched: blocks, bytes of their points, rows read in full."""
    recent = ints(table, t.RECENT)
    at = (row % RECENT_MOST) * 3
    recent[at] = blocks
    recent[at + 1] = looks
    recent[at + 2] = kept


@small
def agreeing_interval(table: Any) -> tuple[float, float]:
    """Return the interval in which a single-number output does not differ from the query's.

    z - v is at most delta, rounding included, where v >= z - delta; one step inwards makes up for
    the rounding of that bound itself.
    """
    z = floats(table, t.GIVEN)[0]
    delta = floats(table, t.NUMBERS)[t.DELTA]
    if delta < 0.0:  # every output is different
        return np.inf, -np.inf
    if table[t.OUTPUT] == t.LABEL:
        return (-np.inf, np.inf) if delta >= 1.0 else (z, z)
    if delta == 0.0:
        return z, z
    return np.nextafter(z - delta, np.inf), np.nextafter(z + delta, -np.inf)


@small
def must_agree(table: Any, node: int, lowest: float, highest: float) -> bool:
    """Return whether no output below `node` can differ from the query's."""
    width = table[t.RANGE_WIDTH]
    low = floats(table, t.LOW)
    high = floats(table, t.HIGH)
    if width == 1:
        return low[node] >= lowest and high[node] <= highest
    if width == 0:
        return False
    return outputs_agree(
        table[t.OUTPUT],
        floats(table, t.GIVEN),
        low,
        high,
        node * width,
        width,
        floats(table, t.CORNER),
        floats(table, t.NUMBERS)[t.DELTA],
    )


@kernel
def collect_box(table: Any, first: int, last: int, prune: bool) -> int:
    """Collect the blocks of all cells that the query's box meets, in trees `first` up to `last`.

    prune: whether to skip those in which no output can differ from the query's.
    """
    point = floats(table, t.POINT)
    reach = floats(table, t.NUMBERS)[t.TREE_REACH]
    gap_scale = floats(table, t.GAP_SCALE)
    axis = ints(table, t.AXIS)
    split = floats(table, t.SPLIT)
    left = ints(table, t.LEFT)
    stack = ints(table, t.STACK)
    found = ints(table, t.FOUND_BLOCKS)
    blocks = 0
    lowest, highest = agreeing_interval(table)
    for root in range(first, last):
        if prune and must_agree(table, root, lowest, highest):
            continue
        stack[0] = root
        top = 1
        while top > 0:
            top -= 1
            node = stack[top]
            while axis[node] >= 0:
                a = axis[node]
                child = left[node]
                gap = (point[a] - split[node]) * gap_scale[a]
                if gap >= 0.0:
                    if gap <= reach:
                        stack[top] = child
                        top += 1
                    node = child + 1
                else:
                    if gap >= -reach:
                        stack[top] = child + 1
                        top += 1
                    node = child
            if not (prune and must_agree(table, node, lowest, highest)):
                found[blocks] = left[node]
                blocks += 1
                fetch_block(table, left[node])
    return blocks


@kernel
def collect_ball(table: Any, square: bool, first: int, last: int, prune: bool) -> int:
    """Collect the blocks of all cells within reach, for distances that add up."""
    width = table[t.AXES]
    point = floats(table, t.POINT)
    reach = floats(table, t.NUMBERS)[t.TREE_REACH]
    limit = reach * reach if square else reach
    gap_scale = floats(table, t.GAP_SCALE)
    axis = ints(table, t.AXIS)
    split = floats(table, t.SPLIT)
    left = ints(table, t.LEFT)
    offsets = floats(table, t.OFFSETS)
    stack = ints(table, t.STACK)
    stack_sum = floats(table, t.STACK_SUM)
    stack_axis = ints(table, t.STACK_AXIS)
    stack_offset = floats(table, t.STACK_OFFSET)
    found = ints(table, t.FOUND_BLOCKS)
    blocks = 0
    for j in range(width):
        offsets[j] = 0.0
    lowest, highest = agreeing_interval(table)
    for root in range(first, last):
        if prune and must_agree(table, root, lowest, highest):
            continue
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
            while axis[node] >= 0:
                a = axis[node]
                child = left[node]
                gap = (point[a] - split[node]) * gap_scale[a]
                right = gap >= 0.0
                old = offsets[a]
                new = abs(gap)
                farther = total - old * old + new * new if square else total - old + new
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
            if not (prune and must_agree(table, node, lowest, highest)):
                found[blocks] = left[node]
                blocks += 1
                fetch_block(table, left[node])
    return blocks


@small
def scan_codes(table: Any, block: int) -> int:
    """Mark the points of a block that codes cannot rule out; codes.py says what is returned."""
    width = table[t.AXES]
    metric = table[t.METRIC]
    codes = table[t.CODES] + block * width * BLOCK
    count = ints(table, t.COUNT)[block]
    query = bytes_of(table, t.QCODES)
    mask = bytes_of(table, t.MASK)
    if metric == t.LINF:
        return scan_box(codes, query, width, table[t.WINDOW], count, mask)
    return scan_sum(
        codes,
        query,
        width,
        table[t.WINDOW],
        table[t.LIMIT],
        metric != t.L1,
        count,
        view(table[t.SUMS], np.uint16),
        mask,
    )


@kernel
def _scan(table: Any, blocks: int, before: int) -> int:
    """Find rows below `before` in the collected blocks that codes and outputs cannot rule out."""
    found = ints(table, t.FOUND_BLOCKS)
    following = ints(table, t.NEXT)
    mask = bytes_of(table, t.MASK)
    candidates = ints(table, t.CANDIDATES)
    words = view(table[t.MASK], np.uint64)
    kept = 0
    visited = 0
    scanned = 0
    for k in range(blocks):
        block = found[k]
        while block >= 0:
            visited += 1
            lanes = scan_codes(table, block)
            scanned += abs(lanes)
            if lanes > 0:
                for word in range(BLOCK // 8):
                    if words[word] == 0:
                        continue
                    prefetch(table[t.IDS] + (block * BLOCK + word * 8) * 8)
                    for i in range(word * 8, word * 8 + 8):
                        if mask[i] != 0:
                            candidates[kept] = block * BLOCK + i
                            kept += 1
            block = following[block]
    kept = _resolve_candidates(table, kept, before)
    note_search(table, before, visited, scanned * BLOCK, kept)
    return kept


@small
def fetch_row(table: Any, row: int) -> None:
    """Prefetch the beginning of a stored input."""
    start = table[t.ROWS] + row * table[t.ROW_BYTES]
    for byte in range(0, min(table[t.ROW_BYTES], 512), 64):
        prefetch(start + byte)


@kernel
def _resolve_candidates(table: Any, kept: int, before: int) -> int:
    """Turn candidates from places in blocks into rows; leave out those that cannot be witnesses.

    What a decision will read of them is prefetched here, so that the waits overlap.
    """
    candidates = ints(table, t.CANDIDATES)
    ids = ints(table, t.IDS)
    outputs = floats(table, t.OUTPUTS)
    given = floats(table, t.GIVEN)
    out_width = table[t.OUT_WIDTH]
    delta = floats(table, t.NUMBERS)[t.DELTA]
    # A label with a tree of its own is in no other, and its own tree was left out.
    apart = table[t.OUTPUT] == t.LABEL and given[0] < table[t.TREES] - 1
    rows = 0
    for k in range(kept):
        row = ids[candidates[k]]
        if row >= before:
            continue
        if not apart:
            far = output_distance(table[t.OUTPUT], given, outputs, row * out_width, out_width)
            if not is_different(far, delta):
                continue
        elif rows < _SOON:
            prefetch(table[t.OUTPUTS] + row * out_width * 8)
        if rows < _SOON:
            fetch_row(table, row)
        candidates[rows] = row
        rows += 1
    return rows


@kernel
def decide_row(table: Any, row: int, norm: float, found: int) -> int:
    """Write a candidate to slot `found` of the results if it is a witness; return the next slot."""
    numbers = floats(table, t.NUMBERS)
    out_width = table[t.OUT_WIDTH]
    distance = input_distance(table, row, numbers[t.REACH], norm)
    if not is_near(distance, numbers[t.REACH]):
        return found
    outputs = floats(table, t.OUTPUTS)
    different = output_distance(
        table[t.OUTPUT], floats(table, t.GIVEN), outputs, row * out_width, out_width
    )
    if is_different(different, numbers[t.DELTA]):
        ints(table, t.RESULT_ROWS)[found] = row
        floats(table, t.RESULT_INPUT)[found] = distance
        floats(table, t.RESULT_OUTPUT)[found] = different
        found += 1
    return found


@kernel
def decide_candidates(table: Any, row: int, kept: int, results: int) -> int:
    """Write the witnesses of `row` among the candidates from slot `results` on; return how many."""
    if kept == 0:
        return 0
    candidates = ints(table, t.CANDIDATES)
    sort_rows(candidates, kept)
    norm = read_query(table, row)
    found = results
    for k in range(kept):
        if k + 4 < kept:
            fetch_row(table, candidates[k + 4])
        found = decide_row(table, candidates[k], norm, found)
    return found - results


@kernel
def search(table: Any, row: int, results: int) -> int:
    """Write the witnesses of a written row and GIVEN, among the rows before it, to the results.

    They go from slot `results` on. The row is prepared.
    """
    metric = table[t.METRIC]
    if metric == t.LINF:
        blocks = collect_box(table, 0, table[t.TREES], True)
    else:
        blocks = collect_ball(table, metric != t.L1, 0, table[t.TREES], True)
    kept = _scan(table, blocks, row)
    return decide_candidates(table, row, kept, results)
