"""`likewise verify`: is a ledger as it was written?"""

import re
import time
from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options as o


def verify(
    ledger: o.LedgerFolder,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="HEAD",
            help="A head that was kept elsewhere, or a file with it: it must be on the chain.",
        ),
    ] = None,
    signers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Whose signatures count (ssh-keygen's allowed signers): --head must be signed.",
        ),
    ] = None,
    signer: Annotated[
        str, typer.Option(metavar="NAME", help="Which of them has signed.")
    ] = "likewise",
    authority: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Certificates of a time-stamping service: --head must be stamped."
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help='Verify again and again: "1h", "30 minutes". Ends at the first'
            " alteration. Each time, the head of the time before must be on the chain.",
        ),
    ] = None,
    json: o.Json = False,
) -> int:
    """Walk a ledger's chain of hashes, and name the first row that is not as it was written.

    Exit codes: 0 intact, 3 altered, or not the chain of that head; 2 it could not be looked at.
    """
    from likewise.cli.exit_codes import FINE

    _check_head_file(head, signers, signer, authority)
    if every is None:
        return _verify_once(ledger, _read_head(head), json)[0]
    seconds, last = _parse_interval(every), _read_head(head)
    while True:
        code, last = _verify_once(ledger, last, json)
        if code != FINE:
            return code
        time.sleep(seconds)


def _check_head_file(
    head: str | None, signers: Path | None, signer: str, authority: Path | None
) -> None:
    """Raise Stop unless a head's file is signed and stamped, where that is asked for."""
    from likewise.cli.exit_codes import DATA, CommandError
    from likewise.errors import BadFile
    from likewise.ledger.heads import check_signature, check_stamp

    if signers is None and authority is None:
        return
    if head is None or head.startswith("likewise-head"):
        raise CommandError("signatures and time stamps stand beside a file: give --head FILE.")
    try:
        if signers is not None:
            check_signature(Path(head), signers, signer)
        if authority is not None:
            check_stamp(Path(head), authority)
    except BadFile as error:
        raise CommandError(f"--head {head}: {error}", DATA) from None


def _parse_interval(every: str) -> float:
    """How often, from words: "1h", "30 minutes"."""
    from likewise.cli.exit_codes import CommandError
    from likewise.tables.times import duration

    short = re.fullmatch(r"([0-9.]+) *([smhd])", every)
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    length = duration(every if short is None else f"{short[1]} {units[short[2]]}")
    if length is None or length < 1_000_000:
        raise CommandError(
            f'--every {every} is no time; expected such as "1h", "30m" or "10 minutes".'
        )
    return length / 1e6


def _verify_once(ledger: Path, head: str | None, json: bool) -> tuple[int, str | None]:
    """Verify once: how to end, and the head."""
    from likewise.cli.exit_codes import DATA, FINE
    from likewise.cli.open_ledger import open_for_reading
    from likewise.cli.terminal import print_result, progress

    with open_for_reading(ledger) as opened, progress(f"verifying {ledger}"):
        found = opened.verify(head)
    told = {
        "ok": found.ok,
        "first": found.first,
        "rows": found.rows,
        "erased": found.erased,
        "pending": found.pending,
        "events": found.events,
        "head": None if found.head is None else str(found.head),
        "bad_row": found.bad_row,
        "problem": found.problem,
    }
    print_result(told, str(found), as_json=json)
    return (FINE, str(found.head)) if found.ok else (DATA, None)


def _read_head(given: str | None) -> str | None:
    """A head as text, or from a file that holds it."""
    if given is None or given.startswith("likewise-head"):
        return given
    from likewise.cli.exit_codes import CommandError

    try:
        return Path(given).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise CommandError(
            f"--head {given} is neither a head nor a file with one; expected 'likewise-head 2 ROWS"
            " EVENTS HASH'."
        ) from None
