"""The contract of an embedder's model, and helpers that its implementations share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from likewise.errors import BadRule

_CLOSE = 1e-3  # check vectors of one model may differ by this share of their length on two machines


@dataclass(frozen=True)
class ModelMark:
    """Identifies a model by what it is made of and by its vector of a fixed input."""

    identity: str
    """The parts of the model: its kind, a digest of its weights, settings that change vectors."""
    check: tuple[float, ...]
    """The vector of a fixed input; () if no input is known that the model takes."""

    def describe_difference(self, other: "ModelMark") -> str:
        """Say how this model differs from another; "" if both are the same."""
        if other.check and not self.check:
            return "it does not take the fixed input that it took then"
        if len(self.check) != len(other.check):
            return f"its vectors have {len(self.check)} numbers, and had {len(other.check)} then"
        apart = math.dist(self.check, other.check)
        if not apart <= _CLOSE * max(math.hypot(*self.check), math.hypot(*other.check)):
            return f"its vector of a fixed input is {apart:.3g} away from what it was then"
        if self.identity != other.identity:
            return f"it is {self.identity}, and was {other.identity}"
        return ""

    def to_dict(self) -> dict[str, Any]:
        return {"identity": self.identity, "check": list(self.check)}

    @classmethod
    def of(cls, given: Any) -> "ModelMark":
        """Read the result of `to_dict`; raise ValueError for anything else."""
        try:
            return cls(str(given["identity"]), tuple(map(float, given["check"])))
        except (TypeError, KeyError) as error:
            raise ValueError(f"{given!r} marks no embedder") from error


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
        raise BadRule(
            f"embed is {embedder!r}, which needs the package {package.replace('_', '-')}, and that"
            f" is not installed. Install it with: pip install '.[{extra}]' in the clone of"
            " likewise",
            setting="embed",
        )
