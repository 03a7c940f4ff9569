"""Choose the directions of a flat scan: those in which the history varies most.

They are learnt from a sample of rows by principal components; where the sample spans too few
directions, the rest are arbitrary. Any orthonormal directions give exact verdicts; these make the
scan short. Invariant: `directions` has columns as near to orthonormal as `norm` says.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.search.history.stored_decisions import History
from likewise.tables.array_types import Floats, Rows

_LEADING = 128  # directions; more of them cost more than they rule out
_LEADING_BYTES = 16 << 20
_SAMPLE = (128, 768)  # rows, at least and at most; a quarter of the history in between
_SAMPLE_BYTES = 32 << 20


@dataclass(frozen=True)
class Rotation:
    """Holds an origin and orthonormal columns: a row per coordinate, a column per direction."""

    centre: Floats
    directions: Floats
    rows: int
    """Length of the history from which it was learnt."""

    def norm(self) -> float:
        """Return a bound on how much longer a vector can become, slightly above 1."""
        excess = self.directions.T @ self.directions - np.eye(self.directions.shape[1])
        return float(np.sqrt(1.0 + np.linalg.norm(excess)) * (1.0 + 1e-9))


def direction_count(width: int) -> int:
    """Return how many directions to use for inputs of so many coordinates."""
    return min(_LEADING, width, max(16, _LEADING_BYTES // (8 * width)))


def initial_rotation(width: int) -> Rotation:
    """Return coordinates evenly spread over the input, for use before any data are known."""
    count = direction_count(width)
    directions = np.zeros((width, count))
    directions[np.arange(count) * width // count, np.arange(count)] = 1.0
    return Rotation(np.zeros(width), directions, 0)


def sample_rows(history: History) -> Rows:
    """Return rows to learn from, evenly spread over the history."""
    size = min(max(history.total // 4, _SAMPLE[0]), _SAMPLE[1])
    return history.sample(max(32, min(size, _SAMPLE_BYTES // (8 * history.width))))


def positions(history: History, rows: Rows) -> Floats:
    """Return the positions of rows, weighted as by the metric; for cosine on the unit sphere."""
    width = history.width
    values = history.rows[rows].reshape(len(rows), width).astype(np.float64)
    with np.errstate(all="ignore"):
        values *= np.sqrt(history.weights[:width])
        if history.cosine:
            norms = np.linalg.norm(values, axis=1, keepdims=True)
            values /= np.where(norms > 0, norms, 1.0)
    return values


def learn(sample: Floats, rows: int) -> Rotation:
    """Return the principal directions of a sample of positions."""
    width = sample.shape[1]
    count = direction_count(width)
    with np.errstate(all="ignore"):
        centre = sample.mean(axis=0)
        spread = sample - centre
        largest = np.abs(spread).max(initial=0.0)
        principal = np.zeros((width, 0))
        if np.isfinite(largest) and largest > 0.0:
            principal = _principal(spread / largest, count)
    if not np.isfinite(centre).all():
        centre = np.zeros(width)
    filler = np.random.default_rng(0).normal(size=(width, count - principal.shape[1]))
    directions, _ = np.linalg.qr(np.hstack([principal, filler]))
    return Rotation(centre, np.ascontiguousarray(directions), rows)


def _principal(spread: npt.NDArray[Any], most: int) -> Floats:
    """Return directions of largest variance, largest first, from the smaller of two products."""
    count, width = spread.shape
    few = count < width
    try:
        values, vectors = np.linalg.eigh(spread @ spread.T if few else spread.T @ spread)
    except np.linalg.LinAlgError:
        return np.zeros((width, 0))
    values, vectors = values[::-1], vectors[:, ::-1]
    solid = np.flatnonzero(values > 1e-10 * max(values[0], 0.0))[:most]
    vectors = vectors[:, solid]
    return spread.T @ vectors / np.sqrt(values[solid]) if few else np.asarray(vectors)
