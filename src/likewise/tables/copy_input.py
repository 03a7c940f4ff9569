"""An input as it was given, kept apart from whoever goes on working with it.

Invariant: nothing that is given is changed, and a later change to it changes no copy.
Cost: one copy of each input, as much again as remembering it; an array is not copied if neither it
nor what it is a view of may be written to.
Not here: objects without a `copy` method of their own, which are taken as they are.
"""

from typing import Any

import numpy as np

from likewise.tables.named_array import named_array_of
from likewise.tables.normalize import array_of_tensor, is_tensor

_UNCHANGING = {bool, bytes, complex, float, int, str, type(None)}


def copy_input(x: Any, columns: bool = False) -> Any:
    """A copy of an input, for a rule about columns, or about vectors.

    Tensors, sparse matrices and, where columns have no names, frames become arrays.
    """
    kind = type(x)
    if kind is np.ndarray:
        return x if _is_immutable(x) else x.copy()
    if kind in _UNCHANGING:
        return x
    if kind is dict:
        return {name: copy_input(one) for name, one in x.items()}
    if kind is list or kind is tuple:
        return kind(map(copy_input, x))
    return _copy_object(x, columns)


def _is_immutable(x: Any) -> bool:
    """Whether an array is read-only, down to the one that owns the numbers."""
    while type(x) is np.ndarray and not x.flags.writeable:
        if x.base is None:
            return bool(x.flags.owndata)
        x = x.base
    return type(x) is bytes


def _copy_object(x: Any, columns: bool) -> Any:
    if is_tensor(x):
        array = array_of_tensor(x)
        return array.copy() if x.device.type == "cpu" else array
    if hasattr(x, "toarray"):  # a sparse matrix
        return x.toarray()
    if columns and hasattr(x, "iloc") and len(x) == 1 and x.columns.is_unique:
        return [dict(zip(x.columns.tolist(), x.to_numpy(object)[0].tolist(), strict=True))]
    if hasattr(x, "__array__") and not columns and not isinstance(x, np.ma.MaskedArray):
        return named_array_of(x, "the input").copy()
    copy = getattr(x, "copy", None)
    return copy() if callable(copy) else x
