"""Format 1: every decision is a link, hashed together with its verdict and all that came before.

A decision's values are hashed with 16 random bytes, its salt, into a commitment; the commitment and
the verdict are hashed with the link before into the next link. docs/ledger-format-1.md writes down
every byte of this.

Cost: two hashes for each decision; that of the link takes a call each, since it has the one before.
"""

from collections.abc import Sequence

import numpy as np

from likewise.ledger.hashes import (
    Bytes,
    digest_each,
    digest_texts,
    key_bytes,
    rows_as_bytes,
    sha256,
)
from likewise.ledger.stored_witnesses import Kept
from likewise.values.keys import Key
from likewise.values.verdicts import Floats, Rows

_DECISION = np.dtype(
    [
        ("sort", "S1"),
        ("row", "<u8"),
        ("time", "<i8"),
        ("commitment", "V32"),
        ("first", "<u8"),
        ("count", "<u8"),  # NOT_JUDGED becomes 2**64 - 1
    ]
)


def commitments(salts: Bytes, outputs: Floats, inputs: Bytes, keys: Sequence[Key] | None) -> bytes:
    """One for each row, joined: of salt, output, input, then the key."""
    given = np.ascontiguousarray(outputs, "<f8").view(np.uint8).reshape(len(salts), -1)
    if keys is None:
        return digest_each(salts, given, inputs)
    messages = rows_as_bytes(np.concatenate([salts, given, inputs], axis=1))
    keyed = zip(messages, keys, strict=True)
    return digest_texts([message + key_bytes(key) for message, key in keyed])


def links(
    before: bytes,
    first_row: int,
    times: Rows,
    committed: bytes,
    firsts: Rows,
    counts: Rows,
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
    messages["count"] = counts.astype(np.uint64)
    parts = rows_as_bytes(messages.view(np.uint8).reshape(len(times), -1))
    for i, kept in witnesses.as_bytes():
        parts[i] += kept
    link = before
    return b"".join([link := sha256(link + part).digest() for part in parts])
