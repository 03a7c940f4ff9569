"""Pictures, made one at a time: real CIFAR-10 ones varied, or scenes made up at any size.

`Album` holds real pictures; once they are used up, a row is one of them shifted by a few pixels
with noise on top. `Scenes` draws smooth random fields whose coarse waves are the strong ones, as
in photographs, and shifts, fades and roughens them. In both, every 20th row is *planted*: an
earlier row with each value moved by at most `levels`, and another decision.

Invariant: row i depends on nothing but the seed and i, so the first n rows of a longer stream are
the stream of n rows, and any row can be made again.
Cost of a row: 60 µs for an `Album`, 0.2 ms for 150,528 values.
Not here: the radius that is asked about. A definition sets it to `levels`, or `levels` / 255.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.workloads import SEED

Array = NDArray[Any]
EVERY = 20
DECISIONS = 10
PLANTED = 11  # a part of the random numbers that no other row draws from
BLOCK_VALUES = 16_000_000
CIFAR_FILE = "cifar10_test3000_jpeg.npz"
PLAIN, POOL = 10, 12
CHUNK_ROWS = 4_096


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


@dataclass(frozen=True)
class Album(Stream):
    """Given pictures with their decisions, then shifted and noisy ones made of them."""

    name: str
    pictures: Array  # (k, height, width, channels) uint8
    decisions: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.pictures.shape[1:])

    def plain(self, i: int) -> tuple[Array, int]:
        if i < len(self.pictures):
            return self.pictures[i], int(self.decisions[i])
        rng = np.random.default_rng([SEED, PLAIN, i])
        chosen = int(rng.integers(len(self.pictures)))
        shift = rng.integers(-4, 5, 2)
        moved = np.roll(self.pictures[chosen], shift, axis=(0, 1)).astype(np.float32)
        moved += 5.0 * rng.standard_normal(moved.shape, np.float32)
        picture = np.clip(np.rint(moved), 0, 255).astype(np.uint8)
        return picture, int(self.decisions[chosen])


def album(folder: str | None, levels: int) -> Album:
    """The real pictures of that folder; without one, made-up pictures of the same size."""
    if folder is None:
        scenes = Scenes(levels, side=32, channels=3)
        pictures, decisions = zip(*(scenes.plain(i) for i in range(200)), strict=True)
        return Album(levels, "generated", np.stack(pictures), np.array(decisions))
    with np.load(Path(folder) / CIFAR_FILE, allow_pickle=False) as file:
        return Album(levels, "CIFAR-10", file["x"], file["pred_resnet20"].astype(np.int64))


@dataclass(frozen=True)
class Scenes(Stream):
    """Made-up pictures of any size: one of a pool of scenes, shifted, faded and roughened.

    The decision is one of four, by how light the picture was made: near pictures mostly agree.
    """

    side: int
    channels: int
    pool: int = 32

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.side, self.side, self.channels)

    @cached_property
    def bases(self) -> Array:
        """The scenes, each twice beside and below itself, so that a shift is a slice."""
        return np.stack([np.tile(self._scene(k), (2, 2, 1)) for k in range(self.pool)])

    @cached_property
    def fades(self) -> tuple[Array, Array]:
        """A thousand ways to change contrast and light, each a table of 256, and their decisions.

        They stay within 12..243, so that noise can be added without a look at either end.
        """
        rng = np.random.default_rng([SEED, POOL])
        contrast, light = rng.uniform(0.5, 1.0, (1_000, 1)), rng.uniform(-40.0, 40.0, (1_000, 1))
        tables = np.clip((np.arange(256) - 128) * contrast + 128 + light, 12, 243)
        return tables.astype(np.uint8), ((light[:, 0] + 40) // 20).astype(np.int64)

    @cached_property
    def noise(self) -> Array:
        """Steps of -3..3 (below 0 they wrap around); a row takes a piece that begins anywhere."""
        rng = np.random.default_rng([SEED, POOL])
        steps = rng.integers(-3, 4, 2**20 + int(np.prod(self.shape)))
        return steps.astype(np.uint8)

    def _scene(self, k: int) -> Array:
        """Periodic waves of 1, 2, 4, ... a side; a wave twice as fine is half as strong."""
        rng = np.random.default_rng([SEED, POOL, k])
        turns = 2 * np.pi * np.arange(self.side) / self.side
        waves = np.repeat(2.0 ** np.arange(max(1, self.side.bit_length() - 1)), 4)
        down, right = (waves * rng.uniform(-1.5, 1.5, (2, len(waves)))).round()
        phase = rng.uniform(0, 2 * np.pi, len(waves))
        hues = phase + 0.6 * np.pi * rng.random((self.channels, len(waves)))
        # The sum of cos(down y + right x + hue) / wave, as the real part of a matrix product.
        rows, columns = (
            np.exp(1j * turns[:, None] * down) / waves,
            np.exp(1j * turns[:, None] * right),
        )
        planes = [((rows * np.exp(1j * hue)) @ columns.T).real for hue in hues]
        field = np.stack(planes, axis=-1)
        field *= 45.0 / max(float(field.std()), 1e-9)
        return np.asarray(np.clip(np.rint(field + 128.0), 0, 255).astype(np.uint8))

    def plain(self, i: int) -> tuple[Array, int]:
        tables, decisions = self.fades
        side, at = self.side, divmod(i, CHUNK_ROWS)
        scene, down, right, fade, begin = _draws(self.pool, side, at[0])[at[1]]
        shifted = self.bases[scene, down : down + side, right : right + side]
        picture = tables[fade].take(shifted)
        picture += self.noise[begin : begin + picture.size].reshape(picture.shape)
        return picture, int(decisions[fade])


@lru_cache(maxsize=64)
def _draws(pool: int, side: int, chunk: int) -> list[list[int]]:
    """Scene, two shifts, fade and piece of noise of each row of a chunk."""
    rng = np.random.default_rng([SEED, PLAIN, chunk])
    ends = (pool, side, side, 1_000, 2**20)
    drawn: list[list[int]] = rng.integers(ends, size=(CHUNK_ROWS, len(ends))).tolist()
    return drawn
