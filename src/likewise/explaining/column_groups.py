"""The groups of one protected column: takes near pairs of inputs, and compares each two groups.

Invariant: a group is compared with another by those of its decisions that have a like case there.
Cost: the numbers that like_counts.py keeps, and for each comparison a look at its decisions.
Not here: shuffles (permutation.py).
"""

import math

import numpy as np

from likewise.explaining.like_counts import LikeCounts
from likewise.explaining.members import Members
from likewise.explaining.permutation import Blocks
from likewise.rules.labels import Labels, named
from likewise.values.groups import OTHERS, Group, GroupComparison, GroupSide
from likewise.values.printing import text_of
from likewise.values.witnesses import Floats, Rows


class ColumnGroups:
    """Decisions by group, and the like cases of each."""

    def __init__(
        self,
        members: Members,
        points: int,
        labels: Labels | None,
        *,
        delta: float,
        binary: bool,
        sign: float,
    ) -> None:
        """sign: -1 where low numbers are the favourable ones, and scores their opposites"""
        self.members = members
        self._sign = sign
        self._counts = LikeCounts(
            points,
            members.point,
            members.group,
            members.scores,
            groups=len(members.values),
            delta=delta,
            binary=binary,
        )
        self._decisions = [np.flatnonzero(members.group == i) for i in range(len(members.values))]
        self.groups = tuple(self._group(i, labels) for i in range(len(members.values)))

    def _group(self, i: int, labels: Labels | None) -> Group:
        value, decisions = self.members.values[i], self._decisions[i]
        return Group(
            value,
            str(value) if value is OTHERS else text_of(named(labels, value)),
            len(decisions),
            self.members.people(decisions),
            self._sign * _mean(self.members.scores[decisions]),
        )

    def add(self, later: Rows, earlier: Rows) -> None:
        """Near pairs of distinct inputs, each once."""
        self._counts.add(later, earlier)

    def comparison(self, i: int, j: int, blocks: Blocks) -> GroupComparison:
        """Two groups, not tested yet.

        blocks: the people of both, in neighbourhoods that have both
        """
        one, pairs, one_less = self._side(i, j, int((~blocks.second).sum()))
        other, _, other_less = self._side(j, i, int(blocks.second.sum()))
        return GroupComparison(one, other, pairs, one_less, other_less, None)

    def _side(self, own: int, other: int, in_test: int) -> tuple[GroupSide, int, int]:
        """One group's side, its like pairs with the other, and in how many of them it got less."""
        decisions, scores = self._decisions[own], self.members.scores
        counts, sums = self._counts.like(decisions, other)
        better = self._counts.better(decisions, other)
        there = counts > 0
        comparable, less = decisions[there], decisions[better > 0]
        favourable = like_favourable = gap = None
        if len(comparable):
            like = sums[there] / counts[there]
            favourable = self._sign * _mean(scores[comparable])
            like_favourable = self._sign * _mean(like)
            gap = _mean(like - scores[comparable])
        side = GroupSide(
            self.groups[own],
            len(comparable),
            self.members.people(comparable),
            favourable,
            like_favourable,
            len(less),
            self.members.people(less),
            gap,
            in_test,
        )
        return side, int(counts.sum()), int(better.sum())


def _mean(values: Floats) -> float:
    """The same in whatever order the values come."""
    return math.fsum(values.tolist()) / len(values)
