"""`likewise head`: the end of a ledger's chain, to be kept elsewhere; signed, stamped if asked."""

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options as o


def head(
    ledger: o.LedgerFolder,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it to a file, too.")
    ] = None,
    sign: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Sign that file with a key of OpenSSH's: FILE.sig."),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Have a service (RFC 3161) stamp it with the time: FILE.tsr."
        ),
    ] = None,
    json: o.Json = False,
) -> int:
    """Print the head of a ledger: whoever keeps it can check later that nothing has changed."""
    from likewise.cli.exit_codes import FINE, CommandError
    from likewise.cli.open_ledger import open_for_reading
    from likewise.cli.terminal import print_result
    from likewise.ledger import heads

    if out is None and (sign is not None or timestamp is not None):
        raise CommandError(
            "a signature or a time stamp stands beside a file: say which, with --out."
        )
    with open_for_reading(ledger) as opened:
        text = str(opened.head)
    told: dict[str, Any] = {"head": text}
    if out is not None:
        out.write_text(f"{text}\n", encoding="utf-8")
        if sign is not None:
            told["signature"] = str(heads.sign(out, sign))
        if timestamp is not None:
            told["timestamp"] = str(heads.stamp(out, timestamp))
    print_result(told, text, as_json=json)
    return FINE
