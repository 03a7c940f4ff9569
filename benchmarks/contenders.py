"""Who takes part: likewise, three neighbour searches, and two monitors to stand beside.

A `Peer` is an index built over all rows beforehand. It answers "which rows are near", whatever
their label, and inserts nothing: less work than a monitor does, in its favour. A stream
contender (`ScipyMonitor`, `Clemont`) judges each decision and then remembers it.

Invariant: only `search`, respectively `observe`, is ever timed; building, converting and
deciding are not. All peers run on one thread.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks.measure import Singles, time_calls

Array = NDArray[Any]


@dataclass(frozen=True)
class Question:
    """When two inputs are near, for every contender: distance <= epsilon (1 + slack)."""

    metric: str
    epsilon: float
    slack: float = 1e-5  # what likewise takes for float32 rows; 1e-9 for float64

    @property
    def reach(self) -> float:
        return self.epsilon * (1.0 + self.slack)

    @property
    def label(self) -> str:
        name = {"linf": "L∞", "l2": "L2"}.get(self.metric, self.metric)
        return f"{name} ε={self.epsilon:g}"

    def at(self, epsilon: float) -> Question:
        return replace(self, epsilon=epsilon)

    def monitor(self, **options: Any) -> lw.Monitor:
        """An empty monitor that asks this question."""
        rule = lw.Rule(metric=self.metric, epsilon=self.epsilon, slack=self.slack)
        return lw.Monitor(rule, **options)


def judge_all(question: Question, points: Array, outputs: Array, threads: int = 1) -> Any:
    """Judge a stream from empty; the monitor comes back too, so no clock sees it freed."""
    monitor = question.monitor()
    return monitor, monitor.observe_many(points, outputs, threads=threads)


def explained(monitor: lw.Monitor) -> dict[str, Any]:
    """Return what the monitor says of itself, as far as a table has room for it."""
    told = monitor.explain()
    return {
        "index": told.shape,
        "share_visited": float(told.share_visited),
        "rows_read": float(told.rows_read),
        "changes": int(told.changes),
        "explained_bytes": float(told.bytes_per_decision),
    }


def warm_up(question: Question, points: Array, outputs: Array) -> None:
    """Compile everything on a separate small monitor, so that no timing pays for it."""
    points, outputs = points[:1_000], outputs[:1_000]
    for threads in (1, 2):
        question.monitor().observe_many(points, outputs, threads=threads)
    monitor = question.monitor()
    monitor.load(points, outputs)
    for x, z in zip(points[:50], outputs[:50].tolist(), strict=True):
        monitor.check(x, z)
        monitor.observe(x, z)


class Peer(Protocol):
    """A neighbour search, built once over all rows."""

    name: ClassVar[str]
    package: ClassVar[str]
    queries: ClassVar[int]  # how many it is timed on, so that it ends in about a second
    margin: ClassVar[float]  # how far it must look beyond a radius to miss nothing by rounding

    def __init__(self, points: Array, metric: str) -> None: ...

    def search(self, queries: Array, radius: float) -> Any:
        """All rows within the radius of each query, in the form this peer has them."""

    def rows(self, found: Any) -> Sequence[Array]:
        """The same, as one array of row numbers per query."""


class ScipyTree:
    """scipy.spatial.cKDTree: one batch call, results unsorted, one worker."""

    name: ClassVar[str] = "SciPy cKDTree"
    package: ClassVar[str] = "scipy"
    queries: ClassVar[int] = 5_000
    margin: ClassVar[float] = 1e-6

    def __init__(self, points: Array, metric: str) -> None:
        from scipy.spatial import cKDTree

        self.tree = cKDTree(points)
        self.p = {"linf": np.inf, "l2": 2.0}[metric]

    def search(self, queries: Array, radius: float) -> Any:
        return self.tree.query_ball_point(queries, radius, p=self.p, workers=1, return_sorted=False)

    def rows(self, found: Any) -> Sequence[Array]:
        return [np.asarray(rows, dtype=np.int64) for rows in found]


class SklearnTree:
    """sklearn.neighbors.KDTree.query_radius, one batch call."""

    name: ClassVar[str] = "scikit-learn KDTree"
    package: ClassVar[str] = "sklearn"
    queries: ClassVar[int] = 400
    margin: ClassVar[float] = 1e-6

    def __init__(self, points: Array, metric: str) -> None:
        from sklearn.neighbors import KDTree

        self.tree = KDTree(points, metric={"linf": "chebyshev", "l2": "euclidean"}[metric])

    def search(self, queries: Array, radius: float) -> Any:
        return self.tree.query_radius(queries, radius)

    def rows(self, found: Any) -> Sequence[Array]:
        return [rows.astype(np.int64) for rows in found]


class FaissFlat:
    """faiss.IndexFlat: looks at every row, in float32; L2 radii are squared.

    Its range search knows no L∞, so there it is asked for the nearest row, then for more and
    more of them until one lies beyond the radius.
    """

    name: ClassVar[str] = "FAISS flat"
    package: ClassVar[str] = "faiss"
    queries: ClassVar[int] = 6
    margin: ClassVar[float] = 1e-2

    def __init__(self, points: Array, metric: str) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        kind = {"linf": faiss.METRIC_Linf, "l2": faiss.METRIC_L2}[metric]
        self.by_range = metric == "l2"
        self.index = faiss.IndexFlat(points.shape[1], kind)
        self.index.add(np.ascontiguousarray(points, dtype=np.float32))

    def search(self, queries: Array, radius: float) -> Any:
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if self.by_range:
            return self.index.range_search(queries, radius * radius)
        nearest = 1
        while True:
            distances, rows = self.index.search(queries, nearest)
            if nearest == self.index.ntotal or (distances[:, -1] > radius).all():
                return distances <= radius, rows
            nearest = min(8 * nearest, self.index.ntotal)

    def rows(self, found: Any) -> Sequence[Array]:
        if self.by_range:
            limits, _, rows = found
            return [rows[a:b] for a, b in itertools.pairwise(limits.tolist())]
        return [rows[near] for near, rows in zip(*found, strict=True)]


PEERS: tuple[type[Peer], ...] = (ScipyTree, SklearnTree, FaissFlat)


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


class StreamContender(ABC):
    """Judges the decisions of a stream one by one, and remembers each."""

    name: ClassVar[str]
    exact: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, question: Question, columns: list[str], points: Array, outputs: Array): ...

    @abstractmethod
    def observe(self, i: int) -> int:
        """Judge row i; return how many witnesses it reports."""

    def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Do what its own runner does before its clock starts."""


