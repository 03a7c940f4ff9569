"""A monitor and the oracle fed with the same decisions.

The history is kept cheap (one label for all, so that nothing contradicts anything) and asked
afterwards with another label, which every near row contradicts.
"""

from typing import Any

import numpy as np

import likewise as lw
from tests.search.indexes.audit import audit
from tests.support.oracle import Oracle, assert_same_verdict


class Beside:
    """Every change goes to both; `ask` compares what they say."""

    def __init__(self, rule: lw.Rule, index: str = "live") -> None:
        self.monitor, self.oracle = lw.Monitor(rule, index=index), Oracle(rule)

    @property
    def table(self) -> np.ndarray:
        return self.monitor.core.engine.index.state.table

    def observe(self, X: np.ndarray, Z: Any = None) -> None:
        Z = ["past"] * len(X) if Z is None else Z
        for x, z in zip(X, Z, strict=True):
            self.monitor.observe(x, z)
        self.oracle.load(X, Z)

    def observe_many(self, X: np.ndarray, Z: Any = None, threads: int = 1) -> None:
        Z = ["past"] * len(X) if Z is None else Z
        self.monitor.observe_many(X, Z, threads=threads)
        self.oracle.load(X, Z)

    def load(self, X: np.ndarray, Z: Any = None) -> None:
        Z = ["past"] * len(X) if Z is None else Z
        assert self.monitor.load(X, Z) == self.oracle.load(X, Z)

    def forget(self, rows: Any) -> None:
        assert self.monitor.forget(rows) == self.oracle.forget(rows)

    def ask(self, X: np.ndarray, z: Any = "new") -> int:
        """Compare verdicts on each of X; how many witnesses there were."""
        found = 0
        for x in X:
            expected = self.oracle.check(x, z)
            assert_same_verdict(self.monitor.check(x, z), expected)
            found += len(expected.rows)
        return found

    def ask_some(self, rng: np.random.Generator, count: int, z: Any = "new") -> int:
        """Ask about rows of the past, forgotten ones included."""
        rows = rng.integers(len(self.oracle.outputs), size=count)
        return self.ask(self.oracle.inputs[rows], z)

    def audit(self) -> None:
        audit(self.monitor)
