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
from likewise.search.kernels.compile import entry, step, view
from likewise.search.kernels.like import find_comparable_of_row, find_comparable_of_rows
from likewise.search.kernels.rows import admit, admit_output, remember_output, sketch_row
from likewise.search.kernels.search import prepare, search
from likewise.search.kernels.sort import sort_by_path
from likewise.search.kernels.table import bytes_of, floats, ints
from likewise.search.kernels.tree import descend, plant, tree_for

OBSERVE, CHECK, PLANT, WRITE, ROUTE, SORT, INSERT, SEARCH = 0, 1, 2, 3, 4, 5, 6, 7
APART, JOIN, COUNT, LIKE, LIKES = 8, 9, 10, 11, 12


@step
def _observe(table: Any, remember: bool) -> int:
    """Judge the decision in INPUT and GIVEN; with `remember`, make it part of the past."""
    if not has_room(table, 1):
        return t.FULL
    given = floats(table, t.GIVEN)
    row = table[t.TOTAL]
    bad = admit(table, row, floats(table, t.INPUT), table[t.GIVEN_RAW] != 0)
    table[t.GIVEN_RAW] = 1  # as a rule it is
    if bad == 0:
        bad = admit_output(table, given)
    if bad != 0:
        return bad
    sketch_row(table, row)
    prepare(table, row)
    leaf = 0
    if remember:  # what inserting it will touch travels during the search
        point = floats(table, t.POINT)
        leaf = descend(table, tree_for(table, given[0]), point)
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
    if task <= CHECK:
        return _observe(table, task == OBSERVE)
    if task == SEARCH:
        return search_rows(table)
    if task == INSERT:
        return insert_rows(table)
    if task == ROUTE:
        return route_rows(table)
    if task == APART:
        return insert_apart(table)
    if task == JOIN:
        return join_rows(table)
    if task == COUNT:
        return count_splits(table)
    if task == LIKE:
        return find_comparable_of_row(table)
    if task == LIKES:
        return find_comparable_of_rows(table)
    if task == WRITE:
        return write_rows(table)
    if task == SORT:
        paths = view(table[t.PATH_OF], np.uint64)
        order = ints(table, t.WORK_ORDER)
        sort_by_path(paths, table[t.STOP], order, ints(table, t.COUNTS), ints(table, t.BUCKETS))
        return 0
    plant(table)
    return 0
