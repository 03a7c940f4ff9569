"""The clearest contradictions of a stream: alike as can be, and treated as differently.

Each decision brings its nearest witness; of several equally near, the one whose output is farthest,
then one that differs in a protected column, then the earliest. The same order ranks the pairs. A
witness appears once, so that the list is not about one odd decision of long ago.

Invariant: the list depends on the decisions, not on how they came in batches, unless rows are
forgotten in between: only rows that are remembered when their batch is added can be shown.
Cost: `most` pairs are kept, with the values of both rows as they were when the pair was found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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

    def __init__(self, most: int, columns: Sequence[str] | None) -> None:
        self._most = most
        self._columns = columns
        self._kept: dict[_Found, WorstPair] = {}

    def add(self, verdicts: Verdicts, monitor: Monitor) -> None:
        """The batch that the monitor has just judged."""
        if verdicts.pairs == 0 or self._most == 0:
            return
        best = {one.earlier: one for one in self._kept}
        for one in self._candidates(verdicts, monitor):
            if one.earlier not in best or one < best[one.earlier]:
                best[one.earlier] = one
        chosen = sorted(best.values())[: self._most]
        self._kept = {
            one: self._kept.get(one) or self._side_by_side(one, monitor) for one in chosen
        }

    def _candidates(self, verdicts: Verdicts, monitor: Monitor) -> list[_Found]:
        """Those of a batch that may enter the list: the clearest of each decision, and witness."""
        found = verdicts.witnesses
        some = verdicts.offsets[:-1][verdicts.violations]
        nearest = np.minimum.reduceat(found.input_distances, some)
        counts = verdicts.counts[verdicts.violations]
        near = found.input_distances == np.repeat(nearest, counts)
        later = np.repeat(verdicts.rows, verdicts.counts)
        assert monitor._history is not None
        alive = monitor._history.alive()  # a window may have left rows behind by now
        near &= (alive[later] != 0) & (alive[found.rows] != 0)
        later, earlier = later[near], found.rows[near]
        keys = (
            found.input_distances[near],
            -found.output_distances[near],
            ~_differ(later, earlier, monitor),
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

    def _side_by_side(self, one: _Found, monitor: Monitor) -> WorstPair:
        witness = Witness(one.earlier, one.distance, -one.minus_output_distance)
        if isinstance(monitor, TableMonitor):
            return _of_tables(one.later, witness, monitor)
        return _of_vectors(one.later, witness, monitor, self._columns)

    def pairs(self) -> tuple[WorstPair, ...]:
        """The clearest first."""
        return tuple(self._kept[one] for one in sorted(self._kept))


def _differ(
    rows: npt.NDArray[np.int64], others: npt.NDArray[np.int64], monitor: Monitor
) -> npt.NDArray[np.bool_]:
    """Whether pairs differ in a protected column that is known of both."""
    differ = np.zeros(len(rows), dtype=np.bool_)
    if isinstance(monitor, TableMonitor):
        for name in monitor._protected():
            codes = monitor._kept.column(name)
            mine, theirs = codes[rows], codes[others]
            differ |= (mine != theirs) & (mine >= 0) & (theirs >= 0)
    return differ


def _of_tables(row: int, witness: Witness, monitor: TableMonitor) -> WorstPair:
    mine, other = monitor.values(row), monitor.values(witness.row)
    features: Mapping[str, Any] = monitor.rule.features or {}
    gaps = measured_gaps(features, mine, other)
    return WorstPair(Pair(row, witness, mine, other, gaps, monitor._output_columns))


def _of_vectors(
    row: int, witness: Witness, monitor: Monitor, columns: Sequence[str] | None
) -> WorstPair:
    """The coordinates that differ most, as the metric weighs them."""
    rule, output = monitor.rule, "output"
    while columns is not None and output in columns:
        output += " "
    inputs = monitor.inputs([row, witness.row])
    outputs = [monitor._output_at(one) for one in (row, witness.row)]
    shape = inputs.shape[1:]
    x, y = (one.reshape(-1) for one in inputs)
    apart = np.abs(x.astype(np.float64) - y.astype(np.float64))
    weights = np.ones(len(x)) if rule.weights is None else np.array(rule.weights)
    gaps = apart * (np.sqrt(weights) if rule.metric in ("l2", "cosine") else weights)
    shown = np.argsort(-gaps, kind="stable")[:COORDINATES].tolist()
    names = [_name(j, shape, columns) for j in shown]
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


def _name(j: int, shape: tuple[int, ...], columns: Sequence[str] | None) -> str:
    if columns is not None and j < len(columns):
        return str(columns[j])
    return f"x[{', '.join(str(int(at)) for at in np.unravel_index(j, shape))}]"
