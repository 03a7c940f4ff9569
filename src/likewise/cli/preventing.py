"""Which columns stand between decisions where hardly any are alike: which should give way?

Every pair of rows is looked at, column by column, and the columns in which it is not near are kept
as a set. A row is comparable once one of its pairs has an empty set. Where no column alone stands
in the way, and ignoring one would change nothing, these sets still tell which ones do most.

Invariant: a row counts as comparable exactly if a monitor with the rule, which must have the metric
linf, finds it so: each column is encoded by the rule's own encoder and compared by w|x-y| <= reach.
Cost: rows² / 2 comparisons for each column; sets are kept of rows that are not comparable, and of
their pairs with the fewest columns in between.
Not here: what ignoring one column gives (monitors/varying.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from likewise.rules.families import Family
from likewise.rules.feature import Feature
from likewise.rules.rule import Rule
from likewise.values.frames import Column

_BLOCK = 1 << 21  # pairs that are looked at together, times columns

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Unit:
    """A column that is compared, or a one-hot family, which is ignored as one."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Between:
    """What stands between the rows of a table that are not comparable and earlier rows."""

    units: tuple[Unit, ...]
    later: npt.NDArray[np.int64]
    """The later row of each pair that is kept: it is not comparable, and with no earlier row has it
    fewer units in between."""
    sets: Flags
    """Of each such pair, the units in which it is not near."""

    def weights(self) -> npt.NDArray[np.float64]:
        """For each unit, how much it prevents: 1 for each row of which it alone is in the way, half
        for each where it is one of two, and so on.
        """
        worth = 0.5 ** (self.sets.sum(axis=1) - 1.0)
        total = np.zeros(len(self.units))
        for j in range(len(self.units)):
            rows, first = np.unique(self.later[self.sets[:, j]], return_index=True)
            total[j] = worth[self.sets[:, j]][first].sum() if len(rows) else 0.0
        return total


def units_of(rule: Rule, families: Sequence[Family]) -> tuple[Unit, ...]:
    """The columns that are compared, in their order; families as one."""
    features = rule.features or {}
    measured = [name for name, feature in features.items() if feature.measured]
    in_family = {name: family for family in families for name in family.columns}
    made: dict[str, Unit] = {}
    for name in measured:
        family = in_family.get(name)
        if family is None:
            made[name] = Unit(name, (name,))
        else:
            columns = tuple(one for one in family.columns if one in measured)
            made.setdefault(family.columns[0], Unit(family.name, columns))
    return tuple(made.values())


def between(rule: Rule, columns: Mapping[str, Column], units: Sequence[Unit], most: int) -> Between:
    """What stands between the first rows of a table, `most` of them."""
    rows = min(most, len(next(iter(columns.values()))))
    parts = [_coordinates(rule, columns, unit, rows) for unit in units]
    later, sets = [np.zeros(0, dtype=np.int64)], [np.zeros((0, len(units)), dtype=np.bool_)]
    step = max(1, _BLOCK // max(1, rows * len(units)))
    for first in range(1, rows, step):
        block = np.arange(first, min(first + step, rows))
        far = _far(parts, block)
        counts = far.sum(axis=2)
        earlier = np.arange(int(block[-1])) < block[:, None]
        near = ((counts == 0) & earlier).any(axis=1)
        fewest = np.where(earlier, counts, len(units) + 1).min(axis=1)
        i, j = np.nonzero((counts == fewest[:, None]) & earlier & ~near[:, None])
        later.append(block[i])
        sets.append(far[i, j])
    return Between(tuple(units), np.concatenate(later), np.concatenate(sets))


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """A unit's columns as the rule's own encoder has them."""

    vectors: npt.NDArray[np.float64]
    weights: list[float]
    reach: float


def _coordinates(rule: Rule, columns: Mapping[str, Column], unit: Unit, rows: int) -> _Coordinates:
    from likewise.reading.encoding import Encoder

    features: dict[str, Feature] = {name: (rule.features or {})[name] for name in unit.columns}
    own = replace(rule, features=features, protected_must_differ=False)
    encoder = Encoder(own)
    read = encoder.read({name: columns[name][:rows] for name in features}, rows)
    reach = own.epsilon * (1.0 + own.slack_for("float64"))
    return _Coordinates(read.vectors, encoder.weights, reach)


def _far(parts: Sequence[_Coordinates], block: npt.NDArray[np.int64]) -> Flags:
    """For rows of a block and all rows before its last: the units in which they are not near."""
    earlier = int(block[-1])
    far = np.zeros((len(block), earlier, len(parts)), dtype=np.bool_)
    for u, part in enumerate(parts):
        for j, weight in enumerate(part.weights):
            column = part.vectors[:, j]
            far[:, :, u] |= (
                weight * np.abs(column[block, None] - column[None, :earlier]) > part.reach
            )
    return far
