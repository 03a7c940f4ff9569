"""Compare the groups of protected columns: who got less, and whether that is more than chance.

Invariant: the result does not depend on the order of decisions; a similar case may be earlier or
later. Forgotten decisions are left out, and counted.
Cost: one pass over near pairs of distinct inputs, whatever the number of columns; if there are more
than `most_pairs`, half of the inputs are used, or a quarter, and so on.
Not here: who is in which group (members.py), counts of similar cases (column_groups.py), shuffles
within neighbourhoods (permutation.py).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from likewise.errors import BadRule
from likewise.explaining.column_groups import ColumnGroups
from likewise.explaining.members import make_units, sort_into_groups
from likewise.explaining.past import Past, Points
from likewise.explaining.permutation import ShuffleBlocks, blocks_of, holm, run_shuffle_test
from likewise.rule.rule import Rule
from likewise.search.engine.engine import Engine
from likewise.tables.array_types import Floats, Rows
from likewise.verdict.group_effects import GroupComparison, GroupEffects, ShuffleTest
from likewise.verdict.model_counts import CodedColumn, ComparisonSpan

_PAIRS = 1 << 17
_LEAST, _MOST = 16, 1 << 16  # points in a chunk


# Find the distinct inputs of a history (points), and which of them are near each other.
# Invariant: two rows are near exactly if they have the same point, or their points come as a pair;
# a pair comes once, its later point in ascending order, all pairs of a later point in one chunk.
# Cost: sorting the rows, and an index over the points; a chunk has about _PAIRS pairs, or those of
# _LEAST points.


@dataclass(frozen=True, eq=False)
class LikePoints:
    """Holds distinct inputs, and the point of each row.

    Many decisions have exactly the same input, and whatever is near one is near all of them. So
    near pairs are searched among distinct inputs: of 207,546 people of a census, 69,104 points with
    137,269 near pairs remain, instead of tens of millions.

    If decisions are compared only within some time, equal inputs at different times are different
    points; if only within models, so are equal inputs of different models. Points are in the order
    of time, of coordinates and of models' names, as far as these count, whatever the order of rows.
    """

    points: Points
    point_of: Rows
    """The point of each row; -1 for none."""
    firsts: Rows | None = None
    """The first point that each is compared with, if that is limited in time."""
    models: Rows | None = None
    """A number for the model of each, if only points of one model are compared."""

    @property
    def count(self) -> int:
        """How many points there are."""
        return len(self.points.vectors)

    def pairs(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield the later and the earlier points of near pairs, in chunks."""
        vectors, left_open = self.points.vectors, self.points.left_open
        rule = replace(self.points.rule, output="number", delta=0.0, favourable=None)
        engine = Engine(rule)
        start, size = 0, 1024
        while start < self.count:
            stop = min(start + size, self.count)
            verdicts = engine.observe_many(
                vectors[start:stop],
                np.arange(start, stop, dtype=np.float64),  # no two are the same, so all differ
                None if self.firsts is None else self.firsts[start:stop],
                None if left_open is None else left_open[start:stop],
            )
            if verdicts.pairs:
                later, earlier = start + verdicts.owners, verdicts.witnesses.rows
                if self.models is not None:
                    same = self.models[later] == self.models[earlier]
                    later, earlier = later[same], earlier[same]
                if len(later):
                    yield later, earlier
            start = stop
            size = int(size * _PAIRS / max(verdicts.pairs, 1) / 2)
            size = min(max(size, _LEAST), _MOST)

    def select(self, chosen: npt.NDArray[np.bool_]) -> "LikePoints":
        """Keep only these points; rows of other points get the point -1."""
        before: Rows = np.cumsum(chosen) - chosen  # chosen points before each
        renumbered = np.where(chosen, before, -1)
        vectors, left_open, rule = self.points
        return LikePoints(
            Points(vectors[chosen], None if left_open is None else left_open[chosen], rule),
            np.where(self.point_of >= 0, renumbered[self.point_of], -1),
            None if self.firsts is None else before[self.firsts[chosen]],
            None if self.models is None else self.models[chosen],
        )


