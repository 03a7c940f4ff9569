"""A rule without its models: for a ledger whose vectors are there already, or are not wanted.

Invariant: no model is loaded, no file is opened, and whatever would have to be embedded is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from likewise.embedders.embedding import Embedding, Name, Vectors, item_name
from likewise.embedders.function import Function
from likewise.embedders.model_mark import Mark
from likewise.errors import BadDecision
from likewise.rule.embedder import Embedder
from likewise.rule.rule import Rule


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
    """An embedder that refuses whatever is to be embedded; dtype is that of its vectors."""
    embedder = NoModel(_nothing)
    known = np.dtype((np.float64, (1,))) if dtype is None else dtype
    object.__setattr__(embedder, "_absent", _NoEmbedding(embedder, known))
    return embedder


class NoModel(Embedder):
    """Declares that the model is not there."""

    @property
    def loaded(self) -> Embedding:
        absent: Embedding = self.__dict__["_absent"]
        return absent

    @property
    def is_loaded(self) -> bool:
        return False


class _NoEmbedding(Embedding):
    def __init__(self, declared: Embedder, dtype: np.dtype[Any]) -> None:
        super().__init__(declared, Function(declared))
        self._settled = dtype

    def insist_on_model(self, name: Name) -> None:
        raise BadDecision(
            f"{name(0).text} cannot be embedded: the ledger was opened without its models.",
            advice="Open it with its rule, lw.open(path, rule), or, if you trust what its"
            " own rule names, with models=True.",
        )

    def many(self, items: Sequence[Any], name: Name = item_name) -> Vectors:
        if items:
            self.insist_on_model(name)
        return super().many(items, name)

    @property
    def mark(self) -> Mark:
        return Mark("no model", ())

    def settled(self) -> np.dtype[Any]:
        assert self._settled is not None
        return self._settled


def _nothing(batch: Sequence[Any]) -> Any:
    raise AssertionError("a model that is not there was asked")
