"""Which model an embedder is: what a ledger keeps of it."""

import math
from dataclasses import dataclass
from typing import Any

_CLOSE = 1e-3  # of their length: how far check vectors of one model may be apart on two machines


@dataclass(frozen=True)
class ModelMark:
    """Which model an embedder is."""

    identity: str
    """What it is made of: a name, a digest of its weights, the settings that matter."""
    check: tuple[float, ...]
    """What it makes of a fixed input; nothing where no such input is known."""

    def describe_difference(self, other: "ModelMark") -> str:
        """How, in words; nothing if they are the same model."""
        if other.check and not self.check:
            return "it cannot take the fixed input that it took"
        if len(self.check) != len(other.check):
            return f"it makes {len(self.check)} numbers of an input, and made {len(other.check)}"
        apart = math.dist(self.check, other.check)
        if not apart <= _CLOSE * max(math.hypot(*self.check), math.hypot(*other.check)):
            return f"what it makes of a fixed input is {apart:.3g} away from what it made"
        if self.identity != other.identity:
            return f"it is {self.identity}, and was {other.identity}"
        return ""

    def to_dict(self) -> dict[str, Any]:
        return {"identity": self.identity, "check": list(self.check)}

    @classmethod
    def of(cls, given: Any) -> "ModelMark":
        """From what `to_dict` gave; raise ValueError if it did not."""
        try:
            return cls(str(given["identity"]), tuple(map(float, given["check"])))
        except (TypeError, KeyError) as error:
            raise ValueError(f"{given!r} marks no embedder") from error
