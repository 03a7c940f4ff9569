"""From a declaration to a model at work."""

from importlib import import_module
from typing import Any

from likewise.embedders.declaration import DeclaredEmbedder
from likewise.embedders.embedding import Embedding

_HOMES = {
    "wordllama": "wordllama.WordLlama",
    "sentence-transformers": "sentence_transformers.SentenceTransformers",
    "onnx": "onnx.Onnx",
    "torch": "torch.Torch",
    "python": "function.Function",
}


def load(declared: DeclaredEmbedder) -> Embedding:
    """Load the model; raise BadRule if it, or the package that it needs, is not there."""
    home, name = _HOMES[declared.kind].split(".")
    make: Any = getattr(import_module(f"likewise.embedders.{home}"), name)
    return Embedding(declared, make(declared))
