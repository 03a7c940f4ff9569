"""A rule without its models: for a ledger whose vectors are there already, or are not wanted.

Invariant: no model is loaded, no file is opened, and whatever would have to be embedded is refused.
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
    """The rule with embedders that only know how long their vectors are, by column.

    of_vectors: whether one that embeds whole inputs takes their vectors instead, or nothing.
    """
    features: Mapping[str, Any] = rule.features or {}
    standing = {
        name: one
        if one.embed is None
        else replace(one, embed=make_unavailable_embedder(vectors.get(name)))
        for name, one in features.items()
    }
    embed = None if rule.embed is None or of_vectors else make_unavailable_embedder()
    return replace(rule, embed=embed, features=standing or None)


def make_unavailable_embedder(dtype: np.dtype[Any] | None = None) -> Embedder:
    """An embedder that refuses whatever is to be embedded; dtype is that of its vectors."""
    embedder = UnavailableEmbedder(_refuse_call)
    known = np.dtype((np.float64, (1,))) if dtype is None else dtype
    object.__setattr__(embedder, "_absent", _UnavailableEmbedding(embedder, known))
    return embedder


class UnavailableEmbedder(Embedder):
    """Declares that the model is not there."""

    @property
    def embedding(self) -> Embedding:
        absent: Embedding = self.__dict__["_absent"]
        return absent

    @property
    def is_loaded(self) -> bool:
        return False


class _UnavailableEmbedding(Embedding):
    def __init__(self, declared: Embedder, dtype: np.dtype[Any]) -> None:
        super().__init__(declared, Function(declared))
        self._settled = dtype

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
        assert self._settled is not None
        return self._settled


def _refuse_call(batch: Sequence[Any]) -> Any:
    raise AssertionError("a model that is not there was asked")
