"""Sort rows and paths; written out because NumPy's sorts take seconds to compile.

Cost: `sort_rows` n log n in place; `sort_by_path` a few passes over the keys.
"""

from typing import Any

import numpy as np

from likewise.search.kernels.compile import kernel

PATH_BITS = 24
_DIGIT = 12


@kernel
def _sift(rows: Any, root: int, count: int) -> None:
    """Let the row at `root` sink until no child is larger."""
    held = rows[root]
    child = 2 * root + 1
    while child < count:
        if child + 1 < count and rows[child + 1] > rows[child]:
            child += 1
        if rows[child] <= held:
            break
        rows[root] = rows[child]
        root = child
        child = 2 * root + 1
    rows[root] = held


@kernel
def sort_rows(rows: Any, count: int) -> None:
    """Put the first `count` rows in ascending order (heapsort; a few by insertion)."""
    if count <= 24:
        for i in range(1, count):
            held = rows[i]
            j = i - 1
            while j >= 0 and rows[j] > held:
                rows[j + 1] = rows[j]
                j -= 1
            rows[j + 1] = held
        return
    for root in range(count // 2 - 1, -1, -1):
        _sift(rows, root, count)
    for last in range(count - 1, 0, -1):
        held = rows[0]
        rows[0] = rows[last]
        rows[last] = held
        _sift(rows, 0, last)


@kernel
def sort_by_path(paths: Any, count: int, order: Any, spare: Any, buckets: Any) -> None:
    """Put 0 .. count-1 into `order` so that paths ascend; equal paths keep their order.

    `spare` is as long as `order`, `buckets` has room for 4,096 counts.
    """
    mask = np.uint64((1 << _DIGIT) - 1)
    for i in range(count):
        order[i] = i
    for shift in range(0, PATH_BITS, _DIGIT):
        for b in range(1 << _DIGIT):
            buckets[b] = 0
        for i in range(count):
            buckets[np.int64((paths[i] >> np.uint64(shift)) & mask)] += 1
        start = 0
        for b in range(1 << _DIGIT):
            held = buckets[b]
            buckets[b] = start
            start += held
        for i in range(count):
            bucket = np.int64((paths[order[i]] >> np.uint64(shift)) & mask)
            spare[buckets[bucket]] = order[i]
            buckets[bucket] += 1
        for i in range(count):
            order[i] = spare[i]
