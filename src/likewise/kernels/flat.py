"""A flat scan over leading rotated coordinates: for embeddings, where no tree can prune.

A rotation keeps l2 distances, and a few of its coordinates bound them from below. With the
directions of largest variance first, a partial sum of squares soon exceeds the reach for almost all
points. Points lie in blocks, coordinate by coordinate, in float32; a block is abandoned when no
point of it can still be near. For cosine the same is done on the unit sphere.

Why nothing near is lost. Let p, q be two positions at distance at most TREE_REACH, A the matrix in
DIRECTIONS and y, z their rotated coordinates as computed and rounded to float32.
- |A(p - q)| <= |A| TREE_REACH, which is TURNED_REACH: the norm |A| is bounded by measuring how far
  the rows of A are from orthonormal.
- y lies within e of A(p - centre): the position errs relatively by (width + 16) 2^-52, subtracting
  the centre by 2^-53, the sum over `width` products by (width + 2) 2^-53 |A|_F, the float32 by
  2^-24 |y|. GAP_ERROR times |p - centre| plus VALUE_ERROR times |p| is more than all of it.
  So |y - z| <= TURNED_REACH + e(p) + e(q). A block keeps the largest error of its points.
- Coordinates are cut off at +-CUT, which never lengthens a gap; what is no number becomes 0 with
  an infinite error, and an infinite limit rules nothing out.
- A float32 sum of n squared gaps errs relatively by less than (n + 4) 2^-24; SUM_ERROR is twice
  that. A product of lengths l and m errs by less than n 2^-24 l m, whatever the order of addition;
  PRODUCT_ERROR times (l + m)^2 covers it and the roundings of both squared lengths.

Invariant: every remembered row sits in exactly one block, at its SEAT.
Cost: `scan` reads the leading coordinates of all points whose outputs may differ, mostly a few.
Not here: which rotation (indexes/rotation.py), the matrix products (indexes/flat.py).
"""

from typing import Any

import numpy as np

from likewise.kernels import table as t
from likewise.kernels.batch import write_rows
from likewise.kernels.compile import entry, kernel, prefetch, step, view
from likewise.kernels.distance import is_different, output_distance
from likewise.kernels.rows import admit, admit_output, read_row, remember_output
from likewise.kernels.search import (
    agreement,
    agrees,
    decide_candidates,
    decide_row,
    note_search,
)
from likewise.kernels.table import BLOCK, bytes_of, floats, ints
from likewise.kernels.tree import round_up, stretch_range, tree_of

OBSERVE, CHECK, PLANT, WRITE, TURN, SEAT, SEARCH, SIFT = 0, 1, 2, 3, 4, 5, 6, 7

EXTENT = 8  # blocks that a group is given together
_CUT = 2.0**55
_CHECK = 8  # coordinates between two looks at whether any point is left
_LINES = 64  # cache lines of the next block asked for ahead


@kernel
def _turn(table: Any, row: int, k: int) -> None:
    """Rotate a written row into place k of TURNED, with its error and its length."""
    width = table[t.WIDTH]
    axes = table[t.AXES]
    query = floats(table, t.QUERY)
    prescale = floats(table, t.PRESCALE)
    centre = floats(table, t.CENTRE)
    turning = floats(table, t.TURNING)
    read_row(table, row, query)
    factor = 1.0
    if table[t.METRIC] == t.COSINE:
        factor = 1.0 / np.sqrt(floats(table, t.NORMS)[row])
    squares = 0.0
    gap_squares = 0.0
    for j in range(width):
        value = query[j] * prescale[j] * factor
        squares += value * value
        query[j] = value - centre[j]
        gap_squares += query[j] * query[j]
    for i in range(axes):
        turning[i] = 0.0
    for j in range(0, width, 4):
        one = view(table[t.DIRECTIONS] + j * axes * 8, np.float64)
        if j + 4 <= width:
            two = view(table[t.DIRECTIONS] + (j + 1) * axes * 8, np.float64)
            three = view(table[t.DIRECTIONS] + (j + 2) * axes * 8, np.float64)
            four = view(table[t.DIRECTIONS] + (j + 3) * axes * 8, np.float64)
            a, b, c, d = query[j], query[j + 1], query[j + 2], query[j + 3]
            for i in range(axes):
                turning[i] += (one[i] * a + two[i] * b) + (three[i] * c + four[i] * d)
        else:
            for left in range(j, width):
                one = view(table[t.DIRECTIONS] + left * axes * 8, np.float64)
                for i in range(axes):
                    turning[i] += one[i] * query[left]
    numbers = floats(table, t.NUMBERS)
    error = numbers[t.GAP_ERROR] * np.sqrt(gap_squares) + numbers[t.VALUE_ERROR] * np.sqrt(squares)
    error = error + 1e-15 if error < np.inf else np.inf
    out = view(table[t.TURNED] + k * axes * 4, np.float32)
    length = 0.0
    for i in range(axes):
        y = turning[i] if abs(turning[i]) < np.inf else 0.0
        out[i] = np.float32(min(max(y, -_CUT), _CUT))
        length += np.float64(out[i]) * np.float64(out[i])
    floats(table, t.TURNED_ERROR)[k] = error
    floats(table, t.TURNED_LENGTH)[k] = np.sqrt(length)


