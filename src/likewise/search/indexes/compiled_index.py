"""What the compiled indexes have in common: a kernel, its table, and the arrays of a batch.

Both kernels know the tasks that are asked for here (search/kernels/table.py); a subclass lays out
its arrays, inserts rows and puts results in order.
Invariant: rows from TOTAL on are invisible to every query.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.search.history.stored_decisions import History, Table
from likewise.search.indexes.index_state import IndexState, TableLayout
from likewise.search.indexes.workers import ALONE, Found, Kernel, KernelRunner, Threads, join_found
from likewise.search.kernels import table as t
from likewise.search.kernels.compile import address_of
from likewise.search.kernels.propose import propose
from likewise.tables.array_types import Floats, NearRows, Rows
from likewise.verdict.witnesses import Witnesses

WitnessColumns: TypeAlias = tuple[Rows, Floats, Floats]
"""Rows, input distances, output distances."""
_LABEL_TREES = 4  # labels with a tree of their own; all further ones share one more


@contextmanager
def outputs_ignored(state: IndexState) -> Iterator[None]:
    """Make every past output count as different for the calls within.

    If this is interrupted, `IndexState.settle` restores the numbers.
    """
    numbers = state.layout.settings[t.NUMBERS].copy()
    numbers[t.DELTA] = -1.0  # no distance is at most that
    try:
        state.table[t.NUMBERS] = numbers.ctypes.data
        yield
    finally:
        state.table[t.NUMBERS] = state.layout.settings[t.NUMBERS].ctypes.data


def decide_among(
    state: IndexState, row: int, rows: Rows, slot: int, array: Floats
) -> WitnessColumns:
    """Return the witnesses of a written row among others, with another array in a table's slot.

    If this is interrupted, `IndexState.settle` and `History.settle` restore the table.
    """
    table, scratch, history = state.table, state.scratch, state.history
    given, before = scratch.small[t.GIVEN].copy(), table[slot]
    if row < history.total:
        scratch.small[t.GIVEN][:] = history.outputs()[row]
    scratch.set_candidates(rows)
    table[t.FIRST], table[t.STOP] = row, len(rows)
    try:
        table[slot], table[t.TASK] = array.ctypes.data, t.DECIDE
        found = propose(state.address)
    finally:
        table[slot], table[t.TASK] = before, t.OBSERVE
        scratch.small[t.GIVEN][:] = given
    return scratch.results(found)[:3]


class BatchArrays:
    """Holds what the tasks of one batch hand each other."""

    def __init__(self, rows: int, others: dict[int, npt.NDArray[Any]]) -> None:
        self.order = np.zeros(rows, dtype=np.int64)
        self.counts = np.zeros(rows, dtype=np.int64)
        self.others = others
        arrays = {t.WORK_ORDER: self.order, t.COUNTS: self.counts, **others}
        self._addresses = [(slot, address_of(array)) for slot, array in arrays.items()]

    def lay_out(self, table: Table, first: int) -> None:
        """Point a table at the batch whose first row is `first`."""
        table[t.FIRST] = first
        for slot, address in self._addresses:
            table[slot] = address


class CompiledIndex(ABC):
    """Searches a history with one kernel.

    any_output: whether every past output counts as different, so that a search finds all near rows
    """

    _more_blocks: int
    """Blocks for which room is made when a decision finds none."""
    _least_searched: int
    """Rows of a batch that are worth a thread in a search."""
    sound = True
    """False while an interruption may leave the index with wrong contents."""

    def __init__(
        self,
        history: History,
        layout: TableLayout,
        kernel: Kernel,
        batch: BatchArrays,
        *,
        any_output: bool,
    ) -> None:
        has_labels = history.table[t.OUTPUT] == t.LABEL
        trees = _LABEL_TREES + 1 if has_labels and not any_output else 1
        self.state = IndexState(history, layout, trees)
        if any_output:
            layout.settings[t.NUMBERS][t.DELTA] = -1.0  # no distance is at most that
            self.state.table[t.RANGE_WIDTH] = 0
        self.workers = KernelRunner(self.state, kernel)
        self._table, self._address = self.state.table, self.state.address
        self.input: Floats = self.state.scratch.small[t.INPUT]
        self.given: Floats = self.state.scratch.small[t.GIVEN]
        self._batch = batch
        self._batch.lay_out(self._table, 0)
        self.workers.run_task(t.PLANT)

    # One decision

    def check(self) -> int:
        """Judge the decision in row TOTAL, or `input`, and `given`; do not remember it."""
        found = self.workers.run_task(t.CHECK)
        if found == t.FULL:
            self.state.ensure(1, self._more_blocks)
            return self.check()
        return found

    def witnesses(self, found: int) -> Witnesses:
        """Return what the last `observe` or `check` found."""
        return Witnesses(*self.state.scratch.result_bytes(found))

    def find_comparable(self, row: int, since: int) -> int:
        """Return a near row from `since` on of the row judged last; -1 for none."""
        self._table[t.FIRST], self._table[t.SINCE] = row, since
        return self.workers.run_task(t.FIND_COMPARABLE)

    def count_agreeing(self, row: int, since: int) -> int:
        """Count the rows from `since` on that are near the row judged last and do not differ."""
        self._table[t.FIRST], self._table[t.SINCE] = row, since
        return self.workers.run_task(t.COUNT_AGREEING)

    def find_near_rows(self, row: int) -> NearRows:
        """Return all rows before a written one that are near it, whatever their outputs."""
        self.arrange_rows(row, 1)
        self._table[t.START], self._table[t.STOP] = 0, 1
        with outputs_ignored(self.state):
            self.workers.run_task(t.SEARCH)
        rows, near, *_ = self.state.scratch.results(int(self._table[t.FOUND]))
        order = np.argsort(rows)
        return rows[order], near[order]

    def settle(self) -> None:
        """Put the table in order after a call that was interrupted between two kernels."""
        self.state.settle()
        self._batch.lay_out(self._table, 0)

    # Many decisions

    @abstractmethod
    def next_batch_size(self, left: int) -> int:
        """Return how many of the next rows to take together."""

    @abstractmethod
    def arrange_rows(self, first: int, size: int, threads: Threads = ALONE) -> None:
        """Prepare written rows for a search, in an order in which that is quick."""

    @abstractmethod
    def insert(self, first: int, size: int, threads: Threads = ALONE) -> None:
        """Put written rows into the index; forgotten ones are left out."""

    @abstractmethod
    def _search(self, first: int, size: int, threads: Threads) -> tuple[Rows, Found]:
        """Search for arranged rows; return the witness counts, and all witnesses in order."""

    def judge(self, first: int, size: int, threads: Threads = ALONE) -> tuple[Rows, Found]:
        """Insert and search written rows; return the witness counts, and all witnesses in order."""
        self.insert(first, size, threads)
        return self._search(first, size, threads)

    def search_unindexed(self, first: int, size: int) -> tuple[Rows, Found]:
        """Search for written rows without inserting them; return what `judge` returns."""
        self.arrange_rows(first, size)
        return self._search(first, size, ALONE)

    def find_comparable_many(
        self, first: int, comparable_rows: Rows, sinces: Rows, threads: Threads = ALONE
    ) -> None:
        """Fill in a near row for each row judged last that has none in `comparable_rows` yet.

        sinces: the first row that counts for each
        """
        self._run_on_rows(
            t.FIND_COMPARABLE_MANY, t.COMPARABLE_ROWS, first, comparable_rows, sinces, threads
        )

    def count_agreeing_many(
        self, first: int, agreeing: Rows, sinces: Rows, threads: Threads = ALONE
    ) -> None:
        """Add to `agreeing` what `count_agreeing` returns for each row judged last.

        sinces: the first row that counts for each
        """
        self._run_on_rows(t.COUNT_AGREEING_MANY, t.AGREEING, first, agreeing, sinces, threads)

    def _run_on_rows(
        self, task: int, slot: int, first: int, answers: Rows, sinces: Rows, threads: Threads
    ) -> None:
        """Run a task on the rows judged last, which writes its answers to the array in a slot."""
        addresses = address_of(answers), address_of(sinces)

        def lay_out(table: Table) -> None:
            self._batch.lay_out(table, first)
            table[slot], table[t.SINCES] = addresses

        self.workers.run_in_parallel(task, len(answers), threads, lay_out, self._least_searched)

    def find_near_rows_of_many(
        self, first: int, size: int, threads: Threads = ALONE
    ) -> tuple[Rows, Rows]:
        """Return how many rows `find_near_rows` finds for each of some rows, and all of these."""
        self.arrange_rows(first, size, threads)
        with outputs_ignored(self.state):
            counts, (rows, *_) = self._search(first, size, threads)
        return counts, rows

    def _search_in_parallel(self, first: int, size: int, threads: Threads) -> Found:
        lay_out = self._lay_out_from(first)
        return join_found(
            self.workers.run_in_parallel(t.SEARCH, size, threads, lay_out, self._least_searched)
        )

    def _lay_out_from(self, first: int) -> Callable[[Table], None]:
        """Return a function that points a table at the batch whose first row is `first`."""
        return partial(self._batch.lay_out, first=first)
