"""Compare two sides that decided similar cases, or the same ones: who disagrees with itself more?

And do they answer similar cases differently? Both questions are asked within neighbourhoods that
hold cases of both sides, so that it does not matter if one side had other cases.
Invariant: the result does not depend on the order of decisions.
Cost: one pass over near pairs of distinct inputs, then shuffles.
Not here: how the decisions of two pasts are put together (reports/joint_decisions.py), words.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from likewise.explaining.adjusted_effect import AdjustedEffect, estimate_effect
from likewise.explaining.agreement import Conclusion, UnitPairs, Units
from likewise.explaining.compare_groups import MOST_PAIRS, LikePoints, scan_near_pairs
from likewise.explaining.dealing import Cases
from likewise.explaining.side_tests import (
    FEWEST_NEIGHBOURHOODS,
    FEWEST_PEOPLE,
    MOST_SHUFFLES,
    Answers,
    ChanceTest,
    Mask,
    run_side_test,
    run_swap_test,
    share_neighbourhoods,
)
from likewise.tables.array_types import Floats, Rows

MOST_CASE_PAIRS = 10_000_000
"""Pairs of cases that are kept to swap answers, or to compare probabilities."""
FEWEST_CASES = 30
"""Similar cases that both sides decided, for a test that swaps answers."""
UNBALANCED = 0.25
"""Tolerances by which a column may differ between sides before the raw effect is withheld."""
_LEVEL = 0.05

TestedBy: TypeAlias = Literal["shuffled sides", "swapped answers"]


@dataclass(frozen=True, eq=False)
class JointDecisions:
    """Holds the decisions of two sides, those of the first before those of the second."""

    points: LikePoints
    second: Mask
    answers: Answers
    case: Rows
    """A number for each case: decisions of both sides about the same one have the same number."""
    person: Rows | None
    """A number for each person, -1 for nobody known."""
    outcome: str | None
    """What `scores` count: an answer, or the name of a number; None if there is no such score."""
    scores: Floats
    """1 where the answer is `outcome`, 0 otherwise; or the number itself."""
    columns: tuple[str, ...]
    """The compared numbers and ordinals."""
    numbers: Floats
    """Their values, one column beside another, in tolerances; NaN where they match everything."""

    @property
    def unit(self) -> Rows:
        """A number for each person, or for each case if the person is not known."""
        if self.person is None:
            return self.case
        return np.where(self.person < 0, self.person.max(initial=-1) + 1 + self.case, self.person)


@dataclass(frozen=True)
class ColumnBalance:
    """Says how a column differs between similar cases of both sides, in tolerances."""

    column: str
    effect: AdjustedEffect

    @property
    def is_unbalanced(self) -> bool:
        return abs(self.effect.value) > UNBALANCED

    def to_dict(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "tolerances": self.effect.value,
            "low": self.effect.low,
            "high": self.effect.high,
            "unbalanced": self.is_unbalanced,
        }


@dataclass(frozen=True)
class SideEffect:
    """Says how differently both sides answer similar cases: second minus first."""

    outcome: str | None
    is_share: bool
    """Whether the outcome is an answer, so that effects are differences of shares."""
    raw: AdjustedEffect | None
    """Without adjusting; None where a column is unbalanced, too, for it would mislead."""
    adjusted: AdjustedEffect | None
    """Adjusted for differences of the compared numbers inside the tolerances."""
    balance: tuple[ColumnBalance, ...]
    how: Conclusion

    @property
    def is_beyond_chance(self) -> bool | None:
        """Whether the interval of the adjusted effect excludes 0; None if there is none."""
        if self.adjusted is None:
            return None
        return self.adjusted.low > 0 or self.adjusted.high < 0

    def to_dict(self) -> dict[str, Any]:
        one = self.adjusted
        return {
            "outcome": self.outcome,
            "value": one and one.value,
            "low": one and one.low,
            "high": one and one.high,
            "raw": self.raw and self.raw.value,
            "smallest_detectable": one and one.smallest_detectable,
            "neighbourhoods": one and one.neighbourhoods,
            "people": one and [one.first_people, one.second_people],
            "effective": one and one.effective,
            "how": {"code": self.how.code, "sentence": self.how.sentence},
        }


@dataclass(frozen=True)
class SidesComparison:
    """Says whether one side disagrees with itself more than the other."""

    beyond_chance: bool | None
    """None where it cannot be told."""
    test: ChanceTest | None
    tested_by: TestedBy | None
    neighbourhoods: int
    """Neighbourhoods with at least two cases of each side; 0 where answers were swapped."""
    how: Conclusion
    effect: SideEffect

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        test = self.test
        return {
            "beyond_chance": self.beyond_chance,
            "p": test and test.p,
            "how": {"code": self.how.code, "sentence": self.how.sentence},
            "test": test
            and {
                "tested_by": self.tested_by,
                "difference": test.difference,
                "shuffles": test.shuffles,
                "neighbourhoods": self.neighbourhoods,
            },
            "effect": self.effect.to_dict(),
            "balance": [one.to_dict() for one in self.effect.balance],
        }


def cannot_compare(why: Conclusion) -> SidesComparison:
    """Return a comparison that only says why there is none."""
    effect = SideEffect(None, False, None, None, (), why)
    return SidesComparison(None, None, None, 0, why, effect)


def compare_sides(
    joint: JointDecisions,
    *,
    seed: int = 0,
    shuffles: int = MOST_SHUFFLES,
    most_pairs: int = MOST_PAIRS,
) -> SidesComparison:
    """Compare two sides; see SidesComparison and SideEffect."""
    neighbourhood = scan_near_pairs(joint.points, [], most_pairs)
    if neighbourhood is None:
        why = Conclusion(
            "too-many-pairs",
            f"There are more than {most_pairs:,} pairs of similar cases among distinct inputs, too"
            " many to compare the sides.",
        )
        return cannot_compare(why)
    block = neighbourhood[joint.points.point_of]
    effect = _compare_answers(joint, block)
    swapped = _swap_answers(joint, effect, seed, shuffles)
    return swapped or _shuffle_sides(joint, block, effect, seed, shuffles)


def _compare_answers(joint: JointDecisions, block: Rows) -> SideEffect:
    """Estimate how differently the sides answer, and how their cases differ in each column."""
    if joint.outcome is None:
        why = "The outputs are probabilities: no single number says which side answers higher."
        return SideEffect(None, False, None, None, (), Conclusion("no-outcome", why))
    second, unit, is_share = joint.second, joint.unit, joint.answers.is_label
    raw = estimate_effect(joint.scores, second, block, None, unit)
    columns = zip(joint.columns, joint.numbers.T, strict=True)
    effects = [(name, estimate_effect(one, second, block, None, unit)) for name, one in columns]
    balance = tuple(ColumnBalance(name, one) for name, one in effects if one is not None)
    adjusted = estimate_effect(joint.scores, second, block, joint.numbers, unit)
    if raw is None:
        how = Conclusion("nothing-shared", "No neighbourhood of similar cases has both sides.")
    elif adjusted is None:
        how = Conclusion(
            "sides-by-columns",
            "Where both sides decided similar cases, the compared columns alone tell the sides"
            " apart, so the effect of the side cannot be told from theirs.",
        )
    elif not adjusted.has_enough_people:
        adjusted = None
        how = Conclusion(
            "too-few",
            f"Too few decisions to tell: {raw.first_people:,} and {raw.second_people:,} that have"
            " similar cases on the other side, or a handful of them make up the difference.",
        )
    else:
        how = Conclusion(
            "measured",
            f"Answers were compared in {raw.neighbourhoods:,} neighbourhoods with both sides, and"
            " adjusted for differences of the compared numbers inside the tolerances.",
        )
    if adjusted is None or any(one.is_unbalanced for one in balance):
        raw = None
    return SideEffect(joint.outcome, is_share, raw, adjusted, balance, how)


def _swap_answers(
    joint: JointDecisions, effect: SideEffect, seed: int, shuffles: int
) -> SidesComparison | None:
    """Test by swapping the two answers of each case; None unless most cases are on both sides."""
    firsts, seconds = np.flatnonzero(~joint.second), np.flatnonzero(joint.second)
    _, mine, theirs = np.intersect1d(joint.case[firsts], joint.case[seconds], return_indices=True)
    mine, theirs = firsts[mine], seconds[theirs]
    point = joint.points.point_of
    same = point[mine] == point[theirs]
    if joint.answers.first_beyond is None or 2 * same.sum() < max(len(firsts), len(seconds)):
        return None
    order = np.argsort(point[mine[same]], kind="stable")
    mine, theirs = mine[same][order], theirs[same][order]
    pairs = _find_case_pairs(joint, mine)
    if pairs is None:
        return None
    one, other = pairs
    cases = np.unique(np.concatenate([one, other]))
    unit = joint.unit[mine]
    if len(cases) < FEWEST_CASES or len(np.unique(unit[cases])) < FEWEST_PEOPLE:
        return None
    ranks = joint.answers.ranks
    test = run_swap_test(
        pairs, ranks[mine], ranks[theirs], joint.answers, unit, seed=seed, most=shuffles
    )
    if test is None:
        return None
    how = Conclusion(
        "measured",
        f"Both sides decided the same {len(cases):,} cases that have a similar case. The two"
        f" answers of a case were swapped at random, {test.shuffles:,} times.",
    )
    return SidesComparison(test.p <= _LEVEL, test, "swapped answers", 0, how, effect)


def _find_case_pairs(joint: JointDecisions, rows: Rows) -> tuple[Rows, Rows] | None:
    """Find the pairs of similar cases among these rows, by place; None if there are too many.

    rows: in the order of their points
    """
    many = len(rows)
    cases = Cases(
        np.zeros((many, 1)), "label", 0.0, np.ones(many, np.int64), np.zeros(many, np.int64)
    )
    person = None if joint.person is None else joint.person[rows]
    found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    count = 0
    chosen = np.zeros(joint.points.count, np.bool_)
    chosen[joint.points.point_of[rows]] = True
    points = joint.points.select(chosen)
    units = UnitPairs(Units(points.point_of[rows], cases, person), points.pairs)
    for one, other, _ in units.chunks():
        count += len(one)
        if count > MOST_CASE_PAIRS:
            return None
        found.append((one, other))
    return np.concatenate([one for one, _ in found]), np.concatenate([one for _, one in found])


def _shuffle_sides(
    joint: JointDecisions, block: Rows, effect: SideEffect, seed: int, shuffles: int
) -> SidesComparison:
    """Test by shuffling sides within neighbourhoods."""
    answers = joint.answers
    shared = share_neighbourhoods(answers.ranks, joint.second, block, joint.unit, seed)
    many = len(shared.starts)
    if not shared.has_enough:
        code, why = (
            "nothing-shared",
            "No neighbourhood of similar cases has two cases of each side.",
        )
        if many:
            code, why = (
                "too-few",
                f"Only {many:,} neighbourhoods of similar cases have at least two cases of each"
                f" side, with {shared.first_people:,} and {shared.second_people:,} people or cases;"
                f" {FEWEST_NEIGHBOURHOODS} are needed, with {FEWEST_PEOPLE} of each side.",
            )
        return SidesComparison(None, None, None, many, Conclusion(code, why), effect)
    if answers.first_beyond is None and shared.pairs > MOST_CASE_PAIRS:
        how = Conclusion(
            "too-many-pairs",
            f"More than {MOST_CASE_PAIRS:,} pairs of probabilities share a neighbourhood, too many"
            " to compare the sides. A smaller epsilon leaves fewer.",
        )
        return SidesComparison(None, None, None, many, how, effect)
    test = run_side_test(shared, answers, seed=seed, most=shuffles)
    how = Conclusion(
        "measured",
        f"Sides were shuffled within the {many:,} neighbourhoods of similar cases that have at"
        f" least two cases of each side, {test.shuffles:,} times.",
    )
    return SidesComparison(test.p <= _LEVEL, test, "shuffled sides", many, how, effect)
