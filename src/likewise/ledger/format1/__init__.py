"""Format 1, as the first version of likewise wrote it: read, verified and gone on with."""

from likewise.ledger.format1.reading import (
    EVENTS,
    decisions,
    erased_keys,
    flagged,
    has_keys,
    record_type,
    row_of,
    runs_since,
    state,
)
from likewise.ledger.format1.walk import walk
from likewise.ledger.format1.writing import (
    ERASED_FIELDS,
    KEEPS_MODELS,
    add_event,
    add_note,
    anchor,
    anchored,
    append,
    drop,
    erase,
    first_body,
    judge,
)

VERSION = 1

__all__ = [
    "ERASED_FIELDS",
    "EVENTS",
    "KEEPS_MODELS",
    "VERSION",
    "add_event",
    "add_note",
    "anchor",
    "anchored",
    "append",
    "decisions",
    "drop",
    "erase",
    "erased_keys",
    "first_body",
    "flagged",
    "has_keys",
    "judge",
    "record_type",
    "row_of",
    "runs_since",
    "state",
    "walk",
]
