"""Build a subtree from its rows, a little at a time.

Invariant: at the exchange, both subtrees hold the same remembered rows.
Invariant: while rows are collected the old subtree is only added to (no lifts, no collapses), and
rows added since the start are marked and logged, so none is missed and none comes twice.
Cost: one unit of budget is about one row touched, some 10 to 20 ns.
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.add import (
    CHAIN,
    COLLECT,
    EQUAL,
    FREE,
    IDLE,
    LOG,
    PARTITION,
    SEGMENT,
    insert,
)
from likewise.search.kernels.balance import copy_node, summarise
from likewise.search.kernels.compile import entry, kernel, prefetch, step, view
from likewise.search.kernels.rows import read_coordinate, read_point, sketch_row
from likewise.search.kernels.search import prepare
from likewise.search.kernels.split import choose_axis, choose_split, fetch_rows
from likewise.search.kernels.table import BLOCK, bytes_of, floats, ints
from likewise.search.kernels.tree import (
    add_leaves,
    free_block,
    free_pair,
    job_root,
    make_inner,
    make_leaf,
    new_block,
    new_pair,
    put,
    spare_pair,
    stretch_box,
    stretch_range,
    tree_of,
)

# The same steps serve three purposes: bulk loading (run at once), replacing a subtree that has
# become too deep (a few steps with every insertion, so that no single decision waits for it), and
# starting again. A rebuild collects the subtree's rows, splits them along sampled medians until a
# block holds them, inserts what has arrived meanwhile, and changes places with the old subtree,
# which is then freed piece by piece. Until then the old subtree answers every query.

_FILL = 112  # a segment this short becomes a leaf, with some room left
_SAMPLE = 64
_AHEAD = 16  # rows between prefetching one and reading it
_PENDING = -2  # in AXIS: a node whose segment waits on the stack


@kernel
def _push(table: Any, first: int, last: int, node: int) -> None:
    stack = ints(table, t.JOB_STACK)
    top = table[t.JOB_TOP] * 3
    stack[top] = first
    stack[top + 1] = last
    stack[top + 2] = node
    table[t.JOB_TOP] += 1


@kernel
def start_rebuild(table: Any, node: int) -> None:
    """Begin to replace the subtree at `node`."""
    table[t.JOB_PHASE] = COLLECT
    table[t.JOB_NODE] = node
    table[t.JOB_COUNT] = 0
    table[t.JOB_LOGGED] = 0
    table[t.JOB_APPLIED] = 0
    table[t.JOB_TOP] = 0
    _push(table, 0, 0, node)
    table[t.REBUILDS] += 1


@entry
def start_bulk(address: int, root: int) -> int:
    """Begin to replace a whole tree, with all rows written so far that belong there."""
    table = view(address, np.int64)
    start_rebuild(table, root)
    table[t.JOB_TOP] = 0
    rows = ints(table, t.JOB_IDS)
    alive = bytes_of(table, t.ALIVE)
    count = 0
    for row in range(table[t.TOTAL]):
        if alive[row] != 0 and tree_of(table, row) == root:
            sketch_row(table, row)
            rows[count] = row
            count += 1
    table[t.JOB_COUNT] = count
    _plan(table)
    return 0


@step
def _collect(table: Any) -> int:
    """Collect one block's rows; a negative entry on the stack is a further block of a chain."""
    stack = ints(table, t.JOB_STACK)
    table[t.JOB_TOP] -= 1
    node = stack[table[t.JOB_TOP] * 3 + 2]
    if node >= 0 and ints(table, t.AXIS)[node] >= 0:
        first = ints(table, t.LEFT)[node]
        _push(table, 0, 0, first)
        _push(table, 0, 0, first + 1)
        return 1
    block = ints(table, t.LEFT)[node] if node >= 0 else -1 - node
    ids = view(table[t.IDS] + block * BLOCK * 8, np.int64)
    rows = ints(table, t.JOB_IDS)
    logged = bytes_of(table, t.JOB_MARKS)
    count = table[t.JOB_COUNT]
    for i in range(ints(table, t.COUNT)[block]):
        if logged[ids[i]] == 0:
            rows[count] = ids[i]
            count += 1
    table[t.JOB_COUNT] = count
    following = ints(table, t.NEXT)[block]
    if following >= 0:
        _push(table, 0, 0, -1 - following)
    return BLOCK // 8


@kernel
def _plan(table: Any) -> None:
    """Make all collected rows the first segment."""
    root = job_root(table)
    table[t.ROWS_REBUILT] += table[t.JOB_COUNT]
    make_leaf(table, root, -1, -1)
    ints(table, t.AXIS)[root] = _PENDING
    _push(table, 0, table[t.JOB_COUNT], root)
    table[t.JOB_PHASE] = SEGMENT


