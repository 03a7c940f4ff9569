"""Makes decisions of a pair of events: row i of the request with row i of the response.

The key is the id of the events, a slash and the place (`0009174a-…/0`); time and model come from
the response, or else from the request and the name of the service. Vectors may be lists, one
tensor, or a tensor per coordinate; rows of a table may be objects, a tensor per column, or lists
with `?columns=age,income`. `?output=approved` picks one of several outputs.
"""

import base64
import binascii
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec
import numpy as np

from likewise.monitor.readers.protocol import FROM_ROW, Decision
from likewise.rule.rule import Rule
from likewise.service.cloudevents.prediction_bodies import Array, PredictionRows
from likewise.service.content_types import decode_leniently
from likewise.service.decision_limits import check_lengths, check_time
from likewise.service.http_errors import Refusal
from likewise.service.settings import Limits

_GZIP = b"\x1f\x8b"
_KINDS = {".inference.request": "request", ".inference.response": "response"}
_PLACE_DIGITS = 8  # of a key: a slash and the place of a decision in its prediction


# Reads the CloudEvents of an HTTP request: binary, structured and batch mode, gzipped or not. Only
# what is needed to pair events is read; the body of a prediction stays bytes. A body that begins
# with 1f 8b is inflated whatever its headers say: Knative may remove the header Content-Encoding
# and leave the body compressed.
# Bound: the body of a request and those of its events inflate to `Limits.body_bytes` in all.


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """Carries one half of a prediction.

    service, namespace, component, endpoint   KServe's names, "" where they are missing
    """

    id: str
    kind: str
    """request or response."""
    body: bytes
    time: str | None = None
    service: str = ""
    namespace: str = ""
    component: str = ""
    endpoint: str = ""


class _Attributes(msgspec.Struct, frozen=True):
    """Holds the attributes of an event, from headers or from JSON."""

    specversion: str
    id: str
    type: str
    source: str
    time: str | None = None
    inferenceservicename: str = ""
    namespace: str = ""
    component: str = ""
    endpoint: str = ""


class _Structured(_Attributes, frozen=True):
    """Holds an event in JSON."""

    data: msgspec.Raw = msgspec.Raw()
    data_base64: str | None = None


_decode_one = msgspec.json.Decoder(_Structured).decode
_decode_batch = msgspec.json.Decoder(list[_Structured]).decode
_decode_text = msgspec.json.Decoder(str).decode


def read_events(
    headers: list[tuple[bytes, bytes]], body: bytes, limits: Limits
) -> list[CloudEvent]:
    """Return the events of a request; raise Refusal if there are none, or one makes no sense."""
    inflater = _Inflater(limits.body_bytes)
    body = inflater.inflate(body)
    attributes: dict[str, str] = {}
    content_type = ""
    for name, value in headers:
        if name.startswith(b"ce-"):
            attributes[name[3:].decode("latin-1")] = _unquote_header(value)
        elif name == b"content-type":
            content_type = value.decode("latin-1").partition(";")[0].strip().lower()
    if content_type == "application/cloudevents+json":
        event = decode_leniently(_decode_one, body, "the event")
        return [_read_structured(event, limits, inflater)]
    if content_type == "application/cloudevents-batch+json":
        events = decode_leniently(_decode_batch, body, "the event")
        return [_read_structured(one, limits, inflater) for one in events]
    if not attributes:
        raise Refusal(
            400,
            "there is no event: expected headers ce-id, ce-type, …, or the content type"
            " application/cloudevents+json.",
        )
    missing = [n for n in ("specversion", "id", "type", "source") if n not in attributes]
    if missing:
        raise Refusal(400, f"the event has no header ce-{missing[0]}.")
    return [_make_event(msgspec.convert(attributes, _Attributes), body, limits)]


def _read_structured(one: _Structured, limits: Limits, inflater: "_Inflater") -> CloudEvent:
    if one.data_base64 is not None:
        try:
            body = base64.b64decode(one.data_base64, validate=True)
        except (binascii.Error, ValueError):
            raise Refusal(400, "data_base64 is no base64.") from None
    else:
        body = bytes(one.data)
        if body.startswith(b'"'):  # a body that is text, which may be JSON in turn
            body = decode_leniently(_decode_text, body, "the event").encode()
    return _make_event(one, inflater.inflate(body), limits)


