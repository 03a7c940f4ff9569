"""Copies an input, so that the caller may change it while it waits to be judged.

Invariant: the input itself is not changed, and a later change to it does not change the copy.
Cost: one copy of each input; an array is not copied if neither it nor its base can be written to.
Objects without a `copy` method are not copied.
"""

from typing import Any

import numpy as np

from likewise.tables.named_array import named_array_of
from likewise.tables.normalize import array_of_tensor, is_tensor

_UNCHANGING = {bool, bytes, complex, float, int, str, type(None)}


def copy_input(x: Any, columns: bool = False) -> Any:
    """Return a copy of an input.

    Tensors and sparse matrices become arrays; so do frames, unless the rule is about `columns`.
    """
    kind = type(x)
    if kind is np.ndarray:
        return x if _is_immutable(x) else x.copy()
    if kind in _UNCHANGING:
        return x
    if kind is dict:
        return {name: copy_input(value) for name, value in x.items()}
    if kind is list or kind is tuple:
        return kind(map(copy_input, x))
    return _copy_object(x, columns)


def _is_immutable(x: Any) -> bool:
    """Whether an array is read-only, and so is every array that it is a view of."""
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
