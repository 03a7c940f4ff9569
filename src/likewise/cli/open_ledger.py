"""What the commands about ledgers share: opening one to look at, and finding a decision."""

from pathlib import Path

from likewise.cli.exit_codes import DATA, USAGE, CommandError
from likewise.errors import BadFile, CannotLook
from likewise.ledger.ledger import Ledger


def open_for_reading(path: Path) -> Ledger:
    """A ledger to read; another process may be writing it."""
    if not path.exists():
        raise CommandError(f"the ledger {path} is not there; expected the folder of one.", DATA)
    try:
        return Ledger(path)
    except BadFile as error:
        code = USAGE if isinstance(error, CannotLook) else DATA
        raise CommandError(f"the ledger {path}: {error}", code) from None


def find_row(ledger: Ledger, row: int | None, key: str | None) -> int:
    """The row that is meant: by its number, or by its key, as text or as a whole number."""
    if (row is None) == (key is None):
        raise CommandError("which decision? Give its ROW, or its --key.")
    if row is not None:
        return row
    assert key is not None
    for one in parse_key(key):
        found = ledger.row_of(one)
        if found is not None:
            return found
    raise CommandError(f"no decision in {ledger.path} has the key {key!r}.", DATA)


def parse_key(key: str) -> list[str | int]:
    """A key from the command line: text, or the whole number that it says."""
    whole = key.removeprefix("-").isdecimal() and str(int(key)) == key
    return [key, int(key)] if whole else [key]
