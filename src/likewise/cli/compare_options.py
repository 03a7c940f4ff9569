"""Options of `likewise compare`: what is compared, and how it is read."""

from dataclasses import dataclass
from typing import Annotated

import typer

from likewise.cli import options as o
from likewise.cli.exit_codes import CommandError
from likewise.cli.input_files import ReadingOptions


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options that say what is compared, and how it is read."""

    context: typer.Context
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="A file of decisions, or the folder of a ledger.", show_default=False
        ),
    ]
    b: Annotated[
        str | None,
        typer.Argument(
            metavar="[B]",
            help="Another file or ledger; none with --model-column.",
            show_default=False,
        ),
    ] = None
    rule: o.RuleFile = None
    trust_code: o.TrustCode = False
    model_column: str | None = o.field_option(
        "Compare two models within A: the column that says which one decided.",
        "--model-column",
        "--version-column",
        metavar="COLUMN",
    )
    first: str | None = o.field_option(
        "Which model comes first, where there are several.", metavar="MODEL"
    )
    second: str | None = o.field_option("Which model it is compared with.", metavar="MODEL")
    time_column: o.TimeColumn = None
    within: o.Within = None
    quick: o.RuleOptions
    reading: ReadingOptions

    def __post_init__(self) -> None:
        if self.within is not None and self.time_column is None:
            raise CommandError("--within is about times: say --time-column.")
        if (self.b is None) == (self.model_column is None):
            raise CommandError(
                "what is to be compared? Give two files or ledgers, A and B; or one file and"
                " --model-column, the column that says which model decided."
            )
        if self.model_column is None and (self.first is not None or self.second is not None):
            raise CommandError("--first and --second name models: say --model-column, too.")

    @property
    def command(self) -> str:
        """The whole command, for the report."""
        return o.command_line(self.context)
