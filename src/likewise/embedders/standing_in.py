"""A rule without its models, where their vectors are there already: a ledger is read again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from likewise.embedder import Embedder
from likewise.embedders.model import SENTENCE
from likewise.errors import BadRule
from likewise.rule import Rule


def without_models(
    rule: Rule, vectors: Mapping[str, np.dtype[Any]], *, of_vectors: bool = True
) -> Rule:
    """The rule with embedders that only know how long their vectors are, by column.

    of_vectors: whether one that embeds whole inputs takes their vectors instead, or nothing.
    """
    features: Mapping[str, Any] = rule.features or {}
    standing = {
        name: one if one.embed is None else replace(one, embed=no_model(vectors.get(name)))
        for name, one in features.items()
    }
    embed = None if rule.embed is None or of_vectors else no_model()
    return replace(rule, embed=embed, features=standing or None)


def no_model(dtype: np.dtype[Any] | None = None) -> Embedder:
    """An embedder that refuses whatever is to be embedded."""
    width, base = (1, np.dtype(np.float64)) if dtype is None else (dtype.shape[0], dtype.base)

    def refuse(batch: list[Any]) -> Any:
        if batch != [SENTENCE]:
            raise BadRule("the ledger was opened without its models, and nothing can be embedded")
        return np.zeros((1, width), base)

    return Embedder(refuse)
