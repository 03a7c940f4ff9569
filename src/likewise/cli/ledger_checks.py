"""`likewise verify`, `head` and `replay` check that a ledger is as it was written.

`verify` walks the chain of hashes, `head` prints its end to be kept elsewhere, signed and
time-stamped if asked, and `replay` computes every verdict again.
"""

import re
import time
from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options as o
from likewise.cli.exit_codes import DATA, FINE, CommandError
from likewise.cli.open_ledger import open_for_reading
from likewise.cli.terminal import print_fields, print_result, progress

_VERIFY_FIELDS = (
    "ok",
    "first",
    "rows",
    "erased",
    "pending",
    "events",
    "head",
    "bad_row",
    "problem",
)


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
            help="Trusted signers (ssh-keygen's allowed signers): --head must be signed.",
        ),
    ] = None,
    signer: Annotated[
        str, typer.Option(metavar="NAME", help="Which of them must have signed.")
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

    Exit codes: 0 intact, 3 altered, or not the chain of that head; 2 it could not be read.
    """
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
    """Raise CommandError unless a head's file has the signature and time stamp asked for."""
    from likewise.errors import BadFile
    from likewise.ledger.heads import check_signature, check_stamp

    if signers is None and authority is None:
        return
    if head is None or head.startswith("likewise-head"):
        raise CommandError(
            "signatures and time stamps are files beside that of the head: give --head FILE."
        )
    try:
        if signers is not None:
            check_signature(Path(head), signers, signer)
        if authority is not None:
            check_stamp(Path(head), authority)
    except BadFile as error:
        raise CommandError(f"--head {head}: {error}", DATA) from None


def _parse_interval(every: str) -> float:
    """Return seconds from words: "1h", "30 minutes"."""
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
    """Verify once; return the exit code and the head."""
    with open_for_reading(ledger) as opened, progress(f"verifying {ledger}"):
        result = opened.verify(head)
    print_fields(result, *_VERIFY_FIELDS, as_json=json)
    return (FINE, str(result.head)) if result.ok else (DATA, None)


def _read_head(head: str | None) -> str | None:
    """Return a head that is given as text or as the file that holds it."""
    if head is None or head.startswith("likewise-head"):
        return head
    try:
        return Path(head).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise CommandError(
            f"--head {head} is neither a head nor a file with one; expected 'likewise-head 2 ROWS"
            " EVENTS HASH'."
        ) from None


def head(
    ledger: o.LedgerFolder,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the head to a file, too.")
    ] = None,
    sign: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Sign that file with an OpenSSH key; writes FILE.sig."),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Have a service (RFC 3161) time-stamp that file; writes FILE.tsr."
        ),
    ] = None,
    json: o.Json = False,
) -> int:
    """Print the head of a ledger: keep it elsewhere to check later that nothing has changed."""
    from likewise.ledger import heads

    if out is None and (sign is not None or timestamp is not None):
        raise CommandError(
            "a signature or a time stamp is written beside a file: say which, with --out."
        )
    with open_for_reading(ledger) as opened:
        text = str(opened.head)
    values = {"head": text}
    if out is not None:
        out.write_text(f"{text}\n", encoding="utf-8")
        if sign is not None:
            values["signature"] = str(heads.sign(out, sign))
        if timestamp is not None:
            values["timestamp"] = str(heads.stamp(out, timestamp))
    print_result(values, text, as_json=json)
    return FINE


def replay(ledger: o.LedgerFolder, json: o.Json = False) -> int:
    """Compute every verdict of a ledger again, and say where one differs.

    Exit codes: 0 all verdicts are as they were written, 3 one differs.
    """
    from likewise.monitor.replaying import replay as judge_again

    open_for_reading(ledger).close()  # reports what is wrong with the folder
    with progress(f"judging {ledger} again"):
        result = judge_again(ledger)
    values = {name: getattr(result, name) for name in ("ok", "rows", "in_part", "skipped", "row")}
    print_result({**values, "why": result.difference}, str(result), as_json=json)
    return FINE if result.ok else DATA