@kernel
def _open_blocks(table: Any, group: int) -> None:
    """Give a group some blocks side by side, so that products are made of several at once."""
    first = table[t.BLOCKS]
    table[t.BLOCKS] += EXTENT
    width = table[t.RANGE_WIDTH]
    for block in range(first, first + EXTENT):
        ints(table, t.COUNT)[block] = 0
        ints(table, t.NEXT)[block] = block + 1 if block + 1 < first + EXTENT else -1
        floats(table, t.ERRORS)[block] = 0.0
        floats(table, t.LONGEST)[block] = 0.0
        for n in range(block * width, (block + 1) * width):
            floats(table, t.LOW)[n] = np.inf
            floats(table, t.HIGH)[n] = -np.inf
    ints(table, t.LEFT)[group] = first


@kernel
def _seat(table: Any, row: int, k: int) -> None:
    """Put a rotated row into a block of its group that has room."""
    axes = table[t.AXES]
    count = ints(table, t.COUNT)
    open_block = ints(table, t.LEFT)
    group = tree_of(table, row)
    if open_block[group] < 0:
        _open_blocks(table, group)
    block = open_block[group]
    slot = count[block]
    turned = view(table[t.TURNED] + k * axes * 4, np.float32)
    lanes = view(table[t.LEADING] + (block * axes * BLOCK + slot) * 4, np.float32)
    for i in range(axes):
        lanes[i * BLOCK] = turned[i]
    length = floats(table, t.TURNED_LENGTH)[k]
    view(table[t.LENGTHS], np.float32)[block * BLOCK + slot] = np.float32(0.5 * length * length)
    floats(table, t.LONGEST)[block] = max(floats(table, t.LONGEST)[block], length)
    errors = floats(table, t.ERRORS)
    errors[block] = max(errors[block], floats(table, t.TURNED_ERROR)[k])
    ints(table, t.IDS)[block * BLOCK + slot] = row
    ints(table, t.SEATS)[row] = block * BLOCK + slot
    stretch_range(table, block, row)
    count[block] = slot + 1
    if slot + 1 == BLOCK:
        open_block[group] = ints(table, t.NEXT)[block]
        ints(table, t.NEXT)[block] = -1


@kernel
def _limit(table: Any, error: float) -> float:
    """What a squared distance in rotated coordinates may not exceed, before float32 sums err."""
    numbers = floats(table, t.NUMBERS)
    reach = numbers[t.TURNED_REACH] + error
    return reach * reach


@kernel
def scan_block(lanes: int, query: Any, axes: int, limit: Any, sums: Any, following: int) -> int:
    """Add up squared gaps, coordinate by coordinate, while some point of the block may be near.

    How many coordinates were looked at; negative if no point is left. A sum that is not above the
    limit, or is no number, keeps its point.
    """
    for i in range(BLOCK):
        sums[i] = np.float32(0.0)
    for line in range(_LINES):
        prefetch(following + line * 64)
    for start in range(0, axes, _CHECK):
        for j in range(start, min(start + _CHECK, axes)):
            lane = view(lanes + j * BLOCK * 4, np.float32)
            value = query[j]
            for i in range(BLOCK):
                gap = lane[i] - value
                sums[i] += gap * gap
        left = 0
        for i in range(BLOCK):
            left |= not sums[i] > limit
        if left == 0:
            return -min(start + _CHECK, axes)
    return axes


