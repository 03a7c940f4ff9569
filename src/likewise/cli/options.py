"""Options that several commands share, said once."""

import inspect
import shlex
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli.exit_codes import CommandError
from likewise.rule.burst import Burst
from likewise.rule.rule import Rule


def require_model_column(rule: Rule, column: str | None) -> None:
    """Stop if a rule is about models, and nothing says which one decided."""
    if rule.compare != "all" and column is None:
        raise CommandError(
            f'the rule has compare = "{rule.compare}", so it is about models: say --model-column,'
            " the column that says which model decided."
        )


def make_burst(last: int | None, alarm: int | None) -> Burst | None:
    """What the two options ask for."""
    if last is None:
        if alarm is not None:
            raise CommandError(
                "--alarm is about neighbours: say among how many decisions, with --burst."
            )
        return None
    return Burst(last, alarm)


DATA_HELP = (
    "A file of decisions: CSV, TSV, JSON lines, Parquet, Arrow or Excel; - is standard input."
)

Data = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]
RuleFile = Annotated[
    Path | None,
    typer.Option("--rule", "-r", metavar="FILE", help="The rule, as `likewise init` writes one."),
]
TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Load models that are code: python:, torch: and sentence-transformers: in a rule"
        " import and run what they name.",
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
        help="When decisions were made. They are judged in this order, and the report shows rates"
        " by it.",
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
        help='Compare a decision only with those at most so long before it: "90 days". Needs'
        " --time-column.",
    ),
]


def _panel_option(panel: str) -> Callable[..., Any]:
    """Make options that `--help` lists under a heading."""

    def option(help: str, *names: str, **more: Any) -> Any:
        return typer.Option(*names, help=help, rich_help_panel=panel, **more)

    return option


_burst = _panel_option("A run of near-duplicates, whatever was decided")
Last = Annotated[
    int | None,
    _burst(
        "Count each decision's near inputs among the last N decisions.",
        "--burst",
        metavar="N",
        min=1,
    ),
]
Alarm = Annotated[int | None, _burst("Raise an alarm from K of them on.", metavar="K", min=1)]

_reading = _panel_option("How the file is read")
Format = Annotated[
    str | None,
    _reading("csv, tsv, jsonl, parquet, arrow or excel, where the file does not tell."),
]
Delimiter = Annotated[
    str | None,
    _reading(
        "What stands between the fields of a CSV file; `tab` is a tab.", show_default="found out"
    ),
]
Missing = Annotated[
    list[str],
    _reading(
        "Text in a CSV file that means nothing is known, such as ? or NA; may be repeated.",
        metavar="TEXT",
    ),
]
Decimal = Annotated[
    str | None,
    _reading(
        "The decimal sign of numbers in a CSV file.",
        metavar="point|comma",
        show_default="found out",
    ),
]
Dates = Annotated[
    str | None,
    _reading(
        "The order of 03/04/2024 in a column of times.",
        metavar="day-first|month-first",
        show_default="found out",
    ),
]
Encoding = Annotated[
    str | None,
    _reading(
        "The encoding of text, such as utf-8, utf-16, cp1252 or latin-1.",
        show_default="found out",
    ),
]
Header = Annotated[
    bool | None,
    _reading(
        "Whether the first line has the names of columns; without, they are column_1, …",
        "--header/--no-header",
        show_default="found out",
    ),
]
Sheet = Annotated[
    str | None,
    _reading("The sheet of an Excel workbook.", metavar="NAME", show_default="the first"),
]
OnBadRow = Annotated[
    str,
    _reading(
        "End at the first row that cannot be used, or leave such rows out and count them.",
        metavar="fail|skip",
    ),
]

_quick = _panel_option("Without a rule: every column but the output is a number")
Metric = Annotated[str | None, _quick("linf, l1, l2 or cosine.", show_default="linf")]
Epsilon = Annotated[
    float | None, _quick("How near is near; with a rule, instead of the rule's own.")
]
OutputColumn = Annotated[str | None, _quick("The column of the output.", metavar="COLUMN")]
Output = Annotated[
    str | None,
    _quick("What the output is: label or number.", "--output", show_default="label"),
]
Delta = Annotated[
    float | None, _quick("How far apart outputs still count as the same.", show_default="0")
]
Person = Annotated[
    str | None,
    _quick(
        "Who a decision is about: decisions about one person are not compared.",
        metavar="COLUMN",
    ),
]
Ignore = Annotated[list[str], _quick("A column to leave out; may be repeated.", metavar="COLUMN")]


@dataclass(frozen=True)
class RuleOptions:
    """What the options say where there is no file with a rule, or on top of one."""

    metric: Metric = None
    epsilon: Epsilon = None
    output_column: OutputColumn = None
    output: Output = None
    delta: Delta = None
    ignore: Ignore = field(default_factory=list)
    person: Person = None


def with_option_groups(*without: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Let a command take options in groups: as parameters that are dataclasses of options.

    without: fields of these groups that are no options of the command
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        parameters: list[inspect.Parameter] = []
        groups: dict[str, tuple[Any, list[str]]] = {}
        for one in inspect.signature(command).parameters.values():
            options, kind = [one.replace(kind=one.KEYWORD_ONLY)], one.annotation
            if isinstance(kind, type) and is_dataclass(kind):
                options = [
                    one.replace(
                        name=each.name,
                        annotation=each.type,
                        default=[] if each.default is MISSING else each.default,
                    )
                    for each in fields(kind)
                    if each.name not in without
                ]
                groups[one.name] = kind, [option.name for option in options]
            parameters += options

        def run_with_groups(**given: Any) -> int:
            made = {
                name: kind(**{option: given.pop(option) for option in options})
                for name, (kind, options) in groups.items()
            }
            return command(**given, **made)

        run_with_groups.__name__, run_with_groups.__doc__ = command.__name__, command.__doc__
        run_with_groups.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run_with_groups.__annotations__ = {one.name: one.annotation for one in parameters}
        return run_with_groups

    return decorate


def command_line(context: typer.Context) -> str:
    """The whole command, as it could be typed again."""
    return shlex.join(["likewise", *(context.obj or ())])
