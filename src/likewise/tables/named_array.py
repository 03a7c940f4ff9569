"""Vectors that came as a table: an array that keeps the names of its columns.

A rule for vectors compares by position, so a table whose columns stand in another order would give
wrong verdicts. Whoever turns a table into an array before a reader sees it (a queue, a client, a
watcher) makes one of these; the reader compares the names (monitor/readers/vector_reader.py).
Not here: rules for tables, which take columns by their names.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.tables.normalize import array_of

NAMELESS = {np.ndarray, list, tuple}
"""Types of inputs that never have names."""


class NamedArray(np.ndarray[Any, Any]):
    """An array whose last axis has names. Its rows and its copies have them, too."""

    column_names: tuple[str, ...] = ()

    def __array_finalize__(self, source: Any) -> None:
        self.column_names = getattr(source, "column_names", ())


def names_of(x: Any) -> tuple[str, ...]:
    """Return the names of the columns of a frame, of an Arrow table or of a row; () if it has none.

    A row is a Series of pandas with names for its index. Names that are not text are none.
    """
    if type(x) in NAMELESS:
        return ()
    for attribute in ("column_names", "columns"):  # of Arrow; of pandas and Polars
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
    """Return an array that keeps these names; the same one where they do not fit."""
    if not names or array.shape[-1:] != (len(names),):
        return array
    named = array.view(NamedArray)
    named.column_names = names
    return named


def named_array_of(x: Any, what: str) -> npt.NDArray[Any]:
    """Return an input as an array, with the names of its columns if it has any."""
    return with_names(array_of(x, what), names_of(x))
