"""Estimate how differently two groups of similar cases are answered, adjusted for number columns.

Each variable is taken relative to its mean in its neighbourhood, so only cases of one neighbourhood
are compared; a regression removes what differences inside the tolerances explain.
Invariant: the result does not depend on the order of rows, nor on how neighbourhoods are numbered.
Cost: sorting the rows, and a singular value decomposition of the columns.
Not here: who is similar to whom (neighbourhoods), tests by shuffling (permutation.py).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from likewise.tables.array_types import Floats, Rows

_WIDTH = 1.96  # standard errors to each side of a 95 % interval
_DETECTABLE = 2.8  # 1.96 + 0.84: a difference of so many standard errors is found in 80 % of files
_FEWEST_PEOPLE, _FEWEST_EFFECTIVE = 10, 20.0
_NEGLIGIBLE = 1e-9  # of a column's length: what rounding may leave of it


@dataclass(frozen=True)
class AdjustedEffect:
    """Holds how much larger the outcome is in the second group than in similar cases of the first.

    Only neighbourhoods with both groups count. Intervals are 95 % intervals.
    """

    value: float
    se: float
    neighbourhoods: int
    first_people: int
    second_people: int
    effective: float
    """How many people the standard error rests on: fewer, if a few have most of the influence."""

    @property
    def low(self) -> float:
        return self.value - _WIDTH * self.se

    @property
    def high(self) -> float:
        return self.value + _WIDTH * self.se

    @property
    def smallest_detectable(self) -> float:
        """The smallest difference that would be found in 80 % of such files."""
        return _DETECTABLE * self.se

    @property
    def has_enough_people(self) -> bool:
        """Whether the interval can be relied on."""
        people = min(self.first_people, self.second_people)
        return people >= _FEWEST_PEOPLE and self.effective >= _FEWEST_EFFECTIVE


def estimate_effect(
    outcomes: Floats,
    second: npt.NDArray[np.bool_],
    neighbourhood: Rows,
    columns: Floats | None = None,
    person: Rows | None = None,
) -> AdjustedEffect | None:
    """Estimate the effect of belonging to the second group on the outcome.

    columns  number columns to adjust for, one beside another, in tolerances; NaN where unknown
    person   a number for the person of each row, -1 for nobody known; without it each row is one

    None if no neighbourhood has both groups, or if the columns alone tell the groups apart.
    """
    both = find_mixed(neighbourhood, second)
    if not both.any():
        return None
    _, block = np.unique(neighbourhood[both], return_inverse=True)
    if columns is None:
        columns = np.empty((len(both), 0))
    variables = np.column_stack([outcomes, second.astype(np.float64), columns])[both]
    _, people = np.unique(number_people(person, len(both))[both], return_inverse=True)
    centred = np.column_stack([_subtract_means(one, block) for one in variables.T])
    sizes = np.bincount(block)[block]
    order = np.lexsort((*centred.T, sizes))
    y, g, x = centred[order, 0], centred[order, 1], centred[order, 2:]
    people, sizes = people[order], sizes[order]
    basis = _find_basis(x)
    y, own = (one - basis @ (basis.T @ one) for one in (y, g))
    spread = math.fsum((own * own).tolist())
    if spread <= _NEGLIGIBLE * math.fsum((g * g).tolist()):
        return None
    value = math.fsum((own * y).tolist()) / spread
    left = 1.0 - 1.0 / sizes - own * own / spread - (basis * basis).sum(axis=1)
    free = left > _NEGLIGIBLE  # otherwise the row determines a coefficient, and has no residual
    scores = np.where(free, own * (y - value * own) / np.sqrt(np.where(free, left, 1.0)), 0.0)
    squares = np.bincount(people, scores) ** 2
    variance = math.fsum(squares.tolist())
    fourth = math.fsum((squares * squares).tolist())
    is_second = second[both][order]
    return AdjustedEffect(
        value,
        math.sqrt(variance) / spread,
        int(block.max()) + 1,
        len(np.unique(people[~is_second])),
        len(np.unique(people[is_second])),
        variance * variance / fourth if fourth else 0.0,
    )


def find_mixed(neighbourhood: Rows, second: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Mark the rows whose neighbourhoods have rows of both groups."""
    _, block = np.unique(neighbourhood, return_inverse=True)
    mixed = (np.bincount(block, second) > 0) & (np.bincount(block, ~second) > 0)
    return np.asarray(mixed[block])


def number_people(person: Rows | None, count: int) -> Rows:
    """Give every row the number of its person; nobody known (-1) is a person of its own."""
    every = np.arange(count)
    if person is None:
        return every
    return np.where(person < 0, person.max(initial=-1) + 1 + every, person)


def _subtract_means(values: Floats, block: Rows) -> Floats:
    """Subtract the mean of each block; an unknown value becomes 0.

    Values are added up in ascending order, so that the order of rows does not matter.
    """
    known = ~np.isnan(values)
    order = np.lexsort((values, block))
    order = order[known[order]]
    many = int(block.max()) + 1
    sums = np.bincount(block[order], values[order], many)
    means = sums / np.maximum(np.bincount(block[order], minlength=many), 1)
    return np.where(known, values - means[block], 0.0)


def _find_basis(x: Floats) -> Floats:
    """Return orthonormal columns that span the columns of x."""
    lengths = np.sqrt((x * x).sum(axis=0))
    x = x[:, lengths > _NEGLIGIBLE] / lengths[lengths > _NEGLIGIBLE]
    if x.shape[1] == 0:
        return x
    basis, sizes, _ = np.linalg.svd(x, full_matrices=False)
    return np.asarray(basis[:, sizes > _NEGLIGIBLE * sizes[0]])
