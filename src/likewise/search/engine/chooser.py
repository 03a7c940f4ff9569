"""Choose the index over a history, and replace it when another is cheaper.

Invariant: the index in use holds every remembered row; a challenger holds those before
`_challenger_rows`. Both are exact, so no verdict depends on the choice.
Cost: one slice of work for each decision while a challenge lasts; the next challenge waits until
the history has grown by a good part.
"""

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from likewise.search.engine.protocol import EngineIndex, LazyIndex, RemoteIndexFactory
from likewise.search.history.stored_decisions import History
from likewise.search.indexes import rotation, sketch
from likewise.search.indexes.flat_index import FlatScan
from likewise.search.indexes.live_tree import LiveTree
from likewise.search.indexes.python_index import PythonIndex
from likewise.search.indexes.registry import COMPILED, maker_of, name_of
from likewise.search.kernels import table as t
from likewise.tables.array_types import Rows
from likewise.verdict.witnesses import Witnesses

# Inputs of up to 32 coordinates get a tree of all of them, longer ones a tree over a sketch. Where
# a tree visits much of the history, or lets many long rows through, and the metric allows it, a
# flat scan is tried. Where that has become slow, or the history has grown much longer, another
# rotation, a tree or another sketch is tried.
#
# A challenger is built beside the index in use, a few rows with every decision. When it has caught
# up, both search for the next decisions, and the one that touches less stays.

BULK_BUILD_ROWS = 4 * t.BLOCK
"""Rows from which an index is built at once instead of row by row."""
REVIEW_INTERVAL = 256
"""Decisions between two checks whether another index should be tried."""

_SLICE_ROWS = 16  # rows that a challenger takes with each decision
_TOGETHER = 64  # slices done as one after a batch
_SLICE_BYTES = 4 << 20  # bytes of memory released with each decision
_RACE = 128  # decisions that both indexes search for
_BETTER = 0.8  # share of the old cost that justifies a change, except the first one
_LEARN_FROM = 256  # rows before the data decide anything
_TREE_FAILS = 0.2  # share of the history visited above which a flat scan is tried
_MOST_READ = 0.02  # share of the history read row by row above which one is tried, too
_SEQUENTIAL_BYTE_COST = 0.5  # cost of a byte read in sequence, relative to a byte read at random
_CHEAP = 1 << 14  # bytes touched by a search below which no change is worth it
_WORSE = 2.0  # times the first cost: look for another index
_GROWTH = {"sketch": 1.5, "rotate": 1.5, "flat": 2.0, "tree": 4.0}
"""By challenge: the factor by which the history must grow before the next one."""
_PATIENCE = 50e-6  # seconds that a batch may wait, for each decision in it, for directions

Index: TypeAlias = EngineIndex


@runtime_checkable
class SingleBestIndex(Protocol):
    """An index that names only the best past decision of all (search/indexes/best_index.py)."""

    def find_best(self, row: int, first: int) -> Witnesses:
        """Return the best match of a written row among the rows from `first` on."""


MakeTree: TypeAlias = Callable[[History, Rows | None], LiveTree]
"""Makes a tree over a history; the rows are the coordinates of its sketch, None for all."""
Job: TypeAlias = Generator[int | Future[FlatScan] | None, None, None]
"""Yields how many decisions' worth of work it has done; None to wait for a decision."""


