"""New ledgers in an older format that is still written, so that its proofs go on being made."""

from collections.abc import Iterator
from contextlib import contextmanager

from likewise.ledger import folder, founding

VERSIONS = (1, 2)


@contextmanager
def new_ledgers_in(version: int) -> Iterator[None]:
    """Ledgers that are begun in here have that format; no others are to be opened meanwhile."""
    newest = founding.FORMAT
    founding.FORMAT = folder.FORMAT = version
    try:
        yield
    finally:
        founding.FORMAT = folder.FORMAT = newest
