"""A stream of pictures in which every 20th row contradicts an earlier one, by construction.

Every 20th row is *planted*: an earlier row with each value moved by at most `levels`, and another
decision. The others are what a `Stream` says is plain.

Invariant: row i depends on nothing but the seed and i, so the first n rows of a longer stream are
the stream of n rows, and any row can be made again.
Not here: the radius that is asked about. A question sets it to `levels`, or `levels` / 255.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.workloads import SEED

Array = NDArray[Any]
EVERY = 20
DECISIONS = 10
PLANTED = 11  # a part of the random numbers that no other row draws from
BLOCK_VALUES = 16_000_000


@dataclass(frozen=True)
class Row:
    """One picture (uint8) and its decision; `origin` is the row a planted one contradicts."""

    picture: Array
    decision: int
    origin: int | None = None


@dataclass(frozen=True)
class Stream(ABC):
    """Pictures in order; `levels` is how far a planted one is from its origin, at most."""

    levels: int

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one picture."""

    @abstractmethod
    def plain(self, i: int) -> tuple[Array, int]:
        """The i-th of the rows that are not planted: its picture and its decision."""

    def row(self, i: int) -> Row:
        if i % EVERY != EVERY - 1:
            return Row(*self.plain(i - i // EVERY))
        rng = np.random.default_rng([SEED, PLANTED, i])
        chosen = int(rng.integers(i - i // EVERY))
        picture, decision = self.plain(chosen)
        moved = roughen(rng, picture, self.levels)
        other = (decision + int(rng.integers(1, DECISIONS))) % DECISIONS
        return Row(moved, other, chosen + chosen // (EVERY - 1))

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Pictures start..stop-1 as one uint8 array, and their decisions."""
        pictures = np.empty((stop - start, *self.shape), np.uint8)
        decisions = np.empty(stop - start, np.int64)
        for i in range(start, stop):
            row = self.row(i)
            pictures[i - start], decisions[i - start] = row.picture, row.decision
        return pictures, decisions

    def blocks(self, stop: int, values: int = BLOCK_VALUES) -> Iterator[tuple[Array, Array]]:
        """The first `stop` rows in blocks of about so many values."""
        size = max(1, values // int(np.prod(self.shape)))
        for start in range(0, stop, size):
            yield self.rows(start, min(start + size, stop))


def as_storage(pictures: Array, storage: str) -> Array:
    """uint8 as it is; float32 scaled to [0, 1]."""
    if storage == "uint8":
        return pictures
    scaled = pictures.astype(np.float32)
    scaled /= np.float32(255)
    return scaled


def radius_of(levels: int, storage: str) -> float:
    """The same radius in the unit of the storage."""
    return float(levels) if storage == "uint8" else levels / 255


def roughen(rng: np.random.Generator, picture: Array, levels: int) -> Array:
    """Every value moved by up to `levels`, each step equally likely; cut off at 0 and 255."""
    steps = rng.integers(0, 2 * levels + 1, picture.shape, np.uint8).astype(np.int16)
    steps += picture
    steps -= levels
    np.maximum(steps, 0, out=steps)
    np.minimum(steps, 255, out=steps)
    return steps.astype(np.uint8)
