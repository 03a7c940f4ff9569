"""The context of a verdict: everything that it says besides its witnesses.

Also what a verdict asks of its past, and the protocol by which views read a verdict.
Not here: the verdict itself (verdicts.py).
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
    """The questions that verdicts ask of a past (explaining/past.py) about themselves."""

    def explain(self, verdict: Any, count: int) -> SideBySide: ...

    def by_group(self, verdicts: Any, column: str) -> GroupEffects: ...

    def by_model(self, verdicts: Any) -> tuple[ModelCounts, ...]: ...


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """The rows that a decision was compared with: from `first` up to `stop`, without the absent."""

    first: int
    stop: int
    absent: int
    """How many rows between were erased."""


class Support(NamedTuple):
    """How many past decisions were near a new one, whatever their output, and how many agree."""

    near: int
    agree: int
    """How many of them got an output that is not different."""


class VerdictContext(NamedTuple):
    """What a monitor says about one decision besides its witnesses; see `Verdict`."""

    past: "VerdictPast | None" = None
    """The past in which the rows of the verdict can be looked up."""
    compared_with: ComparedRows | None = None
    neighbours: int | None = None
    alarm: bool = False
    key: Any = None
    witness_keys: tuple[Any, ...] | None = None
    values: Mapping[str, Any] | None = None
    """The row of a table that was only checked, which the past therefore does not have."""
    comparable: bool | None = None
    model: str | None = None
    witness_models: tuple[str | None, ...] | None = None
    missing_decisions: int = 0
    repeated: bool = False
    omitted_witnesses: int = 0
    not_compared: int = 0
    near: int | None = None
    """How many past decisions were near, where support is asked."""
    question: SlopeQuestion | None = None
    """The question of a monitor of slopes: the one witness is the steepest past decision."""


EMPTY_CONTEXT = VerdictContext()


class AnyVerdict(Protocol):
    """A verdict as its body (verdict_body.py) and its table for notebooks read it."""

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
