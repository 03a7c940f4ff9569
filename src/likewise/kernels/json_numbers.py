"""A JSON array of equally long arrays of numbers, read straight into float64.

A parser that makes an object of every number and a list of every row takes several times as long.
A number is its digits, up to 19 of which fit into a word, and a power of ten. Where both are exact
as floats, one division or product of them is the nearest float64. Else it follows from the product
of the digits and 128 bits of that power (Lemire 2021, "Number parsing at a gigabyte per second").
Where these bits do not decide it, and for everything out of the ordinary, the answer is -1: then
another reader is to be asked.

Invariant: what is read is JSON, and each number is the float64 that Python's float() makes of it.
Not here: what stands around the array (service/json_matrix.py).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.kernels.compile import entry, kernel, small, view

MOST_POWER = 64
EXACT_POWER = 22  # up to here powers of ten are floats
_DIGITS = 19
_FAR = 1000  # an exponent beyond which it does not matter how large it is
_WORD = 64
_OPEN, _CLOSE, _COMMA, _POINT, _MINUS, _PLUS = 91, 93, 44, 46, 45, 43
_ZERO, _NINE, _SMALL_E, _LARGE_E = 48, 57, 101, 69
_SPACE, _TAB, _FEED, _RETURN = 32, 9, 10, 13


def powers() -> npt.NDArray[np.uint64]:
    """The floats 10**0 to 10**EXACT_POWER, as bits; then 128 bits of each power of five.

    Of 5**q from q = -MOST_POWER to MOST_POWER, the highest bit set: two words each. Those below 1
    are reciprocals, rounded up as long as that is the nearest above, else cut off.
    """
    words: list[int] = np.array([10.0**q for q in range(EXACT_POWER + 1)]).view(np.uint64).tolist()
    for q in range(-MOST_POWER, MOST_POWER + 1):
        power = 5 ** abs(q)
        if q < 0:
            bits = (power - 1).bit_length()
            power = (1 << (bits + 127 if q >= -27 else 2 * bits + 128)) // power + 1
        shift = power.bit_length() - 2 * _WORD
        power = power >> shift if shift > 0 else power << -shift
        words += [power >> _WORD, power & ((1 << _WORD) - 1)]
    return np.array(words, np.uint64)


@small
def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """The high and the low word of a product of two words."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_low, a_high, b_low, b_high = a & low, a >> half, b & low, b >> half
    least, one, other = a_low * b_low, a_low * b_high, a_high * b_low
    middle = (least >> half) + (one & low) + (other & low)
    high = a_high * b_high + (one >> half) + (other >> half) + (middle >> half)
    return high, (middle << half) | (least & low)


@kernel
def _nearest(digits: Any, q: int, powers: Any) -> Any:
    """The bits of the float64 nearest to digits * 10**q; 0 where that cannot be told.

    digits: at least 1; |q| is at most MOST_POWER, so the number is neither too large nor too small
    """
    one = np.uint64(1)
    zeros, width = 0, 32
    while width > 0:  # halve the leading zeros that there may be
        if digits >> np.uint64(64 - width) == np.uint64(0):
            digits = digits << np.uint64(width)
            zeros += width
        width >>= 1
    at = EXACT_POWER + 1 + 2 * (q + MOST_POWER)
    high, low = _product(digits, powers[at])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):  # the lower word of the power may matter
        more, _ = _product(digits, powers[at + 1])
        low = low + more
        if low < more:
            high = high + one
    if low == np.uint64(0xFFFFFFFFFFFFFFFF) and (q < -27 or q > 55):
        return np.uint64(0)
    top = high >> np.uint64(63)
    shift = top + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * q) >> 16) + 63 + np.int64(top) - zeros + 1023
    tie = low <= one and -4 <= q <= 23 and mantissa & np.uint64(3) == one
    if tie and mantissa << shift == high:  # halfway between two: to the even one
        mantissa = mantissa & ~one
    mantissa = (mantissa + (mantissa & one)) >> one
    if mantissa >> np.uint64(53) != np.uint64(0):
        mantissa = mantissa >> one
        exponent += 1
    return (mantissa & np.uint64((1 << 52) - 1)) | (np.uint64(exponent) << np.uint64(52))


