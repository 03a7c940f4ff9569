"""Files of records with few rows each, so that a window drops some of them in a short test."""

from collections.abc import Iterator
from contextlib import contextmanager

from likewise.ledger import schema

ROWS = 64


@contextmanager
def small_segments() -> Iterator[int]:
    """Ledgers that are begun in here have files of so many rows."""
    before = schema.segment_rows_for
    schema.segment_rows_for = lambda size: ROWS
    try:
        yield ROWS
    finally:
        schema.segment_rows_for = before
