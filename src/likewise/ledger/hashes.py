"""The hashes of a ledger: events, words, keys, and many messages at once. All SHA-256.

Invariant: a link is a function of what the ledger says and of nothing else.
Cost: a call of hashlib where messages are few or long; else a kernel, and a copy of all of them.
Not here: how decisions and verdicts are hashed (format2/chain.py).
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.values.keys import Key
from likewise.values.verdicts import Rows

Bytes = npt.NDArray[np.uint8]

SALT, DIGEST = 16, 32
GENESIS = bytes(DIGEST)
"""What comes before the first link."""

sha256 = hashlib.sha256
_ENTRY = struct.Struct("<QQq")
_WORD = struct.Struct("<QQ")
_INTEGER = struct.Struct("<q")
_MANY, _SHORT = 16, 1024  # messages, and bytes of each: there a kernel is faster than calls
_BLOCK, _END = 64, 9  # bytes: SHA-256 takes blocks, and adds so many to a message at least


def key_bytes(key: Key) -> bytes:
    """Nothing for no key; else which type it has, and the key."""
    if key is None:
        return b""
    return b"t" + key.encode() if isinstance(key, str) else b"i" + _INTEGER.pack(key)


def keys_as_bytes(keys: Sequence[Key]) -> list[bytes]:
    """The same of many."""
    if set(map(type, keys)) == {str}:
        return [b"t" + text for text in map(str.encode, keys)]  # type: ignore[arg-type]
    return [key_bytes(key) for key in keys]


def event_link(
    before: bytes, number: int, at_row: int, time: int, kind: str, body: str | bytes
) -> bytes:
    """The link after an event; the body is text, or the digest of a run of rows."""
    content = body if isinstance(body, bytes) else body.encode()
    head = _ENTRY.pack(number, at_row, time)
    return sha256(before + b"E" + head + kind.encode() + b"\0" + content).digest()


def word_commitment(salt: bytes, value: str) -> bytes:
    return sha256(salt + value.encode()).digest()


def word_link(before: bytes, number: int, column: str, code: int, commitment: bytes) -> bytes:
    """Words have a chain of their own; events say how far it has come."""
    head = b"W" + _WORD.pack(number, code)
    return sha256(before + head + commitment + column.encode()).digest()


def digest_each(*columns: Bytes) -> bytes:
    """The hash of each row of some matrices of bytes side by side, joined."""
    count, length = len(columns[0]), sum(part.shape[1] for part in columns)
    kernel = None if count < _MANY or length > _SHORT else _kernel()
    if kernel is None:
        return _digest_one_by_one(rows_as_bytes(np.concatenate(columns, axis=1)))
    blocks = (length + _END + _BLOCK - 1) // _BLOCK
    messages = np.zeros((count, blocks * _BLOCK), np.uint8)
    at = 0
    for part in columns:
        messages[:, at : at + part.shape[1]] = part
        at += part.shape[1]
    messages[:, length] = 0x80
    messages[:, -8:] = np.frombuffer((8 * length).to_bytes(8, "big"), np.uint8)
    return kernel(messages, blocks).tobytes()


def _digest_one_by_one(messages: Iterable[bytes | memoryview]) -> bytes:
    return b"".join([sha256(message).digest() for message in messages])


@cache
def _kernel() -> Callable[[Bytes, int], Bytes] | None:
    """What hashes messages that were laid out in blocks; None where nothing can compile it.

    Loaded when it is first wanted: who only looks at a ledger, or asks a service, has no kernels.
    """
    try:
        from likewise.kernels.compile import address_of
        from likewise.kernels.sha256 import ROOM, digest_rows
    except ImportError:
        return None

    def digest(messages: Bytes, blocks: int) -> Bytes:
        digested = np.empty((len(messages), DIGEST), np.uint8)
        room = np.empty(ROOM, np.uint32)
        digest_rows(
            address_of(messages), len(messages), blocks, address_of(digested), address_of(room)
        )
        return digested

    return digest


def digest_spans(items: npt.NDArray[Any], starts: Rows, sizes: Rows) -> bytes:
    """The hash of each of some spans of an array, joined; those of one size are hashed together."""
    digested = np.empty((len(starts), DIGEST), np.uint8)
    data = items.view(np.uint8).data
    for size in np.unique(sizes).tolist():
        some = np.flatnonzero(sizes == size)
        width = size * items.itemsize
        if len(some) < _MANY or width > _SHORT:
            begins = (starts[some] * items.itemsize).tolist()
            joined = _digest_one_by_one(data[begin : begin + width] for begin in begins)
        else:
            spans = items[starts[some][:, None] + np.arange(size)].view(np.uint8)
            joined = digest_each(spans.reshape(len(some), width))
        digested[some] = digests(joined)
    return digested.tobytes()


def digest_texts(texts: Sequence[bytes]) -> bytes:
    """The hash of each, joined."""
    if len(texts) < _MANY:
        return _digest_one_by_one(texts)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    joined = np.frombuffer(b"".join(texts), np.uint8)
    return digest_spans(joined, np.cumsum(sizes) - sizes, sizes)


def rows_as_bytes(rows: Bytes) -> list[bytes]:
    if rows.shape[1] == 0:
        return [b""] * len(rows)
    rows = np.ascontiguousarray(rows)
    listed: list[bytes] = rows.view(f"V{rows.shape[1]}").reshape(-1).tolist()
    return listed


def digests(joined: bytes) -> Bytes:
    """Joined hashes, one in each row."""
    return np.frombuffer(joined, np.uint8).reshape(-1, DIGEST)


def differing(made: bytes, known: bytes) -> list[int]:
    """Which of two runs of joined hashes differ."""
    if made == known:
        return []
    differ = (digests(made) != digests(known)).any(axis=1)
    return [int(i) for i in np.flatnonzero(differ)]
