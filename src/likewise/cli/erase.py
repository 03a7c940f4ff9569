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
    from likewise.cli.exit_codes import FINE, Stop
    from likewise.cli.open_ledger import look, row_of
    from likewise.cli.terminal import print_json, say, say_aside
    from likewise.monitor import opening

    if not key and not row:
        raise Stop("which decisions? Give --key, or --row.")
    with look(ledger) as opened:
        rows = sorted({*(row_of(opened, None, one) for one in key), *row})
    if not yes:
        _ask(f"{len(rows):,} decision{'s' * (len(rows) != 1)} from {ledger}")
    keeping = opening.Keeping(check=False)
    with opening.open_ledger(ledger, None, keeping, as_it_is=True, models=False) as monitor:
        erased: Any = monitor.erase(rows=rows)
    if json:
        print_json({"rows": list(erased.rows), "complete": erased.complete})
    else:
        count = len(erased.rows)
        said = f"{count:,} decision{'s' if count > 1 else ''} erased"
        say(said if count else "nothing left to erase")
    if not erased.complete:
        say_aside(
            "Another process still reads an old state of the ledger: erase again when it is done."
        )
    return FINE


def _ask(what: str) -> None:
    """Raise Stop unless someone at the terminal says yes."""
    from likewise.cli.exit_codes import INTERRUPTED, Stop
    from likewise.cli.terminal import is_answered_yes

    if not sys.stdin.isatty():
        raise Stop(
            f"erasing {what} cannot be undone, and there is no terminal to ask at. Nothing was"
            " erased: to erase without being asked, say --yes."
        )
    if not is_answered_yes(f"Erase {what}, for ever?"):
        raise Stop("nothing was erased.", INTERRUPTED)