class Chooser:
    """Holds the index in use and, during a challenge, its challenger."""

    def __init__(
        self,
        history: History,
        requested_index: Any,
        tree: MakeTree = LiveTree,
        *,
        wants_comparable: bool = False,
    ) -> None:
        self.history = history
        self.requested_index = requested_index
        self._tree = tree
        self._wants_comparable = wants_comparable
        self.changes = 0
        self.index: Index = self._first()
        self.is_fixed = isinstance(self.index, LazyIndex)
        """Whether the index was requested by name and fills itself, so that it stays."""
        history.table = self.index.state.table
        self._challenger: Index | None = None
        self._challenger_rows = 0
        self._slice_rows = _SLICE_ROWS
        self._job: Job | None = None
        self._chosen_at = 0  # rows when the index in use was made
        self._first_cost: float | None = None  # what a search cost then
        self._earliest: dict[str, float] = {}  # by challenge: rows before which it is not tried

    def _first(self) -> Index:
        history = self.history
        if isinstance(self.requested_index, RemoteIndexFactory):
            self.reason = "asked for"
            return self.requested_index.make_index(history)
        if self.requested_index not in COMPILED:
            self.reason = "asked for"
            make, name = maker_of(self.requested_index), name_of(self.requested_index)
            return PythonIndex(history, make, name, wants_comparable=self._wants_comparable)
        if self.requested_index == "flat":
            self.reason = "asked for; a scan of leading rotated coordinates"
            return FlatScan(history, rotation.initial_rotation(history.width))
        long = history.width > sketch.UNSKETCHED_WIDTH
        width, part = ("more than", "a few") if long else ("at most", "all")
        self.reason = (
            f"inputs have {width} {sketch.UNSKETCHED_WIDTH} coordinates: {part} of them are indexed"
        )
        return self._tree(history, sketch.first_coordinates(history) if long else None)

    @property
    def busy(self) -> bool:
        return self._job is not None

    # What a search costs

    def _recent(self, index: Index) -> Rows:
        recent = index.state.recent
        return recent[recent[:, 0] >= 0]

    def cost(self, index: Index, recent: Rows | None = None) -> float:
        """Return the average cost of a search: bytes of codes touched, and of rows read."""
        recent = self._recent(index) if recent is None else recent
        if len(recent) == 0:
            return 0.0
        blocks, code_bytes, rows = recent.mean(axis=0).tolist()
        row_cost = 512 + min(self.history.row_bytes, 2048)
        if isinstance(index, FlatScan):
            code_bytes *= _SEQUENTIAL_BYTE_COST
        return float(blocks * 256 + code_bytes + rows * row_cost)

    def share(self) -> float:
        """Return the share of the history that the last searches visited, on average."""
        recent = self._recent(self.index)
        blocks = self.index.leaves()
        return min(1.0, float(recent[:, 0].mean()) / blocks) if len(recent) and blocks else 0.0

    def rows_read(self) -> float:
        """Return how many rows the last searches read in full, on average."""
        recent = self._recent(self.index)
        return float(recent[:, 2].mean()) if len(recent) else 0.0

    def _tree_fails(self) -> bool:
        """Return whether the tree excludes too little: it visits much, or reads many long rows."""
        long = self.history.width > sketch.UNSKETCHED_WIDTH
        read = self.rows_read() / max(1, self.history.live)
        return self.share() > _TREE_FAILS or (long and read > _MOST_READ)

    def _why_not_a_tree(self) -> str:
        read = self.rows_read() / max(1, self.history.live)
        return (
            f"a tree visited {self.share():.0%} of the history for each decision and read"
            f" {read:.0%} of the rows"
        )

    # Changing over

    def after_decisions(self, decisions: int) -> None:
        """Start a challenge if one is due, and continue one under way, after so many decisions."""
        if self.is_fixed:
            return
        if self._job is None and self._has_another():
            self._job = self._next_challenge()
        spent = 0
        while self._job is not None and spent < decisions:
            self._slice_rows = _SLICE_ROWS * min(decisions - spent, _TOGETHER)
            try:
                step = next(self._job)
            except StopIteration:
                self._job = None
            except Exception as error:  # for example no memory for a second index: keep the first
                self.abandon()
                self._restart_clock()
                self.reason += f" (the attempt at another failed: {error!r})"
            else:
                if step is None:
                    return
                if isinstance(step, Future):
                    wait([step], timeout=_PATIENCE * (decisions - 1))
                    if not step.done():
                        return
                    continue
                spent += step

    def _claim_challenge(self, challenge: str) -> bool:
        """Return whether the history has grown enough for this challenge; note that it starts."""
        total = self.history.total
        if total < self._earliest.get(challenge, _LEARN_FROM):
            return False
        self._earliest[challenge] = _GROWTH[challenge] * total
        return True

    def _restart_clock(self) -> None:
        """Measure cost and the time of the next challenges from now on."""
        total = self.history.total
        self._chosen_at, self._first_cost = total, None
        for challenge, growth in _GROWTH.items():
            self._earliest[challenge] = max(self._earliest.get(challenge, 0), growth * total)

    @property
    def _can_use_flat(self) -> bool:
        """Whether a flat scan may take the place of a tree."""
        return self.requested_index == "auto" and self.history.rule.metric in ("l2", "cosine")

    def _has_another(self) -> bool:
        """Return whether there is any other index to try, whatever the current one costs."""
        whole = isinstance(self.index, LiveTree) and self.index.coordinates is None
        return self._can_use_flat or not whole

    def _next_challenge(self) -> Job | None:
        """Return the challenge that is due, if any."""
        history, index = self.history, self.index
        cost = self.cost(index)
        if self._first_cost is None and history.total >= self._chosen_at + REVIEW_INTERVAL:
            self._first_cost = max(cost, _CHEAP)
        cheap = cost < _CHEAP
        worse = (
            not cheap
            and self._first_cost is not None
            and cost > _WORSE * self._scale() * self._first_cost
        )
        if isinstance(index, FlatScan):
            learnt = index.rotation.rows
            if (learnt == 0 or worse or history.total > 4 * learnt) and self._claim_challenge(
                "rotate"
            ):
                return self._try_flat("a new rotation, because the history had changed")
            if self.requested_index == "auto" and not cheap and self._claim_challenge("tree"):
                return self._try_tree()
            return None
        if (
            self._can_use_flat
            and not cheap
            and self._tree_fails()
            and self._claim_challenge("flat")
        ):
            return self._try_flat(self._why_not_a_tree())
        if isinstance(index, LiveTree) and index.coordinates is not None:
            early = history.total > 4 * self._chosen_at and history.total < 1 << 14
            if (self._chosen_at == 0 or (early and not cheap) or worse) and self._claim_challenge(
                "sketch"
            ):
                return self._try_tree()
        return None

    def _scale(self) -> float:
        """Return how much more a search may cost because the history has grown."""
        growth = self.history.total / max(self._chosen_at, REVIEW_INTERVAL)
        return growth if isinstance(self.index, FlatScan) else growth**0.5

    def _try_tree(self) -> Job:
        coordinates: Rows | None = None
        if self.history.width > sketch.UNSKETCHED_WIDTH:
            coordinates = yield from sketch.choose(self.history)
        yield from self._challenge(
            self._tree(self.history, coordinates),
            "the coordinates that separate most of the history so far"
            if coordinates is not None
            else "a tree touches less than a flat scan",
        )

    def _try_flat(self, reason: str) -> Job:
        rows = rotation.sample_rows(self.history)
        sample = np.empty((len(rows), self.history.width))
        for start in range(0, len(rows), 8):
            sample[start : start + 8] = rotation.positions(self.history, rows[start : start + 8])
            self.history.note_touched(8)
            yield 1
        total = self.history.total

        def make() -> FlatScan:
            return FlatScan(self.history, rotation.learn(sample, total))

        pool = ThreadPoolExecutor(1)  # finding directions takes long, compiling longer
        future: Future[FlatScan] = pool.submit(make)
        pool.shutdown(wait=False)  # its thread ends with the work, whether or not we wait for it
        while not future.done():
            yield future
        yield from self._challenge(future.result(), reason)

    def _challenge(self, challenger: Index, reason: str) -> Job:
        """Let a new index catch up and race the one in use; keep the better, drop the other."""
        history = self.history
        self._challenger, self._challenger_rows = challenger, history.first
        racing, caught_up = 0, False
        while True:
            rows = min(self._slice_rows, history.total - self._challenger_rows)
            if rows == 0:
                yield None
                continue
            challenger.state.follow()
            if caught_up:
                challenger.judge(self._challenger_rows, rows)
                racing += rows
            else:
                challenger.insert(self._challenger_rows, rows)
            history.note_touched(rows)
            self._challenger_rows += rows
            caught_up = caught_up or self._challenger_rows == history.total
            if racing >= _RACE and self._challenger_rows == history.total:
                break
            yield -(-rows // _SLICE_ROWS)
        both = np.arange(history.total - min(racing, t.RECENT_MOST), history.total) % t.RECENT_MOST
        cost, challenger_cost = (
            self.cost(index, index.state.recent[both]) for index in (self.index, challenger)
        )
        challenger.state.follow()
        self._challenger = None
        loser = challenger
        self._chosen_at, self._first_cost, first = history.total, None, self._chosen_at == 0
        if challenger_cost <= (cost if first else _BETTER * cost):
            loser = self.index
            self._take(challenger, reason)
        yield 1
        yield from _release_memory(loser)

    def abandon(self) -> None:
        """Keep the index in use and drop a challenge that was interrupted."""
        self._job = self._challenger = None
        self.history.table = self.index.state.table

    def rebuild_index(self) -> None:
        """Make the index in use, whose contents are in doubt, again from the history."""
        self.abandon()
        if isinstance(self.index, LazyIndex):
            self.index.renew()
            return
        self._take(self._first(), self.reason)
        self.fill_index()

    # The history changes otherwise

    def forget(self, rows: Rows) -> None:
        """Take rows out of every index, then out of the history."""
        self.index.remove(rows)
        if self._challenger is not None:
            self._challenger.state.follow()
            self._challenger.remove(rows[rows < self._challenger_rows])
        pages = self.history.erase(rows)
        for index in (self.index, self._challenger):
            if index is not None and pages:
                index.state.release(pages)

    def fill_index(self) -> None:
        """Insert the history into an index that is still empty."""
        history = self.history
        if self.is_fixed:  # it fills itself when it is first asked
            return
        if history.total - history.first >= BULK_BUILD_ROWS:
            self.build()
        elif history.total > history.first:
            self.index.insert(history.first, history.total - history.first)

    def build(self) -> None:
        """Choose an index by the data after a large load, and build it at once."""
        history = self.history
        self._job = self._challenger = None
        if self.requested_index != "flat":
            coordinates: Rows | None = None
            if history.width > sketch.UNSKETCHED_WIDTH:
                coordinates = _finish(sketch.choose(history))
            if coordinates is not None or not isinstance(self.index, LiveTree):
                self._take(self._tree(history, coordinates), "the history was loaded at once")
            assert isinstance(self.index, LiveTree)
            self.index.build()
            if self.requested_index == "live" or history.rule.metric not in ("l2", "cosine"):
                return
            probes = min(64, history.total)
            self.index.measure_search(history.total - probes, probes)
            if not self._tree_fails():
                return
            self.reason = self._why_not_a_tree()
        rows = rotation.sample_rows(history)
        learnt = rotation.learn(rotation.positions(history, rows), history.total)
        scan = FlatScan(history, learnt)
        self._take(scan, self.reason)
        scan.build()

    def _take(self, index: Index, reason: str) -> None:
        """Put another index to use."""
        self.index, self.reason = index, reason
        self.history.table = index.state.table
        self._restart_clock()
        self.changes += 1


def _finish(job: Generator[int, None, Rows]) -> Rows:
    while True:
        try:
            next(job)
        except StopIteration as end:
            return np.asarray(end.value)


def _release_memory(index: Index) -> Job:
    """Release the memory of an index that is no longer needed, a few megabytes at a time."""
    for region, used in index.state.dismantle():
        for start in range(0, used, _SLICE_BYTES):
            region.release(start, min(start + _SLICE_BYTES, region.size))
            yield 1
