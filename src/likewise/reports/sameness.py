"""Whether two decisions are the same in all that counts: a number for compared values and output.

Equal values and outputs have equal numbers; different ones have different numbers, but for one case
in 2**64. So the list of pairs to look at can know what it has without holding it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.values.past import Past
from likewise.values.verdicts import Rows

_Numbers = npt.NDArray[np.uint64]
_STEP = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: neighbouring places get far numbers


def same_values(past: Past, rows: Rows) -> _Numbers:
    """A number for what was compared, and for the output, of rows that are remembered."""
    points = past.points(rows)
    numbers = _mixed(np.hstack([_words(points.vectors), _words(_outputs(past, rows))]))
    if points.left_open is not None:  # only where something is, since others may come without it
        is_open = points.left_open.reshape(len(rows), -1)
        numbers = numbers + _mixed(_words(is_open)) * is_open.any(axis=1)
    return numbers


def _outputs(past: Past, rows: Rows) -> npt.NDArray[Any]:
    if past.rule.output == "label":
        return past.codes("", rows).codes
    if past.rule.output == "number":
        return past.numbers(rows)
    return np.array(past.outputs(rows), dtype=np.float64)


def _words(values: npt.NDArray[Any]) -> _Numbers:
    """Values as rows of 64-bit words; 0.0 and -0.0 are the same."""
    flat = values.reshape(len(values), -1)
    if flat.dtype.kind == "f":
        flat = flat.astype(np.float64) + 0.0
    elif flat.dtype.kind in "bi":
        flat = flat.astype(np.int64)
    else:
        flat = flat.astype(np.uint64)
    return np.ascontiguousarray(flat).view(np.uint64)


def _mixed(words: _Numbers) -> _Numbers:
    """One number for each row: words are mixed with their places, and added up.

    The mixing is splitmix64 (Steele, Lea and Flood 2014): every bit of a word moves every other.
    """
    places = np.arange(1, words.shape[1] + 1, dtype=np.uint64)
    mixed: _Numbers = (words + places * _STEP).astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed = mixed ^ (mixed >> np.uint64(31))
    total: _Numbers = mixed.sum(axis=1, dtype=np.uint64)
    return total
