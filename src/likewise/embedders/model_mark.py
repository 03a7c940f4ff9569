"""The mark by which a ledger recognises the model of an embedder."""

import math
from dataclasses import dataclass
from typing import Any

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
