"""Decisions, comparables and contradictions by model: within a model and across models apart.

Invariant: every witness is counted once, within or across; a decision may be flagged for both.
Not here: how they are counted (explaining/model_tally.py).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

ComparablesByModel = Mapping[str | None, tuple[int, int]]
"""By model: decisions with an earlier like case of the same model, and of another one."""


@dataclass(frozen=True)
class ModelSide:
    """The decisions of a model beside earlier ones of the same model, or of other models."""

    compared: bool
    """Whether the rule compares these at all. If not, nothing can be found."""
    comparable: int | None
    """With such an earlier like case, whatever its output; None where that was not looked at."""
    flagged: int
    """That contradict such an earlier decision."""
    pairs: int
    """Contradicting pairs with such an earlier decision."""


@dataclass(frozen=True)
class ModelCounts:
    """What one model decided, and what contradicts earlier decisions."""

    model: str | None
    """None: decisions without a model."""
    decisions: int
    comparable: int | None
    """With an earlier like case; None where that was not looked at."""
    flagged: int
    """That contradict an earlier decision."""
    pairs: int
    within: ModelSide
    """Beside earlier decisions of the same model."""
    across: ModelSide
    """Beside earlier decisions of other models."""

    def without_comparable(self) -> "ModelCounts":
        """The same where how many are comparable is not known."""
        return replace(
            self,
            comparable=None,
            within=replace(self.within, comparable=None),
            across=replace(self.across, comparable=None),
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
