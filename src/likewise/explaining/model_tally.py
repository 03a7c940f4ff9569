"""Count decisions and contradictions by model (verdict/model_counts.py).

Cost: one pass over decisions and witnesses; seven numbers for each model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from likewise.verdict.model_counts import ComparablesByModel, ModelCounts, ModelSide
from likewise.verdict.verdicts import Verdicts


@dataclass
class ModelTally:
    """Adds up the verdicts of a stream, batch by batch.

    Decisions of batches in which no model was known count as decisions without a model.
    """

    sums: dict[str | None, npt.NDArray[np.float64]] = field(default_factory=dict)
    known: bool = False
    compared: bool = False

    def add(self, verdicts: Verdicts) -> None:
        """Add the next batch."""
        count, owners = len(verdicts), verdicts.owners
        number: dict[str | None, int] = {None: 0}
        mine: npt.NDArray[np.int64] = np.zeros(count, np.int64)
        same = np.ones(len(owners), np.bool_)
        if verdicts.models is not None and verdicts.witness_models is not None:
            self.known = True
            names = (*verdicts.models, *verdicts.witness_models)
            number = {name: i for i, name in enumerate(dict.fromkeys(names))}
            mine = _number_names(verdicts.models, number)
            same = mine[owners] == _number_names(verdicts.witness_models, number)
        within = np.bincount(owners[same], minlength=count)
        across = np.bincount(owners[~same], minlength=count)
        comparable = np.zeros(count)
        if verdicts.comparable is not None:
            self.compared = True
            comparable = verdicts.comparable.astype(np.float64)
        columns = (
            np.ones(count),
            comparable,
            verdicts.violations,
            within > 0,
            within,
            across > 0,
            across,
        )
        sums = np.array([np.bincount(mine, column, len(number)) for column in columns])
        for name, i in number.items():
            if sums[0, i]:
                self.sums[name] = self.sums.get(name, 0.0) + sums[:, i]

    def merge(self, other: "ModelTally") -> None:
        """Add the decisions of another part of the stream."""
        for name, sums in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + sums
        self.known |= other.known
        self.compared |= other.compared

    def counts(
        self, compare: str, likes: ComparablesByModel | None = None
    ) -> tuple[ModelCounts, ...]:
        """Return the counts by model, the largest first; nothing if no model was known.

        compare   the rule's `compare`: which decisions are compared
        likes     if all are compared: how many have a similar case within and across models
        """
        if not self.known:
            return ()
        names = sorted(self.sums, key=lambda name: (-self.sums[name][0], name or ""))
        return tuple(self._counts_of(name, compare, likes) for name in names)

    def _counts_of(
        self, name: str | None, compare: str, likes: ComparablesByModel | None
    ) -> ModelCounts:
        sums: list[int] = self.sums[name].astype(np.int64).tolist()
        decisions, count, flagged, *apart = sums
        comparable = count if self.compared else None
        like: tuple[int | None, int | None] = (None, None)
        if compare != "all":
            like = (comparable, None) if compare == "within" else (None, comparable)
        elif likes is not None:
            like = likes.get(name, (0, 0))
        within = ModelSide(compare != "across", like[0], *apart[:2])
        across = ModelSide(compare != "within", like[1], *apart[2:])
        pairs = within.pairs + across.pairs
        return ModelCounts(name, decisions, comparable, flagged, pairs, within, across)


def counts_by_model(verdicts: Verdicts, compare: str) -> tuple[ModelCounts, ...]:
    """Count one batch by model."""
    tally = ModelTally()
    tally.add(verdicts)
    return tally.counts(compare)


def _number_names(
    names: Sequence[str | None], number: Mapping[str | None, int]
) -> npt.NDArray[np.int64]:
    return np.fromiter((number[name] for name in names), np.int64, len(names))
