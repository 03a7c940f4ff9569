"""Scan the codes of leading rotated coordinates: for embeddings, where no tree prunes.

Cost: a scan reads the front codes of all points whose outputs may differ, mostly a part of them,
64 bytes more for each point that remains, and few rows.
Not here: codes, and why they lose nothing near (rotate_encode.py), how points get into blocks
(flat_blocks.py), which rotation (search/indexes/rotation.py).
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.batch import write_rows
from likewise.search.kernels.comparable import agrees, is_row_near
from likewise.search.kernels.compile import entry, kernel, prefetch, small, step, view
from likewise.search.kernels.flat_blocks import EXTENT, add_to_block
from likewise.search.kernels.rotate_encode import FINER, STEP, limit_of, rotate_row
from likewise.search.kernels.rows import admit_given, read_query, remember_output, take_output
from likewise.search.kernels.search import (
    agreeing_interval,
    decide_candidates,
    must_agree,
    note_search,
)
from likewise.search.kernels.table import BLOCK, bytes_of, floats, ints

# Points lie in blocks. A block stores the codes of the front coordinates coordinate by coordinate:
# gaps are squared and added up for all points at once, and a block is abandoned when no point of it
# can still be near. The codes of the other coordinates are stored point by point, and read for the
# points that remain. Rows decide about those that remain then.

_TOGETHER = 16  # rows of a batch that are searched for together, in
_STRETCH = 32  # blocks at a time: half a megabyte
_ALL = 65535  # no sum is above this


@small
def _square(code: Any, other: Any) -> Any:
    """Return the squared gap of two codes, as uint16."""
    gap = np.int16(np.int8(np.uint8(code - other)))
    return np.uint16(gap * gap)


@kernel
def scan_block(address: int, query: Any, front: int, limit: Any, sums: Any) -> int:
    """Add up squared gaps of codes, coordinate by coordinate, while a point may be near.

    Return how many coordinates were read; negative if no point is left. The sum of four squares of
    -128 is 0 instead of 65,536, and larger sums stay at 65,535: a sum never exceeds the true one.
    """
    for i in range(BLOCK):
        sums[i] = np.uint16(0)
    for start in range(0, front, STEP):
        for j in range(start, start + STEP, 4):
            one = view(address + j * BLOCK, np.uint8)
            two = view(address + (j + 1) * BLOCK, np.uint8)
            three = view(address + (j + 2) * BLOCK, np.uint8)
            four = view(address + (j + 3) * BLOCK, np.uint8)
            a, b, c, d = query[j], query[j + 1], query[j + 2], query[j + 3]
            for i in range(BLOCK):
                left = np.uint16(_square(one[i], a) + _square(two[i], b))
                right = np.uint16(_square(three[i], c) + _square(four[i], d))
                added = np.uint16(left + right)
                total = np.uint16(sums[i] + added)
                sums[i] = np.uint16(65535) if total < added else total
        left_over = np.uint16(0)
        for i in range(BLOCK):
            left_over |= np.uint16(sums[i] <= limit)
        if left_over == 0:
            return -(start + STEP)
    return front


@kernel
def tail_sum(address: int, query: Any, front: int, tail: int) -> int:
    """Return the sum of the squared gaps of a point's other coordinates."""
    codes = view(address, np.uint8)
    total = np.int32(0)
    for i in range(tail):
        gap = np.int32(np.int8(np.uint8(codes[i] - query[front + i])))
        total = np.int32(total + np.int32(gap * gap))
    return int(total)


@kernel
def _front_limit(table: Any, error: float) -> Any:
    """Return the limit of sums over the front, as uint16."""
    limit = limit_of(table, error)
    return np.uint16(limit) if limit < _ALL else np.uint16(_ALL)


@small
def _note_left(notes: Any, left: int, block: int, count: int, sums: Any, limit: Any) -> int:
    """Note places that are not ruled out, with their sums, behind `left` notes; return how many."""
    for i in range(count):
        notes[left] = (block * BLOCK + i) << 16 | np.int64(sums[i])
        left += sums[i] <= limit
    return left


