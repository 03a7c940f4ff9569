"""Reads the JSON of a request's body, and refuses what is none or is not what is expected."""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from likewise.service.refusals import Refusal
from likewise.sources.strict_json import BadJson, TooManyParts, decode_strictly

_T = TypeVar("_T")
_BYTE = re.compile(r"\(byte (\d+)\)")  # where the parser stopped
_NOT_FINITE = re.compile(rb"nan|inf", re.IGNORECASE)


def decoded(decode: Callable[[bytes], _T], body: bytes) -> _T:
    """Decode a body as a value of a type; raise Refusal if it is none."""
    try:
        return decode_strictly(decode, body)
    except msgspec.ValidationError as error:
        raise Refusal(422, f"the body is not what is expected: {error}.") from None
    except TooManyParts as error:
        raise Refusal(413, f"the body is too large: {error}.") from None
    except BadJson as error:
        more = _not_finite(body, str(error))
        raise Refusal(400, f"the body is no JSON: {error}.{more}") from None


def _not_finite(body: bytes, error: str) -> str:
    """More about a body that is no JSON, if the parser stopped at NaN or infinity."""
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
