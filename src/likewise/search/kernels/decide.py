"""Run the kernel of the live tree: a single decision, or one task of a batch.

All tasks share one compiled function, so that searching and inserting are compiled once.
Invariant: a task that answers below zero has changed nothing visible.
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.add import add, has_room
from likewise.search.kernels.batch import (
    count_splits,
    fetch_leaf,
    insert_apart,
    insert_rows,
    join_rows,
    route_rows,
    search_rows,
    write_rows,
)
from likewise.search.kernels.comparable import (
    count_agreeing_of_row,
    count_agreeing_of_rows,
    find_comparable_of_row,
    find_comparable_of_rows,
)
from likewise.search.kernels.compile import entry, step, view
from likewise.search.kernels.rows import admit_given, remember_output, sketch_row
from likewise.search.kernels.search import prepare, search
from likewise.search.kernels.sort import sort_by_path
from likewise.search.kernels.table import bytes_of, floats, ints
from likewise.search.kernels.tree import descend, plant, tree_for


@step
def _observe(table: Any, remember: bool) -> int:
    """Judge the decision in INPUT and GIVEN; with `remember`, make it part of the past."""
    if not has_room(table, 1):
        return t.FULL
    row = table[t.TOTAL]
    bad = admit_given(table, row)
    if bad != 0:
        return bad
    sketch_row(table, row)
    prepare(table, row)
    leaf = 0
    if remember:  # what inserting it will touch travels during the search
        point = floats(table, t.POINT)
        leaf = descend(table, tree_for(table, floats(table, t.GIVEN)[0]), point)
        fetch_leaf(table, leaf, 1)
    found = search(table, row, 0)
    if remember:
        remember_output(table, row)
        wants_tending = add(table, row, leaf, floats(table, t.POINT), bytes_of(table, t.QCODES))
        if wants_tending:
            found += t.NEEDS_MAINTENANCE
    return found


@entry
def decide(address: int) -> int:
    """Run the TASK of the table at `address`; the comments on tasks say what each returns."""
    table = view(address, np.int64)
    task = table[t.TASK]
    if task <= t.CHECK:
        return _observe(table, task == t.OBSERVE)
    if task == t.SEARCH:
        return search_rows(table)
    if task == t.INSERT:
        return insert_rows(table)
    if task == t.ROUTE:
        return route_rows(table)
    if task == t.INSERT_APART:
        return insert_apart(table)
    if task == t.JOIN:
        return join_rows(table)
    if task == t.COUNT_SPLITS:
        return count_splits(table)
    if task == t.FIND_COMPARABLE:
        return find_comparable_of_row(table)
    if task == t.FIND_COMPARABLE_MANY:
        return find_comparable_of_rows(table)
    if task == t.COUNT_AGREEING:
        return count_agreeing_of_row(table)
    if task == t.COUNT_AGREEING_MANY:
        return count_agreeing_of_rows(table)
    if task == t.WRITE:
        return write_rows(table)
    if task == t.SORT:
        paths = view(table[t.PATH_OF], np.uint64)
        order = ints(table, t.WORK_ORDER)
        sort_by_path(paths, table[t.STOP], order, ints(table, t.COUNTS), ints(table, t.BUCKETS))
        return 0
    plant(table)
    return 0
