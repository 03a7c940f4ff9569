"""Which columns stand between decisions where hardly any are alike: which should give way?

Every pair of rows is looked at, column by column, and the columns in which it is not near are kept
as a set. A row is comparable once one of its pairs has an empty set. Where no column alone stands
in the way, and ignoring one would change nothing, these sets still tell which ones do most.

Invariant: a row counts as comparable exactly if a monitor with the rule, which must have the metric
linf, finds it so: each column is encoded by the rule's own encoder and compared by w|x-y| <= reach.
Cost: rows² / 2 comparisons for each column; sets are kept of rows that are not comparable, and of
their pairs with the fewest columns in between.
Not here: what ignoring one column gives (monitor/sensitivity.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from likewise.proposing.families import Family
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.rule.variation import RulePart, list_parts
from likewise.tables.frames import Column

_BLOCK = 1 << 21  # pairs that are looked at together, times columns

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class BlockingSets:
    """What stands between the rows of a table that are not comparable and earlier rows."""

    parts: tuple[RulePart, ...]
    later: npt.NDArray[np.int64]
    """The later row of each pair that is kept: it is not comparable, and with no earlier row has it
    fewer parts in between."""
    sets: Flags
    """Of each such pair, the parts in which it is not near."""

    def weights(self) -> npt.NDArray[np.float64]:
        """For each part, how much it prevents: 1 for each row of which it alone is in the way, half
        for each where it is one of two, and so on.
        """
        worth = 0.5 ** (self.sets.sum(axis=1) - 1.0)
        total = np.zeros(len(self.parts))
        for j in range(len(self.parts)):
            rows, first = np.unique(self.later[self.sets[:, j]], return_index=True)
            total[j] = worth[self.sets[:, j]][first].sum() if len(rows) else 0.0
        return total


def parts_with_families(rule: Rule, families: Sequence[Family]) -> tuple[RulePart, ...]:
    """The columns that are compared, in their order; a one-hot family is ignored as one."""
    together: dict[str, list[str]] = {}
    for family in families:
        together.setdefault(family.name, []).extend(family.columns)
    return list_parts(rule, together=together)


def find_blocking_sets(
    rule: Rule, columns: Mapping[str, Column], parts: Sequence[RulePart], most: int
) -> BlockingSets:
    """What stands between the first rows of a table, `most` of them."""
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


Coordinate = tuple[float, npt.NDArray[np.float64]]
"""A weight, and the numbers of all rows."""


def _coordinates(
    rule: Rule, columns: Mapping[str, Column], part: RulePart, rows: int
) -> list[Coordinate]:
    """The columns of a part as the rule's own encoder has them."""
    from likewise.monitor.readers.encoding import Encoder

    features: dict[str, Feature] = {name: (rule.features or {})[name] for name in part.columns}
    encoder = Encoder(replace(rule, features=features, protected_must_differ=False))
    read = encoder.read({name: columns[name][:rows] for name in features}, rows)
    return list(zip(encoder.weights, read.vectors.T, strict=True))


def _far(
    parts: Sequence[Sequence[Coordinate]], reach: float, block: npt.NDArray[np.int64]
) -> Flags:
    """For rows of a block and all rows before its last: the parts in which they are not near."""
    earlier = int(block[-1])
    far = np.zeros((len(block), earlier, len(parts)), dtype=np.bool_)
    for i, coordinates in enumerate(parts):
        for weight, column in coordinates:
            far[:, :, i] |= weight * np.abs(column[block, None] - column[None, :earlier]) > reach
    return far
