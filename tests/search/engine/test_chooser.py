"""Another index takes over while decisions come in: no verdict shows it, nothing is left behind.

Each story is a stream on which a certain change-over must happen. Verdicts are compared with the
oracle throughout, rows are forgotten while a challenger is still catching up, and the audit walks
both indexes.
"""

import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from threading import Event
from typing import Any

import numpy as np
import pytest

import likewise as lw
from likewise.search.engine import chooser as choosing
from likewise.search.engine.chooser import Chooser
from likewise.search.history.reserved_memory import Region
from likewise.search.indexes import rotation, sketch
from likewise.search.indexes.flat_index import FlatScan
from likewise.search.indexes.live_tree import LiveTree
from likewise.search.indexes.workers import ALONE
from tests.search.indexes.audit import audit
from tests.search.indexes.shapes import random
from tests.support.oracle import assert_same_verdict, assert_same_verdicts
from tests.support.play import Foreseen

pytestmark = pytest.mark.pairwise

SLICE = 16  # rows handed to a challenger for each decision


@dataclass(frozen=True)
class Story:
    """A stream, and the shapes of index that must follow each other on it."""

    rule: lw.Rule
    make: Callable[[], np.ndarray]
    shapes: tuple[str, ...]
    index: str = "auto"
    batches: tuple[int, ...] = (1, 64)


def noise(n: int, width: int, seed: int = 5) -> np.ndarray:
    return random(seed).normal(size=(n, width))


def echoed(X: np.ndarray, by: float) -> np.ndarray:
    """Every third point lies near one of the last few hundred."""
    rng = random(4)
    for i in range(2, len(X), 3):
        near = X[rng.integers(max(0, i - 400), i)]
        X[i] = near + by * rng.normal(size=X.shape[1]) * (near != 0)
    return X


def noise_then_clusters() -> np.ndarray:
    """At first a tree is of no use, then it is far better than anything else."""
    X = echoed(0.25 * noise(4_000, 20), 0.05)
    X[600:] = 0.01 * X[600:] + random().integers(0, 1_500, (3_400, 1)) * np.linspace(1, 3, 20)
    return X


def few_coordinates_count() -> np.ndarray:
    X = np.zeros((1_400, 200), dtype=np.float32)
    X[:, ::25] = noise(1_400, 8)
    return echoed(X, 0.05)


def another_few_count() -> np.ndarray:
    """The coordinates that part anything change, once the first are chosen."""
    X = np.zeros((3_500, 120), dtype=np.float32)
    X[:900, :12] = 30 * random().random((900, 12))
    X[900:, 60:72] = 30 * random(1).random((2_600, 12))
    return np.concatenate([echoed(X[:900], 0.5), echoed(X[900:], 0.5)])


def turning() -> np.ndarray:
    """What varies is something else after a while."""
    X = np.zeros((2_400, 260))
    X[:700, :100] = noise(700, 100)
    X[700:, 150:250] = noise(1_700, 100, 6)
    return np.concatenate([echoed(X[:700], 0.1), echoed(X[700:], 0.1)])


STORIES = {
    "sketch to flat, l2": Story(
        lw.Rule("l2", 5.5),
        lambda: echoed(noise(1_500, 48), 0.2),
        ("sketch tree", "flat scan"),
        batches=(1, 64, 500),
    ),
    "sketch to flat, cosine": Story(
        lw.Rule("cosine", 0.35), lambda: echoed(noise(1_500, 48), 0.2), ("sketch tree", "flat scan")
    ),
    "tree to flat": Story(
        lw.Rule("l2", 4.5),
        lambda: echoed(noise(3_000, 32), 0.2),
        ("tree", "flat scan"),
        batches=(64, 500),
    ),
    "tree to flat to tree": Story(
        lw.Rule("l2", 1.2), noise_then_clusters, ("tree", "flat scan", "tree"), batches=(64,)
    ),
    "sketch revised, linf": Story(
        lw.Rule("linf", 0.3), few_coordinates_count, ("sketch tree", "sketch tree")
    ),
    "sketch revised, l1": Story(
        lw.Rule("l1", 0.9), few_coordinates_count, ("sketch tree", "sketch tree"), "live"
    ),
    "sketch revised twice": Story(
        lw.Rule("linf", 4.0),
        another_few_count,
        ("sketch tree", "sketch tree", "sketch tree"),
        batches=(1, 500),
    ),
    "rotation learnt": Story(
        lw.Rule("cosine", 0.35),
        lambda: echoed(noise(1_500, 48), 0.2),
        ("flat scan", "flat scan"),
        "flat",
    ),
    "rotation learnt anew": Story(
        lw.Rule("l2", 4.0), turning, ("flat scan", "flat scan", "flat scan"), "flat"
    ),
}
every_story = pytest.mark.parametrize(
    ("name", "batch"), [(name, batch) for name, one in STORIES.items() for batch in one.batches]
)


