"""The command `likewise`: each subcommand has one file, which parses options and prints results.

Nothing heavy is imported here or at the top of a subcommand, so `likewise --help` starts without
NumPy and without the readers of files.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from likewise.cli.terminal import say_on_stderr


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code (exit_codes.py says what each means)."""
    if find_spec("typer") is None:
        say_on_stderr(
            "The command line needs packages that the library does not:"
            " pip install '.[cli]' in the clone of likewise."
        )
        return 2
    from likewise.cli.commands import likewise_command
    from likewise.cli.exit_codes import run_command

    words = list(sys.argv[1:] if arguments is None else arguments)
    return run_command(
        lambda: likewise_command(words, prog_name="likewise", standalone_mode=False, obj=words),
        as_json="--json" in words,
    )
