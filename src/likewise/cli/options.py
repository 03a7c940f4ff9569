"""Options that several commands share, and how commands take them in groups."""

import inspect
import shlex
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli.exit_codes import CommandError
from likewise.rule.burst import Burst
from likewise.rule.rule import Rule


def require_model_column(rule: Rule, column: str | None) -> None:
    """Raise CommandError if a rule is about models, and no column says which one decided."""
    if rule.compare != "all" and column is None:
        raise CommandError(
            f'the rule has compare = "{rule.compare}", so it is about models: say --model-column,'
            " the column that says which model decided."
        )


def make_burst(last: int | None, alarm: int | None) -> Burst | None:
    """Make the burst that --burst and --alarm ask for, if they do."""
    if last is None:
        if alarm is not None:
            raise CommandError(
                "--alarm counts neighbours: say among how many decisions, with --burst."
            )
        return None
    return Burst(last, alarm)


DATA_HELP = (
    "A file of decisions: CSV, TSV, JSON lines, Parquet, Arrow or Excel; - is standard input."
)

Data = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]
RuleFile = Annotated[
    Path | None,
    typer.Option(
        "--rule", "-r", metavar="FILE", help="A file with the rule, such as `likewise init` writes."
    ),
]
TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Allow a rule to import and run code: embedders named python:, torch: or"
        " sentence-transformers:.",
    ),
]
LedgerFolder = Annotated[
    Path, typer.Argument(metavar="LEDGER", help="The folder of a ledger.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a summary.")]

TimeColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The column with the time of each decision: they are judged in order of time, and the"
        " report shows rates over time.",
    ),
]
ModelColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The column that says which model decided. It takes no part in the distance; a rule"
        ' with compare = "within" or "across" needs it.',
    ),
]
Within = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help='Compare a decision only with those at most this long before it: "90 days". Needs'
        " --time-column.",
    ),
]


def option(help: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Declare an option as the default of a command's parameter."""
    return typer.Option(default, *names, help=help, **more)


def argument(help: str, metavar: str, *, default: Any = ..., **more: Any) -> Any:
    """Declare an argument as the default of a command's parameter; ...: it must be given."""
    return typer.Argument(default, metavar=metavar, help=help, show_default=False, **more)


def field_option(help: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Declare an option as a field of a dataclass that commands take as a group of options."""
    metadata = {"option": typer.Option(*names, help=help, **more)}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


_BURST = "Bursts of near-duplicates, whatever was decided"
Last = Annotated[
    int | None,
    typer.Option(
        "--burst",
        metavar="N",
        min=1,
        help="Count each decision's near inputs among the last N decisions.",
        rich_help_panel=_BURST,
    ),
]
Alarm = Annotated[
    int | None,
    typer.Option(
        metavar="K", min=1, help="Raise an alarm at K near inputs or more.", rich_help_panel=_BURST
    ),
]

_quick = partial(
    field_option, rich_help_panel="Without a rule: every column but the output is a number"
)


@dataclass(frozen=True)
class RuleOptions:
    """Options that make up a rule where there is no file of one, or that change a rule."""

    metric: str | None = _quick("linf, l1, l2 or cosine.", show_default="linf")
    epsilon: float | None = _quick(
        "The distance up to which cases are similar; replaces that of a rule."
    )
    output_column: str | None = _quick("The column of the output.", metavar="COLUMN")
    output: str | None = _quick(
        "What the output is: label or number.", "--output", show_default="label"
    )
    delta: float | None = _quick(
        "The difference up to which outputs count as the same.", show_default="0"
    )
    ignore: list[str] = _quick(
        "A column to leave out; may be repeated.", default=[], metavar="COLUMN"
    )
    person: str | None = _quick(
        "Who a decision is about: decisions about one person are not compared.", metavar="COLUMN"
    )


def with_option_groups(*without: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Let a command take options in groups: parameters that are dataclasses of options.

    without: fields of these groups that the command does not offer
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        parameters: list[inspect.Parameter] = []
        groups: dict[str, Any] = {}
        for one in inspect.signature(command).parameters.values():
            if is_dataclass(one.annotation):
                groups[one.name] = one.annotation
                parameters += _list_options(one.annotation, without)
            else:
                parameters.append(one.replace(kind=one.KEYWORD_ONLY))

        def run_with_groups(**values: Any) -> int:
            options = {name: _make_group(kind, values) for name, kind in groups.items()}
            return command(**values, **options)

        run_with_groups.__name__, run_with_groups.__doc__ = command.__name__, command.__doc__
        run_with_groups.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run_with_groups.__annotations__ = {one.name: one.annotation for one in parameters}
        return run_with_groups

    return decorate


def _list_options(group: Any, without: Sequence[str]) -> list[inspect.Parameter]:
    """Return the options of a group, with those of groups inside it, as parameters."""
    options = []
    for one in fields(group):
        if is_dataclass(one.type):
            options += _list_options(one.type, without)
        elif one.name not in without:
            default = inspect.Parameter.empty if one.default is MISSING else one.default
            if one.default_factory is not MISSING:
                default = one.default_factory()
            kind = Annotated[one.type, *one.metadata.values()] if one.metadata else one.type
            options.append(
                inspect.Parameter(
                    one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
                )
            )
    return options


def _make_group(group: Any, values: dict[str, Any]) -> Any:
    """Make a group of its options, which are taken out of the values."""
    options = {}
    for one in fields(group):
        if is_dataclass(one.type):
            options[one.name] = _make_group(one.type, values)
        elif one.name in values:
            options[one.name] = values.pop(one.name)
    return group(**options)


def command_line(context: typer.Context) -> str:
    """Return the whole command, as it could be typed again."""
    return shlex.join(["likewise", *(context.obj or ())])
