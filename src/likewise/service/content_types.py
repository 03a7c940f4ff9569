"""Reads bodies and writes answers: JSON, or MessagePack with exact values.

A request says with Content-Type what its body is, and with Accept what it wants. Every answer is an
object, so its first byte tells which of the two it is, also of one from the cache.
Invariant: a body that cannot be read is refused with 400 (form), 413 (size) or 422 (types).
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from likewise.service.body_types import encode
from likewise.service.http_errors import Refusal
from likewise.tables.exact_values import (
    BadMessagePack,
    TooManyMessageParts,
    decoder_of,
    pack,
    unpack,
)
from likewise.tables.strict_json import BadJson, TooManyParts, decode_strictly
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE

_T = TypeVar("_T")
_BYTE = re.compile(r"\(byte (\d+)\)")  # where the parser stopped
_NOT_FINITE = re.compile(rb"nan|inf", re.IGNORECASE)


def decode_json(decode: Callable[[bytes], _T], body: bytes) -> _T:
    """Decode a body as a value of a type; raise Refusal if it is none."""
    try:
        return decode_strictly(decode, body)
    except (msgspec.ValidationError, BadJson) as error:
        raise _make_refusal(error, "JSON", _explain_not_finite(body, str(error))) from None


def decode_leniently(decode: Callable[[bytes], _T], body: bytes, what: str = "the body") -> _T:
    """Decode JSON from others, which may repeat names; raise Refusal if it is none."""
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise Refusal(422, f"{what} is not what is expected: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refusal(400, f"{what} is no JSON.") from None


def _make_refusal(error: Exception, form: str, advice: str = "") -> Refusal:
    """Explain why a body cannot be read."""
    if isinstance(error, msgspec.ValidationError):
        return Refusal(422, f"the body is not what is expected: {error}.")
    if isinstance(error, TooManyParts | TooManyMessageParts):
        return Refusal(413, f"the body is too large: {error}.")
    return Refusal(400, f"the body is no {form}: {error}.{advice}")


def _explain_not_finite(body: bytes, error: str) -> str:
    """Return advice on a body that is no JSON, if the parser stopped at NaN or infinity."""
    byte = _BYTE.search(error)
    if (
        byte is None
        or _NOT_FINITE.search(body[max(0, int(byte[1]) - 4) : int(byte[1]) + 4]) is None
    ):
        return ""
    return (
        " NaN and infinity are no JSON, and no input: say what a missing value means before sending"
        " it."
    )


EXACT_BYTES = EXACT_CONTENT_TYPE.encode()
JSON = "application/json"
OPEN_OBJECT = ord("{")
"""The first byte of an answer in JSON, and of none in MessagePack."""


def decode_body(kind: type[_T], content_type: bytes, body: bytes) -> _T:
    """Read a body of a type, in either form; raise Refusal if it is not what is expected."""
    known: Any = kind
    json, exact = _make_decoders(known)
    is_exact = content_type.startswith(EXACT_BYTES)
    value: _T = decode_exact(exact, body) if is_exact else decode_json(json, body)
    return value


@cache
def _make_decoders(kind: type) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any]]:
    return msgspec.json.Decoder(kind).decode, decoder_of(kind)


def decode_exact(decode: Callable[[bytes], _T], body: bytes) -> _T:
    """Decode MessagePack as a value of a type; raise Refusal if it is none."""
    try:
        return unpack(body, decode)
    except (msgspec.ValidationError, BadMessagePack) as error:
        raise _make_refusal(error, "MessagePack of likewise") from None


def encode_answer(accept: bytes, body: Any) -> bytes:
    """Write an answer in the form that a request wants; JSON unless it says otherwise."""
    return pack(body, "the answer") if EXACT_BYTES in accept else encode(body)


def media_type_of(answer: bytes) -> str:
    """Return the content type of an answer."""
    return JSON if answer[0] == OPEN_OBJECT else EXACT_CONTENT_TYPE
