"""Numbers for values and for rows of values, which mean the same in every process and run.

A monitor numbers labels and categories in the order in which they come, so the codes of two
monitors cannot be compared. These numbers can.

Invariant: equal values have equal numbers; different ones have different numbers, but for one case
in 2**63.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.tables.frames import is_missing
from likewise.verdict.past_rows import CodedColumn

Words = npt.NDArray[np.int64]
_POSITIVE = (1 << 63) - 1
_STEP = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: neighbouring places get distant numbers


def stable_number(value: Any) -> int:
    """Return a number from 0 to 2**63 - 1 for a label, a category or a key."""
    return int.from_bytes(hashlib.blake2b(_text(value), digest_size=8).digest()) & _POSITIVE


def _text(value: Any) -> bytes:
    """Write a value as text; values that Python holds equal (1, 1.0 and True) have one text."""
    if isinstance(value, bool | float) and float(value).is_integer():
        value = int(value)
    kind = "number" if isinstance(value, int | float) else type(value).__name__
    return f"{kind}:{value!r}".encode("utf-8", "surrogatepass")


def stable_codes(coded: CodedColumn) -> Words:
    """Replace the codes of a monitor by the numbers of what they stand for; -1 stays."""
    different, which = np.unique(coded.codes, return_inverse=True)
    numbers = [-1 if code < 0 else stable_number(coded.values[code]) for code in different.tolist()]
    return np.array(numbers, np.int64)[which]


def stable_column(values: Sequence[Any]) -> Words:
    """Return the numbers of values, -1 where one is missing."""
    numbers: dict[Any, int] = {}
    for value in dict.fromkeys(values):
        numbers[value] = -1 if is_missing(value) else stable_number(value)
    return np.fromiter((numbers[value] for value in values), np.int64, len(values))


def to_words(values: npt.NDArray[Any]) -> Words:
    """Write each row as 64-bit words; 0.0 and -0.0 are the same, and so are all NaN."""
    flat = values.reshape(len(values), -1)
    if flat.dtype.kind != "f":
        return flat.astype(np.int64)
    numbers = np.where(np.isnan(flat), np.nan, flat.astype(np.float64) + 0.0)
    return np.ascontiguousarray(numbers).view(np.int64)


def mix_words(words: Words) -> npt.NDArray[np.uint64]:
    """Return one number for each row: its words are mixed with their places, and added up.

    The mixing is splitmix64 (Steele, Lea and Flood 2014): every bit of a word moves every other.
    """
    places = np.arange(1, words.shape[1] + 1, dtype=np.uint64)
    mixed: npt.NDArray[np.uint64] = (words.view(np.uint64) + places * _STEP).astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed = mixed ^ (mixed >> np.uint64(31))
    total: npt.NDArray[np.uint64] = mixed.sum(axis=1, dtype=np.uint64)
    return total
