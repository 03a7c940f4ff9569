"""`likewise erase`: what a ledger knows of someone, destroyed."""

import sys
from typing import Annotated, Any

import typer

from likewise.cli import options as o


def erase(
    ledger: o.LedgerFolder,
    key: Annotated[
        list[str], typer.Option(metavar="KEY", help="The key of a decision; may be repeated.")
    ] = [],  # noqa: B006 - the parser makes a new one
    row: Annotated[
        list[int], typer.Option(metavar="ROW", help="The row of one, instead; may be repeated.")
    ] = [],  # noqa: B006
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask. Needed where there is no terminal.")
    ] = False,
    json: o.Json = False,
) -> int:
    """Erase decisions from a ledger: inputs, outputs and keys, in every file. There is no way back.

    What stays is that there was a decision, when, and its hash, so that the chain still holds.
    """
    from likewise.cli.exit_codes import FINE, CommandError
    from likewise.cli.open_ledger import find_row, open_for_reading
    from likewise.cli.terminal import print_json, say, say_on_stderr
    from likewise.monitor import opening

    if not key and not row:
        raise CommandError("which decisions? Give --key, or --row.")
    with open_for_reading(ledger) as opened:
        rows = sorted({*(find_row(opened, None, one) for one in key), *row})
    if not yes:
        _confirm_erasure(f"{len(rows):,} decision{'s' * (len(rows) != 1)} from {ledger}")
    keeping = opening.LedgerOptions(check=False)
    with opening.open_ledger(ledger, None, keeping, any_question=True, models=False) as monitor:
        erased: Any = monitor.erase(rows=rows)
    if json:
        print_json({"rows": list(erased.rows), "complete": erased.complete})
    else:
        count = len(erased.rows)
        said = f"{count:,} decision{'s' if count > 1 else ''} erased"
        say(said if count else "nothing left to erase")
    if not erased.complete:
        say_on_stderr(
            "Another process still reads an old state of the ledger: erase again when it is done."
        )
    return FINE


def _confirm_erasure(what: str) -> None:
    """Raise Stop unless someone at the terminal says yes."""
    from likewise.cli.exit_codes import INTERRUPTED, CommandError
    from likewise.cli.terminal import confirm

    if not sys.stdin.isatty():
        raise CommandError(
            f"erasing {what} cannot be undone, and there is no terminal to ask at. Nothing was"
            " erased: to erase without being asked, say --yes."
        )
    if not confirm(f"Erase {what}, for ever?"):
        raise CommandError("nothing was erased.", INTERRUPTED)
