"""Columns of texts and pictures: what is kept of a value, and the vector it becomes.

A text is kept as it is; a picture by its path, or by a digest if it has none. Vectors are kept
as the model made them, in the row's own coordinates.

Invariant: a missing place has the vector 0, and no model is asked about it.
Cost: as many pictures are decoded at once as the embedder takes in a batch; fewer, where their
pixels together are more than its limit_pixels.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.embedders.embedding import Embedding, ErrorSubject, ItemNamer
from likewise.errors import UnexpectedValue
from likewise.rule.feature import Feature
from likewise.tables.frames import Column, is_missing
from likewise.tables.normalize import require_list

Vectors = npt.NDArray[np.float64]


@dataclass(frozen=True)
class EmbeddedValue:
    """A value with its vector, where both are known: no model is asked."""

    value: Any
    vector: npt.NDArray[Any]


class EmbeddedColumn:
    """Reads one column of texts or pictures."""

    def __init__(self, name: str, feature: Feature) -> None:
        self.name = name
        self._pictures = feature.kind == "image"
        self._embedding: Embedding = feature.embed.embedding
        self._at_once = feature.embed.batch if self._pictures else 1 << 16
        self.dtype = self._embedding.find_vector_type()
        """Of one vector, with its length."""

    @property
    def width(self) -> int:
        return int(self.dtype.shape[0])

    def read(self, column: Column) -> tuple[list[Any], Vectors]:
        """What is kept of each value, None where it is missing, and the vectors."""
        given = require_list(column)
        vectors = np.zeros((len(given), self.width))
        kept: list[Any] = [None] * len(given)
        places: list[int] = []
        for i, value in enumerate(given):
            if isinstance(value, EmbeddedValue):
                kept[i], vectors[i] = value.value, value.vector
            elif isinstance(value, np.ndarray) or not is_missing(value):
                places.append(i)
        if places:
            self._embedding.require_model(self._name_items(places))  # before a file is opened

        def read() -> Iterator[tuple[int, Any]]:
            for i in places:
                kept[i], item = self._read_one(i, given[i])
                yield i, item

        for some, items in self._embedding.pictures.batches(read(), self._at_once):
            vectors[some] = self._embedding.embed_many(items, self._name_items(some))
        return kept, vectors

    def _name_items(self, places: list[int]) -> ItemNamer:
        return lambda k: ErrorSubject(repr(self.name), places[k], self.name)

    def _read_one(self, i: int, value: Any) -> tuple[Any, Any]:
        if not self._pictures:
            if not isinstance(value, str):
                raise UnexpectedValue(
                    f"{self.name!r} is {value!r}; expected a text.", place=i, column=self.name
                )
            return value, value
        try:
            array = self._embedding.pictures.array_of(value)
        except (OSError, ValueError) as error:
            raise UnexpectedValue(
                f"{self.name!r} is no picture: {error}.", place=i, column=self.name
            ) from None
        if isinstance(value, str | os.PathLike):
            return os.fspath(value), array
        content = self._embedding.pictures.file_bytes(value)
        digest = sha256(np.ascontiguousarray(array).tobytes() if content is None else content)
        return f"sha256:{digest.hexdigest()}", array
