"""The contract of a past, through which all code reads what a monitor has taken, by row.

The same methods work for a monitor in this process, behind a service or on a cluster.
Invariant: only rows of finished calls can be seen; refused or interrupted ones never.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from likewise.rule.rule import Rule
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.model_counts import CodedColumn, ComparisonSpan, LikeModels, ModelCounts
from likewise.verdict.side_by_side import SideBySide
from likewise.verdict.verdicts import Verdict, Verdicts


class Points(NamedTuple):
    """Holds inputs as the engine compares them."""

    vectors: npt.NDArray[Any]
    left_open: npt.NDArray[np.bool_] | None
    """For each coordinate whether it matches everything; None if none does anywhere."""
    rule: Rule
    """The rule that says when two of these vectors are near."""


class Past(Protocol):
    """Reads what a monitor remembers."""

    @property
    def rule(self) -> Rule: ...

    def values(self, row: int) -> dict[str, Any]:
        """Return a table row as it came, key and output included; None for missing values."""

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        """Return the vectors of rows, in the shape and type that are stored."""

    def points(self, rows: Any) -> Points:
        """Return the inputs of remembered rows as the engine compares them."""

    def outputs(self, rows: Any) -> list[Any]:
        """Return the outputs of rows; None for forgotten ones."""

    def keys(self, rows: Any) -> list[Any]:
        """Return the keys of rows; None for a row without one, or a forgotten one."""

    def models(self, rows: Any) -> list[str | None]:
        """Return the models that decided rows; None for a row without one, or a forgotten one."""

    def model_codes(self, rows: Any) -> CodedColumn | None:
        """Return the models of rows as codes, one of which means None; None if no row has one."""

    def row_of(self, key: Any) -> int | None:
        """Return the row of a key, or None if it is not remembered."""

    def alive(self, rows: Any) -> npt.NDArray[np.bool_]:
        """Say of each row whether it is remembered."""

    def codes(self, column: str, rows: Any) -> CodedColumn:
        """Return the values of a table column in rows, as codes; "" for labels."""

    def numbers(self, rows: Any) -> npt.NDArray[np.float64]:
        """Return outputs that are numbers; NaN for forgotten rows."""

    def span(self, rows: Any) -> ComparisonSpan | None:
        """Return how far apart in time rows may be to be compared; None if that is unlimited."""

    def like_models(self, rows: range) -> LikeModels | None:
        """Say which rows had an earlier similar case within and across models, from all near pairs.

        None if no model is known, if too much is forgotten, or if there are too many pairs.
        """

    def explain(self, verdict: Verdict, count: int) -> SideBySide:
        """Put a decision side by side with its nearest witnesses."""

    def by_group(self, verdicts: Verdicts, column: str) -> GroupEffects:
        """Compare protected groups among all decisions up to the last of these."""

    def by_model(self, verdicts: Verdicts) -> tuple[ModelCounts, ...]:
        """Count the decisions and contradictions of each model among these."""
