"""Finds the columns that prevent comparisons, for a rule by which hardly any decisions are alike.

For every pair of rows, the columns in which it is not near are its blocking set. A row is
comparable if one of its pairs has an empty set. Where ignoring a single column changes nothing,
these sets still tell which columns prevent most.

Invariant: a row counts as comparable exactly if a monitor with the rule, which must have the metric
linf, finds it so: each column is encoded by the rule's own encoder and compared by w|x-y| <= reach.
Cost: rows² / 2 comparisons for each column; of rows that are not comparable, the smallest sets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from likewise.proposing.families import Family
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.rule.variation import RulePart, list_parts
from likewise.tables.array_types import Floats, Rows
from likewise.tables.frames import Column

_BLOCK = 1 << 21  # pairs that are compared together, times columns

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class BlockingSets:
    """Holds the smallest blocking sets of the rows of a table that are not comparable."""

    parts: tuple[RulePart, ...]
    later: Rows
    """The later row of each pair that is kept: it is not comparable, and no other earlier row has
    a smaller set with it."""
    sets: Flags
    """For each such pair, the parts in which it is not near."""

    def weights(self) -> Floats:
        """Weigh how much each part prevents: 1 for each row for which it alone is in the way, half
        for each where it is one of two, and so on.
        """
        worth = 0.5 ** (self.sets.sum(axis=1) - 1.0)
        total = np.zeros(len(self.parts))
        for j in range(len(self.parts)):
            rows, first = np.unique(self.later[self.sets[:, j]], return_index=True)
            total[j] = worth[self.sets[:, j]][first].sum() if len(rows) else 0.0
        return total


def parts_with_families(rule: Rule, families: Sequence[Family]) -> tuple[RulePart, ...]:
    """List the columns that are compared, in their order; a one-hot family is one part."""
    together: dict[str, list[str]] = {}
    for family in families:
        together.setdefault(family.name, []).extend(family.columns)
    return list_parts(rule, together=together)


def find_blocking_sets(
    rule: Rule, columns: Mapping[str, Column], parts: Sequence[RulePart], most: int
) -> BlockingSets:
    """Find the blocking sets of the first `most` rows of a table."""
    rows = min(most, len(next(iter(columns.values()))))
    coordinates = [_coordinates(rule, columns, part, rows) for part in parts]
    reach = rule.epsilon * (1.0 + rule.slack_for("float64"))
    later, sets = [np.zeros(0, dtype=np.int64)], [np.zeros((0, len(parts)), dtype=np.bool_)]
    step = max(1, _BLOCK // max(1, rows * len(parts)))
    for first in range(1, rows, step):
        block = np.arange(first, min(first + step, rows))
        far = _far(coordinates, reach, block)
        counts = far.sum(axis=2)
        earlier = np.arange(int(block[-1])) < block[:, None]
        near = ((counts == 0) & earlier).any(axis=1)
        fewest = np.where(earlier, counts, len(parts) + 1).min(axis=1)
        i, j = np.nonzero((counts == fewest[:, None]) & earlier & ~near[:, None])
        later.append(block[i])
        sets.append(far[i, j])
    return BlockingSets(tuple(parts), np.concatenate(later), np.concatenate(sets))


Coordinate = tuple[float, Floats]
"""A weight, and the numbers of all rows."""


def _coordinates(
    rule: Rule, columns: Mapping[str, Column], part: RulePart, rows: int
) -> list[Coordinate]:
    """Encode the columns of a part with the rule's own encoder."""
    from likewise.monitor.readers.encoding import Encoder

    features: dict[str, Feature] = {name: (rule.features or {})[name] for name in part.columns}
    encoder = Encoder(replace(rule, features=features, protected_must_differ=False))
    read = encoder.read({name: columns[name][:rows] for name in features}, rows)
    return list(zip(encoder.weights, read.vectors.T, strict=True))


def _far(parts: Sequence[Sequence[Coordinate]], reach: float, block: Rows) -> Flags:
    """Tell for rows of a block and all rows before its last in which parts they are not near."""
    earlier = int(block[-1])
    far = np.zeros((len(block), earlier, len(parts)), dtype=np.bool_)
    for i, coordinates in enumerate(parts):
        for weight, column in coordinates:
            far[:, :, i] |= weight * np.abs(column[block, None] - column[None, :earlier]) > reach
    return far
