"""Read texts or pictures under a rule with an embedder; only their vectors are kept.

To see texts again, give them as a column of a table (kind "text"), or look them up by row.
Invariant: a decision whose input cannot be embedded leaves no trace.
Cost: the model's time, outside the monitor's lock; then as for any vector.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.embedders.embedding import Embedding, ErrorSubject, ItemNamer
from likewise.errors import UnexpectedValue
from likewise.monitor.readers.vector_reader import VectorReader
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.tables.frames import Column, is_missing
from likewise.tables.normalize import as_list, require_list

Vectors = npt.NDArray[np.float64]


# Read columns of texts and pictures: the value that is kept, and the vector it becomes.
# A text is kept as it is; a picture by its path, or by a digest if it has none.
# Invariant: a missing value has the vector 0, and no model is asked about it.
# Cost: as many pictures are decoded at once as the embedder takes in a batch; fewer if their
# pixels together exceed its limit_pixels.


@dataclass(frozen=True)
class EmbeddedValue:
    """Holds a value with its vector if both are known, so that no model is asked."""

    value: Any
    vector: npt.NDArray[Any]


def pair_embedded(values: Iterable[Any], vectors: Iterable[npt.NDArray[Any]]) -> list[Any]:
    """Pair the values of a column with their vectors; missing values stay None."""
    return [
        None if value is None else EmbeddedValue(value, vector)
        for value, vector in zip(values, vectors, strict=True)
    ]


class EmbeddedColumn:
    """Reads one column of texts or pictures."""

    def __init__(self, name: str, feature: Feature) -> None:
        self.name = name
        self._pictures = feature.kind == "image"
        self._embedding: Embedding = feature.embed.embedding
        self._at_once = feature.embed.batch if self._pictures else 1 << 16
        self.dtype = self._embedding.find_vector_type()
        """The type of one vector, with its length."""

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return int(self.dtype.shape[0])

    def read(self, column: Column) -> tuple[list[Any], Vectors]:
        """Return what is kept of each value, None for a missing one, and the vectors."""
        values = require_list(column)
        vectors = np.zeros((len(values), self.width))
        stored: list[Any] = [None] * len(values)
        places: list[int] = []
        for i, value in enumerate(values):
            if isinstance(value, EmbeddedValue):
                stored[i], vectors[i] = value.value, value.vector
            elif isinstance(value, np.ndarray) or not is_missing(value):
                places.append(i)
        if places:
            self._embedding.require_model(self._name_items(places))  # before a file is opened

        def read() -> Iterator[tuple[int, Any]]:
            for i in places:
                stored[i], item = self._read_one(i, values[i])
                yield i, item

        for batch, items in self._embedding.pictures.batches(read(), self._at_once):
            vectors[batch] = self._embedding.embed_many(items, self._name_items(batch))
        return stored, vectors

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


class EmbeddedReader(VectorReader):
    """Turns inputs into vectors with the rule's embedder."""

    embeds = True

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        assert rule.embed is not None
        self._loadable_rule = rule  # `rule` may name a model that is not to be loaded
        self._embedding = rule.embed.embedding

    def embed_inputs(self, x: Any, *, many: bool) -> Any:
        return embed_many(self._loadable_rule, x) if many else self._embedding.embed_one(x)


def embed_many(rule: Rule, x: Any) -> Any:
    """Return the vectors of inputs under a rule with an embedder; errors say which input it is."""
    values = list(x) if isinstance(x, np.ndarray) and x.ndim else as_list(x)  # pictures stay arrays
    if values is None:
        raise UnexpectedValue(
            f"the inputs are of type {type(x).__name__}; expected a list of texts or pictures, or"
            " an array of them."
        )
    assert rule.embed is not None
    return rule.embed.embedding.embed_many(values, lambda i: ErrorSubject("the input", i))
