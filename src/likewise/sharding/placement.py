"""Which shard holds which rows: segments of consecutive rows, dealt out in turn.

A plan says from which row on how many shards are dealt segments of what length. Adding a shard
begins another plan with the next row, and moves nothing that is placed. Plans are in the ledger.

Invariant: every row is in exactly one shard, and rows of a shard are in their order.
Cost: a few numbers for each plan; nothing for each segment.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import BadFile, BadRule
from likewise.tables.rows import Rows


class PlacementPlan(NamedTuple):
    """From row `first` on, segments of `segment` rows go to shards 0, 1, … `shards` - 1 in turn."""

    first: int
    shards: int
    segment: int


class Placement:
    """Where rows are, by plans in the order of their first rows."""

    def __init__(self, plans: Sequence[PlacementPlan]) -> None:
        self.plans = tuple(plans)
        self.shards = max(plan.shards for plan in self.plans)

    @classmethod
    def of(cls, stored: Any, rows: int, shards: int, segment: int) -> "Placement":
        """That of a ledger, and from here on over so many shards.

        stored: plans as the ledger has them, if it has any
        """
        plans = [_read_plan(plan) for plan in stored or ()]
        if not plans:
            return cls([PlacementPlan(0, shards, segment)])
        most = max(plan.shards for plan in plans)
        if shards < most:
            raise BadRule(
                f"shards is {shards}, and rows of this ledger are placed on {most}; expected at"
                f" least {most}. Nothing was changed.",
                setting="shards",
            )
        if (plans[-1].shards, plans[-1].segment) != (shards, segment):
            plans = [plan for plan in plans if plan.first < rows]
            plans.append(PlacementPlan(rows if plans else 0, shards, segment))
        return cls(plans)

    def to_lists(self) -> list[list[int]]:
        """The plans as the ledger keeps them."""
        return [list(plan) for plan in self.plans]

    def _spans(self) -> Iterator[tuple[PlacementPlan, int]]:
        """Each plan, and the row before which it ends."""
        ends = [plan.first for plan in self.plans[1:]]
        return zip(self.plans, [*ends, 1 << 62], strict=True)

    def shard_of(self, row: int) -> int:
        """The shard of a row."""
        plan = [plan for plan in self.plans if plan.first <= row][-1]
        return (row - plan.first) // plan.segment % plan.shards

    def count_left_in_segment(self, row: int) -> int:
        """How many rows from this one on are in the same segment."""
        for plan, end in self._spans():
            if row < end:
                return min(plan.segment - (row - plan.first) % plan.segment, end - row)
        raise AssertionError("the last plan has no end")

    def count_rows(self, shard: int, row: int) -> int:
        """How many rows of a shard are below a row."""
        return sum(_count_rows_of_plan(plan, shard, min(row, end)) for plan, end in self._spans())

    def to_local(self, shard: int, rows: Rows) -> Rows:
        """How many rows of a shard are below each of these: of its own, the numbers there."""
        counts = np.zeros(len(rows), np.int64)
        for plan, end in self._spans():
            if shard < plan.shards:
                placed = np.clip(rows, plan.first, end) - plan.first
                turns, rest = np.divmod(placed, plan.segment * plan.shards)
                counts += turns * plan.segment
                counts += np.clip(rest - shard * plan.segment, 0, plan.segment)
        return counts

    def shards_of(self, rows: Rows) -> Rows:
        """The shard of each row."""
        owners = np.empty(len(rows), np.int64)
        for plan, end in self._spans():
            some = (rows >= plan.first) & (rows < end)
            owners[some] = (rows[some] - plan.first) // plan.segment % plan.shards
        return owners

    def to_global(self, shard: int, local: Rows) -> Rows:
        """The rows that a shard has under these numbers."""
        rows = np.empty(len(local), np.int64)
        before = 0
        for plan, end in self._spans():
            held = _count_rows_of_plan(plan, shard, end)
            if held == 0:
                continue
            some = (local >= before) & (local < before + held)
            turn, place = np.divmod(local[some] - before, plan.segment)
            rows[some] = plan.first + (turn * plan.shards + shard) * plan.segment + place
            before += held
        return rows


def _count_rows_of_plan(plan: PlacementPlan, shard: int, end: int) -> int:
    """How many rows of a shard a plan has placed below a row."""
    if shard >= plan.shards or end <= plan.first:
        return 0
    turns, rest = divmod(end - plan.first, plan.segment * plan.shards)
    return turns * plan.segment + min(max(rest - shard * plan.segment, 0), plan.segment)


def _read_plan(stored: Any) -> PlacementPlan:
    whole = isinstance(stored, list) and [type(one) for one in stored] == [int] * 3
    if not whole or stored[0] < 0 or stored[1] < 1 or stored[2] < 1:
        raise BadFile(
            f"the ledger places rows by {stored!r}, which makes no sense: it was altered."
        )
    return PlacementPlan(*stored)
