"""Implement the paper's own index: a decision diagram of label vectors, and the rows under each.

Invariant: the diagram f holds exactly the label vectors that have rows. When a coordinate needs
more bits, for values outside the range seen so far or for a new category, f is rebuilt.
Cost: grows with the number of coordinates and with how often adjacent cells have been seen.
"""

import weakref
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from dd import cudd

from likewise.search.indexes.protocol import Point, Rows, Space

# Gupta et al. 2025, Algorithm 3. Every coordinate of a point gets a label: its value, where few
# values occur, as with categories; otherwise the number of its cell. Cells are slightly wider than
# the radius, so near points lie in equal or adjacent ones. A binary decision diagram f holds the
# label vectors seen so far. For a new point the diagram g of all label vectors that may be near it
# is intersected with f, and the result is looked up. (In the paper f_d relates all label vectors to
# all; here g, its part for one point, is composed from one small diagram per coordinate.)
#
# Why nothing on a boundary is lost: a cell is wider than the radius by one part in 2^10, and as
# many cells to either side are allowed as the reach, widened by more than the rounding of the
# division, needs: one, unless values are so large that rounding dominates. Cells far out are
# clamped, which only brings them closer together.

_WIDTH = 1.0 + 2.0**-10  # of a cell, where the radius is 1
_WIDER = 1.0 + 2.0**-20  # for the roundings of a division and a difference
_FAR = 2.0**31
_MANY = 64.0  # radii, beyond which every row is a candidate
_CACHED = 1 << 14  # small diagrams held in a cache
_FEW = 16  # values of a coordinate that are labels themselves

Vector: TypeAlias = tuple[int, ...]


class Coordinate:
    """Holds the labels of one coordinate, and the bits that distinguish them."""

    def __init__(self) -> None:
        self.values: dict[float, int] | None = {}  # a label for each, or cells instead
        self.low = 0
        self.bits = 1

    def learn(self, value: float) -> dict[int, int] | None:
        """Assign a label to a value; if labels had to change, return the new ones by the old."""
        if self.values is None or value in self.values:
            return None
        if len(self.values) < _FEW:
            self.values[value] = len(self.values)
            return None
        moved = {label: cell_of(known) for known, label in self.values.items()}
        self.values = None
        self.low, self.bits = min(moved.values()), 1
        for cell in moved.values():
            self.make_fit(cell)
        return moved

    def label(self, value: float) -> int:
        return cell_of(value) if self.values is None else self.values[value]

    def make_fit(self, label: int) -> bool:
        """Make sure there are enough bits for a label; return whether that took more."""
        before = self.bits
        while not self.fits(label):
            if label < self.low:
                self.low -= 1 << self.bits
            self.bits += 1
        return self.bits > before

    def fits(self, label: int) -> bool:
        return 0 <= label - self.low < 1 << self.bits

    def near(self, value: float, reach: float) -> Iterable[int]:
        """Return the labels of all values within reach."""
        if self.values is not None:
            wide = reach * _WIDER
            return [label for known, label in self.values.items() if abs(known - value) <= wide]
        steps = int(np.ceil(reach * _WIDER / _WIDTH))
        cell = cell_of(value)
        return filter(self.fits, range(cell - steps, cell + steps + 1))


def cell_of(value: float) -> int:
    return int(np.floor(min(max(value / _WIDTH, -_FAR), _FAR)))


class Diagrams:
    """Owns a manager of CUDD and the diagrams that an index holds in it.

    CUDD requires that a manager is freed after its diagrams, but Python's collector clears the
    objects of a cycle in any order. So the index's finalizer holds this object, which keeps manager
    and diagrams out of every cycle that the index is part of, and frees them in order.
    """

    def __init__(self) -> None:
        self.near: dict[tuple[int, float, float, int], Any] = {}
        self.renew()

    def renew(self) -> None:
        """Start with a new manager that holds only the empty diagram."""
        self.near.clear()
        self.manager: Any = cudd.BDD()
        self.manager.configure(reordering=False)
        self.seen: Any = self.manager.false

    def free(self) -> None:
        self.near.clear()
        self.seen = None
        self.manager = None


