"""Every row is in one shard, under a number that leads back to it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import BadFile, BadRule
from likewise.sharding.placement import Placement, PlacementPlan
from tests.support.refusals import raises

PLANS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 5), st.integers(1, 9)), min_size=1, max_size=4
)


def placement_of(drawn: list[tuple[int, int, int]]) -> Placement:
    firsts = np.cumsum([0, *(length for length, _, _ in drawn[1:])]).tolist()
    return Placement(
        [
            PlacementPlan(first, shards, segment)
            for first, (_, shards, segment) in zip(firsts, drawn, strict=True)
        ]
    )


@given(PLANS)
def test_every_row_is_in_one_shard_and_is_found_there(drawn):
    placement, rows = placement_of(drawn), np.arange(150)
    owners = placement.shards_of(rows)
    assert owners.tolist() == [placement.shard_of(row) for row in rows.tolist()]
    together = []
    for shard in range(placement.shards):
        mine = rows[owners == shard]
        assert placement.to_local(shard, mine).tolist() == list(range(len(mine)))
        assert placement.to_global(shard, np.arange(len(mine))).tolist() == mine.tolist()
        assert placement.to_local(shard, rows).tolist() == [
            placement.count_rows(shard, row) for row in rows.tolist()
        ]
        assert placement.count_rows(shard, 150) == len(mine)
        together += mine.tolist()
    assert sorted(together) == rows.tolist()


@given(PLANS)
def test_a_run_ends_with_its_segment(drawn):
    placement, row = placement_of(drawn), 0
    while row < 150:
        length = placement.count_left_in_segment(row)
        assert len({placement.shard_of(one) for one in range(row, row + length)}) == 1
        row += length


def test_a_further_shard_moves_nothing():
    before = Placement.of(None, 0, 2, 10)
    after = Placement.of(before.to_lists(), 35, 3, 10)
    rows = np.arange(35)
    assert after.shards_of(rows).tolist() == before.shards_of(rows).tolist()
    assert set(after.shards_of(np.arange(35, 95)).tolist()) == {0, 1, 2}
    assert Placement.of(after.to_lists(), 80, 3, 10).to_lists() == after.to_lists()


def test_fewer_shards_than_rows_are_placed_on_are_refused():
    stored = Placement.of(None, 0, 4, 10).to_lists()
    with raises(BadRule, setting="shards"):
        Placement.of(stored, 50, 3, 10)


@pytest.mark.parametrize("stored", [[[0, 0, 5]], [[0, 2]], ["x"], [[0, 2, 5.0]]])
def test_plans_that_make_no_sense_are_refused(stored):
    with raises(BadFile):
        Placement.of(stored, 5, 2, 5)
