"""Implement format 2: decisions are accepted, then judged; the chain consists of runs of rows."""

from likewise.ledger.format2.chain import record_type
from likewise.ledger.format2.reading import (
    EVENTS,
    decisions,
    erased_keys,
    find_flagged,
    has_keys,
    key_marks,
    row_of,
    runs_since,
    state,
)
from likewise.ledger.format2.walk import walk
from likewise.ledger.format2.writing import (
    ERASED_FIELDS,
    add_event,
    add_note,
    anchor,
    anchor_fields,
    append,
    drop,
    erase,
    first_body,
    judge,
)

VERSION = 2

__all__ = [
    "ERASED_FIELDS",
    "EVENTS",
    "VERSION",
    "add_event",
    "add_note",
    "anchor",
    "anchor_fields",
    "append",
    "decisions",
    "drop",
    "erase",
    "erased_keys",
    "find_flagged",
    "first_body",
    "has_keys",
    "judge",
    "key_marks",
    "record_type",
    "row_of",
    "runs_since",
    "state",
    "walk",
]
