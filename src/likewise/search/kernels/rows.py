"""Admit, write and read stored rows, and place them in the tree's coordinates.

An input is first written behind the history, where no query sees it, and then used as stored. All
arithmetic is in float64, into which every stored value converts exactly; a value that the storage
type cannot hold is refused.
Invariant: rows from TOTAL on are no part of the history, whatever is written there.
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.compile import kernel, small, view
from likewise.search.kernels.table import bytes_of, floats, ints

_SUM_TOLERANCE = 1e-3  # how far from 1 probabilities may add up
_SIGN_TOLERANCE = 1e-9
_EXACT = 2.0**53  # below this every integer is a float64
# so that the product of two squared norms neither overflows nor vanishes
_NORM_LOW, _NORM_HIGH = 1e-150, 1e150


@kernel
def squared_norm(values: Any, weights: Any, width: int) -> float:
    """Return the weighted sum of squares, in eight lanes as in distance.py.

    Both arrays end in zeros where `width` is no multiple of 8.
    """
    a = b = c = d = e = f = g = h = 0.0
    for j in range(0, width, 8):
        a += weights[j] * values[j] * values[j]
        b += weights[j + 1] * values[j + 1] * values[j + 1]
        c += weights[j + 2] * values[j + 2] * values[j + 2]
        d += weights[j + 3] * values[j + 3] * values[j + 3]
        e += weights[j + 4] * values[j + 4] * values[j + 4]
        f += weights[j + 5] * values[j + 5] * values[j + 5]
        g += weights[j + 6] * values[j + 6] * values[j + 6]
        h += weights[j + 7] * values[j + 7] * values[j + 7]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


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
    """Return the error code for a value, 0 if nothing is wrong."""
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
def admit_output(table: Any, given: Any) -> int:
    """Return 0, or the error code if `given` is no output (BAD_AT says where)."""
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


@small
def _convert(source: Any, target: Any, count: int) -> None:
    for j in range(count):
        target[j] = source[j]


@small
def load_values(address: int, storage: int, count: int, out: Any) -> None:
    """Read stored values from an address on, as float64."""
    if storage == t.FLOAT32:
        _convert(view(address, np.float32), out, count)
    elif storage == t.UINT8:
        _convert(view(address, np.uint8), out, count)
    elif storage == t.FLOAT64 or storage >= t.INT64:
        _convert(view(address, np.float64), out, count)
    else:
        for j in range(count):
            out[j] = _load_integer(address, storage, j)


@small
def _all_finite(values: Any, count: int) -> bool:
    bad = 0
    for j in range(count):
        bad += not abs(values[j]) < np.inf
    return bad == 0


@kernel
def _fits(table: Any, row: int) -> bool:
    """Return whether the values in `row`, which came in the storage type, are all finite."""
    address = table[t.ROWS] + row * table[t.ROW_BYTES]
    if table[t.STORAGE] == t.FLOAT32:
        return _all_finite(view(address, np.float32), table[t.WIDTH])
    if table[t.STORAGE] == t.FLOAT64:
        return _all_finite(view(address, np.float64), table[t.WIDTH])
    return True


@kernel
def _store(table: Any, row: int, given: Any) -> bool:
    """Write an input in the storage type; return False if some value does not fit it."""
    width = table[t.WIDTH]
    storage = table[t.STORAGE]
    address = table[t.ROWS] + row * table[t.ROW_BYTES]
    if storage == t.FLOAT32:
        _convert(given, view(address, np.float32), width)
        return _all_finite(view(address, np.float32), width)
    if storage == t.FLOAT64:
        _convert(given, view(address, np.float64), width)
        return _all_finite(view(address, np.float64), width)
    low, high = _integer_bounds(storage)
    for j in range(width):
        if not (given[j] == np.floor(given[j]) and low <= given[j] <= high):
            return False
        if storage >= t.INT64:
            view(address, np.float64)[j] = given[j]
        else:
            _store_integer(address, storage, j, given[j])
    return True


@kernel
def admit(table: Any, row: int, given: Any, raw: bool) -> int:
    """Admit an input as `row`: it lies there already (`raw`), or it is `given` in float64.

    Return 0, or an error code (BAD_AT says where).
    """
    width = table[t.WIDTH]
    if not (_fits(table, row) if raw else _store(table, row, given)):
        if raw:
            given = floats(table, t.QUERY)
            read_row(table, row, given)
        for j in range(width):
            bad = _why_not(table[t.STORAGE], given[j])
            if bad != 0:
                table[t.BAD_AT] = j
                return bad
    if table[t.METRIC] == t.COSINE:
        query = floats(table, t.QUERY)
        read_row(table, row, query)
        norm = squared_norm(query, floats(table, t.WEIGHTS), width)
        if not (_NORM_LOW <= norm <= _NORM_HIGH):
            return t.BAD_NORM
        floats(table, t.NORMS)[row] = norm
    bytes_of(table, t.ALIVE)[row] = 1
    return 0


@kernel
def admit_given(table: Any, row: int) -> int:
    """Admit the decision in row `row`, or INPUT, and GIVEN; return 0, or an error code."""
    bad = admit(table, row, floats(table, t.INPUT), table[t.GIVEN_RAW] != 0)
    table[t.GIVEN_RAW] = 1  # as a rule it is
    return bad if bad != 0 else admit_output(table, floats(table, t.GIVEN))


@kernel
def take_output(table: Any, row: int) -> None:
    """Let the output of a written row be GIVEN."""
    width = table[t.OUT_WIDTH]
    given = floats(table, t.GIVEN)
    outputs = floats(table, t.OUTPUTS)
    for k in range(width):
        given[k] = outputs[row * width + k]


@kernel
def remember_output(table: Any, row: int) -> None:
    """Store GIVEN as the output of the row just written, which now joins the history."""
    width = table[t.OUT_WIDTH]
    given = floats(table, t.GIVEN)
    outputs = floats(table, t.OUTPUTS)
    for k in range(width):
        outputs[row * width + k] = given[k]
    table[t.TOTAL] = row + 1
    table[t.LIVE] += 1


@kernel
def read_row(table: Any, row: int, out: Any) -> None:
    """Read the stored input of `row`, as float64."""
    address = table[t.ROWS] + row * table[t.ROW_BYTES]
    load_values(address, table[t.STORAGE], table[t.WIDTH], out)


@kernel
def read_query(table: Any, row: int) -> float:
    """Read the stored input of `row` to QUERY; return its squared norm, for cosine."""
    read_row(table, row, floats(table, t.QUERY))
    return floats(table, t.NORMS)[row] if table[t.METRIC] == t.COSINE else 1.0


@kernel
def _gather(source: Any, target: Any, coordinates: Any, count: int) -> None:
    for j in range(count):
        target[j] = source[coordinates[j]]


@small
def sketch_row(table: Any, row: int) -> None:
    """Copy the coordinates that the index holds to PLACES, unless it holds all."""
    if table[t.PLACES] == table[t.ROWS]:
        return
    source = table[t.ROWS] + row * table[t.ROW_BYTES]
    target = table[t.PLACES] + row * table[t.PLACE_BYTES]
    axes = table[t.AXES]
    coordinates = ints(table, t.COORDINATES)
    size = table[t.PLACE_BYTES] // axes
    if size == 1:
        _gather(view(source, np.uint8), view(target, np.uint8), coordinates, axes)
    elif size == 2:
        _gather(view(source, np.uint16), view(target, np.uint16), coordinates, axes)
    elif size == 4:
        _gather(view(source, np.uint32), view(target, np.uint32), coordinates, axes)
    else:
        _gather(view(source, np.uint64), view(target, np.uint64), coordinates, axes)


@small
def _sphere_factor(table: Any, row: int) -> float:
    norm = floats(table, t.NORMS)[row]
    return 1.0 / np.sqrt(norm) if norm > 0.0 else 1.0


@small
def read_point(table: Any, row: int, out: Any) -> None:
    """Read the position of `row` in the tree: its sketched coordinates, scaled for cosine.

    `sketch_row` must have been called for it.
    """
    axes = table[t.AXES]
    load_values(table[t.PLACES] + row * table[t.PLACE_BYTES], table[t.STORAGE], axes, out)
    if table[t.METRIC] == t.COSINE:
        prescale = floats(table, t.PRESCALE)
        factor = _sphere_factor(table, row)
        for j in range(axes):
            out[j] = out[j] * prescale[j] * factor


@kernel
def read_coordinate(table: Any, row: int, axis: int) -> float:
    """Return one coordinate of `row`'s position in the tree."""
    storage = table[t.STORAGE]
    address = table[t.PLACES] + row * table[t.PLACE_BYTES]
    if storage == t.FLOAT32:
        value = np.float64(view(address, np.float32)[axis])
    elif storage == t.FLOAT64 or storage >= t.INT64:
        value = view(address, np.float64)[axis]
    else:
        value = _load_integer(address, storage, axis)
    if table[t.METRIC] == t.COSINE:
        value = value * floats(table, t.PRESCALE)[axis] * _sphere_factor(table, row)
    return value


@kernel
def erase_row(table: Any, row: int) -> None:
    """Overwrite the stored values of a row."""
    stored = view(table[t.ROWS] + row * table[t.ROW_BYTES], np.uint8)
    for i in range(table[t.ROW_BYTES]):
        stored[i] = 0
    outputs = floats(table, t.OUTPUTS)
    for k in range(table[t.OUT_WIDTH]):
        outputs[row * table[t.OUT_WIDTH] + k] = 0.0
    if table[t.METRIC] == t.COSINE:
        floats(table, t.NORMS)[row] = 0.0
    bytes_of(table, t.ALIVE)[row] = 0