def like_points(
    points: Points, span: ComparisonSpan | None = None, models: CodedColumn | None = None
) -> LikePoints:
    """Find the distinct inputs of rows.

    span    how far apart in time rows may be, and when they were; then times count, too
    models  the models of rows, if only rows of one model are compared; then models count, too
    """
    vectors = np.ascontiguousarray(points.vectors).reshape(len(points.vectors), -1)
    left_open = points.left_open
    if left_open is not None:
        left_open = left_open.reshape(len(vectors), -1)
        vectors = np.where(left_open, 0, vectors)  # values that match everything mean nothing
        both = np.hstack([vectors, left_open.astype(vectors.dtype)])
    else:
        both = vectors
    model = None if models is None else _ranks_by_name(models)
    if span is not None:
        _, rank = np.unique(span.times, return_inverse=True)  # float64 holds ranks, not all times
        both = np.hstack([rank.reshape(-1, 1).astype(np.float64), both.astype(np.float64)])
    if model is not None:
        both = np.hstack([both.astype(np.float64), model.reshape(-1, 1).astype(np.float64)])
    order = np.lexsort(both.T[::-1])  # stable; np.unique(axis=0) is ten times as slow
    ascending = both[order]
    begins = np.append(True, (ascending[1:] != ascending[:-1]).any(axis=1))[: len(order)]
    first, point_of = order[begins], np.empty(len(order), np.int64)
    point_of[order] = np.cumsum(begins) - 1
    firsts = None
    if span is not None:
        times = span.times[first]
        firsts = np.searchsorted(times, times - span.microseconds, side="left").astype(np.int64)
    distinct = Points(vectors[first], None if left_open is None else left_open[first], points.rule)
    of_point = None if model is None else model[first]
    return LikePoints(distinct, point_of, firsts, of_point)


def _ranks_by_name(models: CodedColumn) -> Rows:
    """Number the models of rows by name, so that the order of rows does not matter."""
    order = sorted(range(len(models.values)), key=lambda code: models.values[code] or "")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[models.codes]


class Neighbourhoods:
    """Sorts points into neighbourhoods, from near pairs with ascending later points.

    A point joins the neighbourhood with the most decisions of those whose points are all near it.
    If there is none, it begins a new one.

    decisions: how many decisions each point has
    """

    def __init__(self, decisions: Rows) -> None:
        self.of_point: Rows = np.arange(len(decisions))
        """The neighbourhood of each point, named after the point that began it."""
        self._points = np.ones(len(decisions), np.int64)
        self._decisions = decisions.astype(np.int64)

    def add(self, later: Rows, earlier: Rows) -> None:
        """Take all pairs of some points with earlier ones."""
        starts = np.flatnonzero(np.diff(later, prepend=-1))
        stops = np.append(starts[1:], len(later))
        sizes, decisions = self._points, self._decisions
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            near = Counter(self.of_point[earlier[start:stop]].tolist())
            whole = [one for one, count in near.items() if count == sizes[one]]
            if not whole:
                continue
            point = int(later[start])
            joined = min(whole, key=lambda one: (-decisions[one], one))
            self.of_point[point] = joined
            sizes[joined] += 1
            decisions[joined] += decisions[point]


FEWEST_PEOPLE = 10
"""People of each group, in neighbourhoods with both, that a conclusion needs."""
MOST_PAIRS = 100_000_000  # of distinct inputs: half a minute for labels, a minute for numbers
_SHUFFLES_EACH = 40  # for each comparison: the least p-value is half of what Holm asks for

Untested = tuple[int, GroupComparison, ShuffleBlocks]
"""The number of a column, a comparison, and the people that its test is about."""


