"""Counts decisions, comparable decisions and contradictions by model, within and across models.

Invariant: every witness is counted once, within or across; a decision may be flagged for both.
Not here: the counting itself (explaining/model_tally.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# The answers of a past about many rows at once: arrays with an entry for each row asked for.
# Not here: the contract of a past (explaining/past.py).


class CodedColumn(NamedTuple):
    """The values of one column as codes, which is cheap for many rows."""

    codes: npt.NDArray[np.int64]
    """The code for each row; -1 where it is forgotten, or the value is missing."""
    values: Sequence[Any]
    """The values by code."""


class ComparisonSpan(NamedTuple):
    """How far apart in time two decisions may be to be compared, and the times of decisions."""

    text: str
    microseconds: int
    times: npt.NDArray[np.int64]
    """The time of each row, in microseconds since 1970."""


class LikeModels(NamedTuple):
    """Whether decisions had an earlier similar case of their own model, and of another one."""

    within: npt.NDArray[np.bool_]
    across: npt.NDArray[np.bool_]


ComparablesByModel = Mapping[str | None, tuple[int, int]]
"""By model: decisions with an earlier similar case of the same model, and of another model."""


@dataclass(frozen=True)
class ModelSide:
    """The decisions of a model, compared with earlier ones of the same or of other models."""

    compared: bool
    """Whether the rule compares these at all; if not, the counts are 0."""
    comparable: int | None
    """Decisions with such an earlier similar case, whatever its output; None if not counted."""
    violations: int
    """Decisions that contradict such an earlier decision."""
    pairs: int
    """Contradicting pairs with such an earlier decision."""


@dataclass(frozen=True)
class ModelCounts:
    """The decisions of one model, and how many contradict earlier decisions."""

    model: str | None
    """None: decisions without a model."""
    decisions: int
    comparable: int | None
    """Decisions with an earlier similar case; None if not counted."""
    violations: int
    """Decisions that contradict an earlier decision."""
    pairs: int
    """Contradicting pairs with an earlier decision."""
    within: ModelSide
    """Compared with earlier decisions of the same model."""
    across: ModelSide
    """Compared with earlier decisions of other models."""

    def without_comparable(self) -> "ModelCounts":
        """Return these counts with the number of comparable decisions unknown."""
        return replace(
            self,
            comparable=None,
            within=replace(self.within, comparable=None),
            across=replace(self.across, comparable=None),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)