def _make_event(one: _Attributes, body: bytes, limits: Limits) -> CloudEvent:
    """Make the event with this body; raise Refusal if it makes no sense."""
    if one.specversion != "1.0":
        raise Refusal(400, "the event's specversion is not 1.0.")
    kind = next((kind for end, kind in _KINDS.items() if one.type.endswith(end)), None)
    if kind is None:
        raise Refusal(
            422, "the event's type is neither org.kubeflow.serving.inference.request nor .response."
        )
    most = limits.key_bytes - _PLACE_DIGITS
    if not one.id or len(one.id.encode()) > most:
        raise Refusal(422, f"the event's id has no bytes, or more than {most}.")
    names = (one.inferenceservicename, one.namespace, one.component, one.endpoint)
    if any(len(name.encode()) > limits.label_bytes for name in names):
        raise Refusal(413, f"an attribute has more than {limits.label_bytes} bytes.")
    if not body:
        raise Refusal(422, "the event has no data.")
    return CloudEvent(one.id, kind, body, one.time, *names)


class _Inflater:
    """Inflates the gzipped bodies of one request, up to so many bytes in all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def inflate(self, body: bytes) -> bytes:
        """Inflate a body that begins as gzip does; return any other unchanged."""
        if not body.startswith(_GZIP):
            return body
        unpacking = zlib.decompressobj(wbits=31)
        try:
            inflated = unpacking.decompress(body, self._left + 1)
        except zlib.error:
            raise Refusal(400, "the body begins like gzip, but is not gzip.") from None
        self._left -= len(inflated)
        if self._left < 0:
            raise Refusal(413, f"the body has more than {self._most} bytes when it is inflated.")
        if not unpacking.eof or unpacking.unused_data:
            raise Refusal(400, "the body is gzipped, and does not end where it should.")
        return inflated


def _unquote_header(value: bytes) -> str:
    try:
        return unquote(value.decode("latin-1"), errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "a header of the event is not percent-encoded UTF-8.") from None


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Holds what the address says about bodies."""

    output: str | None = None
    columns: tuple[str, ...] | None = None

    @classmethod
    def from_query(cls, query: dict[str, str]) -> "ColumnNames":
        unknown = query.keys() - {"output", "columns"}
        if unknown:
            raise Refusal(400, "the address has a parameter other than `output` and `columns`.")
        columns = query.get("columns")
        names = None if columns is None else tuple(columns.split(","))
        if names is not None and len(set(names)) < len(names):
            raise Refusal(400, "a column is named twice in the address.")
        return cls(query.get("output"), names)


def make_decisions(
    rule: Rule,
    limits: Limits,
    request: tuple[CloudEvent, PredictionRows],
    response: tuple[CloudEvent, PredictionRows],
    names: ColumnNames,
) -> list[Decision]:
    """Make all decisions of a pair with equally many rows; Refusal if one does not fit the rule."""
    (asked, inputs), (answered, outputs) = request, response
    table = rule.features is not None
    xs = _list_rows(inputs, names) if table else _list_vectors(rule, inputs)
    zs = _list_outputs(rule, limits, outputs, names)
    model = outputs.model or ":".join(filter(None, (answered.service, answered.endpoint))) or None
    when = answered.time if answered.time is not None else asked.time
    time = None if limits.skew_seconds == 0 else check_time(limits, when)
    decisions = []
    for place, row in enumerate(zip(xs, zs, strict=True)):
        x, z = row
        if table and isinstance(z, dict):
            if z.keys() & x.keys():
                raise Refusal(422, "a column is in the request and in the response.")
            x, z = x | z, FROM_ROW
        key = f"{answered.id}/{place}"
        check_lengths(limits, z, key, model)
        decisions.append(Decision(x, z, key, time, model))
    return decisions


