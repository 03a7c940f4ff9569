"""A function of one's own as an embedder, as it is or by the name of its module."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from likewise.embedders.declaration import DeclaredEmbedder
from likewise.embedders.embedding_model import FIXED_SENTENCE, InputKind, fixed_picture
from likewise.errors import BadRule


class Function:
    input_kind: InputKind = "anything"

    def __init__(self, declared: DeclaredEmbedder) -> None:
        self._declared = declared
        self._call = declared.name if callable(declared.name) else import_function(declared)
        self.identity = "python"  # it has no weights: what it makes of a fixed input tells

    def embed(self, batch: Sequence[Any]) -> Any:
        arrays = all(isinstance(one, np.ndarray) for one in batch)
        alike = arrays and len({(one.shape, one.dtype) for one in batch}) == 1
        return self._call(np.stack(batch) if alike else list(batch))

    def make_probe(self) -> Any:
        return make_declared_probe(self._declared)


def make_declared_probe(declared: DeclaredEmbedder) -> Any:
    """An array of the declared shape, or the fixed text, which it may take or not."""
    return FIXED_SENTENCE if declared.shape is None else fixed_picture(declared.shape)


def import_function(declared: DeclaredEmbedder) -> Any:
    """The function behind `kind:module:function`; raise BadRule if it is not there."""
    module, _, path = declared.location.partition(":")
    try:
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise BadRule(
            f"embed is {declared.text!r}, which is not there: {error}. Give a rule whose embed is"
            " the function itself, or put it where it can be imported.",
            setting="embed",
        ) from None
    if not callable(found):
        raise BadRule(
            f"embed is {declared.text!r}, which is {found!r}; expected a function", setting="embed"
        )
    return found
