"""Options that several commands share, said once."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

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


BURST = "A run of near-duplicates, whatever was decided"
Last = Annotated[
    int | None,
    typer.Option(
        "--burst",
        metavar="N",
        min=1,
        help="Count each decision's near inputs among the last N decisions.",
        rich_help_panel=BURST,
    ),
]
Alarm = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        min=1,
        help="Raise an alarm from K of them on.",
        rich_help_panel=BURST,
    ),
]

READING = "How the file is read"
Format = Annotated[
    str | None,
    typer.Option(
        help="csv, tsv, jsonl, parquet, arrow or excel, where the file does not tell.",
        rich_help_panel=READING,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="What stands between the fields of a CSV file; `tab` is a tab.",
        show_default="found out",
        rich_help_panel=READING,
    ),
]
Missing = Annotated[
    list[str],
    typer.Option(
        metavar="TEXT",
        help="Text in a CSV file that means nothing is known, such as ? or NA; may be repeated.",
        rich_help_panel=READING,
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        metavar="point|comma",
        help="The decimal sign of numbers in a CSV file.",
        show_default="found out",
        rich_help_panel=READING,
    ),
]
Dates = Annotated[
    str | None,
    typer.Option(
        metavar="day-first|month-first",
        help="The order of 03/04/2024 in a column of times.",
        show_default="found out",
        rich_help_panel=READING,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="The encoding of text, such as utf-8, utf-16, cp1252 or latin-1.",
        show_default="found out",
        rich_help_panel=READING,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line has the names of columns; without, they are column_1, …",
        show_default="found out",
        rich_help_panel=READING,
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The sheet of an Excel workbook.",
        show_default="the first",
        rich_help_panel=READING,
    ),
]
OnBadRow = Annotated[
    str,
    typer.Option(
        metavar="fail|skip",
        help="End at the first row that cannot be used, or leave such rows out and count them.",
        rich_help_panel=READING,
    ),
]

QUICK = "Without a rule: every column but the output is a number"
Metric = Annotated[
    str | None,
    typer.Option(help="linf, l1, l2 or cosine.", show_default="linf", rich_help_panel=QUICK),
]
Epsilon = Annotated[
    float | None,
    typer.Option(
        help="How near is near; with a rule, instead of the rule's own.", rich_help_panel=QUICK
    ),
]
OutputColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column of the output.", rich_help_panel=QUICK),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        help="What the output is: label or number.",
        show_default="label",
        rich_help_panel=QUICK,
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        help="How far apart outputs still count as the same.",
        show_default="0",
        rich_help_panel=QUICK,
    ),
]
Person = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Who a decision is about: decisions about one person are not compared.",
        rich_help_panel=QUICK,
    ),
]
Ignore = Annotated[
    list[str],
    typer.Option(
        metavar="COLUMN", help="A column to leave out; may be repeated.", rich_help_panel=QUICK
    ),
]


def command_line(context: typer.Context) -> str:
    """The whole command, as it could be typed again."""
    return shlex.join(["likewise", *(context.obj or ())])