def _list_vectors(rule: Rule, inputs: PredictionRows) -> Iterable[Any]:
    if inputs.values is not None:
        kinds = list if rule.embed is None else (list, str)
        if not all(isinstance(one, kinds) for one in inputs.values):
            raise Refusal(422, "the rule is about vectors: expected lists as instances.")
        return inputs.values
    arrays = list((inputs.arrays or {}).values())
    if len(arrays) > 1:
        return _numbers(_join_tensors(arrays))
    (array,) = arrays
    if array.dtype == object:  # texts, of which a rule with an embedder makes vectors
        return _list_values(array)
    return _numbers(array.reshape(-1, 1) if array.ndim == 1 else array)


def _join_tensors(arrays: list[Array]) -> Array:
    """Join tensors, one for each coordinate, side by side."""
    if any(array.size != len(array) or array.dtype == object for array in arrays):
        raise Refusal(422, "there are several tensors: expected one number of each for a decision.")
    return np.column_stack([array.reshape(len(array)) for array in arrays])


def _numbers(array: Array) -> Array:
    return array.astype(np.uint8) if array.dtype == np.bool_ else array


def _list_rows(inputs: PredictionRows, names: ColumnNames) -> list[Any]:
    if inputs.arrays is not None:
        arrays = inputs.arrays
        if names.columns is None or len(arrays) > 1:
            return _join_columns(arrays)
        (array,) = arrays.values()
        rows = array.reshape(len(array), -1).tolist()
    else:
        rows = inputs.values or []
    if all(isinstance(one, dict) for one in rows):
        return rows
    columns = names.columns
    if columns is None or not all(
        isinstance(one, list) and len(one) == len(columns) for one in rows
    ):
        raise Refusal(
            422,
            "the rule is about a table: expected objects as instances, a tensor for each column, or"
            " lists as long as the columns that the address names (?columns=…).",
        )
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _list_outputs(
    rule: Rule, limits: Limits, outputs: PredictionRows, names: ColumnNames
) -> Iterable[Any]:
    """Yield the output of each row; for a table all outputs by name, unless one is chosen."""
    rows, takes_all = outputs.values or [], names.output is None and rule.features is not None
    if outputs.arrays is not None:
        arrays = outputs.arrays
        if takes_all and len(arrays) > 1:
            yield from _join_columns(arrays)
            return
        rows = _list_values(arrays[_choose_output(list(arrays), names)])
    for z in rows:
        if isinstance(z, dict) and takes_all:
            yield z
        else:
            one = z[_choose_output(list(z), names)] if isinstance(z, dict) else z
            yield _shape_output(rule, limits, one)


def _choose_output(outputs: list[str], names: ColumnNames) -> str:
    if names.output is None and len(outputs) == 1:
        return outputs[0]
    if names.output is None or names.output not in outputs:
        raise Refusal(
            422, "expected one output, or the name of one of them in the address (?output=…)."
        )
    return names.output


def _list_values(array: Array) -> list[Any]:
    """Return the value of each row: a list if it has several."""
    single = array.size == len(array)
    values: list[Any] = array.reshape(len(array) if single else array.shape).tolist()
    return values


def _join_columns(arrays: dict[str, Array]) -> list[dict[str, Any]]:
    """Return rows with the value of each tensor, by its name."""
    rows = zip(*map(_list_values, arrays.values()), strict=True)
    return [dict(zip(arrays, row, strict=True)) for row in rows]


def _shape_output(rule: Rule, limits: Limits, z: Any) -> Any:
    """Convert an output to the rule's kind of output."""
    if z is None or isinstance(z, dict):
        raise Refusal(422, "a row of the response has no output.")
    if rule.output == "probabilities" and not isinstance(z, list):
        return [z]
    if rule.output == "label" and isinstance(z, list):
        label = _to_tuples(z)
        if len(repr(label)) > limits.label_bytes:
            raise Refusal(413, f"the output has more than {limits.label_bytes} bytes.")
        return label
    return z


def _to_tuples(value: Any) -> Any:
    """Convert lists to tuples, at every depth; tensors and msgspec bound the depth."""
    if isinstance(value, dict):
        raise Refusal(422, "an output has an object inside.")
    return tuple(map(_to_tuples, value)) if isinstance(value, list) else value
