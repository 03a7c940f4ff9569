"""`likewise verify`, `head` and `replay` check that a ledger is as it was written.

`verify` walks the chain of hashes, `head` prints its end to be kept elsewhere, signed and
time-stamped if asked, and `replay` computes every verdict again.
"""

import re
import sys
import time
from pathlib import Path
from typing import Any

from likewise.cli import options as o
from likewise.cli.exit_codes import DATA, FINE, INTERRUPTED, CommandError
from likewise.cli.open_ledger import find_row, open_for_reading
from likewise.cli.terminal import (
    confirm,
    print_fields,
    print_json,
    print_result,
    progress,
    say,
    say_on_stderr,
)


def erase(
    ledger: o.LedgerFolder,
    key: list[str] = o.option("The key of a decision; may be repeated.", default=[], metavar="KEY"),
    row: list[int] = o.option(
        "The row of a decision, instead of a key; may be repeated.", default=[], metavar="ROW"
    ),
    yes: bool = o.option("Do not ask. Needed where there is no terminal.", "--yes", default=False),
    json: o.Json = False,
) -> int:
    """Erase decisions from a ledger: inputs, outputs and keys, in every file. It cannot be undone.

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


# `likewise backup`, `restore` and `migrate` make a ledger of another one.
# A backup has the same rule, a migrated ledger another one. The source stays as it is, except that
# `migrate` without a new folder changes its rule, if all verdicts stay the same.


def backup(
    ledger: o.LedgerFolder,
    to: Path = o.argument("The folder of the copy.", "DEST"),
    json: o.Json = False,
) -> int:
    """Copy a ledger, also while it is written, and verify the copy. Run it again to update it."""
    from likewise.ledger.backups import back_up

    open_for_reading(ledger).close()  # reports what is wrong with the folder
    print_fields(back_up(ledger, to), as_json=json)
    return FINE


def restore(
    copy: Path = o.argument("The folder of a copy.", "BACKUP"),
    to: Path = o.argument("A new folder.", "LEDGER"),
    json: o.Json = False,
) -> int:
    """Restore a ledger from a backup, and verify it."""
    from likewise.ledger.backups import restore as restore_copy

    open_for_reading(copy).close()
    print_fields(restore_copy(copy, to), as_json=json)
    return FINE


def migrate(
    ledger: o.LedgerFolder,
    new: Path | None = o.argument(
        "The folder of the new ledger. Without it the rule of the ledger itself is changed, which"
        " is possible only if the new rule gives the same verdicts.",
        "[NEW]",
        default=None,
    ),
    rule: Path | None = o.option("The rule of the new ledger, as TOML.", metavar="FILE"),
    rename: Path | None = o.option(
        'TOML: the new names of values by column: [job] then "clerk" = "office"; those of'
        " the output under its own column, or [output].",
        metavar="FILE",
    ),
    add: list[str] = o.option(
        "A value that all past decisions have in a new column.", default=[], metavar="COLUMN=VALUE"
    ),
    json: o.Json = False,
) -> int:
    """Copy a ledger into a new one that has another rule.

    Verdicts are copied where the new rule gives the same ones, and computed again where it does
    not. The old ledger is verified first, and stays as it is.
    """
    from likewise.cli.rule_options import read_rule
    from likewise.monitor.migration import migrate as migrate_ledger

    with open_for_reading(ledger) as opened:
        renames = None if rename is None else _read_renames(rename, opened)
    with progress(f"migrating {ledger}"):
        result = migrate_ledger(
            ledger,
            new,
            rule=None if rule is None else read_rule(rule, trust_code=True),
            rename=renames,
            add=dict(_parse_added(text) for text in add),
        )
    print_fields(result, as_json=json)
    return FINE


def _read_renames(path: Path, ledger: Any) -> dict[str, dict[Any, Any]]:
    """Read the new names of values by column, with "" for the output."""
    import tomllib

    from likewise.monitor.migration import kept_columns

    try:
        renames = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandError(f"--rename {path} cannot be read: {error}.") from None
    if not all(isinstance(names, dict) for names in renames.values()):
        raise CommandError(
            f'--rename {path}: expected a table for each column, such as [job] "a" = "b".'
        )
    by_column: dict[str, dict[Any, Any]] = {}
    for column, names in renames.items():
        is_output = column in ("output", ledger.rule.output_column)
        by_column.setdefault("" if is_output else column, {}).update(names)
    columns = {"", *kept_columns(ledger.rule)}
    return {
        column: _match_stored_values(names, ledger.known_values(column))
        if column in columns
        else names
        for column, names in by_column.items()
    }


def _match_stored_values(names: dict[str, Any], stored: list[Any] | None) -> dict[Any, Any]:
    """Match names to stored values: in TOML every name is text, so 1 is written "1"."""
    if stored is None:
        return {_number_or_text(name): new for name, new in names.items()}
    by_text = {str(value): value for value in stored}
    return {name if name in stored else by_text.get(name, name): names[name] for name in names}


def _parse_added(text: str) -> tuple[str, Any]:
    column, sign, value = text.partition("=")
    if not sign or not column:
        raise CommandError(f"--add {text} says no value; expected COLUMN=VALUE.")
    return column, _number_or_text(value)


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def verify(
    ledger: o.LedgerFolder,
    head: str | None = o.option(
        "A head that was kept elsewhere, or a file with it: it must be on the chain.",
        metavar="HEAD",
    ),
    signers: Path | None = o.option(
        "Trusted signers (ssh-keygen's allowed signers): --head must be signed.", metavar="FILE"
    ),
    signer: str = o.option("Which of them must have signed.", default="likewise", metavar="NAME"),
    authority: Path | None = o.option(
        "Certificates of a time-stamping service: --head must be stamped.", metavar="FILE"
    ),
    every: str | None = o.option(
        'Verify again and again: "1h", "30 minutes". Ends at the first'
        " alteration. Each time, the head of the time before must be on the chain.",
        metavar="TIME",
    ),
    json: o.Json = False,
) -> int:
    """Check the hash chain of a ledger, and name the first row that was altered.

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
    print_fields(result, ok=result.ok, as_json=json)
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
    out: Path | None = o.option("Write the head to a file, too.", metavar="FILE"),
    sign: Path | None = o.option(
        "Sign that file with an OpenSSH key; writes FILE.sig.", metavar="KEY"
    ),
    timestamp: str | None = o.option(
        "Have a service (RFC 3161) time-stamp that file; writes FILE.tsr.", metavar="URL"
    ),
    json: o.Json = False,
) -> int:
    """Print the head of a ledger. Store it elsewhere, to check later that nothing has changed."""
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
    print_fields(result, ok=result.ok, as_json=json)
    return FINE if result.ok else DATA
