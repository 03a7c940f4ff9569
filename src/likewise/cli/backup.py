"""`likewise backup` and `likewise restore`: a copy of a ledger, and a ledger made of a copy."""

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options as o


def backup(
    ledger: o.LedgerFolder,
    to: Annotated[Path, typer.Argument(metavar="DEST", help="The folder of the copy.")],
    json: o.Json = False,
) -> int:
    """Copy a ledger while it is written: consistent, verified, and again only what has changed."""
    from likewise.cli.open_ledger import open_for_reading
    from likewise.ledger.backups import back_up

    open_for_reading(ledger).close()  # what is wrong with the folder is told in our words
    return _print_backup(back_up(ledger, to), json)


def restore(
    copy: Annotated[Path, typer.Argument(metavar="BACKUP", help="The folder of a copy.")],
    to: Annotated[Path, typer.Argument(metavar="LEDGER", help="A new folder.")],
    json: o.Json = False,
) -> int:
    """Make a ledger of a copy, verified."""
    from likewise.cli.open_ledger import open_for_reading
    from likewise.ledger.backups import restore as make

    open_for_reading(copy).close()
    return _print_backup(make(copy, to), json)


def _print_backup(done: Any, json: bool) -> int:
    from likewise.cli.exit_codes import FINE
    from likewise.cli.terminal import print_result

    told = {"rows": done.rows, "copied": done.copied, "kept": done.kept, "head": done.head}
    print_result(told, str(done), as_json=json)
    return FINE
