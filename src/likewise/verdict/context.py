"""What a verdict says beside its witnesses, and what it asks of the past about itself.

Not here: the verdict (verdicts.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.model_counts import ModelCounts
from likewise.verdict.side_by_side import SideBySide
from likewise.verdict.slope import SlopeQuestion
from likewise.verdict.witnesses import Witnesses


class VerdictPast(Protocol):
    """What verdicts ask of a past (explaining/past.py) about themselves."""

    def explain(self, verdict: Any, count: int) -> SideBySide: ...

    def by_group(self, verdicts: Any, column: str) -> GroupEffects: ...

    def by_model(self, verdicts: Any) -> tuple[ModelCounts, ...]: ...


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """The rows that a verdict ranges over: from `first` up to `stop`, less those `absent`."""

    first: int
    stop: int
    absent: int
    """Rows between that were erased, and could not be compared with."""

    @property
    def is_reduced(self) -> bool:
        """Whether a part of the past was not there."""
        return self.first > 0 or self.absent > 0


class VerdictContext(NamedTuple):
    """What a monitor says beside the witnesses of one decision."""

    past: "VerdictPast | None" = None
    """Where the rows that a verdict names can be looked up."""
    over: ComparedRows | None = None
    neighbours: int | None = None
    alarm: bool = False
    key: Any = None
    witness_keys: tuple[Any, ...] | None = None
    values: Mapping[str, Any] | None = None
    """A row of a table as it came, if it was only checked: it cannot be looked up."""
    comparable: bool | None = None
    model: str | None = None
    witness_models: tuple[str | None, ...] | None = None
    missing: int = 0
    known: bool = False
    omitted: int = 0
    incomplete: int = 0
    question: SlopeQuestion | None = None
    """Where slopes are asked for: the one witness is the steepest past decision."""


EMPTY_CONTEXT = VerdictContext()


class AnyVerdict(Protocol):
    """A verdict as its views read it: its body (verdict_body.py), a table for notebooks."""

    @property
    def row(self) -> int | None: ...

    @property
    def witnesses(self) -> Witnesses: ...

    @property
    def context(self) -> VerdictContext: ...

    @property
    def violation(self) -> bool: ...

    @property
    def slope(self) -> float | None: ...
