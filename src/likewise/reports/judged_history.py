"""A history that was judged, as a comparison of two needs it: who is comparable, and every pair.

Whether a decision contradicts an earlier one depends on earlier ones alone. So the first decisions
of a history have the same verdicts whatever comes after them, and a history is cut to a length
after it was judged.

Invariant: `first(n)` is what judging the first n decisions alone would give.
Cost: a byte for each decision and 32 for each pair; a place, and a key if there are any, for each
decision.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.reports.evidence import Computed
from likewise.values.past import Past
from likewise.values.verdicts import Floats, Rows, Verdicts


@dataclass(frozen=True, eq=False)
class Pairs:
    """Contradicting pairs, column by column."""

    later: Rows
    earlier: Rows
    distances: Floats
    output_distances: Floats

    def __len__(self) -> int:
        return len(self.later)

    def some(self, chosen: npt.NDArray[Any]) -> "Pairs":
        return Pairs(
            self.later[chosen],
            self.earlier[chosen],
            self.distances[chosen],
            self.output_distances[chosen],
        )


@dataclass(frozen=True, eq=False)
class JudgedHistory:
    """The decisions of one model, in the order judged."""

    name: str
    past: Past
    comparable: npt.NDArray[np.bool_]
    pairs: Pairs
    places: Rows
    """Where each stands: a line or row of its file, or a row of its ledger."""
    cases: Rows
    """Which case each is about, where there are no keys: its place, or its number in a history."""
    keys: Sequence[Any] | None
    """None if decisions have none."""
    computed: Computed
    bad_rows: int
    columns: tuple[str, ...] | None = None
    """The names of coordinates, for a rule without features."""

    def __len__(self) -> int:
        return len(self.comparable)

    def first(self, count: int) -> "JudgedHistory":
        """The first so many decisions."""
        return JudgedHistory(
            self.name,
            self.past,
            self.comparable[:count],
            self.pairs.some(self.pairs.later < count),
            self.places[:count],
            self.cases[:count],
            None if self.keys is None else self.keys[:count],
            self.computed,
            self.bad_rows,
            self.columns,
        )

    @property
    def flagged(self) -> int:
        """Decisions that contradict an earlier one."""
        return len(np.unique(self.pairs.later))

    @property
    def in_any_pair(self) -> int:
        """Decisions in a contradicting pair, as the later or the earlier one."""
        return len(np.union1d(self.pairs.later, self.pairs.earlier))


class HistoryTally:
    """Collects the verdicts of a history, batch by batch."""

    def __init__(self) -> None:
        self._comparable: list[npt.NDArray[np.bool_]] = []
        self._pairs: list[tuple[Rows, Rows, Floats, Floats]] = []
        self._places: list[Rows] = []

    def add(self, verdicts: Verdicts, places: Rows) -> None:
        """The next batch; its first row is the number of decisions before it."""
        assert verdicts.comparable is not None
        found = verdicts.witnesses
        self._comparable.append(verdicts.comparable)
        later = verdicts.rows[verdicts.owners]
        self._pairs.append((later, found.rows, found.input_distances, found.output_distances))
        self._places.append(places)

    def history(
        self,
        name: str,
        past: Past,
        computed: Computed,
        *,
        keys: Sequence[Any] | None,
        bad_rows: int = 0,
        columns: tuple[str, ...] | None = None,
        numbered: bool = False,
    ) -> JudgedHistory:
        """All that was added.

        numbered: whether a case is told by the decision's number here, instead of its place
        """
        rows, floats = np.empty(0, np.int64), np.empty(0, np.float64)
        parts = [(rows, rows, floats, floats), *self._pairs]
        pairs = Pairs(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        places = np.concatenate([rows, *self._places])
        return JudgedHistory(
            name,
            past,
            np.concatenate([np.empty(0, np.bool_), *self._comparable]),
            pairs,
            places,
            np.arange(len(places)) if numbered else places,
            keys,
            computed,
            bad_rows,
            columns,
        )
