"""The contract of an embedder's model, and helpers that its implementations share."""

from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from likewise.embedders.declaration import embed_error
from likewise.errors import BadRule

FIXED_SENTENCE = "Like cases should be treated alike."
"""The text of which a check vector is made."""

InputKind = Literal["texts", "pictures", "anything"]


class EmbeddingModel(Protocol):
    """Makes vectors of a batch.

    Contract: one vector for each item, in order, which depends on nothing but the item.
    """

    input_kind: InputKind
    identity: str
    """What the model is made of; another model behind the same name has another identity."""

    def embed(self, batch: Sequence[Any]) -> Any:
        """Return the vectors of a batch: of texts, of arrays of pictures, or of anything."""

    def make_probe(self) -> Any:
        """Return a fixed item that the model can embed; None if none is known."""


def fixed_picture(shape: Sequence[int]) -> Any:
    """Return the picture of that shape of which a check vector is made; it has every level."""
    levels = np.arange(int(np.prod(shape)), dtype=np.int64) * 37 % 256
    return levels.astype(np.uint8).reshape(tuple(shape))


def digest_of(*files: Path) -> str:
    """Return a short digest of the content of these files."""
    digest = sha256()
    for path in files:
        require_regular_file(path)
        try:
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise BadRule(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    return digest.hexdigest()[:16]


def require_regular_file(path: Path) -> None:
    """Raise BadRule if the path is something else, such as a pipe, which could block."""
    if path.exists() and not path.is_file():
        raise BadRule(f"{str(path)!r} cannot be read: it is not a regular file")


def require_package(package: str, embedder: str, extra: str) -> None:
    """Raise BadRule unless a package is installed; say how to install it."""
    if find_spec(package) is None:
        raise embed_error(
            embedder,
            f", which needs the package {package.replace('_', '-')}, and that is not installed."
            f" Install it with: pip install '.[{extra}]' in the clone of likewise",
        )
