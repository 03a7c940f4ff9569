"""`likewise migrate`: a ledger made of another one, under another rule."""

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options as o


def migrate(
    ledger: o.LedgerFolder,
    new: Annotated[
        Path | None,
        typer.Argument(
            metavar="[NEW]",
            help="The folder of the new ledger. Without it, only a"
            " rule that gives the same verdicts can be changed, in the ledger itself.",
        ),
    ] = None,
    rule: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The rule of the new ledger, as TOML.")
    ] = None,
    rename: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='TOML: by column, what values are called now: [job] then "clerk" = "office"; the'
            " output's under its own column, or [output].",
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

    Verdicts are copied where the rule gives the same ones, and made again where it does not. The
    old ledger is verified first, and stays as it is.
    """
    from likewise.cli.exit_codes import FINE
    from likewise.cli.open_ledger import open_for_reading
    from likewise.cli.rule_options import read_rule
    from likewise.cli.terminal import print_result, progress
    from likewise.monitor.migration import migrate as make

    with open_for_reading(ledger) as opened:
        renamed = None if rename is None else _read_renames(rename, opened)
    wanted = None if rule is None else read_rule(rule, trust_code=True)
    with progress(f"migrating {ledger}"):
        done = make(
            ledger,
            new,
            rule=wanted,
            rename=renamed,
            add=dict(_parse_added(text) for text in add),
        )
    told: dict[str, Any] = {"rows": done.rows, "judged_again": done.judged_again}
    told |= {"head": done.head, "left_out": dict(done.left_out)}
    print_result(told, str(done), as_json=json)
    return FINE


def _read_renames(path: Path, ledger: Any) -> dict[str, dict[Any, Any]]:
    import tomllib

    from likewise.cli.exit_codes import CommandError
    from likewise.monitor.migration_checks import kept_columns

    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandError(f"--rename {path} cannot be read: {error}.") from None
    if not all(isinstance(names, dict) for names in read.values()):
        raise CommandError(
            f'--rename {path}: expected a table for each column, such as [job] "a" = "b".'
        )
    named = ledger.rule.output_column
    own = {"output", named} if isinstance(named, str) else {"output"}
    given: dict[str, dict[Any, Any]] = {}
    for column, names in read.items():
        given.setdefault("" if column in own else column, {}).update(names)
    columns = {"", *kept_columns(ledger.rule)}
    return {
        column: _match_stored_values(names, ledger.known_values(column))
        if column in columns
        else names
        for column, names in given.items()
    }


def _match_stored_values(names: dict[str, Any], known: list[Any] | None) -> dict[Any, Any]:
    """In TOML every name is text: one that is no value itself means the value that reads so."""
    if known is None:
        return {_number_or_text(name): new for name, new in names.items()}
    by_text = {str(value): value for value in known}
    return {name if name in known else by_text.get(name, name): names[name] for name in names}


def _parse_added(text: str) -> tuple[str, Any]:
    from likewise.cli.exit_codes import CommandError

    column, sign, value = text.partition("=")
    if not sign or not column:
        raise CommandError(f"--add {text} says no value; expected COLUMN=VALUE.")
    return column, _number_or_text(value)


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
