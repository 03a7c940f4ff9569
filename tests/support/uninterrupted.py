"""What a run that nobody interrupts answers, worked out by comparing with every row before.

Plain NumPy: inputs near in every coordinate (linf), labels that differ; or, for slopes, the
steepest pair. Rows may leave a window or be erased; each verdict is over what was there at its
time.
"""

from dataclasses import dataclass

import numpy as np

SLACK = 1e-9


@dataclass(frozen=True)
class Expected:
    """One decision and its verdict."""

    x: tuple
    z: str
    key: str | None
    rows: np.ndarray
    """Witnesses, in order."""
    nearest: list
    """The nearest three: row and distance."""
    first: int
    absent: int


class Uninterrupted:
    """Takes decisions one by one.

    epsilon within which inputs are near; None: verdicts are slopes
    window  how many rows a decision is compared with at most; None for all
    """

    def __init__(self, epsilon, window=None):
        self.reach = np.inf if epsilon is None else epsilon * (1 + SLACK)
        self.slopes = epsilon is None
        self.window = window
        self.decisions = []
        self.erased = set()
        self._x = np.empty((1024, 2))
        self._z = np.empty(1024, np.int64)
        self._gone = np.zeros(1024, np.bool_)
        self._labels = {}

    def __len__(self):
        return len(self.decisions)

    def erase(self, row):
        self._gone[row] = True
        self.erased.add(row)

    def take(self, x, z, key=None):
        """Judge a decision, then remember it."""
        now = len(self.decisions)
        if now == len(self._x):
            self._x, self._z, self._gone = (
                np.concatenate([each, np.zeros_like(each)])
                for each in (self._x, self._z, self._gone)
            )
        label = self._labels.setdefault(z, len(self._labels))
        first = 0 if self.window is None else max(0, now - self.window)
        distances = np.abs(self._x[first:now] - x[:2]).max(axis=1, initial=0.0)
        differs = (self._z[first:now] != label) & ~self._gone[first:now]
        places = np.flatnonzero((distances <= self.reach) & differs)
        if self.slopes and len(places):
            with np.errstate(divide="ignore"):
                places = places[[np.argmax(1.0 / distances[places])]]  # labels are 1 apart
        by_distance = places[np.argsort(distances[places], kind="stable")][:3]
        nearest = [(first + i, distances[i]) for i in by_distance.tolist()]
        absent = int(self._gone[first:now].sum())
        told = Expected(tuple(x), z, key, first + places, nearest, first, absent)
        self.decisions.append(told)
        self._x[now], self._z[now], self._gone[now] = x[:2], label, False
        return told
