"""The monitor of a rule with an embedder: texts or pictures in, their vectors judged and kept.

`Monitor(rule)` makes one of these where the rule says `embed`. Of an input only its vector is kept:
who wants to see texts again gives them as a column of a table (kind "text"), or looks them up by
row.

Invariant: a decision whose input cannot be embedded leaves no trace.
Cost: the model's time, outside the monitor's own lock (a ledger's is held meanwhile); then as for
any vector.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.embedder import Embedder
from likewise.errors import BadDecision
from likewise.monitors.robustness import Monitor
from likewise.rule import Rule
from likewise.types import Verdict, Verdicts


class EmbeddedMonitor(Monitor):
    """Watches decisions on what an embedder makes vectors of.

    >>> import likewise as lw
    >>> def letters(texts):  # a toy: how often each letter occurs
    ...     return [[text.count(letter) for letter in "abcdefgh"] for text in texts]
    >>> monitor = lw.Monitor(lw.Rule("l1", 1, embed=letters))
    >>> monitor.observe("a bad cabbage", "spam").violation
    False
    >>> monitor.observe("a bad cabbages", "ham").witnesses.rows
    array([0])
    """

    def __init__(self, rule: Rule, **settings: Any) -> None:
        super().__init__(rule, **settings)
        assert isinstance(rule.embed, Embedder)
        self._embedding = rule.embed.loaded

    def observe(self, x: Any, z: Any) -> Verdict:
        return super().observe(self._embedding.one(x), z)

    def check(self, x: Any, z: Any) -> Verdict:
        return super().check(self._embedding.one(x), z)

    def observe_many(self, x: Any, z: Any, *, threads: int | None = None) -> Verdicts:
        return super().observe_many(embedded(self.rule, x), z, threads=threads)

    def load(self, x: Any, z: Any) -> range:
        return super().load(embedded(self.rule, x), z)


def embedded(rule: Rule, x: Any) -> Any:
    """The vectors of inputs under a rule with an embedder; a decision's number names it."""
    if hasattr(x, "to_list"):  # a series
        x = x.to_list()
    single = isinstance(x, str | bytes | bytearray) or (isinstance(x, np.ndarray) and x.ndim == 0)
    if single or not isinstance(x, Sequence | np.ndarray):
        raise BadDecision(
            f"the inputs are of type {type(x).__name__}; expected a list of texts or pictures, or"
            " an array of them. Nothing was stored."
        )
    assert isinstance(rule.embed, Embedder)
    return rule.embed.loaded.many(list(x), lambda i: f"decision {i}")
