"""Adds up verdicts, of a whole stream or of a part of it.

A decision may be counted at its row. Then parts may come in any order, be counted apart, and be put
together afterwards (`merge`): the totals are those of the whole stream.

Invariant: totals depend on the decisions, not on how they came in batches or parts.
Cost: some thousand numbers, and a bit for each decision.
Not here: which pairs are the clearest (clearest.py), what is made of totals (findings.py).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.explaining.model_tally import ModelTally
from likewise.reports.timeline import RowStretches, TimeStretches
from likewise.tables.array_types import Rows
from likewise.verdict.verdicts import Verdicts

MARGINS = 20  # bars in the histogram of margins
_BITS = 8
_ROUNDING = 1e-9  # a margin of 0.6000000000000001 is one of 0.6
_PLAIN = ("first_row", "flagged", "comparable", "pairs")  # fields of totals that are plain values


@dataclass(frozen=True)
class Margins:
    """Counts how near the nearest witness of each flagged decision is, as a share of epsilon."""

    identical: int
    """How many are at distance 0."""
    counts: tuple[int, ...]
    """How many are at a share of epsilon above i/n, up to (i+1)/n, for n equal parts."""


class PairMarks:
    """Marks decisions that are in any contradicting pair, as its later or its earlier one.

    Which decision came later depends on the order; which decisions are in a pair does not. So this
    count is the same for a file and for the file turned upside down. A decision is counted once,
    however many pairs it is in; witnesses from before the first decision added are not counted.

    >>> from likewise import Monitor, Rule
    >>> monitor, marks = Monitor(Rule(epsilon=1)), PairMarks()
    >>> marks.add(monitor.observe_many([[0.0], [0.5], [9.0]], ["yes", "no", "no"]))
    >>> marks.count
    2
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._marks: npt.NDArray[np.uint8] = np.zeros(1 << 10, np.uint8)

    def add(self, verdicts: Verdicts) -> None:
        """Add the next batch."""
        if len(verdicts) == 0:
            return
        if self._first is None:
            self._first = verdicts.first_row
        self._mark(verdicts.rows[verdicts.violations] - self._first)
        earlier = verdicts.witnesses.rows - self._first
        self._mark(earlier[earlier >= 0])

    def mark(self, rows: Rows) -> None:
        """Mark decisions that another part of the stream has found to be in a pair."""
        self._first = self._first or 0
        self._mark(rows - self._first)

    def _mark(self, places: Rows) -> None:
        stop = int(places.max(initial=-1)) + 1
        while stop > _BITS * len(self._marks):
            self._marks = np.concatenate([self._marks, np.zeros_like(self._marks)])
        bits = np.left_shift(1, places % _BITS).astype(np.uint8)
        np.bitwise_or.at(self._marks, places // _BITS, bits)

    @property
    def count(self) -> int:
        """How many decisions are marked."""
        return int(np.bitwise_count(self._marks).sum(dtype=np.int64))

    @property
    def rows(self) -> Rows:
        """The decisions that are marked."""
        marked = np.flatnonzero(self._marks)
        at, bit = np.nonzero(np.unpackbits(self._marks[marked, None], axis=1, bitorder="little"))
        rows: Rows = (self._first or 0) + marked[at] * _BITS + bit
        return rows


class Totals:
    """Adds up verdicts, batch by batch; `epsilon` is that of the rule."""

    def __init__(self, epsilon: float) -> None:
        self._epsilon = epsilon
        self.first_row: int | None = None
        self.flagged = 0
        self.comparable: int | None = None
        self.in_pairs = PairMarks()
        self.pairs = 0
        self.by_row = RowStretches()
        self.by_time = TimeStretches()
        self.models = ModelTally()
        self._identical = 0
        self._margins = np.zeros(MARGINS, np.int64)

    @property
    def margins(self) -> Margins:
        return Margins(self._identical, tuple(self._margins.tolist()))

    def add(self, verdicts: Verdicts, times: Any = None, *, placed: bool = False) -> None:
        """Count a batch; `times` one for each decision.

        placed: whether decisions stand in the stream where their rows say, instead of one after
        the other
        """
        if len(verdicts) == 0:
            return
        violations, comparable = verdicts.violations, verdicts.comparable
        if times is not None:
            self.by_time.add(times, violations, comparable)
        if self.first_row is None:
            self.first_row = verdicts.first_row
        places = verdicts.rows - self.first_row if placed else None
        self.by_row.add(violations, comparable, places)
        self.flagged += int(violations.sum())
        if comparable is not None:
            self.comparable = (self.comparable or 0) + int(comparable.sum())
        self.in_pairs.add(verdicts)
        self.pairs += verdicts.pairs
        self._add_margins(verdicts)
        self.models.add(verdicts)

    def _add_margins(self, verdicts: Verdicts) -> None:
        if verdicts.pairs == 0:
            return
        starts = verdicts.offsets[:-1][verdicts.violations]
        nearest = np.minimum.reduceat(verdicts.witnesses.input_distances, starts)
        shares = nearest / self._epsilon
        self._identical += int((nearest == 0).sum())
        parts = np.ceil(shares[nearest > 0] * MARGINS - _ROUNDING).astype(np.int64) - 1
        self._margins += np.bincount(parts.clip(0, MARGINS - 1), minlength=MARGINS)

    # Parts of a stream, put together

    def merge(self, other: "Totals") -> None:
        """Add another part of the same stream, which is used up; both count from the same row."""
        if other.first_row is None:
            return
        self.first_row = other.first_row if self.first_row is None else self.first_row
        self.flagged += other.flagged
        self.pairs += other.pairs
        if other.comparable is not None:
            self.comparable = (self.comparable or 0) + other.comparable
        self.in_pairs.mark(other.in_pairs.rows)
        self.by_row.merge(other.by_row)
        self.by_time.merge(other.by_time)
        self.models.merge(other.models)
        self._identical += other._identical
        self._margins += other._margins

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, except `in_pairs`; `from_dict` also takes its rows."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "by_row": self.by_row.to_dict(),
            "by_time": self.by_time.to_dict(),
            "models": self.models.to_dict(),
            "identical": self._identical,
            "margins": self._margins.tolist(),
        }

    @classmethod
    def from_dict(cls, epsilon: float, fields: dict[str, Any], in_pairs: Rows) -> "Totals":
        totals = cls(epsilon)
        vars(totals).update({name: fields[name] for name in _PLAIN})
        totals.by_row = RowStretches.from_dict(fields["by_row"])
        totals.by_time = TimeStretches.from_dict(fields["by_time"])
        totals.models = ModelTally.from_dict(fields["models"])
        totals._identical, totals._margins = fields["identical"], np.array(fields["margins"])
        totals.in_pairs.mark(in_pairs)
        return totals
