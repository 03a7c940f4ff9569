"""Test the difference between two groups by shuffling groups among similar people.

Invariant: the same people give the same numbers, in any order; the random numbers are seeded.
Cost: a draw for each shuffle and block, or for each shuffle and person, where something can change.
Not here: who is similar to whom (compare_groups.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from likewise.tables.array_types import Floats, Rows
from likewise.verdict.group_effects import ShuffleTest

_DRAWS_AT_ONCE = 1 << 21  # at a time
_MOST_DRAWS = 1 << 28  # for one comparison, at most; but there are _FEWEST shuffles in any case
_FEWEST = 200
_SAME = 1e-9  # relative difference that may come from rounding


@dataclass(frozen=True, eq=False)
class ShuffleBlocks:
    """Holds people of two groups in blocks that have both; sorted by block, then by outcome."""

    outcomes: Floats
    is_second: npt.NDArray[np.bool_]
    """Whether a person belongs to the second group."""
    starts: Rows
    """The place where each block begins."""

    @property
    def sizes(self) -> Rows:
        return np.diff(np.append(self.starts, len(self.outcomes)))

    @property
    def second_counts(self) -> Rows:
        """How many people of each block belong to the second group."""
        return np.add.reduceat(self.is_second, self.starts, dtype=np.int64)

    @property
    def lowest(self) -> Floats:
        return self.outcomes[self.starts]

    @property
    def highest(self) -> Floats:
        return np.asarray(self.outcomes[self.starts + self.sizes - 1])

    @property
    def sums(self) -> Floats:
        return np.add.reduceat(self.outcomes, self.starts)


def blocks_of(block: Rows, outcomes: Floats, second: npt.NDArray[np.bool_]) -> ShuffleBlocks:
    """Sort people into blocks, and leave out blocks that have one group only."""
    order = np.lexsort((second, outcomes, block))
    block, outcomes, second = block[order], outcomes[order], second[order]
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    blocks = ShuffleBlocks(outcomes, second, starts)
    mixed = (blocks.second_counts > 0) & (blocks.second_counts < blocks.sizes)
    return _take_blocks(blocks, np.flatnonzero(mixed))


def _take_blocks(blocks: ShuffleBlocks, order: Rows) -> ShuffleBlocks:
    """Take these blocks, in this order."""
    sizes = blocks.sizes[order]
    starts = np.cumsum(sizes) - sizes
    people = np.arange(sizes.sum()) + np.repeat(blocks.starts[order] - starts, sizes)
    return ShuffleBlocks(blocks.outcomes[people], blocks.is_second[people], starts)


def run_shuffle_test(blocks: ShuffleBlocks, shuffles: int, seed: int) -> ShuffleTest:
    """Test the difference, second group minus first, against shuffled groups.

    People are in blocks: neighbourhoods of similar cases. Within each block the groups are
    shuffled, and everything else stays as it is. If group played no role, the real groups would be
    one shuffle among many. So the share of shuffles with a difference at least as large is a
    p-value (the observed one counts as a shuffle, hence +1), whatever the outcomes are and however
    the groups are distributed over the blocks. It is not corrected yet (`holm`).

    The difference is the mean outcome of one group minus that of the other within each block,
    averaged over blocks with weight n_a n_b / (n_a + n_b): the weight that has the smallest
    variance, does not grow with the size of the larger group, and makes the difference exactly 0 on
    average over shuffles. A block of one group, or with one outcome, never has a difference.
    """
    sizes, seconds = blocks.sizes, blocks.second_counts
    weight = math.fsum((seconds * (sizes - seconds) / sizes).tolist())
    vary = _sort_blocks(_take_blocks(blocks, np.flatnonzero(blocks.lowest != blocks.highest)))
    work = max(len(vary.starts) if _is_binary(vary) else len(vary.outcomes), 1)
    shuffles = min(shuffles, max(_FEWEST, _MOST_DRAWS // work))
    expected = math.fsum((vary.second_counts * vary.sums / vary.sizes).tolist())
    observed = math.fsum(vary.outcomes[vary.is_second].tolist()) - expected
    drawn = _draw_sums(vary, shuffles, np.random.default_rng(seed)) - expected
    rounding = _SAME * (1.0 + float(np.abs(vary.outcomes).sum()))
    as_large = int((np.abs(drawn) >= abs(observed) - rounding).sum())
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    p = (1 + as_large) / (1 + shuffles)
    return ShuffleTest(observed / weight, low / weight, high / weight, p, p, shuffles, len(sizes))


def _is_binary(blocks: ShuffleBlocks) -> bool:
    return bool(np.isin(blocks.outcomes, (0.0, 1.0)).all())


def _sort_blocks(blocks: ShuffleBlocks) -> ShuffleBlocks:
    """Sort blocks by content, so that draws do not depend on how they are numbered."""
    keys = blocks.highest, blocks.lowest, blocks.sums, blocks.second_counts, blocks.sizes
    return _take_blocks(blocks, np.lexsort(keys))


def _draw_sums(blocks: ShuffleBlocks, shuffles: int, random: np.random.Generator) -> Floats:
    """Draw the sum of the second group's outcomes in each shuffle.

    If outcomes are 0 or 1, a shuffled block is a draw from a hypergeometric distribution; otherwise
    the outcomes themselves are shuffled.
    """
    if len(blocks.starts) == 0:
        return np.zeros(shuffles)
    if _is_binary(blocks):
        good = blocks.sums.astype(np.int64)
        bad, seconds = blocks.sizes - good, blocks.second_counts
        at_once = max(1, _DRAWS_AT_ONCE // len(good))
        parts = [
            random.hypergeometric(good, bad, seconds, (min(at_once, shuffles - i), len(good)))
            for i in range(0, shuffles, at_once)
        ]
        return np.concatenate([part.sum(axis=1) for part in parts]).astype(np.float64)
    number = np.repeat(np.arange(len(blocks.starts)), blocks.sizes)
    place = np.arange(len(number)) - blocks.starts[number]
    is_second = place < blocks.second_counts[number]  # the first so many after shuffling a block
    sums = np.empty(shuffles)
    for i in range(shuffles):
        order = np.argsort(number + random.random(len(number)))
        sums[i] = blocks.outcomes[order][is_second].sum()
    return sums


def holm(ps: Sequence[float]) -> list[float]:
    """Correct p-values for their number, by Holm's method.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    corrected = [0.0] * len(ps)
    largest = 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, ps[i] * (len(ps) - place)))
        corrected[i] = largest
    return corrected