class BDD:
    """Holds label vectors in a diagram, and rows by label vector."""

    def __init__(self, space: Space) -> None:
        self._coordinates = [Coordinate() for _ in range(space.width)]
        self._rows_of: dict[Vector, list[int]] = {}
        self._diagrams = Diagrams()
        weakref.finalize(self, self._diagrams.free)
        self._rebuild()

    # The diagram

    def _rebuild(self) -> None:
        """Declare variables for all bits, categories first, and build f from the dictionary."""
        self._diagrams.renew()
        self._order = sorted(
            range(len(self._coordinates)), key=lambda j: self._coordinates[j].values is None
        )
        self._names = [
            [f"x{j}_{bit}" for bit in range(coordinate.bits)]
            for j, coordinate in enumerate(self._coordinates)
        ]
        for j in self._order:
            self._diagrams.manager.declare(*reversed(self._names[j]))
        self._every = [name for names in self._names for name in names]
        self._read = itemgetter(*self._every, self._every[0])  # a tuple, even of a single bit
        self._under: dict[tuple[bool, ...], list[int]] = {}
        for vector in self._rows_of:
            self._add_vector(vector)

    def _number(self, j: int, label: int) -> dict[str, bool]:
        number = label - self._coordinates[j].low
        return {name: bool(number >> bit & 1) for bit, name in enumerate(self._names[j])}

    def _add_vector(self, vector: Vector) -> None:
        """Add a label vector to f, and file its rows under its bits."""
        bits: dict[str, bool] = {}
        for j, label in enumerate(vector):
            bits |= self._number(j, label)
        self._diagrams.seen |= self._diagrams.manager.cube(bits)
        self._under[self._read(bits)] = self._rows_of[vector]

    def _near(self, j: int, value: float, reach: float) -> Any:
        """Return the diagram of a coordinate's labels that may be near a value."""
        coordinate = self._coordinates[j]
        key = (j, value, reach, 0 if coordinate.values is None else len(coordinate.values))
        near, manager = self._diagrams.near, self._diagrams.manager
        if key not in near:
            if len(near) >= _CACHED:
                near.clear()
            diagram = manager.false
            for label in coordinate.near(value, reach):
                diagram |= manager.cube(self._number(j, label))
            near[key] = diagram
        return near[key]

    # The index

    def add(self, row: int, point: Point) -> None:
        values = point.tolist()
        changed = False
        for j, (coordinate, value) in enumerate(zip(self._coordinates, values, strict=True)):
            moved = coordinate.learn(value)
            if moved is not None:
                self._move(j, moved)
                changed = True
        pairs = zip(self._coordinates, values, strict=True)
        vector = tuple(coordinate.label(value) for coordinate, value in pairs)
        for coordinate, label in zip(self._coordinates, vector, strict=True):
            changed |= coordinate.make_fit(label)
        is_new = vector not in self._rows_of
        self._rows_of.setdefault(vector, []).append(row)
        if changed:
            self._rebuild()
        elif is_new:
            self._add_vector(vector)

    def _move(self, j: int, moved: dict[int, int]) -> None:
        """Relabel a coordinate whose values have become cells, which several may now share."""
        before, self._rows_of = self._rows_of, {}
        for vector, rows in before.items():
            relabelled = (*vector[:j], moved[vector[j]], *vector[j + 1 :])
            self._rows_of.setdefault(relabelled, []).extend(rows)

    def candidates(self, point: Point, reach: float) -> Rows:
        if reach > _MANY:  # it is mostly rounding error: nothing can be ruled out
            return np.array([row for rows in self._rows_of.values() for row in rows], np.int64)
        values = point.tolist()
        manager = self._diagrams.manager
        near = manager.true
        for j in reversed(self._order):  # from the last variables up: what is below is shared
            near = self._near(j, values[j], reach) & near
        near &= self._diagrams.seen
        found: list[int] = []
        if near != manager.false:
            for bits in manager.pick_iter(near, care_vars=self._every):
                found += self._under[self._read(bits)]
        return np.array(found, dtype=np.int64)

    def explain(self) -> str:
        categories = sum(coordinate.values is not None for coordinate in self._coordinates)
        return (
            f"{len(self._rows_of):,} label vectors seen, {len(self._diagrams.seen):,} nodes in the"
            f" diagram, {len(self._every)} bits, {categories} coordinates labelled by value"
        )