@step
def _open_segment(table: Any) -> int:
    """Take a segment: make it a leaf, or find the plane that splits it."""
    if table[t.JOB_TOP] == 0:
        table[t.JOB_PHASE] = LOG
        return 1
    stack = ints(table, t.JOB_STACK)
    table[t.JOB_TOP] -= 1
    first = stack[table[t.JOB_TOP] * 3]
    last = stack[table[t.JOB_TOP] * 3 + 1]
    table[t.JOB_FROM] = first
    table[t.JOB_TO] = last
    table[t.JOB_AT] = stack[table[t.JOB_TOP] * 3 + 2]
    length = last - first
    table[t.JOB_I] = first
    if length <= _FILL:
        table[t.JOB_PHASE] = CHAIN
        return 1
    width = table[t.AXES]
    rows = ints(table, t.JOB_IDS)
    sample = ints(table, t.ORDER)
    points = floats(table, t.POINTS)
    keys = floats(table, t.KEYS)
    for i in range(_SAMPLE):
        sample[i] = rows[first + (length * i) // _SAMPLE]
    fetch_rows(table, sample, _SAMPLE)
    for i in range(_SAMPLE):
        read_point(table, sample[i], view(table[t.POINTS] + i * width * 8, np.float64))
    unit = floats(table, t.NUMBERS)[t.TREE_REACH]
    gap_scale = floats(table, t.GAP_SCALE)
    axis = choose_axis(points, _SAMPLE, width, gap_scale, unit)
    if axis < 0:
        table[t.JOB_PHASE] = EQUAL
        return _SAMPLE
    for i in range(_SAMPLE):
        keys[i] = points[i * width + axis]
    _begin_partition(table, axis, choose_split(keys, _SAMPLE))
    return _SAMPLE


@kernel
def _begin_partition(table: Any, axis: int, split: float) -> None:
    table[t.JOB_AXIS] = axis
    floats(table, t.NUMBERS)[t.JOB_SPLIT] = split
    table[t.JOB_I] = table[t.JOB_FROM]
    table[t.JOB_J] = table[t.JOB_TO] - 1
    table[t.JOB_PHASE] = PARTITION


@step
def _partition(table: Any, budget: int) -> int:
    """Split the segment's rows by the plane, both ends inwards, as far as the budget goes."""
    rows = ints(table, t.JOB_IDS)
    axis = table[t.JOB_AXIS]
    split = floats(table, t.NUMBERS)[t.JOB_SPLIT]
    i = table[t.JOB_I]
    j = table[t.JOB_J]
    done = 0
    places = table[t.PLACES] + axis * (table[t.PLACE_BYTES] // table[t.AXES])
    while i <= j and done < budget:
        if i + _AHEAD < j:
            prefetch(places + rows[i + _AHEAD] * table[t.PLACE_BYTES])
            prefetch(places + rows[j - _AHEAD] * table[t.PLACE_BYTES])
        if read_coordinate(table, rows[i], axis) < split:
            i += 1
        else:
            held = rows[i]
            rows[i] = rows[j]
            rows[j] = held
            j -= 1
        done += 1
    table[t.JOB_I] = i
    table[t.JOB_J] = j
    if i > j:
        node = table[t.JOB_AT]
        pair = new_pair(table)
        make_leaf(table, pair, node, -1)
        make_leaf(table, pair + 1, node, -1)
        ints(table, t.AXIS)[pair] = _PENDING
        ints(table, t.AXIS)[pair + 1] = _PENDING
        make_inner(table, node, axis, split, pair)
        _push(table, table[t.JOB_FROM], i, pair)
        _push(table, i, table[t.JOB_TO], pair + 1)  # the right side is built first
        table[t.JOB_PHASE] = SEGMENT
    return done


@step
def _compare_equal(table: Any, budget: int) -> int:
    """Find a row that differs, since the sample was all equal, and split the segment there."""
    width = table[t.AXES]
    rows = ints(table, t.JOB_IDS)
    gap_scale = floats(table, t.GAP_SCALE)
    model = floats(table, t.POINTS)
    point = floats(table, t.OTHER)
    read_point(table, rows[table[t.JOB_FROM]], model)
    done = 0
    while table[t.JOB_I] < table[t.JOB_TO] and done < budget:
        read_point(table, rows[table[t.JOB_I]], point)
        for j in range(width):
            if gap_scale[j] > 0.0 and point[j] != model[j]:
                _begin_partition(table, j, max(point[j], model[j]))
                return done + 1
        table[t.JOB_I] += 1
        done += 1
    if table[t.JOB_I] == table[t.JOB_TO]:
        table[t.JOB_I] = table[t.JOB_FROM]
        table[t.JOB_PHASE] = CHAIN
    return done


@step
def _fill_block(table: Any) -> int:
    """Put up to a block of the segment's rows into its leaf, which chains where more follow."""
    node = table[t.JOB_AT]
    left = ints(table, t.LEFT)
    rows = ints(table, t.JOB_IDS)
    alive = bytes_of(table, t.ALIVE)
    point = floats(table, t.POINT)
    codes = bytes_of(table, t.QCODES)
    block = new_block(table)
    ints(table, t.NEXT)[block] = left[node]
    left[node] = block
    ints(table, t.AXIS)[node] = -1
    first = table[t.JOB_I]
    last = min(first + BLOCK, table[t.JOB_TO])
    fetch_rows(table, rows[first:], last - first)
    for i in range(first, last):
        if alive[rows[i]] != 0:  # forgotten since it was collected
            prepare(table, rows[i])
            put(table, block, rows[i], codes)
            stretch_range(table, node, rows[i])
            stretch_box(table, node, point)
    table[t.JOB_I] = last
    if last == table[t.JOB_TO]:
        parent = ints(table, t.PARENT)
        while parent[node] >= 0 and node == left[parent[node]]:  # both of the pair are built
            node = parent[node]
            summarise(table, node)
        table[t.JOB_PHASE] = SEGMENT
    return 2 * BLOCK


@step
def _apply_log(table: Any) -> int:
    """Insert one row that arrived meanwhile; after the last, exchange the subtrees."""
    if table[t.JOB_APPLIED] == table[t.JOB_LOGGED]:
        _exchange(table)
        return 1
    row = ints(table, t.JOB_LOG)[table[t.JOB_APPLIED]]
    table[t.JOB_APPLIED] += 1
    bytes_of(table, t.JOB_MARKS)[row] = 0
    if bytes_of(table, t.ALIVE)[row] != 0:
        prepare(table, row)
        codes = bytes_of(table, t.QCODES)
        insert(table, row, job_root(table), floats(table, t.POINT), codes, False)
    return 16


@step
def _exchange(table: Any) -> None:
    """Let the new subtree take the old one's place; the old one is freed from now on."""
    node = table[t.JOB_NODE]
    root = job_root(table)
    spare = spare_pair(table)
    leaves = ints(table, t.LEAVES)
    more = leaves[root] - leaves[node]
    table[t.JOB_PHASE] = FREE
    table[t.JOB_NODE] = -1
    copy_node(table, node, spare)
    copy_node(table, root, node)
    copy_node(table, spare, root)
    ints(table, t.TRIED)[node] = leaves[node]
    ints(table, t.BUILT)[node] = leaves[node]
    add_leaves(table, ints(table, t.PARENT)[node], more)
    table[t.JOB_TOP] = 0
    _discard(table, root)


@kernel
def _discard(table: Any, node: int) -> None:
    """Put what lies below a node on the stack of what is to be freed."""
    first = ints(table, t.LEFT)[node]
    if ints(table, t.AXIS)[node] >= 0:
        _push(table, 0, 0, first)
    elif first >= 0:
        _push(table, 0, 0, -1 - first)


@step
def _free(table: Any) -> int:
    """Free one pair of nodes or one block of the old subtree."""
    if table[t.JOB_TOP] == 0:
        table[t.JOB_PHASE] = IDLE
        return 1
    table[t.JOB_TOP] -= 1
    item = ints(table, t.JOB_STACK)[table[t.JOB_TOP] * 3 + 2]
    if item >= 0:
        _discard(table, item)
        _discard(table, item + 1)
        free_pair(table, item)
    else:
        block = -1 - item
        following = ints(table, t.NEXT)[block]
        if following >= 0:
            _push(table, 0, 0, -1 - following)
        free_block(table, block)
    return 4


@step
def advance(table: Any, budget: int) -> None:
    """Work on the rebuild under way, if any, until the budget is spent or memory is short."""
    while budget > 0 and table[t.JOB_PHASE] != IDLE:
        if (
            table[t.NODES] + 4 > table[t.NODE_CAPACITY]
            or table[t.BLOCKS] + 4 > table[t.BLOCK_CAPACITY]
        ):
            return
        phase = table[t.JOB_PHASE]
        if phase == COLLECT:
            if table[t.JOB_TOP] == 0:
                _plan(table)
            else:
                budget -= _collect(table)
        elif phase == SEGMENT:
            budget -= _open_segment(table)
        elif phase == PARTITION:
            budget -= _partition(table, budget)
        elif phase == EQUAL:
            budget -= _compare_equal(table, budget)
        elif phase == CHAIN:
            budget -= _fill_block(table)
        elif phase == LOG:
            budget -= _apply_log(table)
        else:
            budget -= _free(table)
