"""Holds a judged history as a comparison of two needs it: who is comparable, and every pair.

Whether a decision contradicts an earlier one depends on earlier ones alone. So the first decisions
of a history have the same verdicts whatever comes after them, and a history can be cut to a length
after it was judged.

Invariant: `truncate(n)` is what judging the first n decisions alone would give.
Cost: a byte for each decision and 32 for each pair; a place, and a key if there are any, for each
decision.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.explaining.past import Past
from likewise.reports.clearest import ContradictingPairs, pairs_in
from likewise.reports.evidence import Provenance
from likewise.tables.array_types import Rows
from likewise.verdict.verdicts import Verdicts


@dataclass(frozen=True, eq=False)
class JudgedHistory:
    """Holds the decisions of one model, in the order judged."""

    name: str
    past: Past
    comparable: npt.NDArray[np.bool_]
    pairs: ContradictingPairs
    places: Rows
    """Where each stands: a line or row of its file, or a row of its ledger."""
    cases: Rows
    """Where there are no keys, which case each is about: its place, or its number in a history."""
    keys: Sequence[Any] | None
    """None if decisions have none."""
    computed: Provenance
    bad_rows: int = 0
    columns: tuple[str, ...] | None = None
    """The names of coordinates, for a rule without features."""

    def __len__(self) -> int:
        return len(self.comparable)

    def truncate(self, count: int) -> "JudgedHistory":
        """Return the first `count` decisions."""
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
        """Add the next batch; its first row is the number of decisions before it."""
        assert verdicts.comparable is not None
        self._comparable.append(verdicts.comparable)
        self._pairs.append(pairs_in(verdicts))
        self._places.append(places)

    def history(
        self, name: str, past: Past, computed: Provenance, *, numbered: bool = False, **more: Any
    ) -> JudgedHistory:
        """Return all that was added.

        numbered  whether a case is recognised by the decision's number here, not by its place
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
