"""Points that are hard on a tree, each kind as long as wanted."""

import numpy as np


def random(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def shells(n: int, dims: int = 3, each: int = 100) -> np.ndarray:
    """Points that close in on the origin, one axis after the other.

    Every shell spans all coordinates but its own, so no plane further in can be lifted past it,
    and a tree that only splits grows as deep as there are shells.
    """
    rng, size, parts = random(), np.ones(dims), []
    for k in range(-(-n // each)):
        points = rng.random((each, dims)) * size
        axis = k % dims
        points[:, axis] = size[axis] * rng.uniform(0.5, 1.0, each)
        size[axis] /= 2
        parts.append(points)
    return np.concatenate(parts)[:n]


def line(n: int) -> np.ndarray:
    return np.arange(n, dtype=float)[:, None] * [[0.1, 0.0, -3.0]]


def drift(n: int, dims: int = 4) -> np.ndarray:
    return np.arange(n)[:, None] * 0.01 + random().random((n, dims))


def duplicates(n: int) -> np.ndarray:
    """Five points, 300 rarer ones, and a few of their own."""
    rng = random()
    points = rng.random((305, 3))
    picks = np.where(rng.random(n) < 0.7, rng.integers(5, size=n), rng.integers(305, size=n))
    rows = points[picks]
    rows[::50] = rng.random((len(rows[::50]), 3))
    return rows


def wide(n: int, dims: int = 40) -> np.ndarray:
    """More coordinates than a tree holds, close together in clusters that drift; some repeated."""
    rng = random()
    centres = 0.2 + rng.random((30, dims))
    points = centres[rng.integers(30, size=n)] + 0.02 * rng.random((n, dims))
    points += np.linspace(0, 0.5, n)[:, None]
    points[1::5] = points[:-1:5]
    return points
