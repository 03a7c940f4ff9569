"""Compare the precedents that monitors find with those of the oracle, which looks at every row."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.support.oracle import Oracle


class Answers:
    """Compares answers, and counts how many there were and how many of them named a case."""

    def __init__(self) -> None:
        self.asked = self.found = self.cases = 0

    def assert_enough(self) -> None:
        assert self.found > 0, f"none of {self.asked} answers named a case"

    def note(
        self, found: Any, rows: np.ndarray, distances: np.ndarray, outputs: Sequence[Any]
    ) -> None:
        """Compare one answer; `outputs` are those of the rows."""
        assert found.rows.tolist() == rows.tolist()
        assert found.input_distances.tobytes() == distances.tobytes()
        assert len(found.outputs) == len(outputs)
        assert all(map(np.array_equal, found.outputs, outputs))
        assert found.near == len(rows) == len(found)
        counted = Counter(tuple(z) if isinstance(z, np.ndarray | list) else z for z in outputs)
        assert dict(found.counts) == counted
        assert list(found.counts.values()) == sorted(counted.values(), reverse=True)
        assert not found.rows.flags.writeable and not found.input_distances.flags.writeable
        self.asked += 1
        self.found += len(rows) > 0
        self.cases += len(rows)

    def compare(self, monitor: Any, oracle: Oracle, xs: np.ndarray, models: Any = None) -> None:
        """Ask about each of these inputs, also for the nearest few."""
        for i, x in enumerate(xs):
            told = {} if models is None else {"model": models[i]}
            rows, distances = oracle.like(x, **told)
            found = monitor.like(x, **told)
            self.note(found, rows, distances, [oracle.outputs[row] for row in rows.tolist()])
            few = monitor.like(x, limit=i % 4, **told)
            assert few.rows.tolist() == rows[: i % 4].tolist()
            assert (few.near, few.counts) == (found.near, found.counts)


def nearby(rng: np.random.Generator, xs: np.ndarray, count: int, metric: str) -> np.ndarray:
    """Some of these inputs, and some between two of them, of the same type."""
    some = xs[rng.integers(len(xs), size=count)].copy()
    if xs.dtype.kind == "f" and metric != "cosine":
        between = rng.random(count) < 0.5
        with np.errstate(all="ignore"):
            some[between] += (xs[rng.integers(len(xs), size=count)] - some)[between] / 4
    return some[np.isfinite(some).all(axis=1)]