@kernel
def _scan(table: Any, row: int, k: int) -> int:
    """Rows before `row` that the leading coordinates cannot rule out and outputs admit."""
    axes = table[t.AXES]
    size = axes * BLOCK * 4
    query = view(table[t.TURNED] + k * axes * 4, np.float32)
    error = floats(table, t.TURNED_ERROR)[k]
    errors = floats(table, t.ERRORS)
    count = ints(table, t.COUNT)
    sums = view(table[t.SUMS], np.float32)
    candidates = ints(table, t.CANDIDATES)
    outputs = floats(table, t.OUTPUTS)
    given = floats(table, t.GIVEN)
    out_width = table[t.OUT_WIDTH]
    numbers = floats(table, t.NUMBERS)
    lowest, highest = agreement(table)
    kept = 0
    visited = 0
    scanned = 0
    for block in range(table[t.BLOCKS]):
        if count[block] == 0 or agrees(table, block, lowest, highest):
            continue
        limit = round_up(_limit(table, error + errors[block]) * (1.0 + numbers[t.SUM_ERROR]))
        lanes = table[t.LEADING] + block * size
        looked = scan_block(lanes, query, axes, limit, sums, lanes + size)
        visited += 1
        scanned += abs(looked)
        if looked < 0:
            continue
        ids = view(table[t.IDS] + block * BLOCK * 8, np.int64)
        for i in range(count[block]):
            if not sums[i] > limit and ids[i] < row:
                far = output_distance(
                    table[t.OUTPUT], given, outputs, ids[i] * out_width, out_width
                )
                if is_different(far, numbers[t.DELTA]):
                    candidates[kept] = ids[i]
                    kept += 1
    note_search(table, row, visited, scanned * BLOCK * 4, kept)
    return kept


@step
def _observe(table: Any, remember: bool) -> int:
    """Judge the decision in row TOTAL, or INPUT, and GIVEN; remember it if told so."""
    row = table[t.TOTAL]
    if row >= table[t.ROW_CAPACITY] or table[t.BLOCKS] + EXTENT > table[t.BLOCK_CAPACITY]:
        return t.FULL
    bad = admit(table, row, floats(table, t.INPUT), table[t.GIVEN_RAW] != 0)
    table[t.GIVEN_RAW] = 1  # as a rule it is
    if bad == 0:
        bad = admit_output(table, floats(table, t.GIVEN))
    if bad != 0:
        return bad
    _turn(table, row, 0)
    found = decide_candidates(table, row, _scan(table, row, 0), 0)
    if remember:
        remember_output(table, row)
        _seat(table, row, 0)
    return found


@step
def _turn_rows(table: Any) -> int:
    """Rotate rows of a batch into TURNED, in the working order."""
    order = ints(table, t.WORK_ORDER)
    for k in range(table[t.START], table[t.STOP]):
        _turn(table, table[t.FIRST] + order[k], k)
    return table[t.STOP]


@step
def _seat_rows(table: Any) -> int:
    """Seat rotated rows of a batch, while there is room. How far the work has come."""
    alive = bytes_of(table, t.ALIVE)
    order = ints(table, t.WORK_ORDER)
    for k in range(table[t.START], table[t.STOP]):
        if table[t.BLOCKS] + EXTENT > table[t.BLOCK_CAPACITY]:
            return k
        row = table[t.FIRST] + order[k]
        if alive[row] != 0:  # else forgotten before this index came to it
            _seat(table, row, k)
    return table[t.STOP]


@kernel
def _take_output(table: Any, row: int) -> None:
    width = table[t.OUT_WIDTH]
    given = floats(table, t.GIVEN)
    outputs = floats(table, t.OUTPUTS)
    for n in range(width):
        given[n] = outputs[row * width + n]


@step
def _search_rows(table: Any) -> int:
    """Search for rows of a batch one by one, while results have room. How far the work has come."""
    counts = ints(table, t.COUNTS)
    order = ints(table, t.WORK_ORDER)
    owners = ints(table, t.OWNERS)
    results = 0
    stop = table[t.STOP]
    for k in range(table[t.START], stop):
        row = table[t.FIRST] + order[k]
        if results + row > table[t.RESULT_CAPACITY]:
            stop = k
            break
        _take_output(table, row)
        found = decide_candidates(table, row, _scan(table, row, k), results)
        for n in range(results, results + found):
            owners[n] = order[k]
        counts[order[k]] = found
        results += found
    table[t.FOUND] = results
    return stop


