"""Implement Chen and Güttel's SNN as a static index: points sorted along a principal direction.

A projection never lengthens a distance, so all near points lie in a window of the projections; one
product with the query gives their distances. (The published package is no longer maintained.)
Invariant: the window and the product's threshold are widened by more than their roundings.
Cost: a sort to build; a product with the points in the window to search.
"""

import numpy as np

from likewise.search.indexes.protocol import Point, Points, Rows, Space

_ROUNDS = 8  # of power iteration: any direction is exact, a good one makes the window short


class SortedProjections:
    """Holds points in the order of their projections."""

    def __init__(self, points: Points, space: Space) -> None:
        self._centre = points.mean(axis=0)
        spread = points - self._centre
        direction = _principal(spread)
        keys = spread @ direction
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._points = np.ascontiguousarray(spread[self._order])
        self._halves = 0.5 * np.einsum("ij,ij->i", self._points, self._points)
        self._direction = direction
        self._largest = float(np.sqrt(2.0 * self._halves.max(initial=0.0)))
        self._rounding = (space.width + 16) * 2.0**-50

    def within(self, point: Point, reach: float) -> Rows:
        query = point - self._centre
        length = float(np.sqrt(query @ query))
        key = float(query @ self._direction)
        slip = self._rounding * (length + self._largest)
        window = reach * (1.0 + self._rounding) + slip
        first = int(np.searchsorted(self._keys, key - window))
        last = int(np.searchsorted(self._keys, key + window, side="right"))
        part = slice(first, last)
        limit = 0.5 * (window * window - length * length) + slip * (length + self._largest)
        near = self._halves[part] - self._points[part] @ query <= limit
        return np.asarray(self._order[part][near])


def _principal(spread: Points) -> Point:
    """Return roughly the direction of largest variance, of unit length or slightly less."""
    width = spread.shape[1]
    direction = np.random.default_rng(0).normal(size=width)
    with np.errstate(all="ignore"):
        scale = np.abs(spread).max(initial=0.0)
        scaled = spread / scale if np.isfinite(scale) and scale > 0 else np.zeros_like(spread)
        for _ in range(_ROUNDS):
            turned = scaled.T @ (scaled @ direction)
            norm = np.linalg.norm(turned)
            if not np.isfinite(norm) or norm == 0.0:
                break
            direction = turned / norm
    return np.asarray(direction / (np.linalg.norm(direction) * (1.0 + 1e-12)))
