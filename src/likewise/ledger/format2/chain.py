"""Hash format 2: a run of decisions is an event of the chain, and so is the run of their verdicts.

Invariant: a row is proved by its values, its salt and the arrays of its run, which reveal nothing
about other rows' values.
Cost: one hash for each row, one for each verdict with witnesses, two for each run.
Not here: every byte of this, in words (docs/ledger-format.md).
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.ledger.hashes import (
    DIGEST,
    SALT,
    Bytes,
    digest_each,
    digests,
    key_bytes,
    key_digests,
    sha256,
)
from likewise.ledger.verdict_facts import FACTS
from likewise.tables.array_types import Floats, Rows
from likewise.tables.keys import Key

# A decision's values are hashed with 16 random bytes, its salt, into a commitment. The distances of
# a verdict with witnesses are hashed with a salt of their own into another. The rest of a run is
# arrays of numbers and commitments, and one hash over them is the body of an event. So values, and
# distances from which values could be computed, can be destroyed together with their salts, and the
# chain still holds. A run names the witnesses of a verdict in order of their rows: their order by
# distance follows from the distances, and is destroyed with them.

DECISION = np.dtype(
    [
        ("commitment", "u1", DIGEST),
        ("time", "<i8"),
        ("position", "<u8", 2),
        ("source", "<i4"),
        ("model", "<i4"),
    ]
)
VERDICT = np.dtype([("first", "<i8"), ("count", "<i8"), ("facts", FACTS)])
DECISIONS, VERDICTS, JUDGED = "decisions", "verdicts", "judged"
"""The kinds of events that stand for runs of rows: accepted, judged later, and both at once."""
SECRET = "key_secret"
"""The field of the first event's body that marks of erased keys are made with."""
_RUN = struct.Struct("<QQ")
_PAIR = np.dtype([("row", "<i8"), ("witness", "<i8")])
PAIR_BYTES = _PAIR.itemsize

Records = npt.NDArray[Any]


def record_type(outputs: int, input_bytes: int) -> np.dtype[Any]:
    """Return the type of one record: a whole decision with its verdict."""
    return np.dtype(
        [
            ("salt", "u1", SALT),
            ("decision", DECISION),
            ("verdict", VERDICT),
            ("output", "<f8", outputs),
            ("input", "u1", input_bytes),
            ("padding", "u1", -input_bytes % 8),
        ]
    )


def commitments(salts: Bytes, outputs: Floats, inputs: Bytes, keys: Sequence[Key] | None) -> bytes:
    """Return a hash for each row, joined: of salt, the hash of the key, output and input."""
    count = len(salts)
    hashed_keys = digests(bytes(DIGEST * count) if keys is None else key_digests(keys))
    numbers = np.ascontiguousarray(outputs, "<f8").view(np.uint8).reshape(count, -1)
    rows = np.ascontiguousarray(np.concatenate([salts, hashed_keys, numbers, inputs], axis=1))
    return digest_each(rows.view(f"V{rows.shape[1]}").reshape(-1).tolist())


def distance_commitment(salt: bytes, distances: bytes) -> bytes:
    return sha256(salt + distances).digest()


def run_digest(first: int, stop: int, *content: bytes | memoryview) -> bytes:
    """Return the digest of a run of rows: of its bounds, and of what was written of it."""
    digest = sha256(_RUN.pack(first, stop))
    for part in content:
        digest.update(part)
    return digest.digest()


def pack_fields(records: Records, *fields: str) -> memoryview:
    """Return adjacent parts of records, row by row: the decision, the verdict, or both."""
    kinds = records.dtype.fields
    assert kinds is not None
    start, (last, at) = kinds[fields[0]][1], kinds[fields[-1]][:2]
    whole = records.view(np.uint8).reshape(len(records), records.dtype.itemsize)
    return np.ascontiguousarray(whole[:, start : at + last.itemsize]).reshape(-1).data


def pair_bytes(owners: Rows, witnesses: Rows) -> bytes:
    """Return the rows of each stored pair, by owner, then by witness."""
    pairs = np.empty(len(owners), _PAIR)
    pairs["row"], pairs["witness"] = owners, witnesses
    return pairs.tobytes()


def key_mark(secret: bytes, key: Key) -> str:
    """Return the mark that is left of an erased key: enough to recognize it."""
    return sha256(secret + key_bytes(key)).digest()[:SALT].hex()
