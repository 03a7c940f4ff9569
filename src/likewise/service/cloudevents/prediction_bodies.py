"""Reads the bodies of predictions: v1 (`instances`, `predictions`), v2 (tensors, JSON or raw).

A body is JSON, or JSON with raw tensors behind it. The length of the JSON is in a header that
KServe does not pass on, so its end is found by scanning it.
Not here: how rows become decisions (event_decisions.py).
"""

import math
import re
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from likewise.service.content_types import decode_leniently
from likewise.service.http_errors import Refusal

_TYPES = {
    "BOOL": np.dtype(np.bool_),
    **{f"UINT{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"INT{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"FP{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
    "BF16": np.dtype("<f4"),
}
_KINDS = {"b": (bool,), "u": (int,), "i": (int,), "f": (int, float)}
_MOST_DIMENSIONS = 8
Array = npt.NDArray[Any]


class TensorParameters(msgspec.Struct, frozen=True):
    binary_data_size: int | None = None


class Tensor(msgspec.Struct, frozen=True):
    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: TensorParameters = TensorParameters()


def read_tensors(tensors: list[Tensor], raw: bytes, most_rows: int) -> dict[str, Array]:
    """Read tensors by name, with equally many rows; raise Refusal if something does not fit."""
    arrays: dict[str, Array] = {}
    at = 0
    for tensor in tensors:
        _check_shape(tensor, most_rows)
        size = tensor.parameters.binary_data_size
        if tensor.data is not None:
            array = _array_from_json(tensor, tensor.data)
        elif size is None or not 0 <= size <= len(raw) - at:
            raise Refusal(422, "a tensor has neither data nor as many raw bytes as it says.")
        else:
            array = _array_from_bytes(tensor, raw[at : at + size])
            at += size
        if tensor.name in arrays:
            raise Refusal(422, "two tensors have the same name.")
        arrays[tensor.name] = array.reshape(tensor.shape)
    if at != len(raw):
        raise Refusal(422, "there are more raw bytes than the tensors say.")
    if len({len(array) for array in arrays.values()}) != 1:
        raise Refusal(422, "the tensors have no rows, or not equally many.")
    return arrays


def _check_shape(tensor: Tensor, most_rows: int) -> None:
    shape = tensor.shape
    if not 1 <= len(shape) <= _MOST_DIMENSIONS or min(shape) < 1:
        raise Refusal(
            422, f"a tensor's shape has no dimension, a size below 1, or over {_MOST_DIMENSIONS}."
        )
    if shape[0] > most_rows:
        raise Refusal(413, f"a tensor has {shape[0]} rows; at most {most_rows} are taken.")
    if tensor.datatype not in _TYPES and tensor.datatype != "BYTES":
        raise Refusal(
            422, f"a tensor's datatype is not known; expected BYTES, {', '.join(_TYPES)}."
        )


def _array_from_json(tensor: Tensor, data: list[Any]) -> Array:
    flat = _flatten(data, tensor.shape)
    if tensor.datatype == "BYTES":
        if not all(type(value) is str for value in flat):
            raise Refusal(422, "a tensor of BYTES has something else than text.")
        return np.array(flat, object)
    kind = _TYPES[tensor.datatype]
    if not set(map(type, flat)) <= set(_KINDS[kind.kind]):
        raise Refusal(422, f"a tensor of {tensor.datatype} has something else in its data.")
    try:
        with np.errstate(over="ignore"):  # infinite then, which the monitor refuses
            return np.array(flat, kind)
    except (OverflowError, ValueError):
        raise Refusal(422, f"a number does not fit into {tensor.datatype}.") from None


def _flatten(data: list[Any], shape: list[int]) -> list[Any]:
    """Flatten nested data; raise Refusal unless it is nested as the shape says."""
    level, whole = data, math.prod(shape)
    for depth in range(len(shape)):
        if not any(type(one) is list for one in level):
            break
        size = shape[depth + 1] if depth + 1 < len(shape) else -1
        expected = math.prod(shape[: depth + 1])
        if len(level) != expected or not all(
            type(one) is list and len(one) == size for one in level
        ):
            raise Refusal(422, "a tensor's data is not nested as its shape says.")
        level = list(chain.from_iterable(level))
    if len(level) != whole:
        raise Refusal(422, "a tensor has more or fewer values than its shape says.")
    return level


def _array_from_bytes(tensor: Tensor, raw: bytes) -> Array:
    count = math.prod(tensor.shape)
    if tensor.datatype == "BYTES":
        return np.array(_read_texts(raw, count), object)
    kind = np.dtype("<u2") if tensor.datatype == "BF16" else _TYPES[tensor.datatype]
    if len(raw) != count * kind.itemsize:
        raise Refusal(422, "a tensor has more or fewer raw bytes than its shape says.")
    if tensor.datatype == "BOOL":  # any byte but 0 is true
        truths: Array = np.frombuffer(raw, np.uint8) != 0
        return truths
    array: Array = np.frombuffer(raw, kind)
    if tensor.datatype == "BF16":  # the upper half of a float32
        array = (array.astype("<u4") << 16).view("<f4")
    return array


def _read_texts(raw: bytes, count: int) -> list[str]:
    """Read texts, each after its length in four bytes."""
    texts: list[str] = []
    at = 0
    try:
        while at < len(raw) and len(texts) < count:
            size = int.from_bytes(raw[at : at + 4], "little")
            if at + 4 + size > len(raw):
                break
            texts.append(raw[at + 4 : at + 4 + size].decode())
            at += 4 + size
    except UnicodeDecodeError:
        raise Refusal(422, "a tensor of BYTES is no UTF-8 text.") from None
    if at != len(raw) or len(texts) != count:
        raise Refusal(422, "a tensor of BYTES does not have as many texts as its shape says.")
    return texts


# A string is matched whole; the group is empty if the string has no end.
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
class PredictionRows:
    """Holds what a body has for each decision: `values`, one for each, or `arrays`, by name."""

    count: int
    values: list[Any] | None = None
    arrays: dict[str, Array] | None = None
    model: str | None = None
    """The name and version of the model, if a response has them."""


def read_prediction(kind: str, body: bytes, most_rows: int) -> PredictionRows:
    """Read a body of this kind, request or response; raise Refusal if it is none."""
    sent, raw = _split(_decode_request if kind == "request" else _decode_response, body)
    if isinstance(sent, _Request):
        values, tensors, model = sent.instances, sent.inputs, None
        expected = "instances or inputs"
    else:
        values, tensors = sent.predictions, sent.outputs
        expected = "predictions or outputs"
        model = ":".join(filter(None, (sent.model_name, sent.model_version))) or None
    if (values is None) == (tensors is None):
        raise Refusal(422, f"the {kind} does not have exactly one of {expected}.")
    if tensors is not None:
        arrays = read_tensors(tensors, raw, most_rows)
        return PredictionRows(len(next(iter(arrays.values()))), arrays=arrays, model=model)
    assert values is not None
    if raw:
        raise Refusal(400, "the body is no JSON.")
    if not 1 <= len(values) <= most_rows:
        raise Refusal(
            413 if values else 422,
            f"the {kind} has {len(values)} rows; from 1 to {most_rows} are taken.",
        )
    return PredictionRows(len(values), values=values, model=model)


def _split(decode: Any, body: bytes) -> tuple[Any, bytes]:
    """Decode the JSON; return it, and the raw bytes behind it."""
    try:
        return decode_leniently(decode, body), b""
    except Refusal as error:
        if error.status == 422:
            raise
    end = _find_json_end(body)
    return decode_leniently(decode, body[:end]), body[end:]


def _find_json_end(body: bytes) -> int:
    """Return where the object that a body begins with ends; the body's end if there is none."""
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
