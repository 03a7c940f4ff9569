"""Which decisions are in any contradicting pair, as the later or as the earlier of the two.

Who came later depends on the order of decisions; who is in a pair does not. So this count is the
same for a file and for the file turned upside down.

Invariant: a decision is counted once, however many pairs it is in; witnesses from before the first
decision added are not counted, since they are not among the decisions looked at.
Cost: one bit for each decision.
"""

import numpy as np
import numpy.typing as npt

from likewise.values.verdicts import Rows, Verdicts

_BITS = 8


class InPairs:
    """Marks decisions that are in a pair.

    >>> from likewise import Monitor, Rule
    >>> monitor, marks = Monitor(Rule(epsilon=1)), InPairs()
    >>> marks.add(monitor.observe_many([[0.0], [0.5], [9.0]], ["yes", "no", "no"]))
    >>> marks.count
    2
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._marks: npt.NDArray[np.uint8] = np.zeros(1 << 10, np.uint8)

    def add(self, verdicts: Verdicts) -> None:
        """The next batch."""
        if len(verdicts) == 0:
            return
        if self._first is None:
            self._first = verdicts.first_row
        self._mark(verdicts.rows[verdicts.violations] - self._first)
        earlier = verdicts.witnesses.rows - self._first
        self._mark(earlier[earlier >= 0])

    def mark(self, rows: Rows) -> None:
        """Decisions that another part of the stream has found to be in a pair."""
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
        """How many are marked."""
        return int(np.bitwise_count(self._marks).sum(dtype=np.int64))

    @property
    def rows(self) -> Rows:
        """Those that are marked."""
        some = np.flatnonzero(self._marks)
        at, bit = np.nonzero(np.unpackbits(self._marks[some, None], axis=1, bitorder="little"))
        rows: Rows = (self._first or 0) + some[at] * _BITS + bit
        return rows
