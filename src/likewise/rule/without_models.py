"""Replaces the embedders of a rule, for a ledger that is opened without loading its models.

Invariant: no model is loaded, no file is opened, and an item that needs embedding is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from likewise.embedders.embedding import Embedding, ItemNamer, Vectors, item_name
from likewise.embedders.function import Function
from likewise.embedders.model_mark import ModelMark
from likewise.errors import BadDecision
from likewise.rule.embedder import Embedder
from likewise.rule.rule import Rule


def without_models(
    rule: Rule, vectors: Mapping[str, np.dtype[Any]], *, of_vectors: bool = True
) -> Rule:
    """Return the rule with embedders that know only the type of their vectors.

    vectors     the type of the vectors of each column
    of_vectors  whether inputs that were embedded whole are now vectors, or are refused
    """
    features: Mapping[str, Any] = rule.features or {}
    replaced = {
        name: feature
        if feature.embed is None
        else replace(feature, embed=make_unavailable_embedder(vectors.get(name)))
        for name, feature in features.items()
    }
    embed = None if rule.embed is None or of_vectors else make_unavailable_embedder()
    return replace(rule, embed=embed, features=replaced or None)


def make_unavailable_embedder(dtype: np.dtype[Any] | None = None) -> Embedder:
    """Make an embedder that refuses every item; dtype is the type of its vectors."""
    embedder = UnavailableEmbedder(_refuse_call)
    vector_type = np.dtype((np.float64, (1,))) if dtype is None else dtype
    embedder._set("_unavailable", _UnavailableEmbedding(embedder, vector_type))
    return embedder


class UnavailableEmbedder(Embedder):
    """An embedder whose model is not loaded."""

    @property
    def embedding(self) -> Embedding:
        embedding: Embedding = self.__dict__["_unavailable"]
        return embedding

    @property
    def is_loaded(self) -> bool:
        return False


class _UnavailableEmbedding(Embedding):
    def __init__(self, declared: Embedder, dtype: np.dtype[Any]) -> None:
        super().__init__(declared, Function(declared))
        self._vector_type = dtype

    def require_model(self, name: ItemNamer) -> None:
        raise BadDecision(
            f"{name(0).text} cannot be embedded: the ledger was opened without its models.",
            advice="Open it with its rule, lw.open(path, rule), or, if you trust what its"
            " own rule names, with models=True.",
        )

    def embed_many(self, items: Sequence[Any], name: ItemNamer = item_name) -> Vectors:
        if items:
            self.require_model(name)
        return super().embed_many(items, name)

    @property
    def mark(self) -> ModelMark:
        return ModelMark("no model", ())

    def find_vector_type(self) -> np.dtype[Any]:
        assert self._vector_type is not None
        return self._vector_type


def _refuse_call(batch: Sequence[Any]) -> Any:
    raise AssertionError("a model that is not loaded was called")
