"""The clearest contradictions of a stream: alike as can be, and treated as differently.

Each decision brings its nearest witness; of several equally near, the one whose output is farthest,
then one that differs in a protected column, then the earliest. The same order ranks the pairs. A
witness appears once, so that the list is not about one odd decision of long ago.

Invariant: the list depends on the decisions, not on how they came in batches.
Cost: `most` pairs are kept, with the values of both rows as they were when the pair was found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadRow
from likewise.monitors.robustness import Monitor
from likewise.monitors.side_by_side import Pair, measured_gaps
from likewise.monitors.tables import TableMonitor
from likewise.types import Verdicts, Witness

COORDINATES = 12  # of a vector that are shown, those that differ most


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

    def __init__(self, monitor: Monitor, most: int, columns: Sequence[str] | None) -> None:
        self._monitor = monitor
        self._most = most
        self._columns = columns
        self._kept: dict[_Found, WorstPair] = {}

    def add(self, verdicts: Verdicts) -> None:
        """The batch that the monitor has just judged."""
        if verdicts.pairs == 0 or self._most == 0:
            return
        best = {one.earlier: one for one in self._kept}
        for one in self._candidates(verdicts):
            if one.earlier not in best or one < best[one.earlier]:
                best[one.earlier] = one
        chosen = sorted(best.values())[: self._most]
        self._kept = {one: self._kept.get(one) or self._side_by_side(one) for one in chosen}

    def _candidates(self, verdicts: Verdicts) -> list[_Found]:
        """Those of a batch that may enter the list: the clearest of each decision, and witness."""
        found = verdicts.witnesses
        some = verdicts.offsets[:-1][verdicts.violations]
        nearest = np.minimum.reduceat(found.input_distances, some)
        counts = verdicts.counts[verdicts.violations]
        near = found.input_distances == np.repeat(nearest, counts)
        later = np.repeat(verdicts.rows, verdicts.counts)[near]
        keys = (
            found.input_distances[near],
            -found.output_distances[near],
            ~self._differ(later, found.rows[near]),
            later,
            found.rows[near],
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

    def _differ(
        self, rows: npt.NDArray[np.int64], others: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Whether pairs differ in a protected column that is known of both."""
        differ = np.zeros(len(rows), dtype=np.bool_)
        if isinstance(self._monitor, TableMonitor):
            for name in self._monitor._protected():
                codes = self._monitor._kept.column(name)
                mine, theirs = codes[rows], codes[others]
                differ |= (mine != theirs) & (mine >= 0) & (theirs >= 0)
        return differ

    def _side_by_side(self, one: _Found) -> WorstPair:
        witness = Witness(one.earlier, one.distance, -one.minus_output_distance)
        if isinstance(self._monitor, TableMonitor):
            return self._of_tables(one.later, witness, self._monitor)
        return self._of_vectors(one.later, witness)

    def _of_tables(self, row: int, witness: Witness, monitor: TableMonitor) -> WorstPair:
        mine, other = monitor.values(row), monitor.values(witness.row)
        features: Mapping[str, Any] = monitor.rule.features or {}
        gaps = measured_gaps(features, mine, other)
        return WorstPair(Pair(row, witness, mine, other, gaps, monitor._output_columns))

    def _of_vectors(self, row: int, witness: Witness) -> WorstPair:
        """The coordinates that differ most, as the metric weighs them."""
        monitor, rule = self._monitor, self._monitor.rule
        output = "output"
        while self._columns is not None and output in self._columns:
            output += " "
        try:
            inputs = monitor.inputs([row, witness.row])
            outputs = monitor.outputs([row, witness.row])
        except BadRow:  # forgotten meanwhile
            return WorstPair(Pair(row, witness, {output: None}, {output: None}, {}, (output,)))
        shape = inputs.shape[1:]
        x, y = (one.reshape(-1) for one in inputs)
        apart = np.abs(x.astype(np.float64) - y.astype(np.float64))
        weights = np.ones(len(x)) if rule.weights is None else np.array(rule.weights)
        gaps = apart * (np.sqrt(weights) if rule.metric in ("l2", "cosine") else weights)
        shown = np.argsort(-gaps, kind="stable")[:COORDINATES].tolist()
        names = [self._name(j, shape) for j in shown]
        return WorstPair(
            Pair(
                row,
                witness,
                {output: outputs[0], **dict(zip(names, x[shown].tolist(), strict=True))},
                {output: outputs[1], **dict(zip(names, y[shown].tolist(), strict=True))},
                dict(zip(names, gaps[shown].tolist(), strict=True)),
                (output,),
            ),
            len(x) - len(shown),
        )

    def _name(self, j: int, shape: tuple[int, ...]) -> str:
        if self._columns is not None and j < len(self._columns):
            return str(self._columns[j])
        return f"x[{', '.join(str(int(at)) for at in np.unravel_index(j, shape))}]"

    def pairs(self) -> tuple[WorstPair, ...]:
        """The clearest first."""
        return tuple(self._kept[one] for one in sorted(self._kept))
