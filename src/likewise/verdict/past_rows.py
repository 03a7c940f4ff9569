"""The answers of a past about many rows at once: arrays with an entry for each row asked for.

Not here: the contract of a past (explaining/past.py).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


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