class ScipyMonitor(StreamContender):
    """What one would write oneself: a cKDTree of the past, rebuilt, and a scan of the rest."""

    name = "SciPy, rebuilt every 1,000"
    exact = True
    every = 1_000

    def __init__(self, question: Question, columns: list[str], points: Array, outputs: Array):
        from scipy.spatial import cKDTree

        self.question, self.points, self.outputs, self.make = question, points, outputs, cKDTree
        self.tree: Any = None
        self.built = 0

    def observe(self, i: int) -> int:
        if i - self.built >= self.every:
            self.tree, self.built = self.make(self.points[:i]), i
        x, z, reach = self.points[i], self.outputs[i], self.question.reach
        found = 0
        if self.tree is not None:
            near = self.tree.query_ball_point(x, reach, p=np.inf, return_sorted=False)
            found = int(np.count_nonzero(self.outputs[near] != z))
        tail = slice(self.built, i)
        close = np.abs(self.points[tail] - x).max(axis=1, initial=0.0) <= reach
        return found + int(np.count_nonzero(close & (self.outputs[tail] != z)))


class Clemont(StreamContender):
    """The paper's own tool, its older backends: a data frame goes in, row numbers come out.

    Reported, not asserted: its brute force stops at 128 neighbours per class and compares with
    a bare `<` in float32, and its k-d tree searches with the decision as one more coordinate.
    """

    def __init__(self, question: Question, columns: list[str], points: Array, outputs: Array):
        import pandas

        frame = pandas.DataFrame(np.column_stack([outputs, points]), columns=columns)
        self.backend = self.make(frame, columns[0], question.epsilon)
        self.each = frame.iterrows()
        self.next_row: Any = None

    @abstractmethod
    def make(self, frame: Any, decision: str, epsilon: float) -> Any:
        """The tool's own monitor, for these columns."""

    def prepare(self) -> None:
        _, self.next_row = next(self.each)

    def observe(self, i: int) -> int:
        return len(self.backend.observe(self.next_row, row_id=i))


class ClemontTree(Clemont):
    name = "Clemont k-d tree"

    def make(self, frame: Any, decision: str, epsilon: float) -> Any:
        from clemont.backends.kdtree import KdTree

        return KdTree(frame, decision, epsilon, metric="infinity", batchsize=1_000, bf_threads=1)


class ClemontBrute(Clemont):
    name = "Clemont brute force"

    def make(self, frame: Any, decision: str, epsilon: float) -> Any:
        from clemont.backends.faiss import BruteForce

        return BruteForce(frame, decision, epsilon, metric="infinity", nthreads=1)


class ClemontFRNN(StreamContender):
    """The newer monitor of the paper's authors. It is not on the package index: see `make bench`.

    Reported, not asserted: short-term memory and brute force compare in float32.
    """

    def __init__(self, question: Question, columns: list[str], points: Array, outputs: Array):
        from clemont.monitor import Monitor

        self.monitor = Monitor(lambda: self.make(question.epsilon))
        self.points, self.outputs = points, outputs.tolist()

    @abstractmethod
    def make(self, epsilon: float) -> Any:
        """One backend of theirs: they keep one for each output."""

    def observe(self, i: int) -> int:
        return len(self.monitor.observe(self.points[i], self.outputs[i]).counterexamples)


class ClemontFRNNTree(ClemontFRNN):
    name = "Clemont frnn, k-d tree"

    def make(self, epsilon: float) -> Any:
        from clemont.frnn import KdTreeFRNN

        return KdTreeFRNN(epsilon=epsilon, metric="linf", bf_threads=1)


class ClemontFRNNFaiss(ClemontFRNN):
    name = "Clemont frnn, FAISS"

    def make(self, epsilon: float) -> Any:
        from clemont.frnn import FaissFRNN

        return FaissFRNN(epsilon=epsilon, metric="linf", nthreads=1)


def has_clemont_frnn() -> bool:
    return installed("clemont") and installed("clemont.frnn")


def run_stream(contender: StreamContender, rows: int, budget_seconds: float) -> Singles:
    """Judge one decision after another until the rows, or the time it may take, run out."""

    def numbers() -> Iterator[tuple[int]]:
        for i in range(rows):
            contender.prepare()
            yield (i,)

    with contextlib.redirect_stdout(io.StringIO()):  # Clemont reports each rebuild by print
        return time_calls(contender.observe, numbers(), keep=int, seconds=budget_seconds)
