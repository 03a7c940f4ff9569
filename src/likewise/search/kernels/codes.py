"""Encode coordinates in eight bits, and rule out the points of a block by their codes.

A coordinate at position p has the code floor(p * scale) mod 256, where `scale` makes the reach
GRID units long (search/geometry.py). Codes discard; they never decide.
Cost: one pass of BLOCK bytes per coordinate, abandoned once no point of the block can be near.
"""

from typing import Any

import numpy as np

from likewise.search.kernels.compile import kernel, small, view
from likewise.search.kernels.table import BLOCK

# Why nothing near is lost. Let x, y be near, a = x*scale, b = y*scale as computed, clamped to
# +-CLAMP.
# - Unclamped, |a - b| <= GRID + e: the distance as computed is at most the reach, its roundings and
#   those of `scale` are relative and below 2^-45, and the two products err by at most 2^-52 CLAMP
#   together. Clamping is monotone and never lengthens a gap, so the bound survives it: a coordinate
#   too large for a code merely stops discarding; below 2^52 the reduction modulo 256 is exact.
# - floor(a) - floor(b) is an integer below |a - b| + 1, so codes differ by at most GRID + 1 modulo
#   256: that is WINDOW. Reducing modulo 256 can only bring codes closer together.
# - For sums: |floor(a) - floor(b)| - 1 <= |a - b|, so the sum of (gap - 1), squared for l2, is at
#   most that of |a - b|, which the reach bounds by GRID (l1) or GRID^2 (l2) plus the errors e of
#   all coordinates: that is LIMIT. A gap is capped at WINDOW before it is added, which only shrinks
#   it.

_CHECK = 4  # coordinates between two checks whether any point is left


@small
def code_of(position: float, scale: float, clamp: float) -> Any:
    """Return floor(position * scale) mod 256; in floating point every step is exact."""
    unit = np.floor(min(max(position * scale, -clamp), clamp))
    return np.int32(unit - 256.0 * np.floor(unit * 0.00390625))


@small
def encode(point: Any, scale: Any, clamp: float, width: int, out: Any) -> None:
    for j in range(width):
        out[j] = code_of(point[j], scale[j], clamp)


@small
def scan_box(codes: int, query: Any, width: int, window: int, count: int, mask: Any) -> int:
    """Mark the points of the block at address `codes` whose every code is near the query's.

    Return how many coordinates were read; negative if no point is left and the mask is meaningless.
    """
    for i in range(BLOCK):
        mask[i] = i < count
    twice = np.uint8(2 * window)
    for j in range(width):
        lane = view(codes + j * BLOCK, np.uint8)
        shift = np.uint8((query[j] - window) & 255)
        for i in range(BLOCK):
            mask[i] &= np.uint8((lane[i] - shift) & 255) <= twice
        if j % _CHECK == _CHECK - 1:
            left = 0
            for i in range(BLOCK):
                left |= mask[i]
            if left == 0:
                return -1 - j
    return width


@kernel
def scan_sum(
    codes: int,
    query: Any,
    width: int,
    window: int,
    limit: int,
    square: bool,
    count: int,
    sums: Any,
    mask: Any,
) -> int:
    """Do what `scan_box` does for distances that add up: sums of code gaps, or their squares."""
    cap = np.uint8(window)
    top = np.uint16(limit)
    for i in range(BLOCK):
        sums[i] = 0 if i < count else limit + 1
    for j in range(width):
        lane = view(codes + j * BLOCK, np.uint8)
        code = query[j]
        if square:
            for i in range(BLOCK):
                gap = min(np.uint8((lane[i] - code) & 255), np.uint8((code - lane[i]) & 255))
                gap = min(np.uint8(max(gap, np.uint8(1)) - 1), cap)
                sums[i] = sums[i] + np.uint16(gap) * np.uint16(gap)
        else:
            for i in range(BLOCK):
                gap = min(np.uint8((lane[i] - code) & 255), np.uint8((code - lane[i]) & 255))
                gap = min(np.uint8(max(gap, np.uint8(1)) - 1), cap)
                sums[i] = sums[i] + np.uint16(gap)
        if j % _CHECK == _CHECK - 1 or j == width - 1:
            left = 0
            for i in range(BLOCK):
                left |= sums[i] <= top
                sums[i] = min(sums[i], np.uint16(top + 1))
            if left == 0:
                return -1 - j
    for i in range(BLOCK):
        mask[i] = sums[i] <= top
    return width
