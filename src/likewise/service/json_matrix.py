"""The vectors of a batch in JSON, read by a kernel where they come first and are plain.

Invariant: None, or the numbers that a reader of JSON finds, and a body of the same meaning with an
empty array in their place: whoever reads that has checked everything else.
"""

import re

import numpy as np

from likewise.kernels.compile import address_of
from likewise.kernels.json_numbers import powers, read_matrix
from likewise.values.verdicts import Floats

_BEFORE = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"x"[ \t\r\n]*:[ \t\r\n]*(?=\[)')
_POWERS = powers()


def vectors_first(body: bytes) -> tuple[Floats, bytes] | None:
    """The matrix under "x", and the body with nothing in it; None if another reader has to look."""
    before = _BEFORE.match(body) if type(body) is bytes else None
    if before is None:
        return None
    begin = before.end()
    text = np.frombuffer(body, np.uint8, offset=begin)  # behind which Python has a byte 0
    numbers, shape = np.empty(len(text) // 2 + 1), np.zeros(2, np.int64)
    size = read_matrix(
        address_of(text), address_of(_POWERS), address_of(numbers), address_of(shape)
    )
    if size < 0:
        return None
    rows, width = shape.tolist()
    matrix = numbers[: rows * width].reshape(rows, width)
    return matrix, body[:begin] + b"[]" + body[begin + size :]
