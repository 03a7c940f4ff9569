"""Witnesses: the past decisions that one decision contradicts.

Invariant: frozen, including the arrays.
Not here: the context of a verdict (context.py), the verdict itself (verdicts.py).
"""

from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.tables.array_types import Floats, Rows


@dataclass(frozen=True, slots=True)
class Witness:
    """A past decision that the new one contradicts."""

    row: int
    input_distance: float
    output_distance: float


_ROW, _NUMBER = Struct("q").unpack_from, Struct("d").unpack_from


class Witnesses:
    """Past decisions near in input and different in output, by ascending row.

    Columns are read-only arrays, or the bytes of one, from which each property makes an array
    without copying: an array takes longer to make than to fill, and most are never read.
    """

    __slots__ = ("_input_distances", "_output_distances", "_rows")
    _rows: Rows | bytes
    _input_distances: Floats | bytes
    _output_distances: Floats | bytes

    def __init__(
        self, rows: Rows | bytes, input_distances: Floats | bytes, output_distances: Floats | bytes
    ) -> None:
        for column in (rows, input_distances, output_distances):
            if not isinstance(column, bytes):
                column.flags.writeable = False
        _set_rows(self, rows)
        _set_input_distances(self, input_distances)
        _set_output_distances(self, output_distances)

    @property
    def rows(self) -> Rows:
        column = self._rows
        return np.frombuffer(column, np.int64) if isinstance(column, bytes) else column

    @property
    def input_distances(self) -> Floats:
        """The distances of inputs, in the user's unit."""
        column = self._input_distances
        return np.frombuffer(column) if isinstance(column, bytes) else column

    @property
    def output_distances(self) -> Floats:
        column = self._output_distances
        return np.frombuffer(column) if isinstance(column, bytes) else column

    def columns(self) -> tuple[Rows, Floats, Floats]:
        """Return rows, input distances and output distances."""
        rows, near, far = self._rows, self._input_distances, self._output_distances
        return (
            np.frombuffer(rows, np.int64) if isinstance(rows, bytes) else rows,
            np.frombuffer(near) if isinstance(near, bytes) else near,
            np.frombuffer(far) if isinstance(far, bytes) else far,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> Any:
        return Witnesses, self.columns()

    def __repr__(self) -> str:
        columns = ("rows", "input_distances", "output_distances")
        with np.printoptions(threshold=12):  # of longer arrays, the first and last three numbers
            return f"Witnesses({', '.join(f'{name}={getattr(self, name)!r}' for name in columns)})"

    def __len__(self) -> int:
        column = self._rows
        return len(column) // 8 if isinstance(column, bytes) else len(column)

    def __getitem__(self, i: int) -> Witness:
        rows, near, far = self._rows, self._input_distances, self._output_distances
        if isinstance(rows, bytes) and isinstance(near, bytes) and isinstance(far, bytes):
            at = 8 * range(len(self))[i]
            return Witness(*_ROW(rows, at), *_NUMBER(near, at), *_NUMBER(far, at))
        return Witness(
            int(self.rows[i]), float(self.input_distances[i]), float(self.output_distances[i])
        )

    @property
    def first(self) -> tuple[int, float, float]:
        """The row and distances of the first witness, read without making arrays."""
        rows, near, far = self._rows, self._input_distances, self._output_distances
        if isinstance(rows, bytes) and isinstance(near, bytes) and isinstance(far, bytes):
            return *_ROW(rows), *_NUMBER(near), *_NUMBER(far)
        return int(self.rows[0]), float(self.input_distances[0]), float(self.output_distances[0])

    def __iter__(self) -> Iterator[Witness]:
        return map(Witness, *(column.tolist() for column in self.columns()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Witnesses):
            return NotImplemented
        return all(map(np.array_equal, self.columns(), other.columns()))

    __hash__ = None  # type: ignore[assignment]

    def select(self, chosen: "npt.NDArray[np.bool_] | Rows") -> "Witnesses":
        """Return the chosen witnesses, with copies of their columns."""
        rows, near, far = self.columns()
        return Witnesses(rows[chosen], near[chosen], far[chosen])

    def nearest(self, count: int = 5) -> "list[Witness]":
        """Return the nearest witnesses, nearest first; equally near ones by row."""
        return [self[i] for i in self.nearest_places(count)]

    def nearest_places(self, count: int | None) -> list[int]:
        """Return the places of the nearest witnesses, in that order; of all if count is None."""
        places: list[int] = np.argsort(self.input_distances, kind="stable")[:count].tolist()
        return places


_set_rows = vars(Witnesses)["_rows"].__set__
_set_input_distances = vars(Witnesses)["_input_distances"].__set__
_set_output_distances = vars(Witnesses)["_output_distances"].__set__

NO_WITNESSES = Witnesses(np.empty(0, np.int64), np.empty(0), np.empty(0))
