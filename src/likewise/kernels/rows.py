"""Stored rows: admitted, written, read back, placed in the tree's coordinates.

All arithmetic is in float64, into which every stored value converts exactly; a value that the
storage type cannot hold is refused before anything is written.

Invariant: what `read_row` gives for a row is, to the bit, what `admit` left in QUERY for it.
"""

from typing import Any

import numpy as np

from likewise.kernels import table as t
from likewise.kernels.compile import kernel, view
from likewise.kernels.table import bytes_of, floats

_SUM_TOLERANCE = 1e-3  # how far from 1 probabilities may add up
_SIGN_TOLERANCE = 1e-9
_EXACT = 2.0**53  # below this every integer is a float64
_NORM_LOW, _NORM_HIGH = (
    1e-150,
    1e150,
)  # so that the product of two squared norms neither overflows nor vanishes


@kernel
def squared_norm(values: Any, weights: Any, width: int) -> float:
    total = 0.0
    for j in range(width):
        total += weights[j] * values[j] * values[j]
    return total


@kernel
def _integer_bounds(storage: int) -> tuple[float, float]:
    if storage == t.INT8:
        return -128.0, 127.0
    if storage == t.UINT8:
        return 0.0, 255.0
    if storage == t.INT16:
        return -32768.0, 32767.0
    if storage == t.UINT16:
        return 0.0, 65535.0
    if storage == t.INT32:
        return -2147483648.0, 2147483647.0
    if storage == t.UINT32:
        return 0.0, 4294967295.0
    if storage == t.UINT64:
        return 0.0, _EXACT
    return -_EXACT, _EXACT


@kernel
def _why_not(storage: int, value: float) -> int:
    """What is wrong with a value, 0 if nothing."""
    if not np.isfinite(value):
        return t.NOT_FINITE
    if storage == t.FLOAT32:
        return 0 if np.isfinite(np.float32(value)) else t.OUT_OF_RANGE
    if storage == t.FLOAT64:
        return 0
    if value != np.floor(value):
        return t.NOT_INTEGER
    low, high = _integer_bounds(storage)
    return 0 if low <= value <= high else t.OUT_OF_RANGE


@kernel
def admit(table: Any, given: Any) -> int:
    """Turn `given` into QUERY, the input as stored. 0, or why not (BAD_AT says where)."""
    width = table[t.WIDTH]
    storage = table[t.STORAGE]
    query = floats(table, t.QUERY)
    bad = 0
    if storage == t.FLOAT32:
        for j in range(width):
            query[j] = np.float64(np.float32(given[j]))
            bad += not abs(query[j]) < np.inf
    elif storage == t.FLOAT64:
        for j in range(width):
            query[j] = given[j]
            bad += not abs(query[j]) < np.inf
    else:
        low, high = _integer_bounds(storage)
        for j in range(width):
            query[j] = given[j]
            bad += not (query[j] == np.floor(query[j]) and low <= query[j] <= high)
    if bad != 0:
        for j in range(width):
            bad = _why_not(storage, given[j])
            if bad != 0:
                table[t.BAD_AT] = j
                return bad
    if table[t.METRIC] == t.COSINE:
        norm = squared_norm(query, floats(table, t.WEIGHTS), width)
        if not (_NORM_LOW <= norm <= _NORM_HIGH):
            return t.BAD_NORM
    return 0


@kernel
def admit_output(table: Any, given: Any) -> int:
    """0, or why `given` is no output (BAD_AT says where)."""
    kind = table[t.OUTPUT]
    width = table[t.OUT_WIDTH]
    total = 0.0
    for k in range(width):
        table[t.BAD_AT] = k
        if not np.isfinite(given[k]):
            return t.BAD_OUTPUT
        if kind >= t.OUT_LINF and given[k] < -_SIGN_TOLERANCE:
            return t.BAD_OUTPUT
        total += given[k]
    if kind >= t.OUT_LINF and abs(total - 1.0) > _SUM_TOLERANCE:
        return t.BAD_SUM
    return 0


