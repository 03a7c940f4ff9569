"""`likewise erase`: destroy what a ledger knows about somebody."""

import sys
from typing import Annotated

import typer

from likewise.cli import options as o
from likewise.cli.exit_codes import FINE, INTERRUPTED, CommandError
from likewise.cli.open_ledger import find_row, open_for_reading
from likewise.cli.terminal import confirm, print_json, say, say_on_stderr


def erase(
    ledger: o.LedgerFolder,
    key: Annotated[
        list[str], typer.Option(metavar="KEY", help="The key of a decision; may be repeated.")
    ] = [],  # noqa: B006 - the parser makes a new one
    row: Annotated[
        list[int],
        typer.Option(
            metavar="ROW", help="The row of a decision, instead of a key; may be repeated."
        ),
    ] = [],  # noqa: B006
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask. Needed where there is no terminal.")
    ] = False,
    json: o.Json = False,
) -> int:
    """Erase decisions from a ledger: inputs, outputs and keys, in every file. There is no way back.

    What stays is that there was a decision, when, and its hash, so that the chain can be verified.
    """
    from likewise.monitor import opening

    if not key and not row:
        raise CommandError("which decisions? Give --key, or --row.")
    with open_for_reading(ledger) as opened:
        rows = sorted({*(find_row(opened, None, text) for text in key), *row})
    if not yes:
        _confirm_erasure(f"{len(rows):,} decision{'s' * (len(rows) != 1)} from {ledger}")
    options = opening.LedgerOptions(check=False)
    with opening.open_ledger(ledger, None, options, any_question=True, models=False) as monitor:
        erased = monitor.erase(rows=rows)
    if json:
        print_json({"rows": list(erased.rows), "complete": erased.complete})
    else:
        count = len(erased.rows)
        text = f"{count:,} decision{'s' if count > 1 else ''} erased"
        say(text if count else "nothing left to erase")
    if not erased.complete:
        say_on_stderr(
            "Another process still reads an old state of the ledger: erase again when it is done."
        )
    return FINE


def _confirm_erasure(what: str) -> None:
    """Raise CommandError unless somebody at the terminal says yes."""
    if not sys.stdin.isatty():
        raise CommandError(
            f"erasing {what} cannot be undone, and there is no terminal to ask at. Nothing was"
            " erased: to erase without being asked, say --yes."
        )
    if not confirm(f"Erase {what}, for ever?"):
        raise CommandError("nothing was erased.", INTERRUPTED)
