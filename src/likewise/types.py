"""What a monitor answers: frozen values, with read-only arrays inside.

A `Verdict` is what one decision revealed, its `Witnesses` are the past decisions it contradicts.
`Verdicts` hold a whole batch in four flat arrays, and make a `Verdict` when asked for one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Witness:
    """A past decision that the new one contradicts."""

    row: int
    input_distance: float
    output_distance: float


@dataclass(frozen=True, slots=True, eq=False)
class Witnesses:
    """Past decisions near in input and different in output, by ascending row."""

    rows: Rows
    input_distances: Floats
    output_distances: Floats

    def __post_init__(self) -> None:
        for array in (self.rows, self.input_distances, self.output_distances):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Witness:
        return Witness(
            int(self.rows[i]), float(self.input_distances[i]), float(self.output_distances[i])
        )

    def __iter__(self) -> Iterator[Witness]:
        columns = (self.rows, self.input_distances, self.output_distances)
        return map(Witness, *(column.tolist() for column in columns))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Witnesses):
            return NotImplemented
        return (
            np.array_equal(self.rows, other.rows)
            and np.array_equal(self.input_distances, other.input_distances)
            and np.array_equal(self.output_distances, other.output_distances)
        )

    __hash__ = None  # type: ignore[assignment]

    def some(self, chosen: npt.NDArray[np.bool_]) -> "Witnesses":
        """Those that are chosen."""
        return Witnesses(
            self.rows[chosen], self.input_distances[chosen], self.output_distances[chosen]
        )

    def nearest(self, count: int = 5) -> "list[Witness]":
        """The nearest few, nearest first; the earlier row first where equally near."""
        order = np.argsort(self.input_distances, kind="stable")[:count]
        return [self[i] for i in order]


NO_WITNESSES = Witnesses(np.empty(0, np.int64), np.empty(0), np.empty(0))


@dataclass(frozen=True, slots=True)
class Compared:
    """The rows that a verdict ranges over: from `first` up to `stop`, less those `absent`."""

    first: int
    stop: int
    absent: int
    """Rows between that were erased, and could not be compared with."""

    @property
    def reduced(self) -> bool:
        """Whether a part of the past was not there."""
        return self.first > 0 or self.absent > 0


class _Beside(NamedTuple):
    """What some monitors say beside the witnesses."""

    over: Compared | None = None
    neighbours: int | None = None
    alarm: bool = False
    key: Any = None
    witness_keys: tuple[Any, ...] | None = None


_NOTHING = _Beside()


@dataclass(frozen=True, slots=True, init=False)
class Verdict:
    """What one decision revealed. No witnesses: nothing contradicts it yet.

    `row` is the decision's place in the history, or None if it was only checked.
    Verdicts are equal if they name the same row and witnesses, whatever else was counted.
    """

    row: int | None
    witnesses: Witnesses
    _beside: _Beside = field(repr=False, compare=False)

    def __init__(self, row: int | None, witnesses: Witnesses) -> None:
        _set_row(self, row)  # half the time of a frozen dataclass's own __init__, once a decision
        _set_witnesses(self, witnesses)
        _set_beside(self, _NOTHING)

    @property
    def violation(self) -> bool:
        """Whether a near past input got a different output."""
        return len(self.witnesses.rows) > 0

    @property
    def over(self) -> Compared | None:
        """What it was compared with, where a ledger keeps that; else all remembered then."""
        return self._beside.over

    @property
    def neighbours(self) -> int | None:
        """How many of the last decisions had a near input, whatever their output.

        None where the monitor has no burst to count.
        """
        return self._beside.neighbours

    @property
    def alarm(self) -> bool:
        """Whether there are so many neighbours that the burst's alarm is raised."""
        return self._beside.alarm

    @property
    def key(self) -> Any:
        """The caller's own key of this decision, if it was given one."""
        return self._beside.key

    @property
    def witness_keys(self) -> tuple[Any, ...]:
        """The keys of the witnesses, in their order; None for a decision without one."""
        known = self._beside.witness_keys
        return (None,) * len(self.witnesses) if known is None else known

    def named(self, key_of: Callable[[int], Any]) -> Self:
        """This verdict, made by a monitor that has keys by row."""
        key = None if self.row is None else key_of(self.row)
        keys = tuple(map(key_of, self.witnesses.rows.tolist()))
        _set_beside(self, self._beside._replace(key=key, witness_keys=keys))
        return self

    def amid(self, neighbours: int, alarm: int | None) -> Self:
        """This verdict, made by a monitor that counts neighbours, and alarms from so many on."""
        raised = alarm is not None and neighbours >= alarm
        _set_beside(self, self._beside._replace(neighbours=neighbours, alarm=raised))
        return self

    def within(self, over: Compared) -> Self:
        """This verdict, made by a monitor that keeps a window: witnesses from before are none."""
        if over.first > 0 and self.violation and self.witnesses.rows[0] < over.first:
            _set_witnesses(self, self.witnesses.some(self.witnesses.rows >= over.first))
        _set_beside(self, self._beside._replace(over=over))
        return self


