"""The contract of a past: the only way to look back at what a monitor has taken.

Reports, explanations and commands look through this, whether the monitor is in this process, behind
a service or on a cluster. Everything is asked for by row.

Invariant: only rows of finished calls can be seen; what was refused, or cut off, never.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from likewise.rule.rule import Rule
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.model_counts import ModelCounts
from likewise.verdict.past_rows import CodedColumn, ComparisonSpan, LikeModels
from likewise.verdict.side_by_side import SideBySide
from likewise.verdict.verdicts import Verdict, Verdicts


class Points(NamedTuple):
    """Inputs as they are compared: what is near, in numbers."""

    vectors: npt.NDArray[Any]
    left_open: npt.NDArray[np.bool_] | None
    """For each coordinate whether it matches everything; None if none does anywhere."""
    rule: Rule
    """When two of these vectors are near."""


class Past(Protocol):
    """What is remembered."""

    @property
    def rule(self) -> Rule: ...

    def values(self, row: int) -> dict[str, Any]:
        """A row of a table as it came, key and output included; None where there was nothing."""

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        """The vectors of rows, in the shape and type in which they are kept."""

    def points(self, rows: Any) -> Points:
        """The inputs of rows, which are remembered, as the engine compares them."""

    def outputs(self, rows: Any) -> list[Any]:
        """The outputs of rows; None for those forgotten."""

    def keys(self, rows: Any) -> list[Any]:
        """The keys of rows; None for one without, or forgotten."""

    def models(self, rows: Any) -> list[str | None]:
        """The models that decided rows; None for one without, or forgotten."""

    def model_codes(self, rows: Any) -> CodedColumn | None:
        """The same as codes, of which one stands for None; None where no row has a model."""

    def row_of(self, key: Any) -> int | None:
        """The row of a key, if it is remembered."""

    def alive(self, rows: Any) -> npt.NDArray[np.bool_]:
        """Whether rows are remembered."""

    def codes(self, column: str, rows: Any) -> CodedColumn:
        """A column of rows of a table; "" for their labels."""

    def numbers(self, rows: Any) -> npt.NDArray[np.float64]:
        """The outputs of rows, where they are numbers; NaN for those forgotten."""

    def span(self, rows: Any) -> ComparisonSpan | None:
        """How far apart in time rows may be to be compared; None where that is not limited."""

    def like_models(self, rows: range) -> LikeModels | None:
        """Whether rows had an earlier like case within and across models, from all near pairs.

        None where no model is known, or where too much is forgotten, or near, to say it.
        """

    def explain(self, verdict: Verdict, count: int) -> SideBySide:
        """A decision beside its nearest witnesses."""

    def by_group(self, verdicts: Verdicts, column: str) -> GroupEffects:
        """Who got less, by protected group, among all decisions up to the last of these."""

    def by_model(self, verdicts: Verdicts) -> tuple[ModelCounts, ...]:
        """Decisions and contradictions of each model among these."""
