"""Columns of texts and pictures: what is kept of a value, and the vector it becomes.

A text is kept as it is; a picture by its path, or by a digest if it has none. Vectors are kept
as the model made them, in the row's own coordinates.

Invariant: a missing place has the vector 0, and no model is asked about it.
"""

import os
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.embedders.pictures import array_of, file_bytes
from likewise.errors import BadDecision
from likewise.feature import Feature
from likewise.tables import Column, is_missing, values_of

Vectors = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Embedded:
    """A value with its vector, where both are known: no model is asked."""

    value: Any
    vector: npt.NDArray[Any]


class EmbeddedColumn:
    """Reads one column of texts or pictures."""

    def __init__(self, name: str, feature: Feature) -> None:
        self.name = name
        self._pictures = feature.kind == "image"
        self._embedding = feature.embed.loaded
        self.dtype = self._embedding.settled()
        """Of one vector, with its length."""

    @property
    def width(self) -> int:
        return int(self.dtype.shape[0])

    def read(self, column: Column) -> tuple[list[Any], Vectors]:
        """What is kept of each value, None where it is missing, and the vectors."""
        given = values_of(column)
        vectors = np.zeros((len(given), self.width))
        kept: list[Any] = [None] * len(given)
        items: list[Any] = []
        places: list[int] = []
        for i, value in enumerate(given):
            if isinstance(value, Embedded):
                kept[i], vectors[i] = value.value, value.vector
            elif isinstance(value, np.ndarray) or not is_missing(value):
                kept[i], item = self._read_one(i, value)
                items.append(item)
                places.append(i)
        if items:
            vectors[places] = self._embedding.many(items, lambda k: self._called(places[k]))
        return kept, vectors

    def _called(self, i: int) -> str:
        return f"row {i}: {self.name!r}"

    def _read_one(self, i: int, value: Any) -> tuple[Any, Any]:
        if not self._pictures:
            if not isinstance(value, str):
                raise BadDecision(
                    f"row {i}: {self.name!r} is {value!r}; expected a text. Nothing was stored."
                )
            return value, value
        try:
            array = array_of(value)
        except (OSError, ValueError) as error:
            raise BadDecision(
                f"row {i}: {self.name!r} is no picture: {error}. Nothing was stored."
            ) from None
        if isinstance(value, str | os.PathLike):
            return os.fspath(value), array
        content = file_bytes(value)
        digest = sha256(np.ascontiguousarray(array).tobytes() if content is None else content)
        return f"sha256:{digest.hexdigest()}", array
