"""Read texts or pictures under a rule with an embedder; only their vectors are kept.

To see texts again, give them as a column of a table (kind "text"), or look them up by row.
Invariant: a decision whose input cannot be embedded leaves no trace.
Cost: the model's time, outside the monitor's lock; then as for any vector.
"""

from typing import Any

import numpy as np

from likewise.embedders.embedding import ErrorSubject
from likewise.errors import UnexpectedValue
from likewise.monitor.readers.vector_reader import VectorReader
from likewise.rule.rule import Rule
from likewise.tables.normalize import as_list


class EmbeddedReader(VectorReader):
    """Turns inputs into vectors with the rule's embedder."""

    embeds = True

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        assert rule.embed is not None
        self._loadable_rule = rule  # `rule` may name a model that is not to be loaded
        self._embedding = rule.embed.embedding

    def embed_inputs(self, x: Any, *, many: bool) -> Any:
        return embed_many(self._loadable_rule, x) if many else self._embedding.embed_one(x)


def embed_many(rule: Rule, x: Any) -> Any:
    """Return the vectors of inputs under a rule with an embedder; errors say which input it is."""
    values = list(x) if isinstance(x, np.ndarray) and x.ndim else as_list(x)  # pictures stay arrays
    if values is None:
        raise UnexpectedValue(
            f"the inputs are of type {type(x).__name__}; expected a list of texts or pictures, or"
            " an array of them."
        )
    assert rule.embed is not None
    return rule.embed.embedding.embed_many(values, lambda i: ErrorSubject("the input", i))
