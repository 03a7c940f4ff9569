"""How a column of texts or pictures lies in a record: the code of its word, and its vector."""

from typing import Any

import numpy as np

CODE, VECTOR = "f0", "f1"
"""The two parts, as NumPy calls them."""


def make_column_type(vector: np.dtype[Any]) -> str:
    """The type of such a column."""
    return f"<i4,({vector.shape[0]},){vector.base.newbyteorder('<').str}"
