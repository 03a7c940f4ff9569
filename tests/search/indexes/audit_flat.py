"""Walk a flat scan and check that every remembered row sits where its seat says, as it should.

Rotates every row again in NumPy, in the kernel's own order of additions, so that codes must agree,
and errors up to the rounding of sums. (How far they may be from the truth is proved in
tests/search/kernels/test_flat.py.)

Cost: one pass over the history.
"""

from typing import Any

import numpy as np

from likewise.search.indexes.flat_index import FlatScan, code_bytes
from likewise.search.kernels import rotate_encode as turned
from likewise.search.kernels import table as t
from likewise.search.kernels.rotate_encode import FINER, FRONT, UNITS
from likewise.search.kernels.table import BLOCK


def audit_flat(index: FlatScan, known: int | None = None) -> None:
    """The blocks hold every remembered row below `known` once, and no other."""
    _Audit(index, index.state.history.total if known is None else known).run()


class _Audit:
    def __init__(self, index: FlatScan, known: int) -> None:
        self.state, self.history = index.state, index.state.history
        self.known = known
        self.axes, self.blocks = self.slot(t.AXES), self.slot(t.BLOCKS)
        self.groups = self.slot(t.TREES)
        self.alive = self.history.remembered_flags()[:known]
        width = self.history.out_width
        self.outputs = self.array(t.OUTPUTS, np.float64, known * width).reshape(known, width)
        self.seats = self.array(t.BLOCK_PLACES, np.int64, known)
        self.count = self.array(t.COUNT, np.int64, self.blocks)
        self.next = self.array(t.NEXT, np.int64, self.blocks)
        self.open = self.array(t.LEFT, np.int64, self.groups)
        self.ids = self.array(t.IDS, np.int64, self.blocks * BLOCK).reshape(-1, BLOCK)
        self.front, self.tail = code_bytes(self.axes)
        self.lanes = self.array(t.CODES, np.uint8, self.blocks * self.front * BLOCK)
        self.lanes = self.lanes.reshape(self.blocks, self.front, BLOCK)
        self.tails = self.array(t.TAILS, np.uint8, self.blocks * BLOCK * self.tail)
        self.tails = self.tails.reshape(self.blocks, BLOCK, self.tail)
        self.errors = self.array(t.ERRORS, np.float64, 2 * self.blocks).reshape(-1, 2)

    def slot(self, slot: int) -> int:
        return int(self.state.table[slot])

    def array(self, slot: int, dtype: Any, count: int) -> np.ndarray:
        return self.state.region(slot).view(dtype, count)

    def run(self) -> None:
        assert self.blocks <= self.slot(t.BLOCK_CAPACITY)
        assert ((self.count >= 0) & (self.count <= BLOCK)).all()
        self.check_seats()
        self.check_open()
        self.check_points()
        self.check_ranges()

    def check_seats(self) -> None:
        """Every remembered row in exactly one block, at its seat."""
        taken = np.arange(BLOCK) < self.count[:, None]
        seated = self.ids[taken]
        remembered = np.flatnonzero(self.alive)
        assert len(seated) == len(set(seated.tolist())), "a row sits in two places"
        assert sorted(seated.tolist()) == remembered.tolist(), "not the remembered rows"
        seats = self.seats[remembered]
        assert (self.ids.reshape(-1)[seats] == remembered).all(), "the seat is another's"
        assert taken.reshape(-1)[seats].all(), "a seat behind the last of its block"
        empty = np.broadcast_to(~taken[:, None, :], self.lanes.shape)
        assert not self.lanes[empty].any(), "a point that left is still there"
        assert not self.tails[~taken].any(), "a part of a point that left is still there"

    def group_of(self, rows: np.ndarray) -> np.ndarray:
        if self.slot(t.OUTPUT) != t.LABEL:
            return np.zeros(len(rows), dtype=np.int64)
        return np.minimum(self.outputs[rows, 0].astype(np.int64), self.groups - 1)

    def check_open(self) -> None:
        """A block with room is open to its own group, and only there; full ones to none."""
        listed: dict[int, int] = {}
        for group in range(self.groups):
            block = int(self.open[group])
            while block >= 0:
                assert block < self.blocks, f"block {block} was never made"
                assert block not in listed, f"block {block} is open twice"
                listed[block] = group
                block = int(self.next[block])
        full = self.count == BLOCK
        assert sorted(listed) == np.flatnonzero(~full).tolist(), "not the blocks that have room"
        assert (self.next[full] == -1).all()
        for block in range(self.blocks):
            groups = set(self.group_of(self.ids[block, : self.count[block]]).tolist())
            assert len(groups) <= 1, f"block {block} holds several groups"
            assert not groups or listed.get(block) in (None, *groups), f"block {block} is elsewhere"

    @np.errstate(all="ignore")
    def turned(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes and errors of all rows, as the kernel works them out."""
        settings, width = self.state._settings, self.history.width
        stored = self.history.rows[: self.known].reshape(self.known, width).astype(np.float64)
        factor = np.ones(self.known)
        if self.history.cosine:
            norms = self.array(t.NORMS, np.float64, self.known)
            factor = 1.0 / np.sqrt(np.where(self.alive != 0, norms, 1.0))
        values = stored * settings[t.PRESCALE] * factor[:, None]
        gaps = values - settings[t.CENTRE]
        a, turning = settings[t.DIRECTIONS], np.zeros((self.known, self.axes))
        whole = width - width % 4
        for j in range(0, whole, 4):
            one, two, three, four = (gaps[:, k, None] * a[k] for k in range(j, j + 4))
            turning += (one + two) + (three + four)
        for j in range(whole, width):
            turning += gaps[:, j, None] * a[j]
        numbers = settings[t.NUMBERS]
        errors = numbers[t.GAP_ERROR] * np.sqrt(in_order(gaps * gaps))
        errors += numbers[t.VALUE_ERROR] * np.sqrt(in_order(values * values))
        errors = np.where(np.isfinite(errors), errors, np.inf)
        turning = np.where(np.isfinite(turning), turning, 0.0)
        turning = np.clip(turning, -turned._CUT, turned._CUT)
        scale = np.where(np.arange(self.axes) < FRONT, UNITS, FINER * UNITS)
        units = np.floor(turning * scale + 0.5)
        codes = np.zeros((self.known, self.front + self.tail), dtype=np.uint8)
        codes[:, : self.axes] = units.astype(np.int64).astype(np.uint8)
        rests = (turning - units / scale) ** 2
        fronts, alls = rests[:, :FRONT].sum(axis=1), rests.sum(axis=1)
        return codes, errors[:, None] + np.sqrt(np.stack([fronts, alls], axis=1))

    def check_points(self) -> None:
        codes, errors = self.turned()
        for block in range(self.blocks):
            count = int(self.count[block])
            rows = self.ids[block, :count]
            front, tail = self.lanes[block, :, :count].T, self.tails[block, :count]
            assert (codes[rows] == np.hstack([front, tail])).all(), f"points of block {block}"
            least = errors[rows] * (1 - 1e-12)
            assert (least <= self.errors[block]).all(), f"error of block {block}"

    def check_ranges(self) -> None:
        width = self.slot(t.RANGE_WIDTH)
        if width == 0:
            return
        low = self.array(t.LOW, np.float64, self.blocks * width).reshape(-1, width)
        high = self.array(t.HIGH, np.float64, self.blocks * width).reshape(-1, width)
        for block in range(self.blocks):
            outputs = self.outputs[self.ids[block, : self.count[block]]]
            assert (outputs >= low[block]).all(), f"below the range of block {block}"
            assert (outputs <= high[block]).all(), f"above the range of block {block}"


def in_order(terms: np.ndarray) -> np.ndarray:
    return np.cumsum(terms, axis=1)[:, -1]
