"""A history that was judged, as a comparison of two needs it: who is comparable, and every pair.

Whether a decision contradicts an earlier one depends on earlier ones alone. So the first decisions
of a history have the same verdicts whatever comes after them, and a history is cut to a length
after it was judged.

Invariant: `first(n)` is what judging the first n decisions alone would give.
Cost: a byte for each decision and 32 for each pair; a place, and a key if there are any, for each
decision.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.explaining.past import Past
from likewise.reports.evidence import Provenance
from likewise.tables.rows import Floats, Rows
from likewise.verdict.verdicts import Verdicts


@dataclass(frozen=True, eq=False)
class ContradictingPairs:
    """Contradicting pairs, column by column."""

    later: Rows
    earlier: Rows
    distances: Floats
    output_distances: Floats

    def __len__(self) -> int:
        return len(self.later)

    def select(self, chosen: npt.NDArray[Any]) -> "ContradictingPairs":
        return ContradictingPairs(*(column[chosen] for column in vars(self).values()))

    @classmethod
    def of(cls, verdicts: Verdicts) -> "ContradictingPairs":
        found = verdicts.witnesses
        later = verdicts.rows[verdicts.owners]
        return cls(later, found.rows, found.input_distances, found.output_distances)

    @classmethod
    def concatenate(cls, parts: "Sequence[ContradictingPairs]") -> "ContradictingPairs":
        """All of them; of no parts, none."""
        none = cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))
        columns = zip(*(vars(part).values() for part in (none, *parts)), strict=True)
        return cls(*map(np.concatenate, columns))


@dataclass(frozen=True, eq=False)
class JudgedHistory:
    """The decisions of one model, in the order judged."""

    name: str
    past: Past
    comparable: npt.NDArray[np.bool_]
    pairs: ContradictingPairs
    places: Rows
    """Where each stands: a line or row of its file, or a row of its ledger."""
    cases: Rows
    """Which case each is about, where there are no keys: its place, or its number in a history."""
    keys: Sequence[Any] | None
    """None if decisions have none."""
    computed: Provenance
    bad_rows: int = 0
    columns: tuple[str, ...] | None = None
    """The names of coordinates, for a rule without features."""

    def __len__(self) -> int:
        return len(self.comparable)

    def truncate(self, count: int) -> "JudgedHistory":
        """The first so many decisions."""
        return replace(
            self,
            comparable=self.comparable[:count],
            pairs=self.pairs.select(self.pairs.later < count),
            places=self.places[:count],
            cases=self.cases[:count],
            keys=None if self.keys is None else self.keys[:count],
        )

    @property
    def flagged_count(self) -> int:
        """Decisions that contradict an earlier one."""
        return len(np.unique(self.pairs.later))

    @property
    def in_any_pair(self) -> int:
        """Decisions in a contradicting pair, as the later or the earlier one."""
        return len(np.union1d(self.pairs.later, self.pairs.earlier))


class HistoryTally:
    """Collects the verdicts of a history, batch by batch."""

    def __init__(self) -> None:
        self._comparable = [np.empty(0, np.bool_)]
        self._pairs: list[ContradictingPairs] = []
        self._places = [np.empty(0, np.int64)]

    def add(self, verdicts: Verdicts, places: Rows) -> None:
        """The next batch; its first row is the number of decisions before it."""
        assert verdicts.comparable is not None
        self._comparable.append(verdicts.comparable)
        self._pairs.append(ContradictingPairs.of(verdicts))
        self._places.append(places)

    def history(
        self, name: str, past: Past, computed: Provenance, *, numbered: bool = False, **more: Any
    ) -> JudgedHistory:
        """All that was added.

        numbered  whether a case is told by the decision's number here, instead of its place
        more      further fields of the history
        """
        places = np.concatenate(self._places)
        return JudgedHistory(
            name,
            past,
            np.concatenate(self._comparable),
            ContradictingPairs.concatenate(self._pairs),
            places,
            np.arange(len(places)) if numbered else places,
            computed=computed,
            **more,
        )