_set_row = vars(Verdict)["row"].__set__
_set_witnesses = vars(Verdict)["witnesses"].__set__
_set_beside = vars(Verdict)["_beside"].__set__


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """The verdicts of a batch, in its order.

    The witnesses of decision i are `witnesses` from offsets[i] up to offsets[i + 1].
    """

    first_row: int
    offsets: Rows
    witnesses: Witnesses
    firsts: Rows | None = None
    """The first row that each was compared with, where a ledger keeps that."""
    absent: Rows | None = None
    """How many rows since then were erased, and could not be compared with."""
    neighbours: Rows | None = None
    """How many of the last decisions had a near input, where a burst is counted."""
    alarm_from: int | None = None
    """How many neighbours raise an alarm."""
    keys: tuple[Any, ...] | None = None
    """The key of each decision, where the monitor has keys; None for one without."""
    witness_keys: tuple[Any, ...] | None = None
    """The key of each of `witnesses`, likewise."""

    def __post_init__(self) -> None:
        self.offsets.flags.writeable = False

    def amid(self, neighbours: Rows, alarm: int | None) -> Self:
        """These verdicts, made by a monitor that counts neighbours, and alarms from so many on."""
        neighbours.flags.writeable = False
        object.__setattr__(self, "neighbours", neighbours)
        object.__setattr__(self, "alarm_from", alarm)
        return self

    def named(self, key_of: Callable[[int], Any]) -> Self:
        """These verdicts, made by a monitor that has keys by row."""
        object.__setattr__(self, "keys", tuple(map(key_of, self.rows.tolist())))
        found = tuple(map(key_of, self.witnesses.rows.tolist()))
        object.__setattr__(self, "witness_keys", found)
        return self

    @property
    def alarms(self) -> npt.NDArray[np.bool_]:
        """Whether each decision raised an alarm."""
        if self.neighbours is None or self.alarm_from is None:
            return np.zeros(len(self), dtype=np.bool_)
        return self.neighbours >= self.alarm_from

    def within(self, firsts: Rows, absent: Rows) -> Self:
        """These verdicts, made by a monitor that keeps a window: witnesses from before are none."""
        put = object.__setattr__
        if len(firsts) and firsts[-1] > 0:
            owners = np.repeat(np.arange(len(self)), self.counts)
            chosen = self.witnesses.rows >= firsts[owners]
            counts = np.bincount(owners[chosen], minlength=len(self))
            put(self, "offsets", np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
            put(self, "witnesses", self.witnesses.some(chosen))
        put(self, "firsts", firsts)
        put(self, "absent", absent)
        return self

    @property
    def rows(self) -> Rows:
        """The batch's rows in the history."""
        return np.arange(self.first_row, self.first_row + len(self), dtype=np.int64)

    @property
    def counts(self) -> Rows:
        """Witnesses per decision."""
        return np.diff(self.offsets)

    @property
    def violations(self) -> npt.NDArray[np.bool_]:
        """Whether each decision has a witness."""
        return self.counts > 0

    @property
    def pairs(self) -> int:
        """Witnesses in all: each is one violating pair."""
        return len(self.witnesses)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Verdict:
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"this batch has {n} verdicts, there is no number {i}")
        i %= n
        part = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        found = self.witnesses
        verdict = Verdict(
            self.first_row + i,
            Witnesses(found.rows[part], found.input_distances[part], found.output_distances[part]),
        )
        _set_beside(verdict, self._beside(i))
        return verdict

    def _beside(self, i: int) -> _Beside:
        over, near, raised = None, None, False
        if self.firsts is not None and self.absent is not None:
            over = Compared(int(self.firsts[i]), self.first_row + i, int(self.absent[i]))
        if self.neighbours is not None:
            near = int(self.neighbours[i])
            raised = self.alarm_from is not None and near >= self.alarm_from
        if self.keys is None or self.witness_keys is None:
            return _Beside(over, near, raised)
        part = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        return _Beside(over, near, raised, self.keys[i], self.witness_keys[part])

    def __iter__(self) -> Iterator[Verdict]:
        return (self[i] for i in range(len(self)))