def compare_groups(
    past: Past,
    rows: range,
    columns: Sequence[str] | None = None,
    *,
    person: str | None = None,
    seed: int = 0,
    shuffles: int = 1000,
    most_pairs: int = MOST_PAIRS,
) -> tuple[GroupEffects, ...]:
    """Compare each two groups of each protected column over these rows.

    columns     protected columns of the rule; all of them by default
    person      the column whose values tell people apart, by default the rule's; without one, each
                decision is a person
    shuffles    at least so many; more if there are many comparisons, fewer if they would take
                minutes: each test says how many it had
    most_pairs  near pairs of distinct inputs; if there are more, only a part of the inputs is used

    Raises BadRule if the rule does not say which output is better, or compares across models.
    """
    rule = past.rule
    person = rule.person_column if person is None else person
    check_groups(rule)
    protected = protected_columns(rule)
    outcome, high_wanted = "mean" if rule.output == "number" else "share", _sign(rule) > 0
    chosen = protected if columns is None else tuple(columns)
    for column in chosen:
        if column not in protected:
            raise BadRule(f"{column!r} is not a protected column of this rule")
    every = np.asarray(rows, np.int64)
    alive = every[past.alive(every)] if len(every) else every
    if not chosen or len(alive) == 0:
        nothing = (), (), 0, len(every), 0, 0, person, seed, 1.0
        return tuple(GroupEffects(column, outcome, high_wanted, *nothing) for column in chosen)
    scores = compute_scores(past, alive)
    models = past.model_codes(alive) if rule.compare == "within" else None
    points = like_points(past.points(alive), past.span(alive), models)
    people = None if person is None else past.codes(person, alive).codes
    random, share = np.random.default_rng(seed), 1.0
    while True:
        part = points.point_of >= 0
        persons = None if people is None else people[part]
        grouped = [
            _group_column(past, column, alive[part], scores[part], points, persons)
            for column in chosen
        ]
        neighbourhood = scan_near_pairs(points, grouped, most_pairs)
        if neighbourhood is not None:
            break
        share /= 2
        points = points.select(random.random(points.count) < 0.5)
    untested = [
        one
        for i, groups in enumerate(grouped)
        for one in _compare_each_two(i, groups, neighbourhood)
    ]
    tested = _test_comparisons(untested, seed, shuffles)
    return tuple(
        GroupEffects(
            column,
            outcome,
            high_wanted,
            groups.groups,
            tuple(sorted((one for at, one in tested if at == i), key=_sort_key)),
            groups.members.missing,
            len(every) - len(alive),
            groups.members.inconsistent,
            groups.members.pooled,
            person,
            seed,
            share,
        )
        for i, (column, groups) in enumerate(zip(chosen, grouped, strict=True))
    )


def protected_columns(rule: Rule) -> tuple[str, ...]:
    """List the protected columns of a rule."""
    features = rule.features or {}
    return tuple(name for name, feature in features.items() if feature.kind == "protected")


def check_favourable(rule: Rule) -> None:
    """Raise BadRule if a rule does not say which of two outputs is the better one."""
    if rule.output == "probabilities":
        raise BadRule("groups are counted for labels and numbers, and the output is probabilities")
    if rule.output == "number" and rule.favourable not in ("high", "low"):
        raise BadRule(
            f"favourable is {rule.favourable!r}; expected 'high' or 'low'", setting="favourable"
        )
    if rule.favourable is None:
        raise BadRule("the rule has no favourable output; say which label everyone wants")


def check_groups(rule: Rule) -> None:
    """Raise BadRule if groups cannot be compared under a rule."""
    check_favourable(rule)
    if rule.compare == "across":
        raise BadRule(
            'compare is "across", and two decisions of one model are then no similar cases, even'
            " if they are the same in everything; groups are compared among all similar cases, or"
            " within models"
        )


def why_no_groups(rule: Rule) -> str | None:
    """Say why groups cannot be compared though there are protected columns; None if they can."""
    try:
        if protected_columns(rule):
            check_groups(rule)
    except BadRule as error:
        return str(error)
    return None


