"""`likewise backup`, `restore` and `migrate` make a ledger of another one.

A backup has the same rule, a migrated ledger another one. The source stays as it is, except that
`migrate` without a new folder changes its rule, if all verdicts stay the same.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options as o
from likewise.cli.exit_codes import FINE, CommandError
from likewise.cli.open_ledger import open_for_reading
from likewise.cli.terminal import print_fields, progress

_BACKUP_FIELDS = ("rows", "copied", "kept", "head")


def backup(
    ledger: o.LedgerFolder,
    to: Annotated[Path, typer.Argument(metavar="DEST", help="The folder of the copy.")],
    json: o.Json = False,
) -> int:
    """Copy a ledger, even while it is written: consistent and verified. Repeat to update a copy."""
    from likewise.ledger.backups import back_up

    open_for_reading(ledger).close()  # reports what is wrong with the folder
    print_fields(back_up(ledger, to), *_BACKUP_FIELDS, as_json=json)
    return FINE


def restore(
    copy: Annotated[Path, typer.Argument(metavar="BACKUP", help="The folder of a copy.")],
    to: Annotated[Path, typer.Argument(metavar="LEDGER", help="A new folder.")],
    json: o.Json = False,
) -> int:
    """Make a ledger of a copy, and verify it."""
    from likewise.ledger.backups import restore as restore_copy

    open_for_reading(copy).close()
    print_fields(restore_copy(copy, to), *_BACKUP_FIELDS, as_json=json)
    return FINE


def migrate(
    ledger: o.LedgerFolder,
    new: Annotated[
        Path | None,
        typer.Argument(
            metavar="[NEW]",
            help="The folder of the new ledger. Without it the rule of the ledger itself is"
            " changed, which is possible only if the new rule gives the same verdicts.",
        ),
    ] = None,
    rule: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The rule of the new ledger, as TOML.")
    ] = None,
    rename: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='TOML: the new names of values by column: [job] then "clerk" = "office"; those of'
            " the output under its own column, or [output].",
        ),
    ] = None,
    add: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN=VALUE", help="A value that all past decisions have in a new column."
        ),
    ] = [],  # noqa: B006 - the parser makes a new one
    json: o.Json = False,
) -> int:
    """Make a ledger of another one, under another rule.

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
    print_fields(result, "rows", "judged_again", "head", "left_out", as_json=json)
    return FINE


def _read_renames(path: Path, ledger: Any) -> dict[str, dict[Any, Any]]:
    """Read the new names of values by column, with "" for the output."""
    import tomllib

    from likewise.monitor.migration_checks import kept_columns

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
