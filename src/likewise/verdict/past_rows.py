"""What a past tells of many rows at once: arrays, one entry for each row that was asked for.

Not here: the contract of a past (explaining/past.py).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class CodedColumn(NamedTuple):
    """Values of one column, as codes: many rows at little cost."""

    codes: npt.NDArray[np.int64]
    """For each row; -1 where it is forgotten, or had nothing there."""
    values: Sequence[Any]
    """By code."""


class ComparisonSpan(NamedTuple):
    """How far apart in time two decisions may be to be compared, and when some were made."""

    text: str
    microseconds: int
    times: npt.NDArray[np.int64]
    """Microseconds since 1970, for each row."""


class LikeModels(NamedTuple):
    """Whether decisions had an earlier like case of their own model, and of another one."""

    within: npt.NDArray[np.bool_]
    across: npt.NDArray[np.bool_]
