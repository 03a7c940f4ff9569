"""Test whether one of two sides contradicts itself more often than the other, by shuffling sides.

Where the sides decided different cases, sides are shuffled within neighbourhoods of similar cases;
where they decided the same cases, the two answers of a case are swapped.
Invariant: the result does not depend on the order of rows; the random numbers are seeded.
Cost: sorting a number for each row of a shuffle; swaps need the pairs of cases that changed.
Not here: who is similar to whom.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.explaining.adjusted_effect import number_people
from likewise.explaining.column_groups import find_first_larger
from likewise.explaining.dealing import Cases
from likewise.tables.array_types import Floats, Rows

MOST_SHUFFLES = 4_999
FEWEST_NEIGHBOURHOODS, FEWEST_PEOPLE = 20, 10
"""Shared neighbourhoods, and people of each side in them, that a conclusion needs."""
_ENOUGH = 20  # shuffles with a difference as large, after which a test stops
_SAME = 1e-9  # difference that may come from rounding
Mask = npt.NDArray[np.bool_]
Draw = Callable[[np.random.Generator], float]


class Answers:
    """Holds the answers of some cases as numbers of distinct ones, and says which of these differ.

    Labels and numbers are numbered in ascending order, so that an answer differs from all beyond a
    certain one.

    values  codes of labels, numbers, or a row of probabilities for each case
    kind    "label", "number", or the metric of probabilities
    delta   two numbers, or rows of probabilities, differ if they are farther apart
    """

    def __init__(self, values: Floats, kind: str = "label", delta: float = 0.0) -> None:
        self.first_beyond: Rows | None = None
        """For each answer the first larger one that differs; None for probabilities."""
        if values.ndim == 1:
            distinct, self.ranks = np.unique(values, return_inverse=True)
            self.first_beyond = find_first_larger(distinct, delta if kind == "number" else 0.0)
            distinct = distinct[:, None]
        else:
            distinct, ranks = np.unique(values, axis=0, return_inverse=True)
            self.ranks = ranks.reshape(-1)
        count = len(distinct)
        self._cases = Cases(
            distinct, kind, delta, np.ones(count, np.int64), np.zeros(count, np.int64)
        )

    @property
    def is_label(self) -> bool:
        return self._cases.kind == "label"

    @property
    def count(self) -> int:
        """How many distinct answers there are."""
        return len(self._cases.answers)

    def differ(self, one: Rows, other: Rows) -> Mask:
        """Tell which answers differ."""
        return self._cases.differ(one, other)

    def compute_expected(self, counts: Rows) -> float:
        """Compute the share of all pairs that differ, for so many cases with each answer."""
        assert self.first_beyond is not None
        many = int(counts.sum())
        up_to = np.append(0, np.cumsum(counts))
        pairs = int((counts * (many - up_to[self.first_beyond])).sum())
        return pairs / (many * (many - 1) / 2)


def order_values(codes: Rows, values: Sequence[Any]) -> Rows:
    """Renumber codes by the values they stand for, not by the order in which these came."""
    order = sorted(range(len(values)), key=lambda code: repr(values[code]))
    numbers = np.full(len(values) + 1, -1)  # the last is for the code -1
    numbers[order] = np.arange(len(values))
    return numbers[codes]


@dataclass(frozen=True)
class ChanceTest:
    """Holds a difference of two sides, second minus first, and how often chance does as much."""

    difference: float
    p: float
    shuffles: int


@dataclass(frozen=True, eq=False)
class SharedNeighbourhoods:
    """Holds cases of two sides, in neighbourhoods with at least two of each; sorted by rank."""

    ranks: Rows
    second: Mask
    starts: Rows
    first_people: int
    second_people: int

    @property
    def sizes(self) -> Rows:
        return np.diff(np.append(self.starts, len(self.ranks)))

    @property
    def second_counts(self) -> Rows:
        """How many cases of each neighbourhood are of the second side."""
        if len(self.starts) == 0:
            return np.zeros(0, np.int64)
        return np.add.reduceat(self.second, self.starts, dtype=np.int64)

    @property
    def pairs(self) -> int:
        """How many pairs of cases share a neighbourhood."""
        return int((self.sizes * (self.sizes - 1) // 2).sum())

    @property
    def has_enough(self) -> bool:
        """Whether a test can support a conclusion."""
        people = min(self.first_people, self.second_people)
        return people >= FEWEST_PEOPLE and len(self.starts) >= FEWEST_NEIGHBOURHOODS


def share_neighbourhoods(
    ranks: Rows, second: Mask, neighbourhood: Rows, person: Rows | None = None, seed: int = 0
) -> SharedNeighbourhoods:
    """Find the neighbourhoods with at least two cases of each side.

    person: a number for the person of each row, -1 for nobody known; without it each row is one

    Of each person one decision is drawn in each neighbourhood, whichever its side: several
    decisions about one person are not independent. Neighbourhoods are sorted by content, so that
    draws do not depend on how they are numbered.
    """
    people = number_people(person, len(ranks))
    columns = neighbourhood.tolist(), people.tolist(), second.tolist(), ranks.tolist()
    rows = sorted(zip(*columns, strict=True))
    blocks = []
    for _, members in groupby(rows, itemgetter(0)):
        decisions = [list(own) for _, own in groupby(members, itemgetter(1))]
        blocks.append(sorted(([row[2:] for row in own], own[0][1]) for own in decisions))
    blocks.sort(key=lambda block: [own for own, _ in block])
    draws = iter(np.random.default_rng(seed).random(sum(map(len, blocks))).tolist())
    chosen = [[(*own[int(next(draws) * len(own))], who) for own, who in block] for block in blocks]
    shared = [block for block in chosen if 2 <= sum(row[0] for row in block) <= len(block) - 2]
    flat = [row for block in shared for row in sorted(block, key=itemgetter(1, 0))]
    sizes = np.array([len(block) for block in shared], np.int64)
    sides = [len({who for second, _, who in flat if second == side}) for side in (False, True)]
    return SharedNeighbourhoods(
        np.array([rank for _, rank, _ in flat], np.int64),
        np.array([second for second, _, _ in flat], np.bool_),
        np.cumsum(sizes) - sizes,
        *sides,
    )


def run_side_test(
    shared: SharedNeighbourhoods, answers: Answers, *, seed: int = 0, most: int = MOST_SHUFFLES
) -> ChanceTest:
    """Test whether the second side disagrees with itself more than the first, where both decided.

    The difference is that of the shares of disagreeing pairs within each side, averaged over
    neighbourhoods with weight n_a n_b / (n_a + n_b). If the side played no role, the real sides
    would be one way among many to hand them out within neighbourhoods.
    """
    sizes, seconds = shared.sizes, shared.second_counts
    firsts = sizes - seconds
    weights = firsts * seconds / sizes
    weights /= math.fsum(weights.tolist())
    block = np.repeat(np.arange(len(sizes)), sizes)
    per_pair = [2 * weights / (many * (many - 1)) for many in (firsts, seconds)]
    if answers.first_beyond is None:
        difference, varies = _compare_pairs(shared, answers, block, per_pair)
    else:
        difference, varies = _compare_ranks(shared, answers.first_beyond, block, per_pair)
    rows = np.flatnonzero(varies[block])  # in other neighbourhoods all answers agree
    in_second = (np.arange(len(block)) - shared.starts[block] < seconds[block])[rows]
    shuffled = np.zeros(len(block), np.bool_)

    def draw(random: np.random.Generator) -> float:
        order = np.argsort(block[rows] + random.random(len(rows)))
        shuffled[rows[order]] = in_second
        return difference(shuffled)

    return _compare_with_chance(difference(shared.second), draw, seed, most)


Statistic = Callable[[Mask], float]


def _compare_ranks(
    shared: SharedNeighbourhoods, first_beyond: Rows, block: Rows, per_pair: Sequence[Floats]
) -> tuple[Statistic, Mask]:
    """Return the difference as a function of the sides, and the blocks with disagreeing pairs.

    Rows are sorted by answer in each block: those that differ from a row, and are larger, are at
    the end of its block.
    """
    span = len(first_beyond) + 1
    beyond = np.searchsorted(block * span + shared.ranks, block * span + first_beyond[shared.ranks])
    stops = (shared.starts + shared.sizes)[block]
    low = np.flatnonzero(stops > beyond)  # rows with larger ones that differ
    beyond, stops = beyond[low], stops[low]
    above = stops - beyond
    of_first, of_second = (one[block[low]] for one in per_pair)

    def difference(second: Mask) -> float:
        so_far = np.append(0, np.cumsum(second))
        second_above = so_far[stops] - so_far[beyond]
        first_above = above - second_above
        return float(np.where(second[low], of_second * second_above, -of_first * first_above).sum())

    return difference, np.bincount(block[low], minlength=len(shared.starts)) > 0


def _compare_pairs(
    shared: SharedNeighbourhoods, answers: Answers, block: Rows, per_pair: Sequence[Floats]
) -> tuple[Statistic, Mask]:
    """Return the same as `_compare_ranks`, from all pairs of rows of a block."""
    after = (shared.starts + shared.sizes)[block] - np.arange(len(block)) - 1
    one = np.repeat(np.arange(len(block)), after)
    other = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(after) - after, after)
    differ = answers.differ(shared.ranks[one], shared.ranks[other])
    one, other = one[differ], other[differ]
    of_first, of_second = (weights[block[one]] for weights in per_pair)

    def difference(second: Mask) -> float:
        here, there = second[one], second[other]
        same = here == there
        return float(np.where(here, of_second, -of_first)[same].sum())

    return difference, np.bincount(block[one], minlength=len(shared.starts)) > 0


def run_swap_test(
    pairs: tuple[Rows, Rows],
    first: Rows,
    second: Rows,
    answers: Answers,
    unit: Rows | None = None,
    *,
    seed: int = 0,
    most: int = MOST_SHUFFLES,
) -> ChanceTest | None:
    """Test whether two sides that decided the same cases have different agreement indices.

    pairs          the similar cases, each pair once
    first, second  the ranks of the answers of both sides, by case
    unit           a number for the person of each case; all answers of one are swapped together

    The difference is that of the indices (the second side's minus the first's). If the side played
    no role, either answer to a case could have been the other side's. None if nothing is
    comparable, or if one side gave all comparable cases the same answer.
    """
    one, other = pairs
    similar = np.bincount(one, minlength=len(first)) + np.bincount(other, minlength=len(first))
    comparable = similar > 0
    many = int(comparable.sum())
    weights = (1 / similar[one] + 1 / similar[other]) / max(many, 1)
    ranks = answers.count
    counts = [np.bincount(side[comparable], minlength=ranks) for side in (first, second)]
    if many == 0 or not all(map(answers.compute_expected, counts)):
        return None
    changed = np.flatnonzero(comparable & (first != second))
    own = np.full(len(first), -1)
    own[changed] = np.arange(len(changed))
    mine, theirs = own[one], own[other]
    either = np.stack([first, second])

    def weigh(chosen: Mask, side: int, other_side: int) -> Floats:
        """Weigh the chosen pairs that differ, if cases have these sides' answers."""
        a, b = one[chosen], other[chosen]
        differ = answers.differ(either[side][a], either[other_side][b])
        return np.where(differ, weights[chosen], 0.0)

    # The share of disagreeing pairs is a constant, a term for each case that is swapped, and a term
    # for each pair of which both are swapped.
    both = (mine >= 0) & (theirs >= 0)
    none, left, right, all_four = (
        weigh(both, *sides) for sides in ((0, 0), (1, 0), (0, 1), (1, 1))
    )
    linear = np.zeros(len(changed))
    linear += np.bincount(mine[both], left - none, len(changed))
    linear += np.bincount(theirs[both], right - none, len(changed))
    for near, sides in ((mine, (1, 0)), (theirs, (0, 1))):
        single = (near >= 0) & ~both
        change = weigh(single, *sides) - weigh(single, 0, 0)
        linear += np.bincount(near[single], change, len(changed))
    constant = math.fsum(weigh(np.ones(len(one), np.bool_), 0, 0).tolist())
    product = all_four - left - right + none
    bent = np.flatnonzero(product)
    product, row, column = product[bent], mine[both][bent], theirs[both][bent]
    fixed = np.bincount(first[comparable & (first == second)], minlength=ranks)

    def disagreement(swapped: Mask) -> float:
        """Compute D / E of the first side."""
        share = constant + linear[swapped].sum() + product[swapped[row] & swapped[column]].sum()
        answered = np.where(swapped, second[changed], first[changed])
        expected = answers.compute_expected(fixed + np.bincount(answered, minlength=ranks))
        return share / expected if expected else 0.0

    def difference(swapped: Mask) -> float:
        return disagreement(swapped) - disagreement(~swapped)

    units = changed if unit is None else unit[changed]
    _, unit_of = np.unique(units, return_inverse=True)
    unit_count = int(unit_of.max(initial=-1)) + 1

    def draw(random: np.random.Generator) -> float:
        return difference((random.random(unit_count) < 0.5)[unit_of])

    return _compare_with_chance(difference(np.zeros(len(changed), np.bool_)), draw, seed, most)


def _compare_with_chance(observed: float, draw: Draw, seed: int, most: int) -> ChanceTest:
    """Draw until chance has given as large a difference often enough, or `most` times.

    The p-value is that of Besag and Clifford (1991): it is valid though the number is not fixed.
    """
    random, as_large = np.random.default_rng(seed), 0
    for shuffles in range(1, most + 1):
        as_large += int(abs(draw(random)) >= abs(observed) - _SAME)
        if as_large == _ENOUGH:
            return ChanceTest(observed, as_large / shuffles, shuffles)
    return ChanceTest(observed, (1 + as_large) / (1 + most), most)
