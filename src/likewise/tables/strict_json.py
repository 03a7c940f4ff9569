"""Reads JSON strictly: a text has one meaning, or it is refused.

msgspec refuses NaN, Infinity, numbers beyond a float, bytes that are not UTF-8 and endless nesting,
but accepts repeated names in an object and half surrogate pairs, which are refused here.
Cost: linear; decodes a second time, without types, where not every colon follows a decoded name.
Memory: at most MOST_PARTS arrays and objects; up to 22 bytes per other byte ("1," read as floats).
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import numpy as np

MOST_PARTS = 1 << 20
"""Arrays and objects of one text: each takes a hundred bytes of memory, but only two of text."""
_T = TypeVar("_T")
_BLOCK = 1 << 18  # bytes that are scanned at once
_HALF = re.compile(  # a high half with no low half after it, or a low half with no high one before
    rb"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F])", re.DOTALL
)
_fields_of = msgspec.structs.astuple
_decode_plain = msgspec.json.Decoder().decode


class BadJson(ValueError):
    """The text is not JSON, or has more than one meaning."""


class TooManyParts(BadJson):
    """The text has too many arrays and objects."""


def decode_strictly(decode: Callable[[bytes], _T], text: bytes) -> _T:
    """Decode a text; raise BadJson, or ValidationError where it is JSON of another type."""
    if len(text) > MOST_PARTS and _count_outside(text, b"[{") > MOST_PARTS:
        raise TooManyParts(f"it has more than {MOST_PARTS:,} arrays and objects")
    try:
        value = decode(text)
        colons = text.count(b":")
        if colons != _count_names(value, colons):
            _check_names(text)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadJson(str(error)) from None
    except RecursionError:
        raise BadJson("it is nested too deeply") from None
    if b"\\" in text and _HALF.search(text.replace(b"\\\\", b"")):
        raise BadJson("it has half a surrogate pair, which is no character")
    return value


def _count_names(value: Any, most: int = -1) -> int:
    """Count the names that a decoded value certainly had; those with null may not be counted.

    most: stop once so many are counted, since there cannot be more
    """
    if type(value) is dict:
        return len(value)
    if not isinstance(value, msgspec.Struct):
        return 0
    fields = _fields_of(value)
    names = len(fields) - fields.count(None)
    for field in () if names == most else fields:
        if type(field) is dict:
            names += len(field)
        elif type(field) is list and field and isinstance(field[0], msgspec.Struct):
            names += sum(map(_count_names, field))
    return names


def _check_names(text: bytes) -> None:
    """Raise BadJson if a name occurs twice in an object."""
    names, waiting = 0, [_decode_plain(text)]
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            names += len(value)
            value = value.values()
        kinds = set(map(type, value)) if type(value) is not str else ()
        if dict in kinds or list in kinds:
            waiting += [part for part in value if type(part) is dict or type(part) is list]
    if names != _count_outside(text, b":"):
        raise BadJson("it has a name twice in one object; expected each name once")


def _count_outside(text: bytes, marks: bytes) -> int:
    """Count these bytes of a JSON text outside of its strings."""
    if sum(map(text.count, (bytes([mark]) for mark in marks))) == 0:
        return 0
    if b"\\" in text:  # an escaped quotation mark does not end its string
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    letters, quotes, count = np.frombuffer(text, np.uint8), np.uint8(0), 0
    for begin in range(0, len(letters), _BLOCK):
        block = letters[begin : begin + _BLOCK]
        before = np.cumsum(block == ord('"'), dtype=np.uint8) + quotes  # odd inside a string
        quotes = before[-1] & 1
        marked = block == marks[0]
        for mark in marks[1:]:
            marked |= block == mark
        count += int(np.count_nonzero(marked & (before & 1 == 0)))
    return count
