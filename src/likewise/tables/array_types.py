"""The two array types that most of likewise passes around: row numbers and distances."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = npt.NDArray[np.int64]
NearRows: TypeAlias = tuple[Rows, Floats]
"""Rows that are near an input, ascending, and their distances from it."""
