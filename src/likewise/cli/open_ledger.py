"""Commands about ledgers share these: opening one to read, and finding a decision in it."""

from pathlib import Path
from typing import TYPE_CHECKING

from likewise.cli.exit_codes import DATA, USAGE, CommandError
from likewise.errors import BadFile, CannotRead

if TYPE_CHECKING:
    from likewise.ledger.ledger import Ledger


def open_for_reading(path: Path) -> "Ledger":
    """Open a ledger to read it; another process may be writing it."""
    from likewise.ledger.ledger import Ledger

    if not path.exists():
        raise CommandError(f"the ledger {path} does not exist; expected the folder of one.", DATA)
    try:
        return Ledger(path)
    except BadFile as error:
        code = USAGE if isinstance(error, CannotRead) else DATA
        raise CommandError(f"the ledger {path}: {error}", code) from None


def find_row(ledger: "Ledger", row: int | None, key: str | None) -> int:
    """Return the row given by its number, or by its key as text or as a whole number."""
    if (row is None) == (key is None):
        raise CommandError("which decision? Give its ROW, or its --key.")
    if row is not None:
        return row
    assert key is not None
    row = ledger.row_of(key)
    if row is None and key.removeprefix("-").isdecimal() and str(int(key)) == key:
        row = ledger.row_of(int(key))
    if row is None:
        raise CommandError(f"no decision in {ledger.path} has the key {key!r}.", DATA)
    return row
