"""The chain: every decision and event is hashed together with all that came before.

A decision's values are hashed with 16 random bytes, its salt, into a commitment; the commitment and
the verdict are hashed with the link before into the next link. So values and salt can be erased,
and the chain still holds. docs/ledger-format.md writes down every byte of this.

Invariant: a link is a function of what the ledger says and of nothing else.
Cost: two hashes for each decision, 1.4 microseconds; that is Python's, not SHA-256's.
Not here: where any of it is stored.
"""

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from likewise.ledger.stored_witnesses import Kept
from likewise.values.keys import Key
from likewise.values.verdicts import Floats, Rows

Bytes = npt.NDArray[np.uint8]

SALT, DIGEST = 16, 32
GENESIS = bytes(DIGEST)
"""What comes before the first link."""
NOT_JUDGED = (1 << 64) - 1
"""Stands for the number of witnesses of a decision that was remembered without being judged."""

_sha256 = hashlib.sha256
_ENTRY = struct.Struct("<QQq")
_WORD = struct.Struct("<QQ")
_INTEGER = struct.Struct("<q")
_DECISION = np.dtype(
    [
        ("sort", "S1"),
        ("row", "<u8"),
        ("time", "<i8"),
        ("commitment", "V32"),
        ("first", "<u8"),
        ("count", "<u8"),
    ]
)


def key_bytes(key: Key) -> bytes:
    """Nothing for no key; else which type it has, and the key."""
    if key is None:
        return b""
    return b"t" + key.encode() if isinstance(key, str) else b"i" + _INTEGER.pack(key)


def commitments(salts: Bytes, outputs: Floats, inputs: Bytes, keys: Sequence[Key] | None) -> bytes:
    """One for each row, joined: of salt, output, input, then the key."""
    given = np.ascontiguousarray(outputs, "<f8").view(np.uint8).reshape(len(salts), -1)
    messages = _rows_as_bytes(np.concatenate([salts, given, inputs], axis=1))
    if keys is None:
        return b"".join([_sha256(message).digest() for message in messages])
    keyed = zip(messages, keys, strict=True)
    return b"".join([_sha256(message + key_bytes(key)).digest() for message, key in keyed])


def links(
    before: bytes,
    first_row: int,
    times: Rows,
    committed: bytes,
    firsts: Rows,
    counts: npt.NDArray[np.uint64],
    witnesses: Kept,
) -> bytes:
    """The link after each of a run of decisions, joined.

    firsts      the first row that each was compared with
    counts      its witnesses, or NOT_JUDGED
    witnesses   those that are kept
    """
    messages = np.zeros(len(times), _DECISION)
    messages["sort"] = b"D"
    messages["row"] = np.arange(first_row, first_row + len(times))
    messages["time"] = times
    messages["commitment"] = np.frombuffer(committed, "V32")
    messages["first"] = firsts
    messages["count"] = counts
    parts = _rows_as_bytes(messages.view(np.uint8).reshape(len(times), -1))
    for i, kept in witnesses.as_bytes():
        parts[i] += kept
    link = before
    return b"".join([link := _sha256(link + part).digest() for part in parts])


def event_link(before: bytes, number: int, at_row: int, time: int, kind: str, body: str) -> bytes:
    head = _ENTRY.pack(number, at_row, time)
    return _sha256(before + b"E" + head + kind.encode() + b"\0" + body.encode()).digest()


def word_commitment(salt: bytes, value: str) -> bytes:
    return _sha256(salt + value.encode()).digest()


def word_link(before: bytes, number: int, column: str, code: int, commitment: bytes) -> bytes:
    """Words have a chain of their own; events say how far it has come."""
    head = b"W" + _WORD.pack(number, code)
    return _sha256(before + head + commitment + column.encode()).digest()


def _rows_as_bytes(rows: Bytes) -> list[bytes]:
    rows = np.ascontiguousarray(rows)
    listed: list[bytes] = rows.view(f"V{rows.shape[1]}").reshape(-1).tolist()
    return listed


def digests(joined: bytes) -> Bytes:
    """Joined commitments or links, one in each row."""
    return np.frombuffer(joined, np.uint8).reshape(-1, DIGEST)
