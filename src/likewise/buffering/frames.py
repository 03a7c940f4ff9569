"""A decision as bytes, and back: JSON for what is plain, NumPy's bytes for arrays, a checksum.

A frame is a head (mark, length, number, CRC-32 of the number and all that follows) and a body. The
body is the length of its JSON, the JSON, and the bytes of arrays that it refers to. In the JSON a
list says first what it stands for, so that nothing a user sends can be taken for something else:

    ["list", …], ["tuple", …]               themselves
    ["array", type, shape, start, stop, …]  bytes of the body; then the names of columns, if any
    ["word", text]                          a date, a decimal number and the like, as a ledger
                                            keeps them (ledger/words.py)

Invariant: what `decision_of` gives back is what `body_of` was given, arrays to the last bit. What
cannot be written so is refused; nothing is ever pickled.
"""

import json
import struct
import zlib
from typing import Any

import numpy as np

from likewise.buffering.decisions import SubmittedDecision
from likewise.ledger import words
from likewise.reading.protocol import FROM_ROW
from likewise.values.errors import BadDecision, BadFile, UnexpectedValue
from likewise.values.named_array import NamedArray, names_of, with_names

_HEAD = struct.Struct("<4sIQI")
_MARK = b"lwf1"
_JSON = struct.Struct("<I")
_PLAIN = {bool, int, float, str, type(None)}
_ARRAYS = "fiubcSUmM"  # kinds of NumPy's types whose bytes are the whole of them
_ARRAY_TYPES = (np.ndarray, NamedArray)
HEAD_BYTES = _HEAD.size


def check(decision: SubmittedDecision) -> None:
    """Raise BadDecision if a decision cannot be written."""
    for name, value in zip(("input", "output", "key"), decision[:3], strict=True):
        if value is not FROM_ROW:
            _check(value, f"the {name}")
    _check(decision.model, "the model")


def _check(value: Any, what: str) -> None:
    kind = type(value)
    if kind in _PLAIN:
        return
    if kind in _ARRAY_TYPES and value.dtype.kind in _ARRAYS:
        return
    if kind is list or kind is tuple:
        for one in value:
            _check(one, f"a part of {what}")
        return
    if kind is dict and all(type(name) is str for name in value):
        for name, one in value.items():
            _check(one, f"{name!r} of {what}")
        return
    try:
        words.written(value, what)
    except BadDecision:
        raise UnexpectedValue(
            f"{what} is of type {kind.__name__}, which cannot be written to a spill folder;"
            " expected numbers, text, dates, arrays of these, or lists and dictionaries with"
            " text for keys.",
            advice='Send such values, or choose another when_full than "spill".',
        ) from None


def frame(number: int, decision: SubmittedDecision) -> bytes:
    """A decision that `check` lets pass, with its number."""
    return framed(number, body_of(decision))


def framed(number: int, body: bytes) -> bytes:
    """A body behind its head."""
    return _HEAD.pack(_MARK, len(body), number, _checksum(number, body)) + body


def next_frame(data: bytes, start: int) -> tuple[int, bytes, int] | None:
    """Number and body of the frame at `start`, and where the next begins; None if none is whole."""
    if len(data) - start < HEAD_BYTES:
        return None
    mark, length, number, checksum = _HEAD.unpack_from(data, start)
    stop = start + HEAD_BYTES + length
    if mark != _MARK or stop > len(data):
        return None
    body = data[start + HEAD_BYTES : stop]
    return (number, body, stop) if checksum == _checksum(number, body) else None


def length_of(head: bytes) -> int | None:
    """How long a whole frame is that begins with this head; None if it is none."""
    if len(head) < HEAD_BYTES:
        return None
    mark, length, _, _ = _HEAD.unpack_from(head)
    return HEAD_BYTES + length if mark == _MARK else None


def _checksum(number: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(number.to_bytes(8, "little")))


# Bodies


def body_of(decision: SubmittedDecision) -> bytes:
    pieces: list[bytes] = []
    told = {"x": _written(decision.x, pieces), "submitted": decision.submitted}
    if decision.z is not FROM_ROW:  # which None may be
        told["z"] = _written(decision.z, pieces)
    for name in ("key", "time", "model"):
        value = getattr(decision, name)
        if value is not None:
            told[name] = _written(value, pieces)
    text = json.dumps(told, separators=(",", ":")).encode()
    return b"".join([_JSON.pack(len(text)), text, *pieces])


def _written(value: Any, pieces: list[bytes]) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in _ARRAY_TYPES:
        where = _put(value.tobytes(), pieces)
        return ["array", value.dtype.str, list(value.shape), *where, *names_of(value)]
    if kind is dict:
        return {name: _written(one, pieces) for name, one in value.items()}
    if kind is list or kind is tuple:
        return [kind.__name__, *(_written(one, pieces) for one in value)]
    return ["word", words.written(value, "a value")]


def _put(data: bytes, pieces: list[bytes]) -> tuple[int, int]:
    start = sum(map(len, pieces))
    pieces.append(data)
    return start, start + len(data)


def decision_of(body: bytes) -> SubmittedDecision:
    """The decision in a body; raise BadFile if it makes no sense."""
    try:
        (length,) = _JSON.unpack_from(body)
        start = _JSON.size + length
        told = json.loads(body[_JSON.size : start])
        values = {name: _read(value, body[start:]) for name, value in told.items()}
        return SubmittedDecision(
            x=values["x"],
            z=values.get("z", FROM_ROW),
            key=values.get("key"),
            time=values.get("time"),
            submitted=values["submitted"],
            model=values.get("model"),
        )
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise BadFile(f"a spilled decision makes no sense: {error}.") from None


def _read(value: Any, pieces: bytes) -> Any:
    if isinstance(value, dict):
        return {name: _read(one, pieces) for name, one in value.items()}
    if not isinstance(value, list):
        return value
    kind, *rest = value
    if kind == "array":
        dtype, shape, start, stop, *names = rest
        array = np.frombuffer(pieces[start:stop], np.dtype(dtype)).reshape(shape).copy()
        return with_names(array, tuple(names))
    if kind == "word":
        return words.read(rest[0])
    several = [_read(one, pieces) for one in rest]
    return tuple(several) if kind == "tuple" else several
