"""Simulate: deal answers at random, draw files and cover their mean, compare two sides of a file.

Invariant: each trial has random numbers of its own, seeded by its name.
Cost: seconds for a hundred files of 2,000 cases; power takes longest, as a clear difference needs
all shuffles.
Not here: formulas (likewise.explaining), cases and models (sources.py), what is printed (page.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.evidence.measured import index_of, measure
from benchmarks.evidence.sources import Cases, Floats, Rows, Source, find_pairs
from likewise.explaining.adjusted_effect import AdjustedEffect, estimate_effect
from likewise.explaining.compare_groups import Neighbourhoods
from likewise.explaining.side_tests import (
    Answers,
    ChanceTest,
    run_side_test,
    run_swap_test,
    share_neighbourhoods,
)

RADII = 0.5, 1.0, 2.0
MOST_DEALT, MOST_COMPARED = 1_500, 3_000
CLAIMED = 0.05  # a p-value up to this one says "more than chance"
SHUFFLES = 399  # a test with more of them, which stops at 20 as large, decides the same at 0.05
STEEP = 6.0  # sides with different inputs: from 1 in 21 to 20 in 21 along the first column


def seeded(*names: object) -> np.random.Generator:
    """Make random numbers that belong to these names."""
    return np.random.default_rng(zlib.crc32(repr(names).encode()))


# Answers dealt at random


@dataclass(frozen=True)
class Dealing:
    """Holds what the index is where the recorded answers are dealt at random."""

    source: str
    radius: float
    comparable: int
    deals: int
    mean: float
    error: float
    """The standard error of the mean."""
    spread_ratio: float
    """The spread by the formula, over the one that was seen."""
    within: float
    """The share of deals within 1.96 times the spread by the formula."""


def deal(source: Source, radius: float, deals: int, most: int = MOST_DEALT) -> Dealing:
    """Deal the answers of a source among its comparable cases, many times."""
    random = seeded("deal", source.name, radius)
    cases = source.recorded()
    if source.repeats or source.crowding is not None:
        cases = source.draw(2_000, random)
    cases = cases.draw(most, random)
    later, earlier = _find(source, cases, radius)
    comparable = np.zeros(len(cases.points), np.bool_)
    comparable[later] = comparable[earlier] = True
    place = np.cumsum(comparable) - 1
    cases, later, earlier = cases.take(comparable), place[later], place[earlier]
    indices, spreads = np.empty(deals), np.empty(deals)
    for i in range(deals):
        dealt = replace(cases, answers=random.permutation(cases.answers))
        found = measure(dealt, later, earlier, source.delta)
        indices[i], spreads[i] = index_of(found), found.null_sd or 0.0
    seen = float(indices.std(ddof=1))
    return Dealing(
        source.name,
        radius,
        len(cases.points),
        deals,
        float(indices.mean()),
        seen / deals**0.5,
        float(spreads.mean()) / seen,
        float((np.abs(indices) <= 1.96 * spreads).mean()),
    )


# Files that are decided in the same way


@dataclass(frozen=True)
class Coverage:
    """Holds how often intervals cover the mean index of such files."""

    source: str
    cases: int
    files: int
    concluded: int
    """Files with an interval; the others say why there is none."""
    target: float
    covered: int
    too_high: int
    """Intervals that lie above the target."""
    width: float


def cover(source: Source, cases: int, files: int) -> Coverage:
    """Draw files from a source and measure each."""
    random = seeded("cover", source.name, cases)
    drawn = (source.draw(cases, random) for _ in range(files))
    found = [measure(one, *_find(source, one), source.delta) for one in drawn]
    target = float(np.mean([index_of(one) for one in found]))
    limits = np.array([(x.low, x.high) for x in found if x.low is not None], float).reshape(-1, 2)
    return Coverage(
        source.name,
        cases,
        files,
        len(limits),
        target,
        int(((limits[:, 0] <= target) & (target <= limits[:, 1])).sum()),
        int((limits[:, 0] > target).sum()),
        float((limits[:, 1] - limits[:, 0]).mean()) if len(limits) else 0.0,
    )


def _find(source: Source, cases: Cases, radius: float = 1.0) -> tuple[Rows, Rows]:
    """Find similar cases; two decisions about one person never are."""
    later, earlier = find_pairs(cases.points, source.metric, source.epsilon * radius)
    if cases.persons is not None:
        others = cases.persons[later] != cases.persons[earlier]
        later, earlier = later[others], earlier[others]
    return later, earlier


# Two sides of one file


@dataclass(frozen=True)
class Claims:
    """Holds how often a comparison of two sides says that they differ by more than chance."""

    source: str
    sides: str
    """How the sides came to be."""
    trials: int
    concluded: int
    claimed: int
    effects: int
    """Trials with an interval of how differently the sides answer (adjusted_effect.py)."""
    covered: int
    """Those of them that include 0."""


Compared = tuple[ChanceTest | None, AdjustedEffect | None]
SIDES = "halves", "inputs differ", "2 % flipped", "5 % flipped", "same cases", "same, 3 % flipped"


def claim(source: Source, sides: str, trials: int) -> Claims:
    """Compare two sides of a file, many times.

    halves         the recorded decisions, on random sides
    inputs differ  the side depends on the first column; the model decides both sides anew
    flipped        halves, with so many answers of the second side replaced by another one
    same cases     the model decides every case twice
    """
    random = seeded("claim", source.name, sides)
    cases = source.draw(MOST_COMPARED, random) if source.repeats else source.recorded()
    if sides.startswith("same"):
        tests = _compare_twice(source, cases.draw(2_000, random), sides, trials, random)
    else:
        tests = _compare_sides(source, cases.draw(MOST_COMPARED, random), sides, trials, random)
    found = list(tests)
    concluded = [test.p for test, _ in found if test is not None]
    effects = [one for _, one in found if one is not None and one.has_enough_people]
    return Claims(
        source.name,
        sides,
        trials,
        len(concluded),
        sum(bool(p <= CLAIMED) for p in concluded),
        len(effects),
        sum(one.low <= 0 <= one.high for one in effects),
    )


def _compare_sides(
    source: Source,
    cases: Cases,
    sides: str,
    trials: int,
    random: np.random.Generator,
) -> Iterator[Compared]:
    many = len(cases.points)
    neighbourhoods = Neighbourhoods(np.ones(many, np.int64))
    neighbourhoods.add(*find_pairs(cases.points, source.metric, source.epsilon))
    rank = np.argsort(np.argsort(cases.points[:, 0] + 1e-6 * random.random(many))) / many
    chance = 1 / (1 + np.exp(-STEEP * (rank - 0.5))) if sides == "inputs differ" else 0.5
    for trial in range(trials):
        second = random.random(many) < chance
        answers = cases.answers
        if sides == "inputs differ":
            answers = source.decide(cases, random)
        elif sides.endswith("flipped"):
            answers = _flip(source, answers, second, sides, random)
        coded = Answers(answers.astype(np.float64), source.delta or 0.0)
        shared = share_neighbourhoods(
            coded.ranks, second, neighbourhoods.of_point, cases.persons, trial
        )
        test = run_side_test(shared, coded, seed=trial, most=SHUFFLES)
        good = (answers == 1).astype(np.float64)
        place = cases.points, cases.persons
        effect = estimate_effect(good, second, neighbourhoods.of_point, *place)
        yield test if shared.has_enough else None, effect


def _compare_twice(
    source: Source,
    cases: Cases,
    sides: str,
    trials: int,
    random: np.random.Generator,
) -> Iterator[Compared]:
    pairs, many = _find(source, cases), len(cases.points)
    for trial in range(trials):
        first, second = source.decide(cases, random), source.decide(cases, random)
        if sides.endswith("flipped"):
            second = _flip(source, second, np.ones(many, np.bool_), sides[6:], random)
        coded = Answers(np.append(first, second).astype(np.float64), source.delta or 0.0)
        one, other = coded.ranks[:many], coded.ranks[many:]
        swapped = run_swap_test(pairs, one, other, coded, cases.persons, seed=trial, most=SHUFFLES)
        yield swapped, None


def _flip(
    source: Source,
    answers: Rows | Floats,
    second: np.ndarray,
    sides: str,
    random: np.random.Generator,
) -> Rows | Floats:
    """Replace a share of the second side's answers by another label."""
    flipped = second & (random.random(len(answers)) < float(sides.split(maxsplit=1)[0]) / 100)
    labels = source.chances.shape[1]
    changed = answers.copy()
    changed[flipped] += random.integers(1, labels, flipped.sum())
    return changed % labels
