"""Counts flagged decisions stretch by stretch: by place in the stream, and by time.

A stream has no known end, so stretches begin short and are joined as it grows: always into whole
larger ones, so that the result depends on the decisions alone, not on how they came in batches.

Invariant: every decision added is in exactly one stretch; those without a usable time are counted.
Cost: some thousand numbers, however long the stream.
"""

import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision
from likewise.tables.normalize import require_list
from likewise.tables.times import to_microseconds

SHOWN = 50  # the most stretches in a plot
_KEPT = 1_000  # the most stretches held while counting
_UNITS = ("s", "m", "h", "D", "M", "Y")
_STEPS = {  # how many of a unit make a stretch
    "s": (1, 5, 10, 30),
    "m": (1, 5, 10, 30),
    "h": (1, 2, 6, 12),
    "D": (1, 7, 14),
    "M": (1, 3, 6),
    "Y": (1, 2, 5, 10),
}
_MONDAY = 3  # days from a Monday to 1970-01-01, a Thursday
_EPOCH = (1e8, 1e11)  # seconds, from 1973 on; smaller numbers are not taken for times
_EARLIEST, _LATEST = np.datetime64("1800-01-01", "s"), np.datetime64("2199-12-31T23:59:59", "s")


@dataclass(frozen=True)
class Stretch:
    """Counts decisions that followed each other: from `start` up to, not including, `stop`."""

    start: int | str
    stop: int | str
    decisions: int
    violations: int
    comparable: int | None = None
    """How many had an earlier similar case; None where that was not counted."""

    @property
    def of(self) -> int:
        """The decisions that the rate is a share of: the comparable ones, where they are known."""
        return self.decisions if self.comparable is None else self.comparable

    @property
    def rate(self) -> float:
        """The share of `of` that contradicts an earlier decision."""
        return self.violations / self.of if self.of else 0.0


