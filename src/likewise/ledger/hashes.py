"""Hash events, words and many messages. All hashes are SHA-256.

Invariant: a link is a function of what the ledger says and of nothing else.
Cost: one call of hashlib for each message, about half a microsecond if it is short.
Not here: how decisions and verdicts are hashed (format2/chain.py).
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from likewise.tables.keys import Key

Bytes = npt.NDArray[np.uint8]

SALT, DIGEST = 16, 32
GENESIS = bytes(DIGEST)
"""What comes before the first link."""

sha256 = hashlib.sha256
_ENTRY = struct.Struct("<QQq")
_WORD = struct.Struct("<QQ")
_INTEGER = struct.Struct("<q")


def key_bytes(key: Key) -> bytes:
    """Return the bytes that stand for a key's type and value; none for no key."""
    if key is None:
        return b""
    return b"t" + key.encode() if isinstance(key, str) else b"i" + _INTEGER.pack(key)


def key_digests(keys: Sequence[Key]) -> bytes:
    """Return the hashes of keys, joined; zeros for no key."""
    if set(map(type, keys)) == {str}:
        texts = map(str.encode, keys)  # type: ignore[arg-type]
        return b"".join([sha256(b"t" + text).digest() for text in texts])
    hashed = [GENESIS if key is None else sha256(key_bytes(key)).digest() for key in keys]
    return b"".join(hashed)


def event_link(
    before: bytes, number: int, at_row: int, time: int, kind: str, body: str | bytes
) -> bytes:
    """Return the link after an event; the body is text, or the digest of a run of rows."""
    content = body if isinstance(body, bytes) else body.encode()
    head = _ENTRY.pack(number, at_row, time)
    return sha256(before + b"E" + head + kind.encode() + b"\0" + content).digest()


def word_commitment(salt: bytes, value: str) -> bytes:
    return sha256(salt + value.encode()).digest()


def word_link(before: bytes, number: int, column: str, code: int, commitment: bytes) -> bytes:
    """Return the link after a word; words have a chain of their own, and events name its end."""
    head = b"W" + _WORD.pack(number, code)
    return sha256(before + head + commitment + column.encode()).digest()


def digest_each(messages: Iterable[bytes | bytearray]) -> bytes:
    """Return the hashes of messages, joined."""
    return b"".join([sha256(message).digest() for message in messages])


def digests(joined: bytes) -> Bytes:
    """Return joined hashes as an array with one in each row."""
    return np.frombuffer(joined, np.uint8).reshape(-1, DIGEST)


def find_differing(one: bytes, other: bytes) -> list[int]:
    """Return the places at which two runs of joined hashes differ."""
    if one == other:
        return []
    rows: list[int] = np.flatnonzero((digests(one) != digests(other)).any(axis=1)).tolist()
    return rows
