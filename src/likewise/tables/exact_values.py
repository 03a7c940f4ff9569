"""Packs values with their types as MessagePack: content type `application/vnd.likewise+msgpack`.

Extension types: 1 is a word, the JSON text that a ledger stores for a date, a Decimal, …
(codec.py); 2 is a tuple, an array of MessagePack; 3 is an array: type ("<f4"), shape, bytes, names
of columns. Invariant: the value that is read equals the one written, to the last bit, and has its
type. Reading executes nothing; at most MOST_PARTS arrays, maps and extensions are allocated.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np

from likewise.errors import BadFile, LikewiseError, UnexpectedValue
from likewise.tables.codec import form_of, value_of
from likewise.tables.frames import is_missing
from likewise.tables.named_array import names_of, with_names
from likewise.tables.normalize import array_of_tensor, as_list, is_tensor, to_python_scalar
from likewise.tables.strict_json import MOST_PARTS

_WORD, _TUPLE, _ARRAY = 1, 2, 3
_KINDS = "biufMm"  # arrays of these kinds are sent as bytes
_TYPE = re.compile(r"[<|][biuf][1248]|<[Mm]8(?:\[[1-9]?\d{0,5}[A-Za-z]{1,2}\])?")
_MOST_AXES = 32
_MOST_WORD = 1 << 16  # bytes
_PLAIN = {str, float, bool, bytes, type(None)}
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
_encode = msgspec.msgpack.Encoder().encode
_T = TypeVar("_T")


class BadMessagePack(ValueError):
    """The bytes are not MessagePack, or contain values that likewise does not send."""


class TooManyMessageParts(BadMessagePack):
    """The bytes have too many arrays, maps and extensions to be read."""


# Writing


def pack(value: Any, what: str = "what was sent") -> bytes:
    """Return a value as bytes; raise UnexpectedValue if that is impossible.

    what: the name of the value in errors
    """
    try:
        return _encode(_to_messagepack(value, what))
    except UnicodeEncodeError:
        raise _unsendable(what, value) from None


def _to_messagepack(value: Any, what: str) -> Any:
    """Convert a value to MessagePack's own types and our extensions."""
    kind = type(value)
    if kind in _PLAIN or (kind is int and _LEAST <= value <= _MOST):
        return value
    if kind is list:
        return _convert_list(value, what)
    if kind is tuple:
        return msgspec.msgpack.Ext(_TUPLE, _encode(_convert_list(value, what)))
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise UnexpectedValue(
                    f"{what} has a column {name!r} of type {type(name).__name__}; expected names"
                    " of columns that are text."
                )
        return {str(name): _to_messagepack(part, what) for name, part in value.items()}
    if isinstance(value, msgspec.Struct):  # msgspec encodes it itself
        return value
    return _convert_other(value, what)


def _convert_list(values: Any, what: str) -> list[Any]:
    kinds = set(map(type, values))
    if kinds <= _PLAIN or (kinds == {int} and min(values) >= _LEAST and max(values) <= _MOST):
        return list(values)
    return [_to_messagepack(value, what) for value in values]


def _convert_other(value: Any, what: str) -> Any:
    if is_tensor(value):
        value = array_of_tensor(value)
    if isinstance(value, np.ma.MaskedArray):
        raise _unsendable(what, value)
    if isinstance(value, np.ndarray):
        return _array_extension(value, what) if value.ndim else _to_messagepack(value[()], what)
    value = to_python_scalar(value)
    if is_missing(value) and not isinstance(value, float):  # such as pandas.NA
        return None
    try:
        return _convert_scalar(value)
    except (TypeError, ValueError):
        pass
    values = as_list(value)  # a series or an Arrow array
    if values is None:
        raise _unsendable(what, value)
    return _convert_list(values, what)


def _convert_scalar(value: Any) -> Any:
    """Convert a single value; raise TypeError or ValueError if it has no form."""
    if isinstance(value, float | bytes):  # a subclass: exact types were converted before
        return float(value) if isinstance(value, float) else bytes(value)
    word = form_of(value)
    if type(word) in _PLAIN or (type(word) is int and _LEAST <= word <= _MOST):
        return word
    return msgspec.msgpack.Ext(_WORD, json.dumps(word, ensure_ascii=False).encode())


def _array_extension(array: np.ndarray[Any, Any], what: str) -> Any:
    if array.dtype.kind not in _KINDS or array.dtype.itemsize > 8:
        return _to_messagepack(array.tolist(), what)
    numbers = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    fields = [numbers.dtype.str, list(array.shape), numbers.tobytes(), list(names_of(array))]
    return msgspec.msgpack.Ext(_ARRAY, _encode(fields))


