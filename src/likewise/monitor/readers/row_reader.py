"""One row at a time: the vector of a row whose values are plain and whose categories are known.

Reading a row as a table of one costs more than judging it. Here each column has its step prepared.
Whatever is out of the ordinary (a missing place, a new category, something that is no plain number)
is left to the encoder, which knows what to say.

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
"""Adds a value to what must match and to the coordinates; what is kept, or None to give up."""


_PLAIN = frozenset((float, int))


class PlainRow(Mapping[str, Any]):
    """A row that was read: its vector, and by column what is kept."""

    __slots__ = ("_reader", "codes", "has_new_values", "numbers", "vector")

    def __init__(
        self,
        reader: "RowReader",
        vector: npt.NDArray[np.float64],
        numbers: Sequence[Any],
        codes: Sequence[Any],
        news: bool,
    ) -> None:
        self._reader = reader
        self.vector = vector
        self.numbers = numbers
        self.codes = codes
        self.has_new_values = news

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
        kept = {name: one for name, one in encoder.features.items() if _is_kept(one)}
        plain = [name for name, one in kept.items() if _is_plain_number(one)]
        if any(one.kind == "number" and name not in plain for name, one in kept.items()):
            plain = []  # so that numbers are kept in the order of their columns
        self._get_plain = itemgetter(*plain) if len(plain) > 1 else None
        self._steps = [
            (name, _step(encoder, name, one), one.kind == "number")
            for name, one in kept.items()
            if self._get_plain is None or name not in plain
        ]
        order = np.arange(len(encoder.weights))
        self._plain_at = _concatenate([order[encoder.places[name]] for name in plain])
        self._steps_at = _concatenate([order[encoder.places[name]] for name, *_ in self._steps])
        self._all_plain = self._get_plain is not None and not self._steps
        self.places: dict[str, tuple[bool, int]] = {}
        """By column, in order: whether it is among the numbers, and its place there."""
        counts = [0, 0]
        for name, one in kept.items():
            is_number = one.kind == "number"
            self.places[name] = is_number, counts[is_number]
            counts[is_number] += 1

    def read(self, row: Mapping[str, Any]) -> PlainRow | None:
        """The row as the encoder would read it; None if that should be asked."""
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
        """The same, given those numbers that were read together."""
        must: list[int] = []
        coordinates: list[float] = []
        codes: list[Any] = []
        try:
            for name, step, is_number in self._steps:
                kept = step(row[name], must, coordinates)
                if kept is None:
                    return None
                if is_number:
                    numbers.append(kept)
                else:
                    codes.append(kept)
        except (TypeError, KeyError):
            return None
        vector, news = np.empty(len(self._encoder.weights)), False
        if self._encoder.has_must_match:
            vector[0], news = self._encoder.number_combination(array("i", must).tobytes())
        if self._get_plain is not None:
            vector[self._plain_at] = numbers
        if coordinates:
            vector[self._steps_at] = coordinates
        return PlainRow(self, vector, numbers, codes, news)


def _are_plain(numbers: tuple[Any, ...]) -> bool:
    """Whether all are finite numbers of Python's own types that are float64s."""
    if not _PLAIN.issuperset(map(type, numbers)):
        return False
    return (
        min(numbers) >= -MAX_EXACT_INT and max(numbers) <= MAX_EXACT_INT and isfinite(sum(numbers))
    )


def _is_kept(feature: Feature) -> bool:
    return feature.kind not in ("key", "ignore")


def _is_plain_number(feature: Feature) -> bool:
    """Whether a number becomes a coordinate, and takes part in nothing that must match."""
    return feature.kind == "number" and feature.ratio is None and feature.missing != "mismatch"


def _concatenate(places: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *places])


def _step(encoder: Encoder, name: str, feature: Feature) -> Step:
    if feature.kind == "number":
        return _relative(feature) if feature.ratio is not None else _number(feature)
    known = encoder.vocabularies[name].code_of
    if feature.embed is not None:
        return lambda value, must, coordinates: None  # a model's time is longer than a table's
    if feature.kind in ("protected", "person"):
        return lambda value, must, coordinates: known(value)
    if feature.kind == "ordinal":
        return _ordinal(feature, known)
    if feature.mismatch is not None:
        apart = encoder.category_coordinates(name).tolist()

        def told_apart(value: Any, must: list[int], coordinates: list[float]) -> int | None:
            code = known(value)
            if code is not None:
                coordinates += apart[code]
            return code

        return told_apart
    return _category(feature, known)


def _category(feature: Feature, known: Callable[[Any], int | None]) -> Step:
    apart = feature.missing == "match"

    def category(value: Any, must: list[int], coordinates: list[float]) -> int | None:
        code = known(value)
        if code is not None:
            if apart:
                coordinates.append(float(code))
            else:
                must.append(code)
        return code

    return category


def _ordinal(feature: Feature, known: Callable[[Any], int | None]) -> Step:
    flagged = feature.missing == "mismatch"

    def ordinal(value: Any, must: list[int], coordinates: list[float]) -> int | None:
        code = known(value)
        if code is not None:
            if flagged:
                must.append(0)
            coordinates.append(float(code))
        return code

    return ordinal


def plain_number(value: Any) -> float | None:
    """A finite number of Python's own types that is a float64; None for anything else."""
    if type(value) is float:
        return value if isfinite(value) else None
    return float(value) if type(value) is int and -MAX_EXACT_INT <= value <= MAX_EXACT_INT else None


def _number(feature: Feature) -> Step:
    flagged = feature.missing == "mismatch"

    def number(value: Any, must: list[int], coordinates: list[float]) -> float | None:
        plain = plain_number(value)
        if plain is not None:
            if flagged:
                must.append(0)
            coordinates.append(plain)
        return plain

    return number


def _relative(feature: Feature) -> Step:
    flagged, apart = feature.missing == "mismatch", feature.missing == "match"

    def relative(value: Any, must: list[int], coordinates: list[float]) -> float | None:
        plain = plain_number(value)
        if plain is None:
            return None
        sign = (plain > 0) - (plain < 0)
        coordinates.append(float(np.log(abs(plain))) if sign else 0.0)  # the table's logarithm
        if flagged:
            must.append(0)
        if apart:
            coordinates.append(float(sign))
        else:
            must.append(sign)
        return plain

    return relative
