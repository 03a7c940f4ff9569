"""Adds up verdicts, of a whole stream or of a part of it.

A decision may be counted at its row. Then parts may come in any order, be counted apart, and be put
together afterwards (`merge`): the totals are those of the whole stream.

Invariant: totals depend on the decisions, not on how they came in batches or parts.
Cost: some thousand numbers, and a bit for each decision.
Not here: which pairs are the clearest (clearest.py), what is made of totals (findings.py).
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.explaining.model_tally import ModelTally
from likewise.reports.timeline import RowStretches, TimeStretches
from likewise.tables.array_types import Rows
from likewise.tables.frames import is_missing
from likewise.verdict.model_counts import CodedColumn
from likewise.verdict.verdicts import Verdicts

Words = npt.NDArray[np.int64]
_POSITIVE = (1 << 63) - 1
_STEP = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: neighbouring places get distant numbers


# Numbers for values and for rows of values, which mean the same in every process and run.
# A monitor numbers labels and categories in the order in which they come, so the codes of two
# monitors cannot be compared. These numbers can.
#
# Invariant: equal values have equal numbers; different ones have different numbers, but for one
# case in 2**63.


def stable_number(value: Any) -> int:
    """Return a number from 0 to 2**63 - 1 for a label, a category or a key."""
    return int.from_bytes(hashlib.blake2b(_text(value), digest_size=8).digest()) & _POSITIVE


def _text(value: Any) -> bytes:
    """Write a value as text; values that Python holds equal (1, 1.0 and True) have one text."""
    if isinstance(value, bool | float) and float(value).is_integer():
        value = int(value)
    kind = "number" if isinstance(value, int | float) else type(value).__name__
    return f"{kind}:{value!r}".encode("utf-8", "surrogatepass")


def stable_codes(coded: CodedColumn) -> Words:
    """Replace the codes of a monitor by the numbers of what they stand for; -1 stays."""
    different, which = np.unique(coded.codes, return_inverse=True)
    numbers = [-1 if code < 0 else stable_number(coded.values[code]) for code in different.tolist()]
    return np.array(numbers, np.int64)[which]


def stable_column(values: Sequence[Any]) -> Words:
    """Return the numbers of values, -1 where one is missing."""
    numbers: dict[Any, int] = {}
    for value in dict.fromkeys(values):
        numbers[value] = -1 if is_missing(value) else stable_number(value)
    return np.fromiter((numbers[value] for value in values), np.int64, len(values))


def to_words(values: npt.NDArray[Any]) -> Words:
    """Write each row as 64-bit words; 0.0 and -0.0 are the same, and so are all NaN."""
    flat = values.reshape(len(values), -1)
    if flat.dtype.kind != "f":
        return flat.astype(np.int64)
    numbers = np.where(np.isnan(flat), np.nan, flat.astype(np.float64) + 0.0)
    return np.ascontiguousarray(numbers).view(np.int64)


def mix_words(words: Words) -> npt.NDArray[np.uint64]:
    """Return one number for each row: its words are mixed with their places, and added up.

    The mixing is splitmix64 (Steele, Lea and Flood 2014): every bit of a word moves every other.
    """
    places = np.arange(1, words.shape[1] + 1, dtype=np.uint64)
    mixed: npt.NDArray[np.uint64] = (words.view(np.uint64) + places * _STEP).astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed = mixed ^ (mixed >> np.uint64(31))
    total: npt.NDArray[np.uint64] = mixed.sum(axis=1, dtype=np.uint64)
    return total


Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""


# Computes intervals for a share (95 % by default): Wilson's score interval, which stays within 0
# and 1, and is sensible for 0 of 20, too. It assumes independent decisions. Decisions of one
# history are not quite independent: one odd decision may contradict many later ones. Pages that
# show an interval say so.


@dataclass(frozen=True)
class Share:
    """Holds a count out of a number, and the interval of the share."""

    count: int
    of: int
    low: float
    high: float

    @property
    def rate(self) -> float | None:
        """The share itself; None if it is a share of nothing."""
        return self.count / self.of if self.of else None


def wilson(count: int, of: int) -> Share:
    """Return a share with its interval; a share of nothing has that from 0 to 1.

    >>> share = wilson(10, 100)
    >>> round(share.low, 4), round(share.high, 4)
    (0.0552, 0.1744)
    """
    return Share(count, of, *wilson_bounds(count, of))


def wilson_bounds(count: float, of: float, deviations: float = Z) -> tuple[float, float]:
    """Return the lowest and the highest rate that the share is within `deviations` of."""
    if of == 0:
        return 0.0, 1.0
    square = deviations * deviations
    middle = (count + square / 2) / (of + square)
    half = deviations * math.sqrt(count * (of - count) / of + square / 4) / (of + square)
    low = 0.0 if count == 0 else max(0.0, middle - half)
    return low, 1.0 if count == of else min(1.0, middle + half)


MARGINS = 20  # bars in the histogram of margins
_BITS = 8
_ROUNDING = 1e-9  # a margin of 0.6000000000000001 is one of 0.6


@dataclass(frozen=True)
class Margins:
    """Counts how near the nearest witness of each flagged decision is, as a share of epsilon."""

    identical: int
    """How many are at distance 0."""
    counts: tuple[int, ...]
    """How many are at a share of epsilon above i/n, up to (i+1)/n, for n equal parts."""


@dataclass
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

    first: int | None = None
    """The first decision of the stream."""
    marks: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(1 << 10, np.uint8))
    """A bit for each decision."""

    def add(self, verdicts: Verdicts) -> None:
        """Add the next batch."""
        if len(verdicts) == 0:
            return
        if self.first is None:
            self.first = verdicts.first_row
        self._mark(verdicts.rows[verdicts.violations] - self.first)
        earlier = verdicts.witnesses.rows - self.first
        self._mark(earlier[earlier >= 0])

    def mark(self, rows: Rows) -> None:
        """Mark decisions that another part of the stream has found to be in a pair."""
        self.first = self.first or 0
        self._mark(rows - self.first)

    def _mark(self, places: Rows) -> None:
        stop = int(places.max(initial=-1)) + 1
        while stop > _BITS * len(self.marks):
            self.marks = np.concatenate([self.marks, np.zeros_like(self.marks)])
        bits = np.left_shift(1, places % _BITS).astype(np.uint8)
        np.bitwise_or.at(self.marks, places // _BITS, bits)

    @property
    def count(self) -> int:
        """How many decisions are marked."""
        return int(np.bitwise_count(self.marks).sum(dtype=np.int64))

    @property
    def rows(self) -> Rows:
        """The decisions that are marked."""
        marked = np.flatnonzero(self.marks)
        at, bit = np.nonzero(np.unpackbits(self.marks[marked, None], axis=1, bitorder="little"))
        rows: Rows = (self.first or 0) + marked[at] * _BITS + bit
        return rows


@dataclass
class Totals:
    """Adds up verdicts, batch by batch; `epsilon` is that of the rule."""

    epsilon: float
    first_row: int | None = None
    flagged: int = 0
    comparable: int | None = None
    in_pairs: PairMarks = field(default_factory=PairMarks)
    pairs: int = 0
    by_row: RowStretches = field(default_factory=RowStretches)
    by_time: TimeStretches = field(default_factory=TimeStretches)
    models: ModelTally = field(default_factory=ModelTally)
    identical: int = 0
    nearness: Rows = field(default_factory=lambda: np.zeros(MARGINS, np.int64))
    """How many flagged decisions there are by margin."""

    @property
    def margins(self) -> Margins:
        return Margins(self.identical, tuple(self.nearness.tolist()))

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
        shares = nearest / self.epsilon
        self.identical += int((nearest == 0).sum())
        parts = np.ceil(shares[nearest > 0] * MARGINS - _ROUNDING).astype(np.int64) - 1
        self.nearness += np.bincount(parts.clip(0, MARGINS - 1), minlength=MARGINS)

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
        self.identical += other.identical
        self.nearness += other.nearness
