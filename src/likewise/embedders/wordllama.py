"""Embeds with WordLlama, which averages the vectors of a text's words: small, fast, offline.

Its package contains weights and tokenizer; they are loaded from there by naming it as the cache.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from likewise.embedders.declaration import DeclaredEmbedder
from likewise.embedders.embedding_model import FIXED_SENTENCE, InputKind, digest_of, require_package

_WEIGHTS = "l2_supercat_256.safetensors"


class WordLlama:
    """Averages the vectors of words."""

    input_kind: InputKind = "texts"

    def __init__(self, declared: DeclaredEmbedder) -> None:
        require_package("wordllama", declared.text, "wordllama")
        import wordllama

        home = Path(wordllama.__file__).parent
        self._model = wordllama.WordLlama.load(cache_dir=home, disable_download=True)
        self.identity = f"wordllama {digest_of(home / 'weights' / _WEIGHTS)}"

    def embed(self, batch: Sequence[str]) -> Any:
        return self._model.embed(list(batch), norm=False, batch_size=max(1, len(batch)))

    def make_probe(self) -> str:
        return FIXED_SENTENCE
