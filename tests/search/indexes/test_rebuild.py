"""Rebuilds: begun where depth demands one, stopped in every phase, disturbed by everything."""

import math

import numpy as np
import pytest

import likewise as lw
from likewise.search.indexes import live_tree
from likewise.search.kernels import add, rebuild
from likewise.search.kernels import table as t
from likewise.search.kernels.maintain_tree import maintain_tree
from likewise.search.kernels.table import BLOCK
from tests.search.indexes.beside import Beside
from tests.search.indexes.shapes import drift, duplicates, random, shells
from tests.search.kernels.calling import compiled
from tests.support.strategies import METRICS

pytestmark = pytest.mark.pairwise

PHASES = {
    "collect": add.COLLECT,
    "segment": add.SEGMENT,
    "partition": add.PARTITION,
    "equal": add.EQUAL,
    "chain": add.CHAIN,
    "log": add.LOG,
    "free": add.FREE,
}
FAR_TOO_MANY = 20_000  # steps of any rebuild here

_start_rebuild = compiled(rebuild.start_rebuild)


def phase(both: Beside) -> int:
    return int(both.table[t.JOB_PHASE])


def begin(both: Beside, node: int = 0) -> None:
    """Begin a rebuild, after any that the tree began of itself."""
    finish(both)
    _start_rebuild(both.table, node)


def finish(both: Beside, budget: int = 5_000) -> None:
    for _ in range(FAR_TOO_MANY):
        if phase(both) == add.IDLE:
            return
        both.monitor.core.engine.index.state.ensure(0, 256)
        maintain_tree(both.table.ctypes.data, budget)
    raise AssertionError("the rebuild does not end")


def advance_to(both: Beside, wanted: int) -> None:
    """Work on the rebuild in the smallest steps until it is in a phase."""
    for _ in range(10 * FAR_TOO_MANY):
        if phase(both) == wanted:
            return
        assert phase(both) != add.IDLE, "the rebuild never came to that phase"
        maintain_tree(both.table.ctypes.data, 1 if phase(both) != add.PARTITION else 50)
    raise AssertionError("the rebuild does not end")


@pytest.fixture
def slowly(monkeypatch):
    """Decisions leave a rebuild almost where it was."""
    monkeypatch.setattr(live_tree, "_MAINTENANCE_BUDGET", 20)


def mixed(n: int, seed: int = 5, dims: int = 3) -> np.ndarray:
    """Points all over, and points so often repeated that they chain."""
    rng = random(seed)
    points = 0.1 + rng.random((n, dims))
    repeated = rng.random(n) < 0.4
    points[repeated] = points[rng.integers(0, 3, int(repeated.sum()))]
    return points


def rule_for(metric: str) -> lw.Rule:
    return lw.Rule(metric, 1e-4 if metric == "cosine" else 0.05)


def keep_the_index(both: Beside) -> None:
    """No other may take over from now on: it would have no part in the rebuild."""
    chooser = both.monitor.core.engine.chooser
    chooser._job = chooser._challenger = None
    chooser._next_challenge = lambda: None
    both.monitor._busy = False


# Where depth demands it


@pytest.mark.long
@pytest.mark.parametrize("metric", ["linf", "l1", "l2"])
def test_depth_that_no_plane_can_mend_is_met_by_a_rebuild(metric):
    both, n = Beside(lw.Rule(metric, 1e-6)), 30_000
    for part in np.array_split(shells(n), 10):
        both.observe(part)
        both.audit()
    explanation = both.monitor.explain()
    assert explanation.subtrees_rebuilt > 0
    assert explanation.depth <= 5 * math.log2(n), "a rebuild may be under way, but not far behind"
    assert both.ask_some(random(), 60) > 60