@dataclass
class RowStretches:
    """Counts in stretches of equally many decisions."""

    width: int = 1
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, _KEPT), np.int64))
    """Flagged and comparable decisions."""
    compared: bool = False
    rows: int = 0

    def add(
        self,
        violations: npt.NDArray[np.bool_],
        comparable: npt.NDArray[np.bool_] | None = None,
        places: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Add decisions; `places` says where they stand in the stream if they are not the next."""
        if places is None:
            places = np.arange(self.rows, self.rows + len(violations))
        self._widen(int(places.max(initial=-1)) + 1)
        self.compared |= comparable is not None
        for i, which in enumerate((violations, comparable)):
            if which is not None:
                at = places[np.flatnonzero(which)] // self.width
                self.counts[i] += np.bincount(at, minlength=_KEPT)
        self.rows += len(violations)

    def _widen(self, stop: int) -> None:
        """Make room for decisions up to that place."""
        while stop > self.width * _KEPT:
            joined = self.counts.reshape(2, -1, 10).sum(axis=2)
            self.counts = np.zeros((2, _KEPT), np.int64)
            self.counts[:, : joined.shape[1]] = joined
            self.width *= 10

    def merge(self, other: "RowStretches") -> None:
        """Add the decisions of another part of the stream; `other` is used up."""
        for one, wider in ((self, other), (other, self)):
            one._widen(wider.width * _KEPT)
        self.counts += other.counts
        self.compared |= other.compared
        self.rows += other.rows

    def stretches(self, first: int) -> tuple[Stretch, ...]:
        """Return all stretches, by row number; the stream began at row `first`."""
        if self.rows == 0:
            return ()
        step = next(
            (one for one in (1, 2, 5, 10, 20, 50) if self.rows <= SHOWN * one * self.width), 100
        )
        width = step * self.width
        edges = list(range(0, self.rows, width))
        if len(edges) > 1 and self.rows - edges[-1] < width / 2:
            edges.pop()  # a rate of a handful of decisions says little
        sums = np.add.reduceat(self.counts, np.array(edges) // self.width, axis=1).tolist()
        places, compared = zip(edges, [*edges[1:], self.rows], *sums, strict=True), self.compared
        return tuple(
            Stretch(first + start, first + stop, stop - start, flagged, near if compared else None)
            for start, stop, flagged, near in places
        )


@dataclass
class TimeStretches:
    """Counts in stretches of equal time: seconds to years, whatever suits."""

    unit: int = 0
    counts: dict[int, list[int]] = field(default_factory=dict)
    """Decisions, flagged and comparable ones, by the place of the stretch."""
    compared: bool = False
    untimed: int = 0

    def add(
        self,
        times: Any,
        violations: npt.NDArray[np.bool_],
        comparable: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        seconds = read_times(times)
        if len(seconds) != len(violations):
            raise ValueError(
                f"there are {len(seconds)} times for {len(violations)} decisions; expected one each"
            )
        timed = ~np.isnat(seconds)
        self.untimed += int((~timed).sum())
        if not timed.any():
            return
        places = _places(seconds[timed], _UNITS[self.unit])
        self.compared |= comparable is not None
        compared = np.zeros(len(seconds), np.bool_) if comparable is None else comparable
        self._count(places, np.ones(len(places), np.int64), violations[timed], compared[timed])
        self._limit_stretches()

    def _limit_stretches(self) -> None:
        while len(self.counts) > _KEPT and self.unit + 1 < len(_UNITS):
            self._coarsen()

    def _count(self, places: Any, *each: Any) -> None:
        """Add numbers of decisions, of flagged and of comparable ones to their stretches."""
        names, which = np.unique(places, return_inverse=True)
        sums = [np.bincount(which, weights=one).astype(np.int64).tolist() for one in each]
        for place, *more in zip(names.tolist(), *sums, strict=True):
            _add_counts(self.counts, place, more)

    def _coarsen(self) -> None:
        """Join stretches into those of the next unit."""
        old = np.array(list(self.counts)).astype(f"datetime64[{_UNITS[self.unit]}]")
        counts = np.array(list(self.counts.values()))
        self.unit += 1
        self.counts = {}
        self._count(_places(old, _UNITS[self.unit]), *counts.T)

    def merge(self, other: "TimeStretches") -> None:
        """Add the decisions of another part of the stream; `other` is used up."""
        for one, coarser in ((self, other), (other, self)):
            while one.unit < coarser.unit:
                one._coarsen()
        for place, more in other.counts.items():
            _add_counts(self.counts, place, more)
        self.compared |= other.compared
        self.untimed += other.untimed
        self._limit_stretches()

    def stretches(self) -> tuple[Stretch, ...]:
        """Return the stretches with a decision in them, in order of time."""
        if not self.counts:
            return ()
        while True:
            unit = _UNITS[self.unit]
            low, high = min(self.counts), max(self.counts)
            for step in _STEPS[unit]:
                if self.unit + 1 == len(_UNITS) and step == _STEPS[unit][-1]:
                    return self._join_stretches(unit, step)
                if _start(high, unit, step) - _start(low, unit, step) < SHOWN * step:
                    return self._join_stretches(unit, step)
            self._coarsen()

    def _join_stretches(self, unit: str, step: int) -> tuple[Stretch, ...]:
        joined: dict[int, list[int]] = {}
        for place in sorted(self.counts):
            _add_counts(joined, _start(place, unit, step), self.counts[place])
        stretches = []
        for place, (decisions, flagged, near) in joined.items():
            ends = _iso(place, unit), _iso(place + step, unit)
            stretches.append(Stretch(*ends, decisions, flagged, near if self.compared else None))
        return tuple(stretches)


def _add_counts(counts: dict[int, list[int]], place: int, more: list[int]) -> None:
    counts[place] = list(map(operator.add, counts.get(place, (0, 0, 0)), more))


def _places(times: Any, unit: str) -> npt.NDArray[np.int64]:
    return np.asarray(times).astype(f"datetime64[{unit}]").astype(np.int64)


def _start(place: int, unit: str, step: int) -> int:
    """Return where the stretch of `step` units with this place begins; weeks begin on Mondays."""
    shift = _MONDAY if unit == "D" and step > 1 else 0
    shift = 1970 if unit == "Y" else shift
    return (place + shift) // step * step - shift


def _iso(place: int, unit: str) -> str:
    return str(np.array(place).astype(f"datetime64[{unit}]"))


def read_times(values: Any) -> npt.NDArray[np.datetime64]:
    """Return times as datetime64 in seconds, UTC; NaT for what is no time, or out of range."""
    times: Any = values
    if not (isinstance(values, np.ndarray) and values.dtype.kind == "M"):
        times = np.array([_time_of(value) for value in require_list(values)], "datetime64[us]")
    seconds = times.astype("datetime64[s]")
    usual = (seconds >= _EARLIEST) & (seconds <= _LATEST)
    return np.where(usual, seconds, np.datetime64("NaT", "s"))


def _time_of(value: Any) -> np.datetime64:
    """Return one time; NaT if it is none, as years 1 and 9999 and small numbers mostly are not."""
    number = isinstance(value, int | float)
    try:
        if not number or _EPOCH[0] <= value < _EPOCH[1]:
            return np.datetime64(to_microseconds(value), "us")
    except BadDecision:
        pass
    return np.datetime64("NaT", "us")