@kernel
def _scan(table: Any, row: int, k: int, first: int, last: int) -> int:
    """Find rows before `row` in blocks `first` to `last` that codes and outputs cannot rule out.

    The costs are added to the row's note.
    """
    front = table[t.FRONT_AXES]
    tail = table[t.ROTATED_BYTES] - front
    query = view(table[t.ROTATED] + k * table[t.ROTATED_BYTES], np.uint8)
    error = floats(table, t.ROTATED_ERROR)[2 * k]
    errors = floats(table, t.ERRORS)
    count = ints(table, t.COUNT)
    sums = view(table[t.SUMS], np.uint16)
    candidates = ints(table, t.CANDIDATES)
    lowest, highest = agreeing_interval(table)
    left = 0
    visited = 0
    scanned = 0
    for block in range(first, last):
        if count[block] == 0 or must_agree(table, block, lowest, highest):
            continue
        limit = _front_limit(table, error + errors[2 * block])
        looked = scan_block(table[t.CODES] + block * front * BLOCK, query, front, limit, sums)
        visited += 1
        scanned += abs(looked) * BLOCK
        if looked < 0:
            continue
        before = left
        left = _note_left(candidates, left, block, count[block], sums, limit)
        for n in range(before, left):
            prefetch(table[t.TAILS] + (candidates[n] >> 16) * tail)
    kept = _filter_by_codes(table, row, k, left)
    recent = ints(table, t.RECENT)
    note = (row % t.RECENT_MOST) * 3
    recent[note] += visited
    recent[note + 1] += scanned + left * tail
    recent[note + 2] += kept
    return kept


