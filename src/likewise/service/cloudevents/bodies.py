"""The bodies of predictions: v1 (`instances`, `predictions`) and v2 (tensors, in JSON or raw).

A body is JSON, or JSON with raw tensors behind it. How long the JSON is stands in a header that
KServe does not pass on, so its end is found by reading it.
"""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from likewise.service.cloudevents.tensors import Array, Tensor, arrays_of
from likewise.service.refusals import Refusal

# Strings are passed over whole; one without an end is found at once, and by its empty group.
_MARKS = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)|[{}\[\]]', re.DOTALL)


class _Request(msgspec.Struct, frozen=True):
    instances: list[Any] | None = None
    inputs: list[Tensor] | None = None


class _Response(msgspec.Struct, frozen=True):
    predictions: list[Any] | None = None
    outputs: list[Tensor] | None = None
    model_name: str | None = None
    model_version: str | None = None


_decode_request = msgspec.json.Decoder(_Request).decode
_decode_response = msgspec.json.Decoder(_Response).decode


@dataclass(frozen=True, slots=True)
class Rows:
    """What a body has for each decision: `listed`, a value for each, or `arrays`, by name."""

    count: int
    listed: list[Any] | None = None
    arrays: dict[str, Array] | None = None
    model: str | None = None
    """The name and version of the model, where a response says them."""


def read(kind: str, body: bytes, most_rows: int) -> Rows:
    """A body of this kind, request or response; Refusal if it is none."""
    told, raw = _split(_decode_request if kind == "request" else _decode_response, body)
    if isinstance(told, _Request):
        listed, tensors, model = told.instances, told.inputs, None
        expected = "instances or inputs"
    else:
        listed, tensors = told.predictions, told.outputs
        expected = "predictions or outputs"
        model = ":".join(filter(None, (told.model_name, told.model_version))) or None
    if (listed is None) == (tensors is None):
        raise Refusal(422, f"the {kind} has not one of {expected}.")
    if tensors is not None:
        arrays = arrays_of(tensors, raw, most_rows)
        return Rows(len(next(iter(arrays.values()))), arrays=arrays, model=model)
    assert listed is not None
    if raw:
        raise Refusal(400, "the body is no JSON.")
    if not 1 <= len(listed) <= most_rows:
        raise Refusal(
            413 if listed else 422,
            f"the {kind} has {len(listed)} rows; from 1 to {most_rows} are taken.",
        )
    return Rows(len(listed), listed=listed, model=model)


def _split(decode: Any, body: bytes) -> tuple[Any, bytes]:
    """What the JSON says, and the raw bytes behind it."""
    try:
        return decode(body), b""
    except msgspec.ValidationError as error:
        raise Refusal(422, f"the body is not what is expected: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        end = _end_of_json(body)
    try:
        return decode(body[:end]), body[end:]
    except msgspec.ValidationError as error:
        raise Refusal(422, f"the body is not what is expected: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refusal(400, "the body is no JSON.") from None


def _end_of_json(body: bytes) -> int:
    """Behind the object that a body begins with; the body's end if there is none."""
    depth = 0
    for mark in _MARKS.finditer(body):
        letter = body[mark.start()]
        if letter == ord('"'):
            if not mark[1]:
                break
        elif letter in b"{[":
            depth += 1
        else:
            depth -= 1
            if depth <= 0:
                return mark.end()
    return len(body)
