"""How many decisions were flagged, stretch by stretch: by place in the stream, and by time.

A stream has no known end, so stretches begin fine and are joined as it grows: always into whole
larger ones, so that the result depends on the decisions alone, not on how they came in batches.

Invariant: every decision added is in exactly one stretch; those without a usable time are counted.
Cost: some thousand numbers, however long the stream.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision
from likewise.tables.normalize import require_list
from likewise.tables.times import to_microseconds

SHOWN = 50  # stretches in a picture, at most
_KEPT = 1_000  # stretches held while counting, at most
_UNITS = ("s", "m", "h", "D", "M", "Y")
_STEPS = {  # how many of a unit make a stretch
    "s": (1, 5, 10, 30),
    "m": (1, 5, 10, 30),
    "h": (1, 2, 6, 12),
    "D": (1, 7, 14),
    "M": (1, 3, 6),
    "Y": (1, 2, 5, 10),
}
_MONDAY = 3  # days before 1970-01-01, a Thursday, to a Monday
_EPOCH = (1e8, 1e11)  # seconds, from 1973 on; a smaller number is no time that we know
_EARLIEST, _LATEST = np.datetime64("1800-01-01", "s"), np.datetime64("2199-12-31T23:59:59", "s")


@dataclass(frozen=True)
class Stretch:
    """Some decisions that followed each other: from `start` up to, not including, `stop`."""

    start: int | str
    stop: int | str
    decisions: int
    flagged: int
    comparable: int | None = None
    """With an earlier like case; None where that was not looked at."""

    @property
    def of(self) -> int:
        """The decisions that a rate is a share of: the comparable ones, where they are known."""
        return self.decisions if self.comparable is None else self.comparable

    @property
    def rate(self) -> float:
        """The share of `of` that contradicts an earlier decision."""
        return self.flagged / self.of if self.of else 0.0


class RowStretches:
    """Stretches of equally many decisions."""

    def __init__(self) -> None:
        self._width = 1
        self._counts = np.zeros((2, _KEPT), np.int64)  # flagged, comparable
        self._compared = False
        self.rows = 0

    def add(
        self,
        violations: npt.NDArray[np.bool_],
        comparable: npt.NDArray[np.bool_] | None = None,
        places: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Further decisions; where each stands in the stream, unless they are the next ones."""
        if places is None:
            places = np.arange(self.rows, self.rows + len(violations))
        self._widen(int(places.max(initial=-1)) + 1)
        self._compared |= comparable is not None
        for i, which in enumerate((violations, comparable)):
            if which is not None:
                at = places[np.flatnonzero(which)] // self._width
                self._counts[i] += np.bincount(at, minlength=_KEPT)
        self.rows += len(violations)

    def _widen(self, stop: int) -> None:
        """Have room for decisions up to that place."""
        while stop > self._width * _KEPT:
            joined = self._counts.reshape(2, -1, 10).sum(axis=2)
            self._counts = np.zeros((2, _KEPT), np.int64)
            self._counts[:, : joined.shape[1]] = joined
            self._width *= 10

    def merge(self, other: "RowStretches") -> None:
        """Add the decisions of another part of the stream; `other` is used up."""
        for one, wider in ((self, other), (other, self)):
            one._widen(wider._width * _KEPT)
        self._counts += other._counts
        self._compared |= other._compared
        self.rows += other.rows

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `of_dict` gives it back."""
        return {
            "width": self._width,
            "counts": self._counts.tolist(),
            "compared": self._compared,
            "rows": self.rows,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "RowStretches":
        made = cls()
        made._width, made._compared, made.rows = fields["width"], fields["compared"], fields["rows"]
        made._counts = np.array(fields["counts"], np.int64)
        return made

    def stretches(self, first: int) -> tuple[Stretch, ...]:
        """All of them, by row number; the stream began at row `first`."""
        if self.rows == 0:
            return ()
        step = next(
            (one for one in (1, 2, 5, 10, 20, 50) if self.rows <= SHOWN * one * self._width), 100
        )
        width = step * self._width
        edges = list(range(0, self.rows, width))
        if len(edges) > 1 and self.rows - edges[-1] < width / 2:
            edges.pop()  # a rate of a handful of decisions says little
        sums = np.add.reduceat(self._counts, np.array(edges) // self._width, axis=1).tolist()
        return tuple(
            Stretch(
                first + start, first + stop, stop - start, bad, some if self._compared else None
            )
            for start, stop, bad, some in zip(edges, [*edges[1:], self.rows], *sums, strict=True)
        )


class TimeStretches:
    """Stretches of equal time: seconds to years, whatever suits."""

    def __init__(self) -> None:
        self._unit = 0
        self._counts: dict[int, list[int]] = {}  # decisions, flagged, comparable
        self._compared = False
        self.untimed = 0

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
        known = ~np.isnat(seconds)
        self.untimed += int((~known).sum())
        if not known.any():
            return
        places = _places(seconds[known], _UNITS[self._unit])
        self._compared |= comparable is not None
        some = np.zeros(len(seconds), np.bool_) if comparable is None else comparable
        self._count(places, np.ones(len(places), np.int64), violations[known], some[known])
        while len(self._counts) > _KEPT and self._unit + 1 < len(_UNITS):
            self._coarsen()

    def _count(self, places: Any, *each: Any) -> None:
        """Add decisions, flagged and comparable ones where they belong."""
        names, which = np.unique(places, return_inverse=True)
        sums = [np.bincount(which, weights=one).astype(np.int64).tolist() for one in each]
        for place, *more in zip(names.tolist(), *sums, strict=True):
            self._counts[place] = _add_counts(self._counts.get(place), more)

    def _coarsen(self) -> None:
        """Join stretches into those of the next unit."""
        old = np.array(list(self._counts)).astype(f"datetime64[{_UNITS[self._unit]}]")
        counts = np.array(list(self._counts.values()))
        self._unit += 1
        self._counts = {}
        self._count(_places(old, _UNITS[self._unit]), *counts.T)

    def merge(self, other: "TimeStretches") -> None:
        """Add the decisions of another part of the stream; `other` is used up."""
        for one, coarser in ((self, other), (other, self)):
            while one._unit < coarser._unit:
                one._coarsen()
        for place, more in other._counts.items():
            self._counts[place] = _add_counts(self._counts.get(place), more)
        self._compared |= other._compared
        self.untimed += other.untimed
        while len(self._counts) > _KEPT and self._unit + 1 < len(_UNITS):
            self._coarsen()

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `of_dict` gives it back."""
        return {
            "unit": self._unit,
            "counts": [[place, *more] for place, more in self._counts.items()],
            "compared": self._compared,
            "untimed": self.untimed,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "TimeStretches":
        made = cls()
        made._unit, made._compared, made.untimed = (
            fields["unit"],
            fields["compared"],
            fields["untimed"],
        )
        made._counts = {place: more for place, *more in fields["counts"]}
        return made

    def stretches(self) -> tuple[Stretch, ...]:
        """Those with a decision in them, in order of time."""
        if not self._counts:
            return ()
        while True:
            unit = _UNITS[self._unit]
            low, high = min(self._counts), max(self._counts)
            for step in _STEPS[unit]:
                if self._unit + 1 == len(_UNITS) and step == _STEPS[unit][-1]:
                    return self._join_stretches(unit, step)
                if _start(high, unit, step) - _start(low, unit, step) < SHOWN * step:
                    return self._join_stretches(unit, step)
            self._coarsen()

    def _join_stretches(self, unit: str, step: int) -> tuple[Stretch, ...]:
        joined: dict[int, list[int]] = {}
        for place in sorted(self._counts):
            start = _start(place, unit, step)
            joined[start] = _add_counts(joined.get(start), self._counts[place])
        return tuple(
            Stretch(
                _iso(place, unit),
                _iso(place + step, unit),
                many,
                bad,
                some if self._compared else None,
            )
            for place, (many, bad, some) in joined.items()
        )


def _add_counts(before: list[int] | None, more: list[int]) -> list[int]:
    return (
        more if before is None else [one + other for one, other in zip(before, more, strict=True)]
    )


def _places(times: Any, unit: str) -> npt.NDArray[np.int64]:
    return np.asarray(times).astype(f"datetime64[{unit}]").astype(np.int64)


def _start(place: int, unit: str, step: int) -> int:
    """The beginning of the stretch of `step` units that this one is in; weeks begin on Mondays."""
    shift = _MONDAY if unit == "D" and step > 1 else 0
    shift = 1970 if unit == "Y" else shift
    return (place + shift) // step * step - shift


def _iso(place: int, unit: str) -> str:
    return str(np.array(place).astype(f"datetime64[{unit}]"))


def read_times(values: Any) -> npt.NDArray[np.datetime64]:
    """Return times as datetime64 in seconds, UTC; what is none, or out of range, is NaT."""
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