def compute_scores(past: Past, rows: Rows) -> Floats:
    """Compute how good outputs are: 1 or 0 for labels, a number as it is, or its opposite."""
    rule = past.rule
    if rule.output == "number":
        return _sign(rule) * past.numbers(rows)
    codes, labels = past.codes("", rows)
    good = np.array([float(label == rule.favourable) for label in labels])
    return good[codes]


def _sign(rule: Rule) -> float:
    return -1.0 if rule.output == "number" and rule.favourable == "low" else 1.0


def _group_column(
    past: Past, column: str, rows: Rows, scores: Floats, points: LikePoints, people: Rows | None
) -> ColumnGroups:
    point = points.point_of[points.point_of >= 0]
    members = sort_into_groups(*past.codes(column, rows), scores, point, people)
    return ColumnGroups(members, points.count, past.rule, column, _sign(past.rule))


def scan_near_pairs(
    points: LikePoints, columns: Sequence[ColumnGroups], most_pairs: int
) -> Rows | None:
    """Scan the near pairs once; return the neighbourhood of each point, None if too many pairs."""
    decisions = np.bincount(points.point_of[points.point_of >= 0], minlength=points.count)
    neighbourhoods = Neighbourhoods(decisions)
    seen = 0
    for later, earlier in points.pairs():
        seen += len(later)
        if seen > most_pairs:
            return None
        neighbourhoods.add(later, earlier)
        for column in columns:
            column.add(later, earlier)
    return neighbourhoods.of_point


def _compare_each_two(number: int, column: ColumnGroups, neighbourhood: Rows) -> list[Untested]:
    block, outcomes, group = make_units(column.members, neighbourhood)
    compared = []
    for i, j in combinations(range(len(column.groups)), 2):
        chosen = (group == i) | (group == j)
        blocks = blocks_of(block[chosen], outcomes[chosen], group[chosen] == j)
        compared.append((number, column.comparison(i, j, blocks), blocks))
    return compared


def _test_comparisons(
    untested: Sequence[Untested], seed: int, shuffles: int
) -> list[tuple[int, GroupComparison]]:
    """Test all comparisons with enough people, and correct the p-values for their number."""
    enough = [
        i
        for i, (_, one, _) in enumerate(untested)
        if min(one.one.in_test, one.other.in_test) >= FEWEST_PEOPLE
    ]
    shuffles = max(shuffles, _SHUFFLES_EACH * len(enough))
    drawn = [run_shuffle_test(untested[i][2], shuffles, seed) for i in enough]
    corrected = holm([one.p for one in drawn])
    tests = {
        i: replace(one, p_corrected=p) for i, one, p in zip(enough, drawn, corrected, strict=True)
    }
    return [
        (column, _put_worse_off_first(one, tests.get(i)))
        for i, (column, one, _) in enumerate(untested)
    ]


def _put_worse_off_first(comparison: GroupComparison, test: ShuffleTest | None) -> GroupComparison:
    """Add the test to a comparison, and put the group that got less first."""
    one, other = comparison.one, comparison.other
    lead = one.gap or 0.0  # of the other group, according to similar cases
    if test is not None:
        lead = test.difference
    if lead >= 0:
        return replace(comparison, test=test)
    if test is not None:
        test = replace(test, difference=-lead, low=-test.high, high=-test.low)
    one_less, other_less = comparison.one_less, comparison.other_less
    return GroupComparison(other, one, comparison.pairs, other_less, one_less, test)


def _sort_key(comparison: GroupComparison) -> tuple[bool, bool, float, str, str]:
    """Sort supported comparisons first, by difference; the others by the number of pairs."""
    test = comparison.test
    return (
        not comparison.is_supported,
        test is None,
        -test.difference if test is not None and comparison.is_supported else -comparison.pairs,
        comparison.one.group.name,
        comparison.other.group.name,
    )
