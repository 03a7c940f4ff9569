"""The reader of a rule with an embedder: texts or pictures in, their vectors judged and kept.

Of an input only its vector is kept: who wants to see texts again gives them as a column of a table
(kind "text"), or looks them up by row.

Invariant: a decision whose input cannot be embedded leaves no trace.
Cost: the model's time, outside the monitor's lock; then as for any vector.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.embedders.embedding import Subject
from likewise.reading.vectors import VectorReader
from likewise.rules.rule import Rule
from likewise.values.errors import UnexpectedValue


class EmbeddedReader(VectorReader):
    """Makes vectors with the rule's embedder."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        assert rule.embed is not None
        self._working = rule  # `rule` may name a model that is not to be loaded
        self._embedding = rule.embed.loaded

    def vectors_of(self, x: Any, *, many: bool) -> Any:
        return embedded(self._working, x) if many else self._embedding.one(x)


def embedded(rule: Rule, x: Any) -> Any:
    """The vectors of inputs under a rule with an embedder; a decision's number names it."""
    if hasattr(x, "to_list"):  # a series
        x = x.to_list()
    single = isinstance(x, str | bytes | bytearray) or (isinstance(x, np.ndarray) and x.ndim == 0)
    if single or not isinstance(x, Sequence | np.ndarray):
        raise UnexpectedValue(
            f"the inputs are of type {type(x).__name__}; expected a list of texts or pictures, or"
            " an array of them."
        )
    assert rule.embed is not None
    return rule.embed.loaded.many(list(x), lambda i: Subject("the input", i))