@pytest.mark.parametrize("metric", ["linf", "cosine"])
def test_a_sketch_too_deep_is_met_by_a_rebuild(metric):
    """Seven coordinates of forty close in on a corner, and rows are forgotten all the while."""
    both, n = Beside(lw.Rule(metric, 1e-6)), 9_000
    X = np.full((n, 40), 0.5)
    X[:, 5:30:4] = 1e-3 + shells(n, dims=7, each=40)
    for start in range(0, n, 1_000):
        both.observe(X[start : start + 1_000])
        both.audit()
        both.forget(range(start // 2, start // 2 + 300))
        both.audit()
    explanation = both.monitor.explain()
    assert explanation.shape == "sketch tree" and explanation.coordinates == 24
    assert explanation.subtrees_rebuilt > 0
    assert explanation.depth <= 5 * math.log2(n)
    assert both.ask_some(random(), 60) > 30


@pytest.mark.parametrize("threads", [1, 2])
def test_a_rebuild_in_the_middle_of_a_batch_loses_nothing(threads):
    both, X = Beside(lw.Rule("linf", 1e-6)), shells(30_000)
    both.observe_many(X[:3_000], threads=threads)
    both.observe_many(X[3_000:10_000], threads=threads)
    both.audit()
    both.observe_many(X[10_000:], threads=threads)
    both.audit()
    assert both.monitor.explain().subtrees_rebuilt > 0
    assert both.ask_some(random(), 40) > 40


def test_a_window_over_shells_is_rebuilt_while_rows_are_forgotten(slowly):
    both, X = Beside(lw.Rule("linf", 1e-6)), shells(12_000)
    for start in range(0, 12_000, 50):
        both.observe(X[start : start + 50])
        if start >= 5_000:
            both.forget(range(start - 5_000, start - 4_950))
        if start % 600 == 0:
            both.audit()
            both.ask_some(random(start), 3)
    assert both.monitor.explain().subtrees_rebuilt > 0
    both.audit()
    assert both.ask_some(random(), 40) > 0


# In every phase


@pytest.mark.parametrize("dims", [3, 40])
@pytest.mark.parametrize("metric", METRICS)
def test_verdicts_stay_exact_through_every_phase_of_a_rebuild(metric, dims, slowly):
    both, rng, seen, found = Beside(rule_for(metric)), random(), set(), 0
    both.observe(mixed(4_000, dims=dims))
    assert both.monitor.explain().shape == ("tree" if dims == 3 else "sketch tree")
    keep_the_index(both)
    begin(both)
    for steps in range(FAR_TOO_MANY):
        now = phase(both)
        if now == add.IDLE:
            break
        if now not in seen or steps % 20 == 0:
            both.audit()
            found += both.ask_some(rng, 2)
        seen.add(now)
        deed = steps % 4
        if deed == 0:
            both.observe(mixed(3, steps, dims))
        elif deed == 1:
            both.forget(rng.integers(len(both.oracle.outputs), size=2))
        maintain_tree(both.table.ctypes.data, int(rng.choice([1, 20, 300])))
    assert phase(both) == add.IDLE, "the rebuild does not end"
    assert seen == set(PHASES.values())
    both.audit()
    assert found + both.ask_some(rng, 60) > 100


@pytest.mark.parametrize("when", PHASES.values(), ids=PHASES)
@pytest.mark.parametrize(("metric", "dims"), [("l2", 3), ("cosine", 3), ("l1", 40)])
def test_pages_may_be_forgotten_in_any_phase(metric, dims, when):
    both = Beside(rule_for(metric))
    both.load(mixed(11_000, dims=dims))
    keep_the_index(both)
    begin(both)
    if when in (add.LOG, add.FREE):  # enough in the log to reach beyond a page of it
        both.observe(mixed(64, 1, dims))
    advance_to(both, when)
    both.forget(range(9_000))
    both.audit()
    finish(both)
    both.audit()
    assert both.ask_some(random(), 60) > 60


@pytest.mark.parametrize("when", PHASES.values(), ids=PHASES)
@pytest.mark.parametrize("metric", ["linf", "cosine"])
def test_everything_may_be_forgotten_in_any_phase(metric, when, slowly):
    both = Beside(rule_for(metric))
    both.observe(mixed(3_000))
    begin(both)
    both.observe(mixed(10, seed=1))
    advance_to(both, when)
    both.forget(range(3_010))
    both.audit()
    assert both.ask_some(random(), 20) == 0
    finish(both)
    both.audit()
    both.observe(mixed(1_000, seed=2))
    both.audit()
    assert both.ask(mixed(40, seed=2)) > 40


@pytest.mark.parametrize("when", PHASES.values(), ids=PHASES)
def test_a_load_ends_the_rebuild_under_way(when):
    both = Beside(rule_for("l2"))
    both.observe(mixed(3_000))
    begin(both)
    both.observe(mixed(1, seed=1))
    advance_to(both, when)
    both.load(mixed(4_000, seed=2))
    assert phase(both) == add.IDLE
    both.audit()
    assert both.ask_some(random(), 40) > 40


@pytest.mark.parametrize("when", PHASES.values(), ids=PHASES)
def test_a_batch_may_arrive_in_any_phase(when, slowly):
    both = Beside(rule_for("linf"))
    both.observe(mixed(3_000))
    begin(both)
    both.observe(mixed(1, seed=1))
    advance_to(both, when)
    both.observe_many(drift(3_000, 3) % 1.0 + 0.1, threads=2)
    both.audit()
    finish(both)
    both.audit()
    assert both.ask_some(random(), 40) > 40


def test_the_smallest_steps_end_too():
    both = Beside(rule_for("l1"))
    both.observe(mixed(400))
    begin(both)
    for _ in range(FAR_TOO_MANY):
        if phase(both) == add.IDLE:
            break
        maintain_tree(both.table.ctypes.data, 1)
    assert phase(both) == add.IDLE
    both.audit()
    assert both.ask_some(random(), 40) > 40


@pytest.mark.parametrize("remembered", [3_000, 3_007, 3_015])
def test_a_rebuild_ends_although_as_many_are_forgotten_as_come(remembered):
    both = Beside(rule_for("linf"))
    both.observe(mixed(remembered))
    begin(both)
    X = mixed(2_000, seed=1)
    for row in range(2_000):
        both.observe(X[row : row + 1])
        both.forget(row)
    assert phase(both) == add.IDLE
    both.audit()
    assert both.ask_some(random(), 40) > 40


@pytest.mark.long
def test_planes_are_lifted_beside_a_rebuild(slowly):
    both, X = Beside(lw.Rule("linf", 0.3)), drift(16_000, 3)
    both.observe(X[:6_000])
    begin(both)
    advance_to(both, add.SEGMENT)
    lifted = both.monitor.explain().planes_lifted
    for part in np.array_split(X[6_000:], 20):
        both.observe(part)
        both.audit()
    assert both.monitor.explain().planes_lifted > lifted
    finish(both)
    both.audit()
    assert both.ask_some(random(), 40) > 40


def test_a_subtree_below_the_root_is_rebuilt_in_its_place():
    for node_depth in (1, 2, 3):
        both = Beside(rule_for("l2"))
        both.observe(duplicates(5_000))
        node = 0
        for _ in range(node_depth):
            node = int(both.monitor.core.engine.index.state.nodes(t.LEFT)[node])
        begin(both, node)
        both.observe(duplicates(300) + 0.001)
        both.forget(range(0, 5_000, 7))
        both.audit()
        finish(both)
        both.audit()
        assert both.ask_some(random(), 40) > 40


def blocks_with(both: Beside, row: int) -> list[np.ndarray]:
    """The rows of each block of the chain that begins with the block of `row`."""
    state = both.monitor.core.engine.index.state
    blocks = int(state.table[t.BLOCKS])
    ids = state.region(t.IDS).view(np.int64, blocks * BLOCK).reshape(blocks, BLOCK)
    count = state.region(t.COUNT).view(np.int64, blocks)
    following = state.region(t.NEXT).view(np.int64, blocks)
    (block,) = (b for b in range(blocks) if row in ids[b, : count[b]])
    chain = []
    while block >= 0:
        chain.append(ids[block, : count[block]].copy())
        block = int(following[block])
    return chain


@pytest.mark.parametrize("metric", ["linf", "cosine"])
def test_equal_points_forgotten_during_a_rebuild_elsewhere_do_not_mislead_a_later_split(metric):
    """Blocks of a chain stay empty until the rebuild ends; then the chain's leaf is split."""
    here, there, between = np.array([[[1.0, 1.0]], [[-5.0, 1.0]], [[1.0, 0.5]]])
    both = Beside(lw.Rule(metric, 1e-3 if metric == "cosine" else 0.1))
    both.observe(there + 0.1 * random().random((500, 2)))  # to be rebuilt
    both.observe(np.tile(here, (400, 1)))  # chains
    state = both.monitor.core.engine.index.state
    assert state.nodes(t.AXIS)[0] >= 0, "the two groups lie apart"
    begin(both, int(state.nodes(t.LEFT)[0]))
    chain = blocks_with(both, 899)
    assert len(chain) >= 3
    both.forget(chain[1])
    both.audit()
    finish(both)
    both.observe(np.tile(between, (300, 1)))
    both.audit()
    assert both.ask(np.concatenate([here, there, between])) > 500


def test_row_numbers_beyond_a_rebuild_of_forgotten_rows_are_not_confused():
    """Blocks are reused: what an old block said of its rows must not be believed."""
    for seed in range(3):
        rng = random(seed)
        both = Beside(lw.Rule("l1", 0.01))
        both.observe(mixed(1_500, seed))
        for _ in range(6):
            begin(both)
            for _step in range(12):
                maintain_tree(both.table.ctypes.data, int(rng.choice([1, 50, 400, 3_000])))
                alive = np.flatnonzero(both.oracle.alive)
                both.forget(rng.choice(alive, min(len(alive) - 1, 60), replace=False))
                both.observe(mixed(60, seed=int(rng.integers(1 << 30))))
            both.audit()
            finish(both)
            both.audit()
        assert both.ask_some(rng, 60) > 60
