"""Embeds with Sentence Transformers: a folder with a model, or a name that its hub knows.

A name is looked up on the hub, and downloaded, unless that is forbidden (HF_HUB_OFFLINE=1).
"""

from collections.abc import Sequence
from typing import Any

from likewise.embedders.declaration import DeclaredEmbedder, embed_error
from likewise.embedders.embedding_model import FIXED_SENTENCE, InputKind, require_package
from likewise.embedders.torch import digest_of_module


class SentenceTransformers:
    """Runs a model of Sentence Transformers."""

    input_kind: InputKind = "texts"

    def __init__(self, declared: DeclaredEmbedder) -> None:
        require_package("sentence_transformers", declared.text, "sentence-transformers")
        from sentence_transformers import SentenceTransformer

        try:
            self._model = SentenceTransformer(declared.location, device="cpu")
        except Exception as error:
            raise embed_error(declared.text, f", which cannot be loaded: {error}") from None
        self.identity = f"sentence-transformers {digest_of_module(self._model)}"

    def embed(self, batch: Sequence[str]) -> Any:
        return self._model.encode(
            list(batch), batch_size=max(1, len(batch)), show_progress_bar=False
        )

    def make_probe(self) -> str:
        return FIXED_SENTENCE
