"""Rotate a position and encode each leading coordinate in one byte.

A rotation preserves l2 distances, and a few of its coordinates bound them from below. With the
directions of largest variance first, few coordinates separate most points. For cosine the same is
done on the unit sphere. Cost: one product of a vector and a matrix for each row.
Not here: which rotation (search/indexes/rotation.py), the blocks of codes (flat.py).
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.compile import kernel, view
from likewise.search.kernels.rows import read_row
from likewise.search.kernels.table import floats

# Why nothing near is lost. Let p, q be two positions at distance at most TREE_REACH, A the matrix
# in DIRECTIONS, which includes the division by TREE_REACH, and y, z their rotated coordinates as
# computed in float64.
# - |A(p - q)| <= ROTATED_REACH: the norm of A is bounded by measuring how far the rows of A are
#   from orthonormal.
# - y lies within e of A(p - centre): the position errs relatively by (width + 16) 2^-52,
#   subtracting the centre by 2^-53, the sum over `width` products by (width + 2) 2^-53 |A|_F.
#   GAP_ERROR times |p - centre| plus VALUE_ERROR times |p| is more than all of it and the roundings
#   below.
# - Coordinates are clamped to +-CUT, which never lengthens a gap; what is not a number becomes 0
#   with an infinite error.
# - A code is the integer nearest to a coordinate in units, UNITS units to a reach; behind the
#   front, where coordinates vary less, FINER times as many. Over any of the coordinates, the codes
#   of p lie within |rest(p)| of y, where the rest is y less its code. So gaps of codes, squared and
#   added up, are at most (UNITS (ROTATED_REACH + e(p) + e(q) + |rest(p)| + |rest(q)|))^2, with
#   squares behind the front divided by FINER^2.
# - Codes are stored modulo 256 and gaps taken as signed bytes, sums stop at 65,535: each makes a
#   sum smaller, never larger. Everything after the code is integers, so nothing else rounds.
#
# A point's error is e + |rest|, once over the front coordinates and once over all of them.

UNITS = 150.0
"""Units of a code in one reach. More make rests smaller, and gaps of more than 127 units wrap."""
FINER = 3
FRONT = 64
"""Coordinates that are compared for every point of a block; the others for those that remain."""
STEP = 16
"""Coordinates between two checks whether any point is left. FRONT is a multiple of it."""
_CUT = 2.0**53


@kernel
def rotate_row(table: Any, row: int, k: int) -> None:
    """Rotate a written row; write its codes, and their errors, to place k of ROTATED."""
    width = table[t.WIDTH]
    axes = table[t.AXES]
    query = floats(table, t.QUERY)
    prescale = floats(table, t.PRESCALE)
    centre = floats(table, t.CENTRE)
    rotated = floats(table, t.ROTATING)
    read_row(table, row, query)
    factor = 1.0
    if table[t.METRIC] == t.COSINE:
        factor = 1.0 / np.sqrt(floats(table, t.NORMS)[row])
    squares = 0.0
    gap_squares = 0.0
    for j in range(width):
        value = query[j] * prescale[j] * factor
        squares += value * value
        query[j] = value - centre[j]
        gap_squares += query[j] * query[j]
    for i in range(axes):
        rotated[i] = 0.0
    for j in range(0, width, 4):
        one = view(table[t.DIRECTIONS] + j * axes * 8, np.float64)
        if j + 4 <= width:
            two = view(table[t.DIRECTIONS] + (j + 1) * axes * 8, np.float64)
            three = view(table[t.DIRECTIONS] + (j + 2) * axes * 8, np.float64)
            four = view(table[t.DIRECTIONS] + (j + 3) * axes * 8, np.float64)
            a, b, c, d = query[j], query[j + 1], query[j + 2], query[j + 3]
            for i in range(axes):
                rotated[i] += (one[i] * a + two[i] * b) + (three[i] * c + four[i] * d)
        else:
            for left in range(j, width):
                one = view(table[t.DIRECTIONS] + left * axes * 8, np.float64)
                for i in range(axes):
                    rotated[i] += one[i] * query[left]
    numbers = floats(table, t.NUMBERS)
    error = numbers[t.GAP_ERROR] * np.sqrt(gap_squares) + numbers[t.VALUE_ERROR] * np.sqrt(squares)
    error = error + 1e-15 if error < np.inf else np.inf
    _write_codes(table, k, error)


@kernel
def _write_codes(table: Any, k: int, error: float) -> None:
    """Write the codes of the coordinates in ROTATING, and the errors of the front and of all."""
    rotated = floats(table, t.ROTATING)
    codes = view(table[t.ROTATED] + k * table[t.ROTATED_BYTES], np.uint8)
    rest = 0.0
    front = 0.0
    for i in range(table[t.AXES]):
        y = rotated[i] if abs(rotated[i]) < np.inf else 0.0
        y = min(max(y, -_CUT), _CUT)
        scale = UNITS if i < FRONT else FINER * UNITS
        units = np.floor(y * scale + 0.5)
        left = y - units / scale
        rest += left * left
        codes[i] = np.uint8(np.int64(units) & 255)
        if i < FRONT:
            front = rest
    errors = floats(table, t.ROTATED_ERROR)
    errors[2 * k] = error + np.sqrt(front)
    errors[2 * k + 1] = error + np.sqrt(rest)


@kernel
def limit_of(table: Any, error: float) -> float:
    """Return the limit of a sum of squared gaps of codes, for two errors together."""
    reach = UNITS * (floats(table, t.NUMBERS)[t.ROTATED_REACH] + error)
    return reach * reach * (1.0 + 1e-12)
