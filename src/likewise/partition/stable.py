"""Numbers for values that mean the same in every process and on every machine.

A monitor gives labels and categories codes in the order in which they come, so the codes of two
cells cannot be compared. These numbers can: equal values have equal numbers, and different ones
different numbers, but for one case in 2**63.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.values.frames import is_missing
from likewise.values.past import Codes

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_POSITIVE = (1 << 63) - 1


def stable_number(value: Any) -> int:
    """A number from 0 to 2**63 - 1 for a label, a category or a key."""
    return int.from_bytes(hashlib.blake2b(_text(value), digest_size=8).digest()) & _POSITIVE


def _text(value: Any) -> bytes:
    """Equal exactly for values that Python holds equal: 1, 1.0 and True are."""
    if isinstance(value, bool | float) and float(value).is_integer():
        value = int(value)
    kind = "number" if isinstance(value, int | float) else type(value).__name__
    return f"{kind}:{value!r}".encode("utf-8", "surrogatepass")


def stable_codes(coded: Codes) -> npt.NDArray[np.int64]:
    """For codes the numbers of what they stand for; -1 stays."""
    different, which = np.unique(coded.codes, return_inverse=True)
    numbers = [-1 if code < 0 else stable_number(coded.values[code]) for code in different.tolist()]
    return np.array(numbers, np.int64)[which]


def stable_column(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    """The numbers of values, -1 where one is missing."""
    known: dict[Any, int] = {}
    for value in dict.fromkeys(values):
        known[value] = -1 if is_missing(value) else stable_number(value)
    return np.fromiter((known[value] for value in values), np.int64, len(values))


def mixed(columns: Sequence[npt.NDArray[np.int64]], count: int) -> npt.NDArray[np.uint64]:
    """One number for several of each row, in their order."""
    total = np.zeros(count, np.uint64)
    for column in columns:
        total = (total ^ column.astype(np.uint64)) * _FACTOR
        total ^= total >> np.uint64(29)
    return total
