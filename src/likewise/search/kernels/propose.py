"""Decide about the candidates that an index written in Python proposes.

Such an index names candidates; admitting, deciding and remembering stay here, so that the one
comparison is the same for every index.
Invariant: a task that answers below zero has changed nothing visible.
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.batch import write_rows
from likewise.search.kernels.comparable import agrees, is_row_near
from likewise.search.kernels.compile import entry, step, view
from likewise.search.kernels.distance import is_different, output_distance
from likewise.search.kernels.rows import admit_given, read_query, remember_output
from likewise.search.kernels.search import decide_candidates, note_search
from likewise.search.kernels.sort import sort_rows
from likewise.search.kernels.table import bytes_of, floats, ints


@step
def _admit(table: Any) -> int:
    """Check the decision in row TOTAL, or INPUT, and GIVEN."""
    row = table[t.TOTAL]
    if row >= table[t.ROW_CAPACITY]:
        return t.FULL
    return admit_given(table, row)


@step
def _latest_near(table: Any) -> int:
    """Return the latest near row before row FIRST among STOP candidates in order, or -1."""
    row = table[t.FIRST]
    candidates = ints(table, t.CANDIDATES)
    alive = bytes_of(table, t.ALIVE)
    norm = read_query(table, row)
    for k in range(table[t.STOP] - 1, -1, -1):
        other = candidates[k]
        if 0 <= other < row and alive[other] != 0 and is_row_near(table, other, norm):
            return other
    return -1


@step
def _decide(table: Any) -> int:
    """Find the witnesses of row FIRST, with output GIVEN, among STOP candidates; return how many.

    Candidates may repeat, and may name rows that do not exist.
    """
    row = table[t.FIRST]
    width = table[t.OUT_WIDTH]
    candidates = ints(table, t.CANDIDATES)
    alive = bytes_of(table, t.ALIVE)
    given = floats(table, t.GIVEN)
    outputs = floats(table, t.OUTPUTS)
    delta = floats(table, t.NUMBERS)[t.DELTA]
    sort_rows(candidates, table[t.STOP])
    if table[t.WANTS_LATEST] != 0:
        table[t.LATEST] = _latest_near(table)
    kept, before = 0, -1
    for k in range(table[t.STOP]):
        other = candidates[k]
        if before < other < row and alive[other] != 0:
            far = output_distance(table[t.OUTPUT], given, outputs, other * width, width)
            if is_different(far, delta):
                candidates[kept] = other
                kept += 1
        before = max(before, other)
    note_search(table, row, table[t.STOP], 0, kept)
    return decide_candidates(table, row, kept, 0)


@step
def _count_agreeing(table: Any) -> int:
    """Count the rows from SINCE on, among STOP candidates, that agree with row FIRST and GIVEN."""
    row = table[t.FIRST]
    candidates = ints(table, t.CANDIDATES)
    alive = bytes_of(table, t.ALIVE)
    sort_rows(candidates, table[t.STOP])
    norm = read_query(table, row)
    agreeing, before = 0, table[t.SINCE] - 1
    for k in range(table[t.STOP]):
        other = candidates[k]
        if before < other < row and alive[other] != 0 and agrees(table, other):
            agreeing += is_row_near(table, other, norm)
        before = max(before, other)
    return agreeing


@entry
def propose(address: int) -> int:
    """Run the TASK of the table at `address`; the comments on tasks say what each returns."""
    table = view(address, np.int64)
    task = table[t.TASK]
    if task == t.ADMIT:
        return _admit(table)
    if task == t.DECIDE:
        return _decide(table)
    if task == t.COUNT_AGREEING:
        return _count_agreeing(table)
    if task == t.WRITE:
        return write_rows(table)
    remember_output(table, table[t.TOTAL])
    return 0
