"""Read one row at a time, if its values are plain and its categories are known.

Reading a row as a table of one costs more than judging it; here each column has a prepared step.
Everything unusual (a missing value, a new category, a value of another type) is left to the
encoder, which also words the errors.
Invariant: the vector is the one that the encoder would give, to the last bit.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.monitor.readers.encoding import Encoder
from likewise.rule.feature import Feature
from likewise.tables.normalize import MAX_EXACT_INT

Step = Callable[[Any, list[int], list[float]], float | int | None]
"""Adds a value to the codes that must match and to the coordinates; returns the stored value, or
None to give up."""


_PLAIN = frozenset((float, int))


class PlainRow(Mapping[str, Any]):
    """Holds a row that was read: its vector and, as a mapping, the stored value of each column."""

    __slots__ = ("_reader", "codes", "has_new_values", "numbers", "vector")

    def __init__(
        self,
        reader: "RowReader",
        vector: npt.NDArray[np.float64],
        numbers: Sequence[Any],
        codes: Sequence[Any],
        has_new_values: bool,
    ) -> None:
        self._reader = reader
        self.vector = vector
        self.numbers = numbers
        self.codes = codes
        self.has_new_values = has_new_values

    def __getitem__(self, name: str) -> Any:
        is_number, j = self._reader.places[name]
        return self.numbers[j] if is_number else self.codes[j]

    def __iter__(self) -> Iterator[str]:
        return iter(self._reader.places)

    def __len__(self) -> int:
        return len(self._reader.places)


class RowReader:
    """Reads single rows under an encoder's rule.

    Numbers that are a coordinate each, and nothing else, are read together; every other column has
    a step of its own.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        features = encoder.kept_features
        plain = [name for name, one in features.items() if _is_plain_number(one)]
        if any(one.kind == "number" and name not in plain for name, one in features.items()):
            plain = []  # so that numbers are stored in the order of their columns
        self._get_plain = itemgetter(*plain) if len(plain) > 1 else None
        self._steps = [
            (name, _make_step(encoder, name, one), one.kind == "number")
            for name, one in features.items()
            if self._get_plain is None or name not in plain
        ]
        order = np.arange(len(encoder.weights))
        self._plain_at = _concatenate([order[encoder.places[name]] for name in plain])
        self._steps_at = _concatenate([order[encoder.places[name]] for name, *_ in self._steps])
        self._all_plain = self._get_plain is not None and not self._steps
        self.places: dict[str, tuple[bool, int]] = {}
        """By column, in order: whether it is one of the numbers, and its place among them, or
        among the codes."""
        counts = [0, 0]
        for name, one in features.items():
            is_number = one.kind == "number"
            self.places[name] = is_number, counts[is_number]
            counts[is_number] += 1

    def read(self, row: Mapping[str, Any]) -> PlainRow | None:
        """Read a row as the encoder would; None if the encoder has to read it."""
        numbers: list[Any] = []
        if self._get_plain is not None:
            plain = self._get_plain(row)
            if not _are_plain(plain):
                return None
            if self._all_plain:
                return PlainRow(self, np.array(plain, np.float64), plain, [], False)
            numbers += plain
        return self._read_steps(row, numbers)

    def _read_steps(self, row: Mapping[str, Any], numbers: list[Any]) -> PlainRow | None:
        """Read the columns that have steps; `numbers` are those that were read together."""
        must: list[int] = []
        coordinates: list[float] = []
        codes: list[Any] = []
        try:
            for name, step, is_number in self._steps:
                stored = step(row[name], must, coordinates)
                if stored is None:
                    return None
                if is_number:
                    numbers.append(stored)
                else:
                    codes.append(stored)
        except (TypeError, KeyError):
            return None
        vector, has_new_values = np.empty(len(self._encoder.weights)), False
        if self._encoder.has_must_match:
            combination = array("i", must).tobytes()
            vector[0], has_new_values = self._encoder.number_combination(combination)
        if self._get_plain is not None:
            vector[self._plain_at] = numbers
        if coordinates:
            vector[self._steps_at] = coordinates
        return PlainRow(self, vector, numbers, codes, has_new_values)


def _are_plain(numbers: tuple[Any, ...]) -> bool:
    """Whether all are Python's own numbers, finite, and exact as float64s."""
    if not _PLAIN.issuperset(map(type, numbers)):
        return False
    return (
        min(numbers) >= -MAX_EXACT_INT and max(numbers) <= MAX_EXACT_INT and isfinite(sum(numbers))
    )


def _is_plain_number(feature: Feature) -> bool:
    """Whether a column becomes one coordinate, and nothing of it must match."""
    return feature.kind == "number" and feature.ratio is None and feature.missing != "mismatch"


def _concatenate(places: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *places])


def _make_step(encoder: Encoder, name: str, feature: Feature) -> Step:
    if feature.ratio is not None:
        return _make_ratio_step(feature)
    if feature.kind == "number":
        return _make_coordinate_step(feature, plain_number)
    code_of = encoder.vocabularies[name].code_of
    if feature.embed is not None:
        return lambda value, must, coordinates: None  # embedding takes longer than a table anyway
    if feature.kind in ("protected", "person"):
        return lambda value, must, coordinates: code_of(value)
    if feature.kind == "ordinal" or (feature.mismatch is None and feature.missing == "match"):
        return _make_coordinate_step(feature, code_of)
    coordinates_of = None
    if feature.mismatch is not None:
        codes = np.arange(len(feature.values or ()))
        coordinates_of = encoder.category_coordinates(name, codes).tolist()

    def read_category(value: Any, must: list[int], coordinates: list[float]) -> int | None:
        code = code_of(value)
        if code is not None:
            if coordinates_of is None:
                must.append(code)
            else:
                coordinates += coordinates_of[code]
        return code

    return read_category


def _make_coordinate_step(
    feature: Feature, read_number: Callable[[Any], float | int | None]
) -> Step:
    """Make the step of a column whose number, or code, is its one coordinate."""
    flagged = feature.missing == "mismatch"

    def read_coordinate(
        value: Any, must: list[int], coordinates: list[float]
    ) -> float | int | None:
        number = read_number(value)
        if number is not None:
            if flagged:
                must.append(0)
            coordinates.append(float(number))
        return number

    return read_coordinate


def plain_number(value: Any) -> float | None:
    """Return one of Python's own numbers if it is finite and exact as a float64, else None."""
    if type(value) is float:
        return value if isfinite(value) else None
    return float(value) if type(value) is int and -MAX_EXACT_INT <= value <= MAX_EXACT_INT else None


def _make_ratio_step(feature: Feature) -> Step:
    flagged, apart = feature.missing == "mismatch", feature.missing == "match"

    def read_ratio(value: Any, must: list[int], coordinates: list[float]) -> float | None:
        plain = plain_number(value)
        if plain is None:
            return None
        sign = (plain > 0) - (plain < 0)
        # NumPy's logarithm, as for a table
        coordinates.append(float(np.log(abs(plain))) if sign else 0.0)
        if flagged:
            must.append(0)
        if apart:
            coordinates.append(float(sign))
        else:
            must.append(sign)
        return plain

    return read_ratio
