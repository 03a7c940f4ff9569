"""The contract of an index under an engine: what the engine and its chooser ask of it.

`LiveTree`, `FlatScan` and `PythonIndex` implement it over the history in this process;
sharding/sharded_index.py implements it over the same history by asking shards.
Invariant: an index names every remembered row before a decision that is near and differs, and no
other. Rows from the history's `total` on are invisible to it until they are inserted.
"""

from typing import Protocol, runtime_checkable

from likewise.search.history.stored_decisions import History
from likewise.search.indexes.index_state import IndexState
from likewise.search.indexes.workers import ALONE, Found, KernelRunner, Threads
from likewise.tables.array_types import Floats, NearRows, Rows
from likewise.verdict.witnesses import Witnesses


class EngineIndex(Protocol):
    """Searches a history: takes decisions, returns their witnesses."""

    input: Floats
    """Scratch array for an input that the storage cannot take as it is."""
    given: Floats
    """Scratch array for the output of a decision."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> str: ...

    @property
    def state(self) -> IndexState: ...

    @property
    def workers(self) -> KernelRunner: ...

    @property
    def sound(self) -> bool:
        """False while an interruption may leave the index with wrong contents."""

    def observe(self) -> int:
        """Judge and remember the decision in the scratch arrays.

        Return the number of witnesses, or an error code.
        """

    def check(self) -> int:
        """Judge the decision in the scratch arrays without remembering it."""

    def witnesses(self, found: int) -> Witnesses:
        """Return what the last `observe` or `check` found."""

    def find_comparable(self, row: int, since: int) -> int:
        """Return a near row from `since` on of the row judged last, whatever its output.

        -1 if there is none.
        """

    def count_agreeing(self, row: int, since: int) -> int:
        """Count the rows from `since` on that are near the row judged last and do not differ."""

    def find_near_rows(self, row: int) -> NearRows:
        """Return all rows before a written one that are near it, whatever their outputs."""

    def find_near_rows_of_many(
        self, first: int, size: int, threads: Threads = ALONE
    ) -> tuple[Rows, Rows]:
        """Return how many rows `find_near_rows` finds for each of some rows, and all of these."""

    def settle(self) -> None:
        """Put the table in order after a call that was interrupted between two kernels."""

    def next_batch_size(self, left: int) -> int:
        """Return how many of the next rows of a batch to take together."""

    def judge(self, first: int, size: int, threads: Threads = ALONE) -> tuple[Rows, Found]:
        """Insert and search written rows.

        Return the number of witnesses of each, and all witnesses in order.
        """

    def insert(self, first: int, size: int, threads: Threads = ALONE) -> None:
        """Insert written rows; leave forgotten ones out."""

    def find_comparable_many(
        self, first: int, comparable_rows: Rows, sinces: Rows, threads: Threads = ALONE
    ) -> None:
        """Fill in a near row for each row judged last that has none in `comparable_rows` yet."""

    def count_agreeing_many(
        self, first: int, agreeing: Rows, sinces: Rows, threads: Threads = ALONE
    ) -> None:
        """Add to `agreeing` what `count_agreeing` returns for each row judged last."""

    def remove(self, rows: Rows) -> None:
        """Take remembered rows out of the index."""

    def depth(self) -> int: ...

    def leaves(self) -> int: ...

    def describe(self) -> str:
        """Describe the index in one line."""


@runtime_checkable
class LazyIndex(Protocol):
    """An index that fills itself from the history when it is next asked; it is never replaced."""

    def renew(self) -> None:
        """Check or rebuild the contents, which are in doubt, before the next answer."""


@runtime_checkable
class ReportsMissingRows(Protocol):
    """An index that may have to answer without some of the past."""

    missing_row_counts: Rows
    """How many past rows each of the decisions judged last was not compared with."""


@runtime_checkable
class RemoteIndexFactory(Protocol):
    """Makes the index over a history where that index lies outside this process."""

    def make_index(self, history: History) -> EngineIndex: ...

    def close(self) -> None: ...
