"""An array that keeps the names of its columns, for vectors that came as a table.

A rule for vectors compares by position, so a table with its columns in another order would give
wrong verdicts. A queue, a client or a watcher that turns a table into an array makes a NamedArray;
monitor/readers/vector_reader.py compares the names. Not here: rules for tables.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.tables.normalize import array_of

NAMELESS = {np.ndarray, list, tuple}
"""Types of inputs that never name their columns."""


class NamedArray(np.ndarray[Any, Any]):
    """An array whose last axis has names. Its rows and copies have them, too."""

    column_names: tuple[str, ...] = ()

    def __array_finalize__(self, source: Any) -> None:
        self.column_names = getattr(source, "column_names", ())


def names_of(x: Any) -> tuple[str, ...]:
    """Return the column names of a frame, an Arrow table or a row; () if it has none.

    A row is a Series of pandas whose index is names. Names that are not text do not count.
    """
    if type(x) in NAMELESS:
        return ()
    for attribute in ("column_names", "columns"):  # the first is Arrow's
        if hasattr(x, attribute):
            break
    else:
        attribute = "index"  # a method of other sequences
    try:
        names = tuple(getattr(x, attribute, ()))
    except TypeError:
        return ()
    return names if all(isinstance(name, str) for name in names) else ()


def with_names(array: npt.NDArray[Any], names: tuple[str, ...]) -> npt.NDArray[Any]:
    """Return the array with these names of columns; without them if their number does not fit."""
    if not names or array.shape[-1:] != (len(names),):
        return array
    named = array.view(NamedArray)
    named.column_names = names
    return named


def named_array_of(x: Any, what: str) -> npt.NDArray[Any]:
    """Return an input as an array with the names of its columns, if it has any."""
    return with_names(array_of(x, what), names_of(x))
