"""The list of all commands of `likewise`, in the order in which `--help` shows them."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from likewise.cli import options as o
from likewise.cli.audit import audit
from likewise.cli.bench import bench
from likewise.cli.calibrate import calibrate
from likewise.cli.compare import compare
from likewise.cli.init import init
from likewise.cli.ledger_commands import backup, erase, head, migrate, replay, restore, verify
from likewise.cli.like import like
from likewise.cli.report import report, show
from likewise.cli.serve import serve, token, warm
from likewise.cli.terminal import say
from likewise.cli.watch import watch
from likewise.version import __version__

app = typer.Typer(
    name="likewise",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        say(f"likewise {__version__}")
        raise typer.Exit


@app.callback()
def likewise(
    version: bool = o.option(
        "Print the version.", "--version", default=False, callback=_print_version, is_eager=True
    ),
) -> None:
    """Find decisions that contradict an earlier decision about a similar case."""


@app.command()
def demo(
    context: typer.Context,
    folder: Path = o.option(
        "Where to write the page, the data and the rule.", default=Path(), metavar="FOLDER"
    ),
    json: o.Json = False,
    serve: bool = o.option(
        "Show pages in a browser while the decisions arrive, for two minutes.",
        "--serve",
        default=False,
    ),
    port: int = o.option(
        "The port of the pages, with --serve; 0: any free one.", default=8800, min=0, max=65535
    ),
) -> int:
    """Generate loan decisions of a model, and show what likewise finds. Start here."""
    if serve:
        from likewise.cli.demo import serve_demo

        return serve_demo(port)
    from likewise.cli.demo import run_demo

    return run_demo(folder, as_json=json, command=o.command_line(context))


def _join_lines(docstring: str | None) -> str:
    """Make each paragraph one line: the terminal wraps it to its width."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(docstring or ""))


def _add(*commands: Callable[..., int], **panel: Any) -> None:
    for command in commands:
        app.command(help=_join_lines(command.__doc__), **panel)(command)


_add(init, audit, compare, calibrate, like, watch, serve, token)
_ledger_commands = (report, show, verify, head, replay, erase, backup, restore, migrate)
_add(*_ledger_commands, rich_help_panel="Ledgers")
_add(bench, warm)

likewise_command = typer.main.get_command(app)
