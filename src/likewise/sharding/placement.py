"""Says which shard holds which rows: segments of consecutive rows go to the shards in turn.

A plan says from which row on, over how many shards, in segments of what length. Adding a shard
begins another plan with the next row, and moves nothing that is placed. The ledger has the plans.

Invariant: every row is in exactly one shard, and rows of a shard are in their order.
Cost: a few numbers for each plan; nothing for each segment.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import BadFile, BadRule
from likewise.tables.array_types import Rows


class PlacementPlan(NamedTuple):
    """Sends segments of `segment` rows, from row `first` on, to shards 0, 1, … in turn."""

    first: int
    shards: int
    segment: int


class Placement:
    """Finds rows, by plans in the order of their first rows."""

    def __init__(self, plans: Sequence[PlacementPlan]) -> None:
        self.plans = tuple(plans)
        self.shards = max(plan.shards for plan in self.plans)

    @classmethod
    def of(cls, stored: Any, rows: int, shards: int, segment: int) -> "Placement":
        """Return the placement of a ledger, with `shards` shards for its next rows.

        stored  plans as the ledger has them, if it has any
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
        """Return the plans as the ledger keeps them."""
        return [list(plan) for plan in self.plans]

    def _spans(self) -> Iterator[tuple[PlacementPlan, int]]:
        """Yield each plan, and the row before which it ends."""
        ends = [plan.first for plan in self.plans[1:]]
        return zip(self.plans, [*ends, 1 << 62], strict=True)

    def shard_of(self, row: int) -> int:
        """Return the shard of a row."""
        plan = [plan for plan in self.plans if plan.first <= row][-1]
        return (row - plan.first) // plan.segment % plan.shards

    def count_left_in_segment(self, row: int) -> int:
        """Count the rows from this one on that are in the same segment."""
        for plan, end in self._spans():
            if row < end:
                return min(plan.segment - (row - plan.first) % plan.segment, end - row)
        raise AssertionError("the last plan has no end")

    def count_rows(self, shard: int, row: int) -> int:
        """Count the rows of a shard below a row."""
        return sum(_count_rows_of_plan(plan, shard, min(row, end)) for plan, end in self._spans())

    def to_local(self, shard: int, rows: Rows) -> Rows:
        """Count the rows of a shard below each of these: for its own rows, their numbers there."""
        counts = np.zeros(len(rows), np.int64)
        for plan, end in self._spans():
            if shard < plan.shards:
                placed = np.clip(rows, plan.first, end) - plan.first
                turns, rest = np.divmod(placed, plan.segment * plan.shards)
                counts += turns * plan.segment
                counts += np.clip(rest - shard * plan.segment, 0, plan.segment)
        return counts

    def shards_of(self, rows: Rows) -> Rows:
        """Return the shard of each row."""
        owners = np.empty(len(rows), np.int64)
        for plan, end in self._spans():
            inside = (rows >= plan.first) & (rows < end)
            owners[inside] = (rows[inside] - plan.first) // plan.segment % plan.shards
        return owners

    def to_global(self, shard: int, local: Rows) -> Rows:
        """Return the rows that a shard has under these numbers."""
        rows = np.empty(len(local), np.int64)
        before = 0
        for plan, end in self._spans():
            count = _count_rows_of_plan(plan, shard, end)
            if count == 0:
                continue
            inside = (local >= before) & (local < before + count)
            turn, place = np.divmod(local[inside] - before, plan.segment)
            rows[inside] = plan.first + (turn * plan.shards + shard) * plan.segment + place
            before += count
        return rows


def _count_rows_of_plan(plan: PlacementPlan, shard: int, end: int) -> int:
    """Count the rows below `end` that a plan gives to a shard."""
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
