"""What a model was given, kept apart from the model; what it answered, as a monitor reads it.

Some models work in place: a scaler with `copy=False`, a first layer that is an in-place ReLU. What
is observed is the input as it was given, so it is copied before the model sees it.

Invariant: nothing that is given or answered is changed, and a later change to it changes no copy.
Cost: one copy of each input, as much again as remembering it; an array is not copied if neither it
nor what it is a view of may be written to.
Not here: objects without a `copy` method of their own, which are taken as they are.
"""

from typing import Any

import numpy as np

from likewise.rules.feature import plain
from likewise.values.plain import array_of, array_of_tensor, is_tensor

_UNCHANGING = {bool, bytes, complex, float, int, str, type(None)}


def as_given(x: Any, columns: bool = False) -> Any:
    """A copy of an input, for a rule about columns, or about vectors.

    Tensors, sparse matrices and, where columns have no names, frames become arrays.
    """
    kind = type(x)
    if kind is np.ndarray:
        return x if _stays(x) else x.copy()
    if kind in _UNCHANGING:
        return x
    if kind is dict:
        return {name: as_given(one) for name, one in x.items()}
    if kind is list or kind is tuple:
        return kind(map(as_given, x))
    return _copied(x, columns)


def _stays(x: Any) -> bool:
    """Whether an array is read-only, down to the one that owns the numbers."""
    while type(x) is np.ndarray and not x.flags.writeable:
        if x.base is None:
            return bool(x.flags.owndata)
        x = x.base
    return type(x) is bytes


def _copied(x: Any, columns: bool) -> Any:
    if is_tensor(x):
        array = array_of_tensor(x)
        return array.copy() if x.device.type == "cpu" else array
    if hasattr(x, "toarray"):  # a sparse matrix
        return x.toarray()
    if columns and hasattr(x, "iloc") and len(x) == 1 and x.columns.is_unique:
        return [dict(zip(x.columns.tolist(), x.to_numpy(object)[0].tolist(), strict=True))]
    if hasattr(x, "__array__") and not columns and not isinstance(x, np.ma.MaskedArray):
        return array_of(x, "the input").copy()
    copy = getattr(x, "copy", None)
    return copy() if callable(copy) else x


def as_answered(z: Any) -> Any:
    """Outputs as lists, arrays or plain values."""
    if type(z) is np.ndarray and z.ndim:
        return z
    if is_tensor(z):
        z = array_of_tensor(z)
    elif hasattr(z, "to_numpy"):  # a series or a frame, whose z[0] may be anything
        z = z.to_numpy()
    return plain(z)


def some_rows(x: Any, at: list[int]) -> Any:
    """The rows of a batch, or its outputs, at these places."""
    if isinstance(x, list | tuple):
        return [x[i] for i in at]
    if hasattr(x, "iloc"):
        return x.iloc[at]
    if isinstance(x, np.ndarray) or not hasattr(x, "take"):
        return x[at]
    return x.take(at)  # an Arrow table


def one_row(x: Any, columns: bool) -> Any:
    """The only row of a batch of one, for `observe`; None where only `observe_many` can read it.

    Judging a row as a batch takes many times as long as judging a row.
    """
    if type(x) is np.ndarray:
        return x[0] if x.ndim > 1 and not columns else None
    if type(x) is not list:
        return None
    return x[0] if type(x[0]) is dict or (not columns and type(x[0]) is list) else None


def one_output(z: Any, number: bool) -> Any:
    """The only output of a batch of one."""
    if type(z) is np.ndarray and (z.ndim == 1 or (number and z.size == 1)):
        return plain(z.reshape(-1)[0])
    return plain(z[0])
