"""The layout of a column of texts or pictures in a record: the code of its word, and its vector."""

from typing import Any

import numpy as np

CODE, VECTOR = "f0", "f1"
"""The names of the two fields of its NumPy type."""


def make_column_type(vector: np.dtype[Any]) -> str:
    """Return the NumPy type of a column whose vectors have this type."""
    return f"<i4,({vector.shape[0]},){vector.base.newbyteorder('<').str}"
