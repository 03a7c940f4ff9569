"""The clearest contradictions of a stream: alike as can be, and treated as differently.

Each decision brings its nearest witness; of several equally near, the one whose output is farthest,
then one that differs in a protected column, then the earliest. The same order ranks the pairs. A
witness appears once, so that the list is not about one odd decision of long ago.

Invariant: the list depends on the decisions, not on how they came in batches, unless rows are
forgotten in between: only rows that are remembered when their batch is added can be shown.
Cost: `most` pairs are kept, with the values of both rows as they were when the pair was found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.explaining.side_by_side import Pair, pair_of
from likewise.values.past import Past
from likewise.values.verdicts import Verdicts, Witness


@dataclass(frozen=True)
class WorstPair:
    """Two decisions side by side, and how many coordinates are left out."""

    pair: Pair
    left_out: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {**self.pair.to_dict(), "left_out": self.left_out}


@dataclass(frozen=True, order=True)
class _Found:
    distance: float
    minus_output_distance: float
    same_protected: bool
    later: int
    earlier: int

    @property
    def clarity(self) -> tuple[float, float, bool]:
        return self.distance, self.minus_output_distance, self.same_protected


class WorstPairs:
    """The `most` clearest pairs so far."""

    def __init__(self, most: int, columns: Sequence[str] | None) -> None:
        self._most = most
        self._columns = columns
        self._kept: dict[_Found, WorstPair] = {}

    def add(self, verdicts: Verdicts, past: Past) -> None:
        """The batch that the monitor has just judged."""
        if verdicts.pairs == 0 or self._most == 0:
            return
        best = {one.earlier: one for one in self._kept}
        for one in self._candidates(verdicts, past):
            if one.earlier not in best or one < best[one.earlier]:
                best[one.earlier] = one
        chosen = sorted(best.values())[: self._most]
        self._kept = {one: self._kept.get(one) or self._side_by_side(one, past) for one in chosen}

    def _candidates(self, verdicts: Verdicts, past: Past) -> list[_Found]:
        """Those of a batch that may enter the list: the clearest of each decision, and witness."""
        found = verdicts.witnesses
        some = verdicts.offsets[:-1][verdicts.violations]
        nearest = np.minimum.reduceat(found.input_distances, some)
        counts = verdicts.counts[verdicts.violations]
        near = found.input_distances == np.repeat(nearest, counts)
        later = np.repeat(verdicts.rows, verdicts.counts)
        near &= past.alive(later) & past.alive(found.rows)  # a window may have left some behind
        later, earlier = later[near], found.rows[near]
        keys = (
            found.input_distances[near],
            -found.output_distances[near],
            ~_differ(later, earlier, past),
            later,
            earlier,
        )
        if len(self._kept) == self._most:  # a later pair that is no clearer does not enter
            distance, output, same = max(self._kept).clarity
            better = (keys[0] < distance) | (
                (keys[0] == distance)
                & ((keys[1] < output) | ((keys[1] == output) & (keys[2] < same)))
            )
            keys = tuple(key[better] for key in keys)
        for which in (3, 4):  # the clearest of each later row, then of each earlier one
            order = np.lexsort((*keys[::-1], keys[which]))
            _, firsts = np.unique(keys[which][order], return_index=True)
            keys = tuple(key[order[firsts]] for key in keys)  # type: ignore[assignment]
        order = np.lexsort(keys[::-1])[: self._most]
        return [_Found(*one) for one in zip(*(key[order].tolist() for key in keys), strict=True)]

    def _side_by_side(self, one: _Found, past: Past) -> WorstPair:
        witness = Witness(one.earlier, one.distance, -one.minus_output_distance)
        pair = pair_of(past, one.later, witness, names=self._columns)
        return WorstPair(pair, pair.hidden)

    def pairs(self) -> tuple[WorstPair, ...]:
        """The clearest first."""
        return tuple(self._kept[one] for one in sorted(self._kept))


def _differ(
    rows: npt.NDArray[np.int64], others: npt.NDArray[np.int64], past: Past
) -> npt.NDArray[np.bool_]:
    """Whether pairs differ in a protected column that is known of both."""
    differ = np.zeros(len(rows), dtype=np.bool_)
    for name, feature in (past.rule.features or {}).items():
        if feature.kind == "protected":
            (mine, _), (theirs, _) = past.codes(name, rows), past.codes(name, others)
            differ |= (mine != theirs) & (mine >= 0) & (theirs >= 0)
    return differ
