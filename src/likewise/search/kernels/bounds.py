"""Compute how near a row must be to better the best match, and how near a subtree can be.

Invariant: every row at least as good as the best so far lies within the radius, as computed: ties
are compared too, and the earliest row wins them. Where magnitudes are so small or so large that a
quotient or a power loses its relative precision, a wider radius is taken.
Not here: the traversal (nearest.py).
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.compile import small
from likewise.search.kernels.distance import farthest_output, is_different
from likewise.search.kernels.table import box_of, floats

# A search for the best match looks for one past decision: the nearest whose output differs, or the
# one with the steepest slope, output distance / input distance ** p. `merit` is that of the best
# found so far: a distance, infinite at first, or a slope, 0 at first. Search and pruning need one
# number: given how far away an output is, or can be, within which distance would an input matter?
#
#     nearest    merit itself where the output differs, nowhere otherwise
#     steepest   where far / d ** p >= merit: (far / merit) ** (1 / p)

_MARGIN = 1.0 + 1e-10  # as in search/geometry.py: far above the roundings on the way
_TINY = 1e-150  # below this, squares of distances vanish: radii are not told apart there
_FAINT = 1e-300  # below this, quotients lose their precision
_HUGE = 1.7e308  # a slope beyond this may have come out infinite
_ROOT_MARGIN = 1.0 + 1e-9  # for the roundings of a slope and of a root
_LARGEST = 1.01  # how far apart two probabilities can be, given how far off their sums may be


@small
def slope_of(near: float, far: float, exponent: float) -> float:
    """Return far / near ** exponent; infinite at distance 0, and 0 where nothing differs."""
    if far == 0.0:
        return 0.0
    power = near if exponent == 1.0 else np.float64(near) ** exponent
    if power == np.inf:
        return 0.0
    if power == 0.0:
        return np.inf
    return far / power


@small
def radius_of_interest(table: Any, far: float, merit: float, slot: int) -> float:
    """Return within which distance an input of that output distance could equal the best.

    Below 0: nowhere. The best so far is in slot `slot` of the results.
    """
    numbers = floats(table, t.NUMBERS)
    if table[t.QUESTION] == t.NEAREST:
        return merit if is_different(far, numbers[t.BEST_DELTA]) else -1.0
    if far == 0.0 or (merit == np.inf and far < floats(table, t.RESULT_OUTPUT)[slot]):
        return -1.0
    if merit < _FAINT:
        return np.inf
    quotient = max(far / min(merit, _HUGE), _FAINT)
    exponent = numbers[t.EXPONENT]
    root = quotient if exponent == 1.0 else np.float64(quotient) ** (1.0 / exponent)
    return root * _ROOT_MARGIN


@small
def length_in_tree(table: Any, distance: float) -> float:
    """Return a length in the tree beyond which no input lies within `distance`, as computed.

    For cosine the squared straight distance is twice the cosine distance (search/geometry.py).
    """
    distance = max(distance, _TINY)
    if table[t.METRIC] == t.COSINE:
        width = table[t.WIDTH]
        distance = np.sqrt(2.0 * (distance + (width + 8) * 2.0**-51)) + (width + 64) * 2.0**-50
    return distance * _MARGIN


@small
def farthest_below(table: Any, node: int) -> float:
    """Return the largest output distance that any row below `node` can have from GIVEN."""
    width = table[t.RANGE_WIDTH]
    kind = table[t.OUTPUT]
    if width == 0:  # no ranges of so many probabilities: what any two can differ by
        largest = _LARGEST + 1e-8 * table[t.OUT_WIDTH]
        return largest if kind == t.OUT_LINF else 2.0 * largest
    low = floats(table, t.LOW)
    high = floats(table, t.HIGH)
    z = floats(table, t.GIVEN)
    if width == 1 and kind == t.NUMBER:
        return max(abs(z[0] - low[node]), abs(z[0] - high[node]))
    return farthest_output(kind, z, low, high, node * width, width, floats(table, t.CORNER))


@small
def box_bound(table: Any, node: int) -> float:
    """Return the tree's distance (its square for l2 and cosine) from POINT to a node's box."""
    axes = table[t.AXES]
    metric = table[t.METRIC]
    point = floats(table, t.POINT)
    scale = floats(table, t.GAP_SCALE)
    box = box_of(table, node)
    total = 0.0
    for j in range(axes):
        gap = max(box[j] - point[j], point[j] - box[axes + j], 0.0) * scale[j]
        if metric == t.LINF:
            total = gap if gap > total else total
        elif metric == t.L1:
            total += gap
        else:
            total += gap * gap
    return total
