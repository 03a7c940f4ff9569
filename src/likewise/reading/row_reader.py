"""One row at a time: the vector of a row whose values are plain and whose categories are known.

Reading a row as a table of one costs more than judging it. Here each column has its step prepared.
Whatever is out of the ordinary (a missing place, a new category, something that is no plain number)
is left to the encoder, which knows what to say.

Invariant: the vector is the one that the encoder would give, to the last bit.
"""

import math
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.reading.encoding import Encoder
from likewise.rules.feature import Feature
from likewise.values.plain import EXACT

Step = Callable[[Any, list[int], list[float]], float | int | None]
"""Adds a value to what must match and to the coordinates; what is kept, or None to give up."""


class PlainRow(Mapping[str, Any]):
    """A row that was read: its vector, and by column what is kept."""

    __slots__ = ("_reader", "codes", "news", "numbers", "vector")

    def __init__(
        self,
        reader: "RowReader",
        vector: npt.NDArray[np.float64],
        numbers: list[Any],
        codes: list[Any],
        news: bool,
    ) -> None:
        self._reader = reader
        self.vector = vector
        self.numbers = numbers
        self.codes = codes
        self.news = news

    def __getitem__(self, name: str) -> Any:
        is_number, j = self._reader.places[name]
        return self.numbers[j] if is_number else self.codes[j]

    def __iter__(self) -> Iterator[str]:
        return iter(self._reader.places)

    def __len__(self) -> int:
        return len(self._reader.places)


class RowReader:
    """Reads single rows under an encoder's rule."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        features = encoder.features
        self._steps = [
            (name, _step(encoder, name, feature), feature.kind == "number")
            for name, feature in features.items()
            if feature.kind not in ("key", "ignore")
        ]
        self.places: dict[str, tuple[bool, int]] = {}
        """By column, in order: whether it is among the numbers, and its place there."""
        counts = [0, 0]
        for name, _, is_number in self._steps:
            self.places[name] = is_number, counts[is_number]
            counts[is_number] += 1

    def read(self, row: Mapping[str, Any]) -> PlainRow | None:
        """The row as the encoder would read it; None if that should be asked."""
        must: list[int] = []
        coordinates: list[float] = []
        numbers: list[Any] = []
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
        news = False
        if self._encoder.must:
            number, news = self._encoder.number_of(array("i", must).tobytes())
            coordinates.insert(0, number)
        return PlainRow(self, np.array(coordinates), numbers, codes, news)


def _step(encoder: Encoder, name: str, feature: Feature) -> Step:
    if feature.kind == "number":
        return _relative(feature) if feature.ratio is not None else _number(feature)
    known = encoder.vocabularies[name].code_of
    if feature.embed is not None:
        return lambda value, must, coordinates: None  # a model's time is longer than a table's
    if feature.kind == "protected":
        return lambda value, must, coordinates: known(value)
    if feature.kind == "ordinal":
        return _ordinal(feature, known)
    if feature.mismatch is not None:
        apart = encoder.told_apart(name).tolist()

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
        return value if math.isfinite(value) else None
    return float(value) if type(value) is int and -EXACT <= value <= EXACT else None


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
