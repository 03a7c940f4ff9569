"""Walk a ledger's chain and compare everything in it with its hashes.

Invariant: every change after writing is found, unless every link from there to the head was
computed again; against that, keep a head elsewhere (`Head`) and compare.
Not here: the walk itself (format2/walk.py).
"""

from dataclasses import dataclass

from likewise.errors import BadFile, CannotRead
from likewise.ledger.folder import check_end, mark_of
from likewise.ledger.heads import Head
from likewise.ledger.reader import LedgerReader
from likewise.ledger.stored import REMOVING_KINDS, Altered, ChainEnd
from likewise.tables.printing import with_bounded_repr


@with_bounded_repr
@dataclass(frozen=True)
class Verification:
    """The result of a walk along the chain."""

    first_row: int
    """The first row that is still there."""
    rows: int
    erased: int
    events: int
    head: Head | None
    """The end of the chain; None if the walk did not come that far."""
    bad_row: int | None = None
    """The first row that is not as it was written; None also if something else is wrong."""
    problem: str | None = None
    pending: int = 0
    """Decisions that were accepted and are not judged yet."""

    @property
    def ok(self) -> bool:
        return self.problem is None

    def __str__(self) -> str:
        if not self.ok:
            return f"not verified: {self.problem}"
        erased = f", {self.erased:,} of them erased" if self.erased else ""
        pending = f", {self.pending:,} of them not judged yet" if self.pending else ""
        since = f" since row {self.first_row:,}" if self.first_row else ""
        return (
            f"intact: {self.rows - self.first_row:,} decisions{since}{erased}{pending},"
            f" {self.events:,} events; {self.head}"
        )


def verify(reader: LedgerReader, head: Head | None = None, *, values: bool = True) -> Verification:
    """Walk the whole chain; a head, if given, must be on it.

    Raise CannotRead if the system does not let us read the files: that proves nothing.

    A writer may continue meanwhile. The database is read as it is at one moment, but records are
    overwritten by erasure and deleted when they leave the window. So if something seems wrong and
    rows were removed since, the walk is repeated.
    """
    while True:
        mark = mark_of(reader.path)
        with reader.snapshot():
            verification = _verify(reader, head, mark, values)
            removal = _last_removal(reader)
        if verification.ok or removal is None or removal == _last_removal(reader):
            return verification


def _last_removal(reader: LedgerReader) -> int | None:
    """Return the number of the last event that removed rows; None if that cannot be read."""
    try:
        return max(
            (event.number for event in reader.events() if event.kind in REMOVING_KINDS), default=-1
        )
    except CannotRead:
        raise
    except BadFile:
        return None


def blame_alteration(reader: LedgerReader, error: BaseException) -> None:
    """Raise Altered if an error happened because the ledger was altered.

    What is read from an altered ledger may be refused for any reason, such as a bad rule.
    """
    if isinstance(error, Exception) and not isinstance(error, BadFile):
        verification = verify(reader)
        if verification.problem is not None:
            raise Altered(verification.bad_row, verification.problem) from None


def _verify(
    reader: LedgerReader, given: Head | None, mark: ChainEnd | None, values: bool
) -> Verification:
    walk = reader.format.walk(reader, given, values)
    bad_row: int | None = None
    problem: str | None = None
    try:
        with reader.structure_checked(every_index=True):
            reader.check_schema()
            if mark is not None:
                check_end(reader.path, mark, reader.state().end)
            if given is not None and given.version != reader.format.VERSION:
                raise Altered(
                    None,
                    f"the head given ({given}) is of format {given.version}, and this ledger has"
                    f" format {reader.format.VERSION}",
                )
            for _ in walk.chunks():
                pass
    except CannotRead:
        raise  # which says nothing about the ledger
    except Altered as error:
        bad_row, problem = error.row, error.problem
    except BadFile as error:
        problem = str(error)
    head = None
    if walk.end is not None:
        head = Head(walk.end.rows, walk.end.events, walk.end.link, reader.format.VERSION)
    return Verification(
        walk.first,
        walk.rows,
        walk.erased,
        walk.events,
        head,
        bad_row,
        problem,
        walk.rows - walk.judged if problem is None else 0,
    )
