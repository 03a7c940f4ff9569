"""Reads the CloudEvents of an HTTP request: binary, structured and batch mode, gzipped or not.

Only what is needed to pair events is read; the body of a prediction stays bytes. A body that begins
with 1f 8b is inflated whatever its headers say: Knative may remove the header Content-Encoding and
leave the body compressed.
Bound: the body of a request and those of its events inflate to `Limits.body_bytes` in all.
"""

import base64
import binascii
import zlib
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from likewise.service.content_types import decode_leniently
from likewise.service.http_errors import Refusal
from likewise.service.settings import Limits

_GZIP = b"\x1f\x8b"
_KINDS = {".inference.request": "request", ".inference.response": "response"}
_PLACE_DIGITS = 8  # of a key: a slash and the place of a decision in its prediction


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
            422,
            "the event's type is neither org.kubeflow.serving.inference.request nor .response.",
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
