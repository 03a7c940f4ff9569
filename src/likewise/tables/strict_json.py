"""Reads JSON strictly: a text has one meaning, or it is refused.

msgspec refuses NaN, Infinity, numbers that no float holds, bytes that are no UTF-8 and nesting
without end. It takes the last of two equal names in an object, and half a surrogate pair; here
both are refused, since another reader may have taken the first name, and UTF-8 has no such
character.

Cost: linear. A text in which every colon follows a name of the value is decoded once. Otherwise
it is decoded a second time without types, to count names. Memory: at most MOST_PARTS arrays and
objects, and up to twenty-two bytes for each other byte (a list of "1," read as floats).
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import numpy as np

MOST_PARTS = 1 << 20
"""Arrays and objects of one text: each takes a hundred bytes of memory, and two of text."""
_T = TypeVar("_T")
_BLOCK = 1 << 18  # bytes that are looked through at once
_HALF = re.compile(  # a high half without a low one behind it, or a low one without a high before
    rb"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F])", re.DOTALL
)
_fields_of = msgspec.structs.astuple
_decode_plain = msgspec.json.Decoder().decode


class BadJson(ValueError):
    """The text is no JSON, or has more than one meaning."""


class TooManyParts(BadJson):
    """The text has more arrays and objects than are taken."""


def decode_strictly(decode: Callable[[bytes], _T], text: bytes) -> _T:
    """Decode a text; raise BadJson, or ValidationError where it is JSON of another type."""
    if len(text) > MOST_PARTS and _count_outside(text, b"[{") > MOST_PARTS:
        raise TooManyParts(f"it has more than {MOST_PARTS:,} arrays and objects")
    try:
        value = decode(text)
        colons = text.count(b":")
        if colons != _count_plainly(value, colons):
            _check_names(text)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadJson(str(error)) from None
    except RecursionError:
        raise BadJson("it is nested without end") from None
    if b"\\" in text and _HALF.search(text.replace(b"\\\\", b"")):
        raise BadJson("it has half a surrogate pair, which is no character")
    return value


def _count_plainly(value: Any, most: int = -1) -> int:
    """Count names of a decoded value that are there for sure; those with null may be left out.

    most: there are no more than so many, so nothing inside is looked at once they are found
    """
    if type(value) is dict:
        return len(value)
    if not isinstance(value, msgspec.Struct):
        return 0
    fields = _fields_of(value)
    names = len(fields) - fields.count(None)
    for one in () if names == most else fields:
        if type(one) is dict:
            names += len(one)
        elif type(one) is list and one and isinstance(one[0], msgspec.Struct):
            names += sum(map(_count_plainly, one))
    return names


def _check_names(text: bytes) -> None:
    """Raise BadJson if an object has a name twice."""
    names, waiting = 0, [_decode_plain(text)]
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            names += len(one)
            one = one.values()
        kinds = set(map(type, one)) if type(one) is not str else ()
        if dict in kinds or list in kinds:
            waiting += [part for part in one if type(part) is dict or type(part) is list]
    if names != _count_outside(text, b":"):
        raise BadJson("it has a name twice in one object; expected each name once")


def _count_outside(text: bytes, marks: bytes) -> int:
    """Count these bytes outside of strings, in JSON."""
    if sum(map(text.count, (bytes([mark]) for mark in marks))) == 0:
        return 0
    if b"\\" in text:  # what is escaped is inside: a quotation mark must not end its string
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    letters, quotes, count = np.frombuffer(text, np.uint8), np.uint8(0), 0
    for begin in range(0, len(letters), _BLOCK):
        block = letters[begin : begin + _BLOCK]
        before = np.cumsum(block == ord('"'), dtype=np.uint8) + quotes  # odd inside of a string
        quotes = before[-1] & 1
        marked = block == marks[0]
        for mark in marks[1:]:
            marked |= block == mark
        count += int(np.count_nonzero(marked & (before & 1 == 0)))
    return count
