"""Compare the groups of one protected column, from near pairs of inputs.

Invariant: a group is compared with another by those of its decisions that have a similar case
there.
Cost: a count and a sum for each input and group, more for numbers as outputs (`_BetterCounts`);
for each comparison one pass over its decisions.
Not here: shuffles (permutation.py).
"""

import math

import numpy as np
import numpy.typing as npt

from likewise.explaining.members import Members
from likewise.explaining.permutation import ShuffleBlocks
from likewise.rule.rule import Rule
from likewise.rule.value_names import Labels, name_value
from likewise.tables.array_types import Floats, Rows
from likewise.tables.printing import format_value
from likewise.verdict.group_effects import OTHERS, Group, GroupComparison, GroupSide

_LOOKUPS = 1 << 21  # at a time


class _BetterCounts:
    """Counts better similar cases for each distinct outcome of a point, and each group."""

    def __init__(
        self, points: int, groups: int, point: Rows, group: Rows, scores: Floats, delta: float
    ) -> None:
        values, rank = np.unique(scores, return_inverse=True)
        self._groups, self._ranks = groups, len(values) + 1
        first_better = find_first_larger(values, delta)
        # The distinct outcomes at each point
        cells, self._cell_of = np.unique(point * self._ranks + rank, return_inverse=True)
        self._cell_better = first_better[cells % self._ranks]
        self._cell_start = np.searchsorted(cells // self._ranks, np.arange(points + 1))
        # The groups present at a point, and their outcomes in order
        place = point * groups + group
        self._sorted = np.sort(place * self._ranks + rank)
        self._places = np.unique(place)
        self._place_start = np.searchsorted(self._places // groups, np.arange(points + 1))
        ends = (self._places + 1) * self._ranks
        self._place_stop = np.searchsorted(self._sorted, ends)
        self._counts = np.zeros(len(cells) * groups, np.int64)
        every = np.arange(points)
        self.add(every, every)  # a point is near itself

    def add(self, to: Rows, of: Rows) -> None:
        """Count for decisions at points `to` the better ones at points `of`."""
        cells = np.diff(self._cell_start)[to]
        places = np.diff(self._place_start)[of]
        lookups = np.cumsum(cells * places)
        start = 0
        while start < len(to):
            done = int(lookups[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(lookups, done + _LOOKUPS, "right")))
            self._look_up(to[start:stop], of[start:stop], cells[start:stop], places[start:stop])
            start = stop

    def _look_up(self, to: Rows, of: Rows, cells: Rows, places: Rows) -> None:
        each = cells * places
        pair = np.repeat(np.arange(len(to)), each)
        within = np.arange(len(pair)) - np.repeat(np.cumsum(each) - each, each)
        cell = self._cell_start[to[pair]] + within // places[pair]
        place = self._place_start[of[pair]] + within % places[pair]
        where = self._places[place] * self._ranks + self._cell_better[cell]
        count = self._place_stop[place] - np.searchsorted(self._sorted, where)
        group = self._places[place] % self._groups
        np.add.at(self._counts, cell * self._groups + group, count)

    def of(self, decisions: Rows, group: int) -> Floats:
        """Return the counts of decisions in one group."""
        counts = self._counts[self._cell_of[decisions] * self._groups + group]
        return np.asarray(counts, np.float64)


def find_first_larger(values: Floats, delta: float) -> npt.NDArray[np.int64]:
    """Find for each of ascending values the first one that is larger by more than delta.

    The difference decides, as in a verdict; a sum would be rounded differently.
    """
    last = len(values) - 1
    first = np.searchsorted(values, values + delta, "right")
    while True:
        early = (first > 0) & (values[np.maximum(first - 1, 0)] - values > delta)
        late = (first <= last) & (values[np.minimum(first, last)] - values <= delta)
        if not (early | late).any():
            return first
        first = first - early + (late & ~early)


class ColumnGroups:
    """Holds the decisions of a column by group, and counts the similar cases of each.

    points: how many points there are
    sign: -1 if low numbers are favourable and scores are their opposites
    """

    def __init__(self, members: Members, points: int, rule: Rule, column: str, sign: float) -> None:
        self.members = members
        self._sign = sign
        point, group, scores = members.point, members.group, members.scores
        shape = points, len(members.values)
        at = point * shape[1] + group
        self._own = np.bincount(at, minlength=math.prod(shape)).reshape(shape).astype(np.float64)
        self._own_sums = np.bincount(at, scores, minlength=math.prod(shape)).reshape(shape)
        self._like = self._own.copy()  # a point is near itself
        self._sums = self._own_sums.copy()
        self._better = None
        if rule.output == "number":
            self._better = _BetterCounts(*shape, point, group, scores, rule.delta)
        self._decisions = [np.flatnonzero(members.group == i) for i in range(len(members.values))]
        labels = rule.features[column].labels if rule.features else None
        self.groups = tuple(self._group(i, labels) for i in range(len(members.values)))

    def _group(self, i: int, labels: Labels | None) -> Group:
        value, decisions = self.members.values[i], self._decisions[i]
        return Group(
            value,
            str(value) if value is OTHERS else format_value(name_value(labels, value)),
            len(decisions),
            self.members.people(decisions),
            self._sign * _mean(self.members.scores[decisions]),
        )

    def add(self, later: Rows, earlier: Rows) -> None:
        """Take near pairs of distinct inputs, each once."""
        points, groups = self._own.shape
        for to, of in ((later, earlier), (earlier, later)):
            for group in range(groups):
                for own, total in ((self._own, self._like), (self._own_sums, self._sums)):
                    total[:, group] += np.bincount(to, own[of, group], minlength=points)
            if self._better is not None:
                self._better.add(to, of)

    def comparison(self, i: int, j: int, blocks: ShuffleBlocks) -> GroupComparison:
        """Compare two groups, without a test.

        blocks: the people of both, in neighbourhoods that have both
        """
        one, pairs, one_less = self._side(i, j, int((~blocks.is_second).sum()))
        other, _, other_less = self._side(j, i, int(blocks.is_second.sum()))
        return GroupComparison(one, other, pairs, one_less, other_less, None)

    def _side(self, own: int, other: int, in_test: int) -> tuple[GroupSide, int, int]:
        """Return a group's side, its pairs with the other, and in how many of them it got less."""
        decisions, scores = self._decisions[own], self.members.scores
        points = self.members.point[decisions]
        counts, sums = self._like[points, other], self._sums[points, other]
        if self._better is not None:
            better = self._better.of(decisions, other)
        else:
            better = np.where(scores[decisions] == 0.0, sums, 0.0)
        has_similar = counts > 0
        comparable, less = decisions[has_similar], decisions[better > 0]
        favourable = like_favourable = gap = None
        if len(comparable):
            theirs = sums[has_similar] / counts[has_similar]
            favourable = self._sign * _mean(scores[comparable])
            like_favourable = self._sign * _mean(theirs)
            gap = _mean(theirs - scores[comparable])
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
    """Return the mean, exactly rounded, so that the order of the values does not matter."""
    return math.fsum(values.tolist()) / len(values)
