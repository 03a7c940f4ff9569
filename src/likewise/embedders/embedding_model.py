"""What an embedder's model promises, whatever it is made with."""

from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from likewise.errors import BadRule

FIXED_SENTENCE = "Like cases should be treated alike."
"""The fixed text of which a check vector is made."""

InputKind = Literal["texts", "pictures", "anything"]


class EmbeddingModel(Protocol):
    """Makes vectors of a batch.

    Promise: one vector for each item, in order, and nothing but the item matters for its vector.
    """

    input_kind: InputKind
    identity: str
    """What it is made of; another model behind the same name has another."""

    def embed(self, batch: Sequence[Any]) -> Any:
        """Vectors of what was checked to be texts, pictures as arrays, or anything."""

    def make_probe(self) -> Any:
        """A fixed item that it can embed; None if it does not know one."""


def fixed_picture(shape: Sequence[int]) -> Any:
    """The fixed picture of that shape of which a check vector is made: every level occurs."""
    levels = np.arange(int(np.prod(shape)), dtype=np.int64) * 37 % 256
    return levels.astype(np.uint8).reshape(tuple(shape))


def digest_of(*files: Path) -> str:
    """A short digest of what is in these files."""
    digest = sha256()
    for path in files:
        require_regular_file(path)
        try:
            with path.open("rb") as file:
                while some := file.read(1 << 20):
                    digest.update(some)
        except OSError as error:
            raise BadRule(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    return digest.hexdigest()[:16]


def require_regular_file(path: Path) -> None:
    """Raise if something else is there, such as a queue, which would be waited for."""
    if path.exists() and not path.is_file():
        raise BadRule(f"{str(path)!r} cannot be read: it is not a regular file")


def require_package(package: str, embedder: str, extra: str) -> None:
    """Raise unless a package is there; say how to install it."""
    if find_spec(package) is None:
        raise BadRule(
            f"embed is {embedder!r}, which needs the package {package.replace('_', '-')}, and that"
            f" is not installed. Install it with: pip install 'likewise[{extra}]'",
            setting="embed",
        )
