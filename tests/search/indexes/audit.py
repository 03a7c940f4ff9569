"""Walk a monitor's index and check everything that the kernels' headers promise.

Reads the arrays behind a tree directly and works every quantity out again in NumPy: positions,
codes, extents, leaves. Between calls all of it must hold, a rebuild or a challenge under way
included. A flat scan is walked in audit_flat.py.

Cost: one pass over the history.
Not here: verdicts. They are compared with the oracle by the tests that call this.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import likewise as lw
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.flat_index import FlatScan
from likewise.search.indexes.live_tree import LiveTree
from likewise.search.kernels import add
from likewise.search.kernels import table as t
from likewise.search.kernels.table import BLOCK
from tests.search.indexes.audit_flat import audit_flat
from tests.support.oracle import in_lanes

PENDING = -2


@dataclass
class Below:
    """What really lies below a node."""

    rows: np.ndarray
    leaves: int
    depth: int


def audit(monitor: lw.Monitor) -> None:
    """Every invariant, or an AssertionError that says which one fails and where."""
    chooser = monitor.core.engine.chooser
    if chooser is None:
        assert monitor.core.engine.index is None and len(monitor) == 0
        return
    history = chooser.history
    assert monitor.core.engine.history is history and monitor.core.engine.index is chooser.index
    assert history.table is chooser.index.state.table, "the index in use counts the rows"
    assert monitor.rows == history.total and len(monitor) == history.live
    audit_history(history)
    audit_index(chooser.index, history.total)
    if chooser._challenger is not None:
        assert chooser._challenger is not chooser.index
        assert 0 <= chooser._challenger_rows <= history.total
        audit_index(chooser._challenger, chooser._challenger_rows)
    explanation = monitor.explain()
    assert explanation.depth == chooser.index.depth()
    assert explanation.leaves == chooser.index.leaves()


def audit_index(index: LiveTree | FlatScan, known: int) -> None:
    """An index holds every remembered row below `known`, and no other."""
    if isinstance(index, FlatScan):
        audit_flat(index, known)
    else:
        _Audit(index, known).run()


def audit_history(history: History) -> None:
    """What is forgotten is gone, what is remembered is counted."""
    total, alive = history.total, history.remembered_flags()
    assert set(np.unique(alive).tolist()) <= {0, 1}
    assert int(np.count_nonzero(alive)) == history.live
    assert total <= history.capacity <= history.reserved
    assert len(history.rows) == history.capacity
    gone = alive == 0
    outputs = history.region(t.OUTPUTS).view(np.float64, total * history.out_width)
    assert not history.rows[:total][gone].any(), "a forgotten input is still there"
    assert not outputs.reshape(total, -1)[gone].any(), "a forgotten output is still there"
    if history.cosine:
        norms = history.region(t.NORMS).view(np.float64, total)
        stored = history.rows[:total].reshape(total, -1).astype(np.float64)
        twin = in_lanes(history.weights[: history.width] * stored * stored)
        assert norms.tolist() == np.where(gone, 0.0, twin).tolist(), "norms are not those of rows"


class _Audit:
    def __init__(self, index: LiveTree, known: int) -> None:
        self.index = index
        self.state = index.state
        self.table = self.state.table
        self.history = self.state.history
        self.total = known
        self.axes = self.slot(t.AXES)
        self.trees = self.slot(t.TREES)
        self.phase = self.slot(t.JOB_PHASE)
        nodes, blocks = self.slot(t.NODES), self.slot(t.BLOCKS)
        self.axis, self.left = self.nodes(t.AXIS), self.nodes(t.LEFT)
        self.parent, self.leaves = self.nodes(t.PARENT), self.nodes(t.LEAVES)
        self.split = self.array(t.SPLIT, np.float64, nodes)
        self.range_width = self.slot(t.RANGE_WIDTH)
        shape = (nodes, self.range_width)
        self.low = self.array(t.LOW, np.float64, nodes * self.range_width).reshape(shape)
        self.high = self.array(t.HIGH, np.float64, nodes * self.range_width).reshape(shape)
        self.box = self.array(t.BOX, np.float32, nodes * 2 * self.axes)
        self.box = self.box.reshape(nodes, 2, self.axes).astype(np.float64)
        self.codes = self.array(t.CODES, np.uint8, blocks * self.axes * BLOCK)
        self.codes = self.codes.reshape(blocks, self.axes, BLOCK)
        self.ids = self.array(t.IDS, np.int64, blocks * BLOCK).reshape(blocks, BLOCK)
        self.count = self.array(t.COUNT, np.int64, blocks)
        self.next = self.array(t.NEXT, np.int64, blocks)
        self.alive = self.history.remembered_flags()[:known]
        self.marks = self.array(t.JOB_MARKS, np.uint8, known)
        self.outputs = self.array(t.OUTPUTS, np.float64, known * self.history.out_width)
        self.outputs = self.outputs.reshape(known, self.history.out_width)
        self.stored = self.history.rows[:known].reshape(known, self.history.width)
        self.gap_scale = self.settings(t.GAP_SCALE)
        self.positions = self._positions()
        self.used_nodes: list[int] = []
        self.used_blocks: list[int] = []

    # The arrays

    def slot(self, slot: int) -> int:
        return int(self.table[slot])

    def nodes(self, slot: int) -> np.ndarray:
        return self.state.nodes(slot)

    def array(self, slot: int, dtype: Any, count: int) -> np.ndarray:
        return self.state.region(slot).view(dtype, count)

    def settings(self, slot: int) -> np.ndarray:
        return self.state._settings[slot]

    def _positions(self) -> np.ndarray:
        """Where rows lie in the tree, worked out from the sketch, which is that of the rows."""
        sketch = self.stored
        if self.index.coordinates is not None:
            coordinates = self.settings(t.COORDINATES)
            assert coordinates.tolist() == self.index.coordinates.tolist()
            assert len(set(coordinates.tolist())) == len(coordinates) == self.axes
            sketch = self.array(t.PLACES, self.history.dtype, self.total * self.axes)
            sketch = sketch.reshape(self.total, self.axes)
            assert (sketch == self.stored[:, coordinates]).all(), "a sketch is not that of its row"
        places = sketch.astype(np.float64)
        if self.slot(t.METRIC) != t.COSINE:
            return places
        norms = self.array(t.NORMS, np.float64, self.total)
        factor = 1.0 / np.sqrt(np.where(self.alive != 0, norms, 1.0))
        return places * self.settings(t.PRESCALE) * factor[:, None]

    # The checks

    def run(self) -> None:
        self.check_capacities()
        self.check_marks()
        below = [self.walk(root, -1, root) for root in range(self.trees)]
        found = np.concatenate([one.rows for one in below])
        remembered = np.flatnonzero(self.alive)
        assert len(found) == len(set(found.tolist())), "a row is in two blocks"
        assert sorted(found.tolist()) == remembered.tolist(), "not the remembered rows"
        assert max(one.depth for one in below) == self.index.depth()
        assert sum(one.leaves for one in below) == self.index.leaves()
        self.check_rebuild()
        self.check_leaks()

    def check_marks(self) -> None:
        assert set(np.unique(self.marks).tolist()) <= {0, 1}
        if self.phase in (add.IDLE, add.FREE):
            assert not self.marks.any(), "rows are marked, yet nothing is logged"

    def check_capacities(self) -> None:
        for used, capacity in (
            (t.NODES, t.NODE_CAPACITY),
            (t.BLOCKS, t.BLOCK_CAPACITY),
        ):
            assert self.slot(used) <= self.slot(capacity)
        assert 0 <= self.slot(t.PARTED_COUNT) <= t.PARTED_MOST

    def chain(self, block: int) -> list[int]:
        """A leaf's blocks; each is now known to be in use."""
        blocks = []
        while block >= 0:
            assert block < len(self.count), f"block {block} was never made"
            assert block not in blocks, f"the chain of block {block} is a circle"
            blocks.append(block)
            block = int(self.next[block])
        self.used_blocks += blocks
        return blocks

    def rows_of(self, block: int) -> np.ndarray:
        count = int(self.count[block])
        assert 0 <= count <= BLOCK
        rows = self.ids[block, :count]
        assert ((rows >= 0) & (rows < self.total)).all(), f"block {block} has rows that never were"
        return rows

    def walk(self, root: int, parent: int, tree: int | None) -> Below:
        """Check all nodes from `root` down, children before parents, without recursion."""
        order, stack = [], [(root, parent, 1)]
        while stack:
            node, above, depth = stack.pop()
            assert self.parent[node] == above, f"node {node} has parent {self.parent[node]}"
            order.append((node, depth))
            self.used_nodes.append(node)
            if self.axis[node] >= 0:
                first = int(self.left[node])
                stack += [(first, node, depth + 1), (first + 1, node, depth + 1)]
        below: dict[int, Below] = {}
        for node, depth in reversed(order):
            if self.axis[node] >= 0:
                first = int(self.left[node])
                below[node] = self.check_inner(node, below.pop(first), below.pop(first + 1))
            else:
                below[node] = self.check_leaf(node, depth)
            self.check_extent(node, below[node].rows)
        if tree is not None and self.slot(t.OUTPUT) == t.LABEL:
            labels = self.outputs[below[root].rows, 0]
            assert (np.minimum(labels, self.trees - 1) == tree).all(), f"labels in tree {tree}"
        return below[root]

    def check_inner(self, node: int, left: Below, right: Below) -> Below:
        axis, split = int(self.axis[node]), self.split[node]
        assert axis < self.axes and self.gap_scale[axis] > 0, f"node {node} has axis {axis}"
        assert (self.positions[left.rows, axis] < split).all(), f"left of node {node}"
        assert (self.positions[right.rows, axis] >= split).all(), f"right of node {node}"
        leaves = left.leaves + right.leaves
        assert self.leaves[node] == leaves, f"node {node}: {self.leaves[node]}, really {leaves}"
        first = int(self.left[node])
        for child in (first, first + 1):
            assert (self.box[node, 0] <= self.box[child, 0]).all(), f"box of {child} in {node}"
            assert (self.box[node, 1] >= self.box[child, 1]).all(), f"box of {child} in {node}"
            assert (self.low[node] <= self.low[child]).all(), f"range of {child} in {node}"
            assert (self.high[node] >= self.high[child]).all(), f"range of {child} in {node}"
        return Below(np.concatenate([left.rows, right.rows]), leaves, max(left.depth, right.depth))

    def check_leaf(self, node: int, depth: int) -> Below:
        assert self.axis[node] == -1, f"node {node} has axis {self.axis[node]}"
        assert self.leaves[node] == 1
        blocks = self.chain(int(self.left[node]))
        assert blocks, f"leaf {node} has no block"
        rows = [self.rows_of(block) for block in blocks]
        further = np.concatenate([*rows[1:], np.empty(0, dtype=np.int64)])
        weighed = self.positions[further][:, self.gap_scale > 0]
        assert (weighed == weighed[:1]).all(), f"leaf {node} chains points that differ"
        for block, inside in zip(blocks, rows, strict=True):
            self.check_codes(block, inside)
        return Below(np.concatenate(rows), 1, depth)

    def check_codes(self, block: int, rows: np.ndarray) -> None:
        clamp = self.settings(t.NUMBERS)[t.CLAMP]
        with np.errstate(over="ignore", under="ignore"):
            units = self.positions[rows] * self.settings(t.CODE_SCALE)
        twin = np.floor(np.clip(units, -clamp, clamp)).astype(np.int64) % 256
        assert (twin == self.codes[block, :, : len(rows)].T).all(), f"codes of block {block}"

    def check_extent(self, node: int, rows: np.ndarray) -> None:
        places, outputs = self.positions[rows], self.outputs[rows]
        assert (places >= self.box[node, 0]).all(), f"below the box of node {node}"
        assert (places <= self.box[node, 1]).all(), f"above the box of node {node}"
        if self.range_width:
            assert (outputs >= self.low[node]).all(), f"below the range of node {node}"
            assert (outputs <= self.high[node]).all(), f"above the range of node {node}"

    # A rebuild under way

    def rows_below(self, node: int) -> np.ndarray:
        """The rows below a node of the tree; what is checked is checked elsewhere."""
        rows, stack = [np.empty(0, dtype=np.int64)], [node]
        while stack:
            node = stack.pop()
            if self.axis[node] >= 0:
                stack += [int(self.left[node]), int(self.left[node]) + 1]
                continue
            block = int(self.left[node]) if self.axis[node] == -1 else -1
            while block >= 0:
                rows.append(self.rows_of(block))
                block = int(self.next[block])
        return np.concatenate(rows)

    def check_rebuild(self) -> None:
        """The rows of the old subtree are those placed, those still to place, and the logged."""
        if self.phase == add.IDLE:
            return
        stack = self.array(t.JOB_STACK, np.int64, 3 * self.slot(t.JOB_TOP)).reshape(-1, 3)
        if self.phase == add.FREE:
            for item in stack[:, 2].tolist():
                self.note_garbage(item)
            return
        job_rows = self.array(t.JOB_IDS, np.int64, self.slot(t.JOB_COUNT))
        log = self.array(t.JOB_LOG, np.int64, self.slot(t.JOB_LOGGED))[self.slot(t.JOB_APPLIED) :]
        logged = log[self.alive[log] != 0]
        marked = np.flatnonzero(self.marks)
        assert sorted(log.tolist()) == marked.tolist(), "what is logged is marked, and logged once"
        old = self.rows_below(self.slot(t.JOB_NODE))
        if self.phase == add.COLLECT:
            waiting = [
                self.rows_below(item) if item >= 0 else self.chain_rows(-1 - item)
                for item in stack[:, 2].tolist()
            ]
            waiting = np.concatenate([np.empty(0, dtype=np.int64), *waiting])
            waiting = waiting[self.marks[waiting] == 0]
            parts = [job_rows[self.alive[job_rows] != 0], waiting, logged]
        else:
            segments = [job_rows[first:last] for first, last, _ in stack.tolist()]
            if self.phase in (add.PARTITION, add.EQUAL):
                segments.append(job_rows[self.slot(t.JOB_FROM) : self.slot(t.JOB_TO)])
            elif self.phase == add.CHAIN:
                segments.append(job_rows[self.slot(t.JOB_I) : self.slot(t.JOB_TO)])
            waiting = np.concatenate([np.empty(0, dtype=np.int64), *segments])
            placed = self.note_new(self.trees + 2)
            parts = [placed, waiting[self.alive[waiting] != 0], logged]
        both = np.concatenate(parts)
        assert len(both) == len(set(both.tolist())), "a row would be there twice after the exchange"
        assert sorted(both.tolist()) == sorted(old.tolist()), "rows would be lost in the exchange"

    def chain_rows(self, block: int) -> np.ndarray:
        rows = [np.empty(0, dtype=np.int64)]
        while block >= 0:
            rows.append(self.rows_of(block))
            block = int(self.next[block])
        return np.concatenate(rows)

    def note_new(self, root: int) -> np.ndarray:
        """The subtree being built: whole if only the log is left, else with pending nodes."""
        if self.phase == add.LOG:
            rows = self.walk(root, -1, None).rows
            self.used_nodes.remove(root)
            return rows
        rows, stack = [np.empty(0, dtype=np.int64)], [root]
        while stack:
            node = stack.pop()
            if node != root:
                self.used_nodes.append(node)
            if self.axis[node] >= 0:
                first = int(self.left[node])
                assert self.parent[first] == self.parent[first + 1] == node
                stack += [first, first + 1]
            elif self.axis[node] == -1:
                blocks = self.chain(int(self.left[node]))
                rows.append(np.concatenate([self.rows_of(block) for block in blocks]))
                self.check_extent(node, rows[-1])
            else:
                assert self.axis[node] == PENDING
        return np.concatenate(rows)

    def note_garbage(self, item: int) -> None:
        """Nodes and blocks of the old subtree that are still to be freed."""
        stack = [item]
        while stack:
            item = stack.pop()
            if item < 0:
                self.chain(-1 - item)
                continue
            for node in (item, item + 1):
                self.used_nodes.append(node)
                below = int(self.left[node])
                if self.axis[node] >= 0:
                    stack.append(below)
                elif below >= 0:
                    stack.append(-1 - below)

    # Nothing is lost

    def check_leaks(self) -> None:
        """Every node and every block is in use or free, and not both."""
        free_pairs = self.follow(self.slot(t.FREE_PAIR), self.left)
        free_blocks = self.follow(self.slot(t.FREE_BLOCK), self.next)
        nodes = self.used_nodes + [node for pair in free_pairs for node in (pair, pair + 1)]
        reserved = range(self.trees, self.trees + 4)  # for moving and for the rebuild's root
        assert not set(nodes) & set(reserved)
        self.assert_all(nodes + list(reserved), len(self.axis), "node")
        self.assert_all(self.used_blocks + free_blocks, len(self.count), "block")

    @staticmethod
    def follow(item: int, links: np.ndarray) -> list[int]:
        items = []
        while item >= 0:
            items.append(item)
            assert len(items) <= len(links), "the free list is a circle"
            item = int(links[item])
        return items

    @staticmethod
    def assert_all(items: list[int], count: int, what: str) -> None:
        times = np.bincount(np.array(items, dtype=np.int64), minlength=count)
        assert len(times) == count, f"{what} {len(times) - 1} was never made"
        twice, never = np.flatnonzero(times > 1), np.flatnonzero(times == 0)
        assert not len(twice), f"{what} {twice[:5]} is used twice, or used and free"
        assert not len(never), f"{what} {never[:5]} is neither used nor free"
