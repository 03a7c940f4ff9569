"""JSON is read strictly: one meaning for every body, or none.

NaN, Infinity, numbers that no float holds, half surrogates and bytes that are no UTF-8 are refused
by the parser. It takes the last of two equal names in an object; here such a body is refused, since
somebody else may have read the first.

Cost: one pass over the bytes for the colons, where names are all that has any.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from likewise.service.refusals import Refusal

_T = TypeVar("_T")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)
_BYTE = re.compile(r"\(byte (\d+)\)")  # where the parser stopped
_NOT_FINITE = re.compile(rb"nan|inf", re.IGNORECASE)
_LONG = 1 << 12  # bytes
_fields_of = msgspec.structs.astuple
_HALF = re.compile(r"[\ud800-\udfff]")
_HALF_WRITTEN = re.compile(rb"\\u[dD]")


def decoded(decode: Callable[[bytes], _T], body: bytes) -> _T:
    """A body as a value of a type; Refusal if it is none."""
    try:
        value = decode(body)
    except msgspec.ValidationError as error:
        raise Refusal(422, f"the body is not what is expected: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        more = _not_finite(body, str(error))
        raise Refusal(400, f"the body is no JSON: {error}.{more}") from None
    if not _has_each_once(body, value) or (b"\\" in body and _HALF_WRITTEN.search(body)):
        _check_closely(body)
    return value


def _not_finite(body: bytes, error: str) -> str:
    """More about a body that is no JSON, if the parser stopped at NaN or infinity."""
    byte = _BYTE.search(error)
    at = int(byte[1]) if byte else len(body)
    if _NOT_FINITE.search(body[max(0, at - 4) : at + 4]) is None:
        return ""
    return (
        " NaN and infinity are no JSON, and no input: say what a missing value means before sending"
        " it."
    )


def _has_each_once(body: bytes, value: Any) -> bool:
    """Whether all colons of a body are those of its names, and each name is there once.

    False also where that is not to be seen at a glance: a value is null, or has colons of its own.
    """
    given = _fields_of(value)
    colons = body.count(b":") if len(body) < _LONG else _colons(body, 2 * len(given))
    names = len(given) - given.count(None)
    if names < colons and dict in map(type, given):
        names += sum(len(one) for one in given if type(one) is dict)
    return names == colons


def _colons(body: bytes, most: int) -> int:
    """How many colons there are, or more than `most`: `find` passes over bytes by vectors."""
    count, at = 0, body.find(b":")
    while at >= 0 and count <= most:
        count, at = count + 1, body.find(b":", at + 1)
    return count


def _check_closely(body: bytes) -> None:
    plain = msgspec.json.decode(body)
    written = sum(1 for found in _STRING.finditer(body) if found[1] is not None)
    if written != _count(plain):
        raise Refusal(400, "the body has a name twice in one object; expected each name once.")


def _count(plain: Any) -> int:
    """The names in all objects of a value; Refusal at half a surrogate."""
    if isinstance(plain, dict):
        if any(_HALF.search(name) for name in plain):
            raise _half()
        return len(plain) + sum(map(_count, plain.values()))
    if isinstance(plain, list):
        return sum(_count(one) for one in plain if isinstance(one, dict | list | str))
    if isinstance(plain, str) and _HALF.search(plain):
        raise _half()
    return 0


def _half() -> Refusal:
    return Refusal(400, "the body has half a surrogate pair, which is no character.")
