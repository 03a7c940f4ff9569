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
    from likewise.cli.open_ledger import look
    from likewise.ledger.backups import back_up

    look(ledger).close()  # what is wrong with the folder is told in our words
    return _told(back_up(ledger, to), json)


def restore(
    copy: Annotated[Path, typer.Argument(metavar="BACKUP", help="The folder of a copy.")],
    to: Annotated[Path, typer.Argument(metavar="LEDGER", help="A new folder.")],
    json: o.Json = False,
) -> int:
    """Make a ledger of a copy, verified."""
    from likewise.cli.open_ledger import look
    from likewise.ledger.backups import restore as make

    look(copy).close()
    return _told(make(copy, to), json)


def _told(done: Any, json: bool) -> int:
    from likewise.cli.exit_codes import FINE
    from likewise.cli.terminal import print_result

    told = {"rows": done.rows, "copied": done.copied, "kept": done.kept, "head": done.head}
    print_result(told, str(done), as_json=json)
    return FINE
