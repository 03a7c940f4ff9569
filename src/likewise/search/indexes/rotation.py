"""Which directions a flat scan looks along: those in which the history varies most.

Learnt from a sample of rows by principal components; where the sample spans too few directions, the
rest are arbitrary. Any orthonormal directions give exact verdicts: these make the scan short.

Invariant: `directions` has columns as near to orthonormal as `norm` says.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.search.history.stored_decisions import History
from likewise.tables.rows import Floats, Rows

_LEADING = 128  # directions; more cost more than they rule out
_LEADING_BYTES = 16 << 20
_SAMPLE = (128, 768)  # rows, at least and at most; a quarter of the history in between
_SAMPLE_BYTES = 32 << 20


@dataclass(frozen=True)
class Rotation:
    """An origin, and orthonormal columns: one row per coordinate, one column per direction."""

    centre: Floats
    directions: Floats
    rows: int
    """Length of the history that it was learnt from."""

    def norm(self) -> float:
        """A bound on how much longer a vector can become, a little above 1."""
        excess = self.directions.T @ self.directions - np.eye(self.directions.shape[1])
        return float(np.sqrt(1.0 + np.linalg.norm(excess)) * (1.0 + 1e-9))


def direction_count(width: int) -> int:
    """How many directions for inputs of so many coordinates."""
    return min(_LEADING, width, max(16, _LEADING_BYTES // (8 * width)))


def initial_rotation(width: int) -> Rotation:
    """Coordinates evenly spread over the input: what there is before anything is known."""
    count = direction_count(width)
    directions = np.zeros((width, count))
    directions[np.arange(count) * width // count, np.arange(count)] = 1.0
    return Rotation(np.zeros(width), directions, 0)


def sample_rows(history: History) -> Rows:
    """Rows to learn from, evenly spread over the history."""
    wanted = min(max(history.total // 4, _SAMPLE[0]), _SAMPLE[1])
    return history.sample(max(32, min(wanted, _SAMPLE_BYTES // (8 * history.width))))


def positions(history: History, rows: Rows) -> Floats:
    """Where rows lie: weighted as the metric weighs them; for cosine on the unit sphere."""
    count = history.width
    taken = history.rows[rows].reshape(len(rows), count).astype(np.float64)
    with np.errstate(all="ignore"):
        taken *= np.sqrt(history.weights[:count])
        if history.cosine:
            norms = np.linalg.norm(taken, axis=1, keepdims=True)
            taken /= np.where(norms > 0, norms, 1.0)
    return taken


def learn(sample: Floats, rows: int) -> Rotation:
    """The principal directions of a sample of positions."""
    width = sample.shape[1]
    wanted = direction_count(width)
    with np.errstate(all="ignore"):
        centre = sample.mean(axis=0)
        spread = sample - centre
        largest = np.abs(spread).max(initial=0.0)
        found = np.zeros((width, 0))
        if np.isfinite(largest) and largest > 0.0:
            found = _principal(spread / largest, wanted)
    if not np.isfinite(centre).all():
        centre = np.zeros(width)
    filler = np.random.default_rng(0).normal(size=(width, wanted - found.shape[1]))
    directions, _ = np.linalg.qr(np.hstack([found, filler]))
    return Rotation(centre, np.ascontiguousarray(directions), rows)


def _principal(spread: npt.NDArray[Any], wanted: int) -> Floats:
    """Directions of largest variance, largest first, through the smaller of two products."""
    count, width = spread.shape
    few = count < width
    try:
        values, vectors = np.linalg.eigh(spread @ spread.T if few else spread.T @ spread)
    except np.linalg.LinAlgError:
        return np.zeros((width, 0))
    values, vectors = values[::-1], vectors[:, ::-1]
    solid = np.flatnonzero(values > 1e-10 * max(values[0], 0.0))[:wanted]
    vectors = vectors[:, solid]
    return spread.T @ vectors / np.sqrt(values[solid]) if few else np.asarray(vectors)
