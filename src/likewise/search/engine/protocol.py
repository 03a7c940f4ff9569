"""The contract of an index under an engine: what the engine and its chooser ask of one.

`LiveTree`, `FlatScan` and `PythonIndex` keep it over the history in this process; the index of a
cluster keeps it over the same history and asks shards (sharding/sharded_index.py).

Invariant: an index names every remembered row before a decision that is near and differs, and no
other. Rows from the history's `total` on are invisible to it until they are inserted.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

from likewise.search.history.stored_decisions import History
from likewise.search.indexes.index_state import IndexState
from likewise.search.indexes.workers import Found, KernelRunner
from likewise.tables.rows import Floats, Rows
from likewise.verdict.witnesses import Witnesses


class EngineIndex(Protocol):
    """Stands over a history: decisions in, witnesses out."""

    input: Floats
    """Where an input is laid out that the storage does not take as it is."""
    given: Floats
    """Where an output is laid out."""

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
        """False while what it holds may be wrong if the work on it is cut off."""

    def observe(self) -> int:
        """Judge and remember what is laid out; how many witnesses, or an error code."""

    def check(self) -> int:
        """The same without remembering it."""

    def witnesses(self, found: int) -> Witnesses:
        """What the last `observe` or `check` found."""

    def find_comparable(self, row: int, since: int) -> int:
        """A like case, from `since` on, of the row that was judged last; -1 for none."""

    def find_near_rows(self, row: int) -> Rows:
        """All rows before a written one that are near it, whatever their outputs."""

    def settle(self) -> None:
        """After a call that was cut off between two kernels: have the table in order."""

    def next_batch_size(self, left: int) -> int:
        """How many of the next rows of a batch to take together."""

    def judge(
        self, first: int, size: int, threads: int, pool: ThreadPoolExecutor | None
    ) -> tuple[Rows, Found]:
        """Insert and search written rows; how many witnesses of each, and all of them in order."""

    def insert(self, first: int, size: int, threads: int, pool: Any) -> None:
        """Have written rows; forgotten ones are left out."""

    def find_comparable_many(
        self,
        first: int,
        likes: Rows,
        sinces: Rows,
        threads: int,
        pool: ThreadPoolExecutor | None,
    ) -> None:
        """A like case of each row that was judged last, where there is none in `likes` yet."""

    def remove(self, rows: Rows) -> None:
        """Take remembered rows out."""

    def depth(self) -> int: ...

    def leaves(self) -> int: ...

    def describe(self) -> str:
        """What it has become, in a line."""


@runtime_checkable
class LazyIndex(Protocol):
    """An index that takes over the history when it is next asked, and that nothing challenges."""

    def renew(self) -> None:
        """What it holds is in doubt: make sure of it before the next answer."""


@runtime_checkable
class ReportsMissingRows(Protocol):
    """An index that may have to answer without some of the past."""

    missing_row_counts: Rows
    """Of the decisions judged last: how many past rows each was not compared with."""


@runtime_checkable
class RemoteIndexFactory(Protocol):
    """What makes the index over a history where that index is not a part of this process."""

    def make_index(self, history: History) -> EngineIndex: ...

    def close(self) -> None: ...
