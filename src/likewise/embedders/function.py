"""Embeds with the user's own function, given as a callable or by name."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from likewise.embedders.declaration import DeclaredEmbedder, embed_error
from likewise.embedders.embedding_model import FIXED_SENTENCE, InputKind, fixed_picture


class Function:
    """Calls the user's function with a batch."""

    input_kind: InputKind = "anything"

    def __init__(self, declared: DeclaredEmbedder) -> None:
        self._declared = declared
        self._call = declared.name if callable(declared.name) else import_function(declared)
        self.identity = "python"  # a function has no weights: only its check vector identifies it

    def embed(self, batch: Sequence[Any]) -> Any:
        arrays = all(isinstance(item, np.ndarray) for item in batch)
        can_stack = arrays and len({(item.shape, item.dtype) for item in batch}) == 1
        return self._call(np.stack(batch) if can_stack else list(batch))

    def make_probe(self) -> Any:
        return make_declared_probe(self._declared)


def make_declared_probe(declared: DeclaredEmbedder) -> Any:
    """Return an array of the declared shape, else the fixed text, which the model may not take."""
    return FIXED_SENTENCE if declared.shape is None else fixed_picture(declared.shape)


def import_function(declared: DeclaredEmbedder) -> Any:
    """Import the function of `kind:module:function`; raise BadRule if that fails."""
    module, _, path = declared.location.partition(":")
    try:
        function: Any = import_module(module)
        for name in path.split("."):
            function = getattr(function, name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise embed_error(
            declared.text,
            f", which cannot be imported: {error}. Give a rule whose embed is the function itself,"
            " or put it where it can be imported.",
        ) from None
    if not callable(function):
        raise embed_error(declared.text, f", which is {function!r}; expected a function")
    return function