@kernel
def _copy(source: Any, target: Any, width: int) -> None:
    for j in range(width):
        target[j] = source[j]


@kernel
def _store_integer(address: int, storage: int, at: int, value: float) -> None:
    if storage == t.UINT8:
        view(address, np.uint8)[at] = value
    elif storage == t.INT8:
        view(address, np.int8)[at] = value
    elif storage == t.UINT16:
        view(address, np.uint16)[at] = value
    elif storage == t.INT16:
        view(address, np.int16)[at] = value
    elif storage == t.UINT32:
        view(address, np.uint32)[at] = value
    else:
        view(address, np.int32)[at] = value


@kernel
def _load_integer(address: int, storage: int, at: int) -> float:
    if storage == t.UINT8:
        return np.float64(view(address, np.uint8)[at])
    if storage == t.INT8:
        return np.float64(view(address, np.int8)[at])
    if storage == t.UINT16:
        return np.float64(view(address, np.uint16)[at])
    if storage == t.INT16:
        return np.float64(view(address, np.int16)[at])
    if storage == t.UINT32:
        return np.float64(view(address, np.uint32)[at])
    return np.float64(view(address, np.int32)[at])


@kernel
def write_row(table: Any, row: int, values: Any) -> None:
    """Store an admitted input as `row`."""
    width = table[t.WIDTH]
    storage = table[t.STORAGE]
    at = row * width
    if storage == t.FLOAT32:
        _copy(values, view(table[t.ROWS] + 4 * at, np.float32), width)
    elif storage == t.FLOAT64 or storage >= t.INT64:
        _copy(values, view(table[t.ROWS] + 8 * at, np.float64), width)
    else:
        for j in range(width):
            _store_integer(table[t.ROWS], storage, at + j, values[j])
    if table[t.METRIC] == t.COSINE:
        floats(table, t.NORMS)[row] = squared_norm(values, floats(table, t.WEIGHTS), width)
    bytes_of(table, t.ALIVE)[row] = 1


@kernel
def read_row(table: Any, row: int, out: Any) -> None:
    """The stored input of `row`, as float64."""
    width = table[t.WIDTH]
    storage = table[t.STORAGE]
    at = row * width
    if storage == t.FLOAT32:
        _copy(view(table[t.ROWS] + 4 * at, np.float32), out, width)
    elif storage == t.FLOAT64 or storage >= t.INT64:
        _copy(view(table[t.ROWS] + 8 * at, np.float64), out, width)
    else:
        for j in range(width):
            out[j] = _load_integer(table[t.ROWS], storage, at + j)


@kernel
def place(table: Any, values: Any, norm: float, out: Any) -> None:
    """Where a stored input lies in the tree for the cosine metric: on the unit sphere.

    For all other metrics it lies where it is.
    """
    prescale = floats(table, t.PRESCALE)
    factor = 1.0 / np.sqrt(norm)
    for j in range(table[t.WIDTH]):
        out[j] = values[j] * prescale[j] * factor


@kernel
def read_point(table: Any, row: int, out: Any) -> None:
    """The position of `row` in the tree."""
    read_row(table, row, out)
    if table[t.METRIC] == t.COSINE:
        norm = floats(table, t.NORMS)[row]
        place(table, out, norm if norm > 0.0 else 1.0, out)


@kernel
def read_coordinate(table: Any, row: int, axis: int) -> float:
    """One coordinate of `row`'s position in the tree."""
    storage = table[t.STORAGE]
    at = row * table[t.WIDTH] + axis
    if storage == t.FLOAT32:
        value = np.float64(view(table[t.ROWS], np.float32)[at])
    elif storage == t.FLOAT64 or storage >= t.INT64:
        value = view(table[t.ROWS], np.float64)[at]
    else:
        value = _load_integer(table[t.ROWS], storage, at)
    if table[t.METRIC] == t.COSINE:
        norm = floats(table, t.NORMS)[row]
        factor = 1.0 / np.sqrt(norm) if norm > 0.0 else 1.0
        value = value * floats(table, t.PRESCALE)[axis] * factor
    return value