@small
def _may_be_near(table: Any, k: int, place: int, front_sum: int) -> bool:
    """Return whether all codes of a point, with this sum over the front, allow it to be near."""
    front = table[t.FRONT_AXES]
    tail = table[t.ROTATED_BYTES] - front
    query = view(table[t.ROTATED] + k * table[t.ROTATED_BYTES], np.uint8)
    error = floats(table, t.ROTATED_ERROR)[2 * k + 1]
    error += floats(table, t.ERRORS)[2 * (place // BLOCK) + 1]
    rest = tail_sum(table[t.TAILS] + place * tail, query, front, tail)
    return not FINER * FINER * front_sum + rest > FINER * FINER * limit_of(table, error)


@kernel
def _filter_by_codes(table: Any, row: int, k: int, left: int) -> int:
    """Reduce points that the front leaves to rows that all codes and outputs cannot rule out."""
    ids = ints(table, t.IDS)
    candidates = ints(table, t.CANDIDATES)
    kept = 0
    for n in range(left):
        place = candidates[n] >> 16
        if not _may_be_near(table, k, place, candidates[n] & _ALL):
            continue
        if ids[place] < row and not agrees(table, ids[place]):
            candidates[kept] = ids[place]
            kept += 1
    return kept


@step
def _observe(table: Any, remember: bool) -> int:
    """Judge the decision in row TOTAL, or INPUT, and GIVEN; with `remember`, remember it."""
    row = table[t.TOTAL]
    if row >= table[t.ROW_CAPACITY] or table[t.BLOCKS] + EXTENT > table[t.BLOCK_CAPACITY]:
        return t.FULL
    bad = admit_given(table, row)
    if bad != 0:
        return bad
    rotate_row(table, row, 0)
    note_search(table, row, 0, 0, 0)
    kept = _scan(table, row, 0, 0, table[t.BLOCKS])
    found = decide_candidates(table, row, kept, 0)
    if remember:
        remember_output(table, row)
        add_to_block(table, row, 0)
    return found


@step
def _rotate_rows(table: Any) -> int:
    """Rotate rows of a batch into ROTATED, in the working order."""
    order = ints(table, t.WORK_ORDER)
    for k in range(table[t.START], table[t.STOP]):
        rotate_row(table, table[t.FIRST] + order[k], k)
    return table[t.STOP]


@step
def _add_rows(table: Any) -> int:
    """Put rotated rows into blocks while there is room; return how far the work has come."""
    alive = bytes_of(table, t.ALIVE)
    order = ints(table, t.WORK_ORDER)
    for k in range(table[t.START], table[t.STOP]):
        if table[t.BLOCKS] + EXTENT > table[t.BLOCK_CAPACITY]:
            return k
        row = table[t.FIRST] + order[k]
        if alive[row] != 0:  # else forgotten before this index came to it
            add_to_block(table, row, k)
    return table[t.STOP]


@step
def _search_rows(table: Any) -> int:
    """Search for rows of a batch, a few at a time, while results have room.

    Return how far the work has come. Some blocks are scanned for all of the few while they are in
    the cache, so the results of a row come in several parts, each with the row that it belongs to.
    """
    counts = ints(table, t.COUNTS)
    order = ints(table, t.WORK_ORDER)
    owners = ints(table, t.OWNERS)
    results = 0
    start = table[t.START]
    while start < table[t.STOP]:
        stop = min(start + _TOGETHER, table[t.STOP])
        newest = table[t.FIRST]
        for k in range(start, stop):
            newest = max(newest, table[t.FIRST] + order[k])
        while stop > start and results + (stop - start) * newest > table[t.RESULT_CAPACITY]:
            stop -= 1
        if stop == start:
            break
        for k in range(start, stop):
            counts[order[k]] = 0
            note_search(table, table[t.FIRST] + order[k], 0, 0, 0)
        for first in range(0, table[t.BLOCKS], _STRETCH):
            last = min(first + _STRETCH, table[t.BLOCKS])
            for k in range(start, stop):
                row = table[t.FIRST] + order[k]
                take_output(table, row)
                kept = _scan(table, row, k, first, last)
                found = decide_candidates(table, row, kept, results)
                for n in range(results, results + found):
                    owners[n] = order[k]
                counts[order[k]] += found
                results += found
        start = stop
    table[t.FOUND] = results
    return start


@kernel
def _find_comparable(table: Any, row: int, k: int, since: int) -> int:
    """Return a near row from `since` on of a row without a witness there, or -1 (comparable.py).

    The row is in place k of ROTATED, its output is GIVEN. Blocks whose labels all differ from it
    hold nothing near, or there would be a witness.
    """
    front = table[t.FRONT_AXES]
    query = view(table[t.ROTATED] + k * table[t.ROTATED_BYTES], np.uint8)
    error = floats(table, t.ROTATED_ERROR)[2 * k]
    errors = floats(table, t.ERRORS)
    count = ints(table, t.COUNT)
    low = floats(table, t.LOW)
    high = floats(table, t.HIGH)
    sums = view(table[t.SUMS], np.uint16)
    output = floats(table, t.GIVEN)[0]
    apart = table[t.OUTPUT] == t.LABEL and table[t.RANGE_WIDTH] == 1
    apart = apart and floats(table, t.NUMBERS)[t.DELTA] < 1.0
    norm = read_query(table, row)
    for block in range(table[t.BLOCKS] - 1, -1, -1):  # the latest rows first
        if count[block] == 0 or (apart and (low[block] > output or high[block] < output)):
            continue
        limit = _front_limit(table, error + errors[2 * block])
        if scan_block(table[t.CODES] + block * front * BLOCK, query, front, limit, sums) < 0:
            continue
        ids = view(table[t.IDS] + block * BLOCK * 8, np.int64)
        for i in range(count[block]):
            if sums[i] > limit or not since <= ids[i] < row:
                continue
            if _may_be_near(table, k, block * BLOCK + i, np.int64(sums[i])):
                if is_row_near(table, ids[i], norm):
                    return ids[i]
    return -1


@step
def _find_comparable_of_row(table: Any) -> int:
    """Return a near row from SINCE on of row FIRST with output GIVEN, or -1."""
    rotate_row(table, table[t.FIRST], 0)
    return _find_comparable(table, table[t.FIRST], 0, table[t.SINCE])


@step
def _find_comparable_of_rows(table: Any) -> int:
    """Find a near row for each rotated row of a batch that has none in COMPARABLE_ROWS yet."""
    order = ints(table, t.WORK_ORDER)
    comparable_rows = ints(table, t.COMPARABLE_ROWS)
    sinces = ints(table, t.SINCES)
    for k in range(table[t.START], table[t.STOP]):
        if comparable_rows[order[k]] < 0:
            row = table[t.FIRST] + order[k]
            take_output(table, row)
            comparable_rows[order[k]] = _find_comparable(table, row, k, sinces[order[k]])
    return table[t.STOP]


@kernel
def _count_agreeing(table: Any, row: int, k: int, since: int, first: int, last: int) -> int:
    """Return how many rows of blocks `first` to `last` agree with a row (comparable.py).

    The row is in place k of ROTATED, its output is GIVEN, its input is QUERY.
    """
    front = table[t.FRONT_AXES]
    query = view(table[t.ROTATED] + k * table[t.ROTATED_BYTES], np.uint8)
    error = floats(table, t.ROTATED_ERROR)[2 * k]
    errors = floats(table, t.ERRORS)
    count = ints(table, t.COUNT)
    ids = ints(table, t.IDS)
    low = floats(table, t.LOW)
    high = floats(table, t.HIGH)
    sums = view(table[t.SUMS], np.uint16)
    output = floats(table, t.GIVEN)[0]
    apart = table[t.OUTPUT] == t.LABEL and table[t.RANGE_WIDTH] == 1
    apart = apart and floats(table, t.NUMBERS)[t.DELTA] < 1.0
    norm = floats(table, t.NORMS)[row] if table[t.METRIC] == t.COSINE else 1.0
    agreeing = 0
    for block in range(first, last):
        if count[block] == 0 or (apart and (low[block] > output or high[block] < output)):
            continue
        limit = _front_limit(table, error + errors[2 * block])
        if scan_block(table[t.CODES] + block * front * BLOCK, query, front, limit, sums) < 0:
            continue
        for i in range(count[block]):
            place = block * BLOCK + i
            if sums[i] > limit or not since <= ids[place] < row or not agrees(table, ids[place]):
                continue
            if _may_be_near(table, k, place, np.int64(sums[i])):
                agreeing += is_row_near(table, ids[place], norm)
    return agreeing


@step
def _count_agreeing_with_row(table: Any) -> int:
    """Return how many rows from SINCE on agree with row FIRST, whose output is GIVEN."""
    rotate_row(table, table[t.FIRST], 0)
    read_query(table, table[t.FIRST])
    return _count_agreeing(table, table[t.FIRST], 0, table[t.SINCE], 0, table[t.BLOCKS])


@step
def _count_agreeing_with_rows(table: Any) -> int:
    """Add to AGREEING, for each rotated row of a batch, how many rows agree; a few at a time."""
    order = ints(table, t.WORK_ORDER)
    agreeing = ints(table, t.AGREEING)
    sinces = ints(table, t.SINCES)
    for start in range(table[t.START], table[t.STOP], _TOGETHER):
        stop = min(start + _TOGETHER, table[t.STOP])
        for first in range(0, table[t.BLOCKS], _STRETCH):
            last = min(first + _STRETCH, table[t.BLOCKS])
            for k in range(start, stop):
                i = order[k]
                row = table[t.FIRST] + i
                take_output(table, row)
                read_query(table, row)
                agreeing[i] += _count_agreeing(table, row, k, sinces[i], first, last)
    return table[t.STOP]


@step
def _plant(table: Any) -> None:
    table[t.NODES] = table[t.TREES]  # of which only LEFT is used: a group's first block with room
    table[t.BLOCKS] = 0
    table[t.FREE_BLOCK] = -1
    for group in range(table[t.TREES]):
        ints(table, t.LEFT)[group] = -1


@entry
def flat(address: int) -> int:
    """Run the TASK of the table at `address`; the comments on tasks say what each returns."""
    table = view(address, np.int64)
    task = table[t.TASK]
    if task <= t.CHECK:
        return _observe(table, task == t.OBSERVE)
    if task == t.ROTATE:
        return _rotate_rows(table)
    if task == t.ADD_TO_BLOCKS:
        return _add_rows(table)
    if task == t.SEARCH:
        return _search_rows(table)
    if task == t.FIND_COMPARABLE:
        return _find_comparable_of_row(table)
    if task == t.FIND_COMPARABLE_MANY:
        return _find_comparable_of_rows(table)
    if task == t.COUNT_AGREEING:
        return _count_agreeing_with_row(table)
    if task == t.COUNT_AGREEING_MANY:
        return _count_agreeing_with_rows(table)
    if task == t.WRITE:
        return write_rows(table)
    _plant(table)
    return 0