class AtOnce:
    """An executor whose work is done before it is asked about: no test waits for a thread."""

    def __init__(self, workers: int) -> None:
        pass

    def shutdown(self, *, wait: bool) -> None:
        pass

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(work(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(choosing, "ThreadPoolExecutor", AtOnce)


@dataclass
class Fed:
    """What one call of `mind` may hand over, and what it did."""

    decisions: int
    rows: int
    largest: int


@pytest.fixture
def feeds(monkeypatch) -> list[Fed]:
    """How many rows challengers were handed, for every call of `mind`."""
    seen: list[Fed] = []
    mind, handed = Chooser.after_decisions, []

    def minding(self, decisions):
        handed.clear()
        mind(self, decisions)
        seen.append(Fed(decisions, sum(handed), max(handed, default=0)))

    monkeypatch.setattr(Chooser, "after_decisions", minding)
    for kind in (LiveTree, FlatScan):
        for verb in ("insert", "judge"):
            do = getattr(kind, verb)

            def noting(self, first, size, threads=ALONE, do=do):
                if threads is ALONE:  # judged by the index in use, they are the call's own
                    handed.append(size)
                return do(self, first, size, threads)

            monkeypatch.setattr(kind, verb, noting)
    return seen


@cache
def foreseen(story: Story) -> Foreseen:
    """All witnesses of a story, worked out once."""
    X = story.make()
    return Foreseen(story.rule, X, [f"label {kind}" for kind in random(3).integers(0, 3, len(X))])


class Watched:
    """A monitor, the oracle that foresees it, and every index that was in use."""

    def __init__(self, story: Story) -> None:
        self.story, self.X = story, story.make()
        self.Z = [f"label {kind}" for kind in random(3).integers(0, 3, len(self.X))]
        self.oracle = foreseen(story).afresh()
        self.monitor = lw.Monitor(story.rule, index=story.index)
        self.shapes: list[str] = []
        self.index: Any = lambda: None
        self.challenged = 0
        self._challenger: Any = lambda: None

    @property
    def chooser(self) -> Chooser:
        assert self.monitor.core.engine.chooser is not None
        return self.monitor.core.engine.chooser

    def observe(self, start: int, size: int) -> None:
        """Some decisions, one by one or as a batch."""
        part = slice(start, start + size)
        expected = self.oracle.observe_many(self.X[part], self.Z[part])
        if size == 1:
            verdict = self.monitor.observe(self.X[start], self.Z[start])
            assert_same_verdict(verdict, expected[0])
        else:
            assert_same_verdicts(self.monitor.observe_many(self.X[part], self.Z[part]), expected)

    def batches(self, batch: int) -> Iterator[int]:
        """Observe everything, and look at the indexes after each batch."""
        for start in range(0, len(self.X), batch):
            self.observe(start, min(batch, len(self.X) - start))
            if self.index() is not self.chooser.index:
                self.index = weakref.ref(self.chooser.index)
                self.shapes.append(self.monitor.explain().shape)
                audit(self.monitor)
            challenger = self.chooser._challenger
            if challenger is not None and self._challenger() is not challenger:
                self._challenger = weakref.ref(challenger)
                self.challenged += 1
            yield start

    def forget_around(self, rng: np.random.Generator) -> None:
        """Rows that the challenger has, rows that it has not, the newest and the oldest."""
        fed, total = self.chooser._challenger_rows, len(self.oracle.outputs)
        gone = {0, total - 1, *rng.integers(0, total, 20).tolist()}
        gone |= {row for row in range(fed - 2, fed + 3) if 0 <= row < total}
        assert self.monitor.forget(sorted(gone)) == self.oracle.forget(sorted(gone))


@every_story
def test_change_overs_happen_and_no_verdict_shows_it(name, batch, at_once, feeds):
    story = STORIES[name]
    watched = Watched(story)
    for _ in watched.batches(batch):
        pass
    audit(watched.monitor)
    assert tuple(watched.shapes) == story.shapes
    assert watched.monitor.explain().changes == len(story.shapes) - 1
    assert watched.oracle.pairs > len(watched.X) / 10, "there is too little to find"
    for fed in feeds:
        assert fed.rows <= SLICE * fed.decisions, "more than a slice for each decision"
        assert fed.largest <= SLICE * min(fed.decisions, 64)
    assert sum(fed.rows for fed in feeds) >= 256


@pytest.mark.parametrize(
    ("name", "batch"), [(name, min(one.batches)) for name, one in STORIES.items()]
)
def test_rows_may_be_forgotten_in_the_middle_of_a_challenge(name, batch, at_once):
    watched, rng, forgotten = Watched(STORIES[name]), random(7), 0
    for start in watched.batches(batch):
        busy = watched.chooser._challenger is not None
        if (busy and (batch > 1 or start % 16 == 0)) or start % 512 == 0:
            forgotten += busy
            watched.forget_around(rng)
            if busy and forgotten <= 3:
                audit(watched.monitor)
    audit(watched.monitor)
    assert forgotten > 0, "nothing was forgotten while a challenger caught up"
    assert len(watched.shapes) > 1


# Change after change


@pytest.fixture
def restless(monkeypatch, at_once):
    """A challenge is always due, soon decided, and mostly won."""
    monkeypatch.setattr(choosing, "_RACE", 20)
    monkeypatch.setattr(sketch, "_PAIRS", 10)
    monkeypatch.setattr(rotation, "sample_rows", lambda history: history.sample(60))
    turns, races = cycle(["flat", "tree", "tree", "flat", "flat", "tree"]), cycle(range(4))

    def due(self):
        kind = next(turns)
        rotates = self.history.rule.metric in ("l2", "cosine") and self.history.total > 1
        return self._try_flat("its turn") if kind == "flat" and rotates else self._try_tree()

    def cost(self, index, recent=None):
        if recent is None or index is self.index:
            return 1.0
        return 2.0 if next(races) == 3 else 0.0

    monkeypatch.setattr(Chooser, "_next_challenge", due)
    monkeypatch.setattr(Chooser, "cost", cost)


OUTPUTS = {
    "label": lambda n: (np.arange(n) * 7 % 12).tolist(),
    "number": lambda n: np.sin(np.arange(n) / 5),
    "probabilities": lambda n: random(2).dirichlet([0.5] * 3, n),
}
RADII = {"linf": 0.5, "l1": 6.0, "l2": 1.2, "cosine": 0.02}


RESTLESS = [
    ("linf", "label", 40, (1, 64)),
    ("l1", "number", 40, (1, 64)),
    ("l2", "label", 40, (1, 7, 64)),
    ("l2", "probabilities", 40, (1, 64)),
    ("l2", "number", 12, (1, 64)),
    ("cosine", "label", 12, (1, 64)),
    ("cosine", "number", 40, (1, 64, 300)),
]


@pytest.mark.parametrize(
    ("metric", "output", "width", "batch"),
    [(*case, batch) for *case, batches in RESTLESS for batch in batches],
)
def test_change_after_change_no_verdict_shows_it(metric, output, width, batch, restless):
    n = 1_300
    X, Z = echoed(noise(n, width), 0.1).astype(np.float32), OUTPUTS[output](n)
    rule = lw.Rule(metric, RADII[metric], output=output, delta=0.0 if output == "label" else 0.2)
    monitor, oracle, rng = lw.Monitor(rule), Foreseen(rule, X, Z), random(9)
    shapes = set()
    for start in range(0, n, batch):
        part = slice(start, start + batch)
        expected = oracle.observe_many(X[part], Z[part])
        if batch == 1:
            assert_same_verdict(monitor.observe(X[start], Z[start]), expected[0])
        else:
            verdicts = monitor.observe_many(X[part], Z[part], threads=int(rng.integers(1, 3)))
            assert_same_verdicts(verdicts, expected)
        shapes.add(monitor.explain().shape)
        if rng.random() < batch / 30:
            total = len(oracle.outputs)
            gone = rng.integers(0, total, int(rng.choice([1, 5, 60])))
            assert monitor.forget(gone) == oracle.forget(gone)
        if rng.random() < batch / 200:
            audit(monitor)
    audit(monitor)
    assert oracle.pairs > n / 10
    assert monitor.explain().changes >= (3 if batch < 300 else 2)
    tree = "tree" if width <= sketch.UNSKETCHED_WIDTH else "sketch tree"
    assert shapes == ({tree, "flat scan"} if metric in ("l2", "cosine") else {tree})


@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("name", ["sketch to flat, l2", "sketch revised, linf"])
def test_everything_may_be_forgotten_in_the_middle_of_a_challenge(name, batch, at_once):
    watched, gone = Watched(STORIES[name]), 0
    for _ in watched.batches(batch):
        total = len(watched.oracle.outputs)
        if watched.chooser._challenger is not None and gone < 2:
            gone += 1
            assert watched.monitor.forget(range(total)) == watched.oracle.forget(range(total))
            audit(watched.monitor)
    assert gone > 0
    audit(watched.monitor)


# The memory of the other


@pytest.fixture
def released(monkeypatch) -> dict[int, list[tuple[int, int]]]:
    """What was given back, by the address of its region."""
    seen: dict[int, list[tuple[int, int]]] = {}
    release = Region.release

    def noting(self, start, stop):
        seen.setdefault(self.address, []).append((start, stop))
        release(self, start, stop)

    monkeypatch.setattr(Region, "release", noting)
    return seen


def assert_given_back(index: Any, released: dict[int, list[tuple[int, int]]]) -> None:
    """Every page that the index used."""
    for region, used in index.state.dismantle():
        parts = sorted(released.get(region.address, []))
        reached = 0
        for start, stop in parts:
            assert start <= reached
            reached = max(reached, stop)
        assert reached >= used, f"{used - reached:,} bytes were kept"
        assert not region.memory[:used].any()


@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("won", [True, False], ids=["the challenger wins", "the challenger loses"])
@pytest.mark.parametrize("name", ["sketch to flat, l2", "sketch revised, linf", "rotation learnt"])
def test_the_index_that_lost_gives_its_memory_back(
    name, won, batch, at_once, released, monkeypatch
):
    """And a lost race changes nothing that anyone could see."""
    watched, before = Watched(STORIES[name]), None
    cost = Chooser.cost

    def dear(self, index, recent=None):
        if index is not self.index:
            return 0.0 if won else 1e300
        return cost(self, index, recent)

    monkeypatch.setattr(Chooser, "cost", dear)
    monkeypatch.setattr(choosing, "_SLICE_BYTES", 1 << 16)
    kept: list[Any] = []
    raced = False
    for _ in watched.batches(batch):
        chooser = watched.chooser
        if chooser._challenger is not None and not kept:
            kept = [chooser.index, chooser._challenger]
            before = (chooser.index, chooser.changes, chooser.reason)
        if kept and chooser._challenger is None and not chooser.busy:
            raced = True
            break
    assert raced and before is not None
    incumbent, challenger = kept
    after = (watched.chooser.index, watched.chooser.changes, watched.chooser.reason)
    assert (after == before) == (not won)
    assert watched.chooser.index is (challenger if won else incumbent)
    audit(watched.monitor)
    loser = incumbent if won else challenger
    assert_given_back(loser, released)
    forgotten = weakref.ref(loser)
    del loser, incumbent, challenger, kept, before, after
    gc.collect()
    assert forgotten() is None, "someone still holds on to it"


def test_a_lost_race_is_not_run_again_at_once(at_once, monkeypatch):
    monkeypatch.setattr(
        Chooser, "cost", lambda self, index, recent=None: 1e6 + 1e9 * (index is not self.index)
    )
    watched = Watched(STORIES["sketch revised twice"])
    for _ in watched.batches(1):
        pass
    assert watched.shapes == ["sketch tree"]
    assert watched.monitor.explain().changes == 0
    assert 1 <= watched.challenged <= 8, "each waits until the history is half as long again"


@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("error", [MemoryError, OSError])
@pytest.mark.parametrize("when", ["at once", "half way"])
@pytest.mark.parametrize("name", ["sketch to flat, l2", "sketch revised, linf"])
def test_without_room_for_a_challenger_the_index_in_use_stays(
    name, when, error, batch, at_once, monkeypatch
):
    watched, tries = Watched(STORIES[name]), []
    first = True
    for start in watched.batches(batch):
        if first:
            first = False
            for kind in (LiveTree, FlatScan):
                make, insert = kind.__init__, kind.insert

                def refusing(self, *given, make=make):
                    tries.append(0)
                    if when == "at once":
                        raise error("no room")
                    make(self, *given)

                def failing(self, first, size, threads=ALONE, insert=insert):
                    if threads is ALONE and first + size > 100:
                        raise error("no room left")
                    insert(self, first, size, threads)

                monkeypatch.setattr(kind, "__init__", refusing)
                monkeypatch.setattr(kind, "insert", failing)
        if start % 512 == 0:
            watched.forget_around(random(start))
    assert tries, "nothing was tried"
    assert watched.shapes == [watched.story.shapes[0]]
    assert watched.monitor.explain().changes == 0
    assert not watched.chooser.busy and watched.chooser._challenger is None
    audit(watched.monitor)


# Waiting for directions


@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("end", ["change", "load", "close"])
def test_no_decision_waits_for_directions(end, batch, monkeypatch):
    """They are found in a thread; meanwhile decisions come and rows go."""
    found, asked, made = Event(), Event(), Event()
    learn, make = rotation.learn, FlatScan.__init__

    def slowly(sample, rows):
        asked.set()
        assert found.wait(timeout=60)
        return learn(sample, rows)

    def making(self, *given):
        make(self, *given)
        made.set()

    monkeypatch.setattr(rotation, "learn", slowly)
    monkeypatch.setattr(FlatScan, "__init__", making)
    watched, rng, meanwhile = Watched(STORIES["sketch to flat, cosine"]), random(1), 0
    batches = watched.batches(batch)
    try:
        for _ in batches:
            if asked.is_set():
                meanwhile += 1
                assert watched.monitor.explain().shape == "sketch tree"
                if meanwhile % 100 == 1:
                    watched.forget_around(rng)
                    audit(watched.monitor)
            if meanwhile * batch >= 300:
                break
    finally:
        found.set()
    assert meanwhile * batch >= 300
    assert made.wait(timeout=120), "compiling is part of making it"
    if end == "close":
        watched.monitor.close()
        assert len(watched.monitor) == 0
        return
    if end == "load":
        start = len(watched.oracle.outputs)
        X, Z = watched.X[start:], watched.Z[start:]
        assert watched.monitor.load(X, Z) == watched.oracle.load(X, Z)
        assert not watched.chooser.busy or watched.chooser._challenger is None
    else:
        for _ in batches:
            pass
        assert watched.shapes == ["sketch tree", "flat scan"]
    audit(watched.monitor)


# Loads


@pytest.mark.parametrize("width", [20, 48])
@pytest.mark.parametrize(
    ("metric", "index"), [("linf", "auto"), ("l2", "auto"), ("l2", "live"), ("cosine", "flat")]
)
def test_a_large_load_is_built_at_once_whatever_was_in_use(metric, index, width):
    X, Z = echoed(noise(2_200, width), 0.1), (np.arange(2_200) % 3).tolist()
    rule = lw.Rule(metric, {"l2": 0.4 * np.sqrt(width), "cosine": 0.1, "linf": 0.9}[metric])
    monitor, oracle = lw.Monitor(rule, index=index), Foreseen(rule, X, Z)
    for start, middle, stop in ((0, 600, 700), (700, 1_200, 1_250), (1_250, 1_300, 2_100)):
        loaded, judged = slice(start, middle), slice(middle, stop)
        assert monitor.load(X[loaded], Z[loaded]) == oracle.load(X[loaded], Z[loaded])
        audit(monitor)
        expected = oracle.observe_many(X[judged], Z[judged])
        assert_same_verdicts(monitor.observe_many(X[judged], Z[judged]), expected)
        assert monitor.forget(range(start, stop, 7)) == oracle.forget(range(start, stop, 7))
        audit(monitor)
    for x, z in zip(X[2_100:], Z[2_100:], strict=True):
        assert_same_verdict(monitor.observe(x, z), oracle.observe(x, z))
    explanation = monitor.explain()
    assert oracle.pairs > 200
    assert explanation.reason and explanation.coordinates <= width
    if index != "auto":
        assert explanation.index == index


def test_a_load_on_top_of_a_flat_scan_that_took_over_from_a_tree(at_once):
    watched = Watched(STORIES["tree to flat"])
    for _ in watched.batches(64):
        if watched.shapes[-1] == "flat scan":
            break
    assert watched.shapes == ["tree", "flat scan"]
    start = len(watched.oracle.outputs)
    X, Z = watched.X[start:], watched.Z[start:]
    assert len(X) > start, "so that everything is built anew"
    assert watched.monitor.load(X[:-50], Z[:-50]) == watched.oracle.load(X[:-50], Z[:-50])
    audit(watched.monitor)
    assert_same_verdicts(
        watched.monitor.observe_many(X[-50:], Z[-50:]),
        watched.oracle.observe_many(X[-50:], Z[-50:]),
    )