def _unsendable(what: str, value: Any) -> LikewiseError:
    return UnexpectedValue(
        f"{what} is {value!r:.200} of type {type(value).__name__}, which cannot be sent; expected"
        " text, numbers, dates, bytes, arrays, or lists and dictionaries of such."
    )


# Reading


def decoder_of(kind: Any) -> Callable[[bytes], Any]:
    """Return a function that decodes a value of a type, for `unpack`."""
    return msgspec.msgpack.Decoder(kind, ext_hook=_read_extension).decode


def unpack(body: bytes, decode: Callable[[bytes], _T] | None = None) -> _T:
    """Read a value; raise BadMessagePack, or ValidationError for a value of another type."""
    if len(body) > MOST_PARTS and _has_too_many_parts(body):
        raise TooManyMessageParts(f"it has more than {MOST_PARTS:,} arrays and maps")
    try:
        value: _T = (decode or _decode_any)(body)
    except msgspec.ValidationError:
        raise
    except RecursionError:
        raise BadMessagePack("it is nested too deeply") from None
    except (msgspec.MsgspecError, ValueError, TypeError, BadFile) as error:
        raise BadMessagePack(str(error).rstrip(".")) from None
    return value


class _Numbers(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    type: str
    shape: list[int]
    numbers: bytes
    names: list[str] = []


def _read_extension(code: int, content: memoryview) -> Any:
    """Read the value of an extension type."""
    try:
        if code == _ARRAY:
            return _array_of(_decode_numbers(content))
        if code == _TUPLE:
            return tuple(_decode_list(content))
    except msgspec.ValidationError as error:  # the caller would blame the type of the whole body
        raise BadMessagePack(str(error)) from None
    if code == _WORD:
        if len(content) > _MOST_WORD:
            raise BadMessagePack(f"it has a word of {len(content)} bytes; at most {_MOST_WORD}")
        return value_of(json.loads(bytes(content)))
    raise BadMessagePack(f"it has the extension type {code}; expected 1, 2 or 3")


def _array_of(sent: _Numbers) -> Any:
    if not _TYPE.fullmatch(sent.type) or len(sent.shape) > _MOST_AXES:
        raise BadMessagePack("it has an array of an unknown type or shape")
    dtype = np.dtype(sent.type)
    if min(sent.shape, default=0) < 0:
        raise BadMessagePack("it has an array with a negative length")
    if math.prod(sent.shape) * dtype.itemsize != len(sent.numbers):
        raise BadMessagePack("it has an array with more or fewer numbers than its shape says")
    array = np.frombuffer(sent.numbers, dtype).reshape(sent.shape)
    return with_names(array, tuple(sent.names)) if sent.names else array


_decode_any = decoder_of(Any)
_decode_list: Callable[[Any], list[Any]] = decoder_of(list[Any])
_decode_numbers: Callable[[Any], _Numbers] = msgspec.msgpack.Decoder(_Numbers).decode


def _item_tables() -> tuple[list[int], list[int], bytes]:
    """Return what the first byte of an item says: bytes to skip, and bytes of its length field.

    The content of an array, a map or a tuple is not skipped: its items follow. The third part lists
    the first bytes of arrays, maps and extensions.
    """
    skip, sized = [1] * 256, [0] * 256
    for code in range(0xA0, 0xC0):
        skip[code] = 1 + (code & 31)
    for first in (0xC4, 0xC7, 0xD9):
        sized[first : first + 3] = 1, 2, 4
    numbers = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
    numbers |= {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
    numbers |= {0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
    for code, size in numbers.items():
        skip[code] = 1 + size
    parts = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0), *range(0xC7, 0xCA), *range(0xD4, 0xD9)])
    return skip, sized, parts


_SKIP, _SIZED, _PARTS = _item_tables()
_EXTENSIONS = frozenset({0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9)})


def _has_too_many_parts(body: bytes) -> bool:
    """Whether there are more than MOST_PARTS arrays, maps and extensions.

    Most bodies are short, or have few such bytes at all; only the others are walked, item by item.
    """
    if len(body) - len(body.translate(None, _PARTS)) <= MOST_PARTS:
        return False
    at, parts, end = 0, 0, len(body)
    while at < end and parts <= MOST_PARTS:
        code = body[at]
        parts += code in _PARTS
        size = _SIZED[code]
        head = at + 1 + size
        if code in _EXTENSIONS and body[head : head + 1] == b"\x02":  # a tuple: its items follow
            at = head + 1
        elif size:
            at = head + int.from_bytes(body[at + 1 : head], "big") + (code in _EXTENSIONS)
        else:
            at += _SKIP[code]
    return parts > MOST_PARTS
