"""What a model answered, as a monitor reads it; rows of batches.

Some models work in place: a scaler with `copy=False`, a first layer that is an in-place ReLU. What
is observed is the input as it was given: it is copied (values/given.py) before the model sees it.
"""

from typing import Any

import numpy as np

from likewise.values.plain import array_of_tensor, is_tensor, scalar


def as_answered(z: Any) -> Any:
    """Outputs as lists, arrays or plain values."""
    if type(z) is np.ndarray and z.ndim:
        return z
    if is_tensor(z):
        z = array_of_tensor(z)
    elif hasattr(z, "to_numpy"):  # a series or a frame, whose z[0] may be anything
        z = z.to_numpy()
    return scalar(z)


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
    if isinstance(x, np.ndarray):
        return x[0] if x.ndim > 1 and not columns else None
    if type(x) is not list:
        return None
    return x[0] if type(x[0]) is dict or (not columns and type(x[0]) is list) else None


def one_output(z: Any, number: bool) -> Any:
    """The only output of a batch of one."""
    if type(z) is np.ndarray and (z.ndim == 1 or (number and z.size == 1)):
        return scalar(z.reshape(-1)[0])
    return scalar(z[0])