@small
def _is_digit(byte: int) -> bool:
    return _ZERO <= byte <= _NINE


@small
def _after_space(text: Any, at: int) -> int:
    while text[at] == _SPACE or text[at] == _FEED or text[at] == _RETURN or text[at] == _TAB:
        at += 1
    return at


@small
def _leading_zeros(text: Any, at: int) -> int:
    """How many zeros a number begins with, behind its point included."""
    zeros = 0
    while text[at] == _ZERO or text[at] == _POINT:
        zeros += text[at] == _ZERO
        at += 1
    return zeros


@kernel
def _number(text: Any, at: int, powers_address: int, into_address: int) -> int:
    """Read a number and write it; where it ends, or -1."""
    negative = text[at] == _MINUS
    if negative:
        at += 1
    first, digits, q = at, np.uint64(0), 0
    while _is_digit(text[at]):
        digits = digits * np.uint64(10) + np.uint64(text[at] - _ZERO)
        at += 1
    count = at - first
    if count == 0 or (count > 1 and text[first] == _ZERO):
        return -1
    fraction = text[at] == _POINT
    if fraction:
        at += 1
        behind = at
        while _is_digit(text[at]):
            digits = digits * np.uint64(10) + np.uint64(text[at] - _ZERO)
            at += 1
        q = behind - at
        if q == 0:
            return -1
        count -= q
    if count > _DIGITS and count - _leading_zeros(text, first) > _DIGITS:
        return -1
    if text[at] == _SMALL_E or text[at] == _LARGE_E:
        at += 1
        below = text[at] == _MINUS
        if below or text[at] == _PLUS:
            at += 1
        behind, exponent = at, 0
        while _is_digit(text[at]):
            exponent = min(_FAR, 10 * exponent + int(text[at]) - _ZERO)
            at += 1
        if at == behind:
            return -1
        q += -exponent if below else exponent
    if digits >> np.uint64(53) == np.uint64(0) and -EXACT_POWER <= q <= EXACT_POWER:
        if digits == np.uint64(0) and negative and not fraction:
            return -1  # a whole number has no zero below zero
        tens = view(powers_address, np.float64)
        number = np.float64(np.int64(digits))
        number = number / tens[-q] if q < 0 else number * tens[q]
        view(into_address, np.float64)[0] = -number if negative else number
        return at
    if digits == np.uint64(0) or q < -MOST_POWER or q > MOST_POWER:
        return -1
    bits = _nearest(digits, q, view(powers_address, np.uint64))
    if bits == np.uint64(0):
        return -1
    view(into_address, np.uint64)[0] = bits | (np.uint64(negative) << np.uint64(63))
    return at


@entry
def read_matrix(
    text_address: int, powers_address: int, into_address: int, shape_address: int
) -> int:
    """Read an array of arrays from the first byte on; how many bytes it has, or -1.

    text    ends with a byte 0, which is nowhere in an array
    into    room for a number for every two bytes
    shape   for how many rows there are, and numbers in each
    """
    text = view(text_address, np.uint8)
    rows, width, place, at = 0, -1, 0, 0
    if text[at] != _OPEN:
        return -1
    while True:
        at = _after_space(text, at + 1)
        if text[at] != _OPEN:
            return -1
        begin = place
        while True:
            at = _after_space(text, at + 1)
            at = _number(text, at, powers_address, into_address + 8 * place)
            if at < 0:
                return -1
            place += 1
            at = _after_space(text, at)
            if text[at] != _COMMA:
                break
        if text[at] != _CLOSE:
            return -1
        if width < 0:
            width = place - begin
        if place - begin != width:
            return -1
        rows += 1
        at = _after_space(text, at + 1)
        if text[at] != _COMMA:
            break
    if text[at] != _CLOSE:
        return -1
    shape = view(shape_address, np.int64)
    shape[0], shape[1] = rows, width
    return at + 1