@step
def _sift_rows(table: Any) -> int:
    """Decide what the products of a batch's queries and some blocks cannot rule out.

    |y - z|^2 = 2 (|y|^2/2 + |z|^2/2 - yz), so a point may be near where the product is large.
    Results come with the query they belong to; there is room for those of one call.
    """
    first = table[t.FIRST_BLOCK]
    last = table[t.LAST_BLOCK]
    count = ints(table, t.COUNT)
    counts = ints(table, t.COUNTS)
    order = ints(table, t.WORK_ORDER)
    owners = ints(table, t.OWNERS)
    longest = floats(table, t.LONGEST)
    errors = floats(table, t.ERRORS)
    recent = ints(table, t.RECENT)
    numbers = floats(table, t.NUMBERS)
    given = floats(table, t.GIVEN)
    outputs = floats(table, t.OUTPUTS)
    out_width = table[t.OUT_WIDTH]
    query = floats(table, t.QUERY)
    found = 0
    start = table[t.START]
    stop = table[t.STOP]
    for k in range(start, stop):
        row = table[t.FIRST] + order[k]
        _take_output(table, row)
        lowest, highest = agreement(table)
        length = floats(table, t.TURNED_LENGTH)[k]
        error = floats(table, t.TURNED_ERROR)[k]
        norm = floats(table, t.NORMS)[row] if table[t.METRIC] == t.COSINE else 1.0
        ready = False
        note = (row % t.RECENT_MOST) * 3
        before = found
        for block in range(first, last):
            if count[block] == 0 or agrees(table, block, lowest, highest):
                continue
            recent[note] += 1
            recent[note + 1] += BLOCK * table[t.AXES] // 4  # one look serves many queries
            both = length + longest[block]
            limit = _limit(table, error + errors[block])
            slip = numbers[t.PRODUCT_ERROR] * (both * both + limit)
            limit = 0.5 * (length * length - limit) - slip
            threshold = np.float32(limit)
            at = ((block - first) * table[t.PRODUCT_ROWS] + k - start) * BLOCK
            products = view(table[t.PRODUCTS] + at * 4, np.float32)
            halves = view(table[t.LENGTHS] + block * BLOCK * 4, np.float32)
            left = 0
            for i in range(BLOCK):
                left |= products[i] >= halves[i] + threshold
            if left == 0:
                continue
            ids = view(table[t.IDS] + block * BLOCK * 8, np.int64)
            for i in range(count[block]):
                if products[i] >= halves[i] + threshold and ids[i] < row:
                    far = output_distance(
                        table[t.OUTPUT], given, outputs, ids[i] * out_width, out_width
                    )
                    if not is_different(far, numbers[t.DELTA]):
                        continue
                    if not ready:
                        read_row(table, row, query)
                        ready = True
                    recent[note + 2] += 1
                    owners[found] = order[k]
                    found = decide_row(table, ids[i], norm, found)
        counts[order[k]] += found - before
    table[t.FOUND] = found
    return stop


@step
def _plant(table: Any) -> None:
    table[t.NODES] = table[t.TREES]  # of which only LEFT is used: a group's first block with room
    table[t.BLOCKS] = 0
    table[t.FREE_BLOCK] = -1
    for group in range(table[t.TREES]):
        ints(table, t.LEFT)[group] = -1


@entry
def flat(address: int) -> int:
    """Do the TASK of the table there; what it answers is said with the task."""
    table = view(address, np.int64)
    task = table[t.TASK]
    if task <= CHECK:
        return _observe(table, task == OBSERVE)
    if task == SIFT:
        return _sift_rows(table)
    if task == TURN:
        return _turn_rows(table)
    if task == SEAT:
        return _seat_rows(table)
    if task == SEARCH:
        return _search_rows(table)
    if task == WRITE:
        return write_rows(table)
    _plant(table)
    return 0


@entry
def unseat_rows(address: int, rows_address: int, row_count: int) -> int:
    """Take remembered rows out of their blocks; the last point of the block takes the seat."""
    table = view(address, np.int64)
    rows = view(rows_address, np.int64)
    axes = table[t.AXES]
    count = ints(table, t.COUNT)
    ids = ints(table, t.IDS)
    seats = ints(table, t.SEATS)
    lengths = view(table[t.LENGTHS], np.float32)
    for k in range(row_count):
        seat = seats[rows[k]]
        block = seat // BLOCK
        last = block * BLOCK + count[block] - 1
        lanes = view(table[t.LEADING] + block * axes * BLOCK * 4, np.float32)
        for i in range(axes):
            lanes[i * BLOCK + seat % BLOCK] = lanes[i * BLOCK + last % BLOCK]
            lanes[i * BLOCK + last % BLOCK] = np.float32(0.0)
        lengths[seat] = lengths[last]
        ids[seat] = ids[last]
        seats[ids[seat]] = seat
        if count[block] == BLOCK:
            group = tree_of(table, rows[k])
            ints(table, t.NEXT)[block] = ints(table, t.LEFT)[group]
            ints(table, t.LEFT)[group] = block
        count[block] -= 1
    return 0
