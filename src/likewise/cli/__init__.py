"""The command `likewise`: parse, call, print; one file for each subcommand.

Nothing heavy is imported here or at the top of any command: `likewise --help` needs neither NumPy
nor a reader of files.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from likewise.cli.terminal import say_on_stderr


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code (endings.py says what each means)."""
    if find_spec("typer") is None:
        say_on_stderr(
            "The command line needs a few packages more than the library:"
            " pip install 'likewise[cli]'"
        )
        return 2
    from likewise.cli.commands import likewise_command
    from likewise.cli.exit_codes import run_command

    given = list(sys.argv[1:] if arguments is None else arguments)
    return run_command(
        lambda: likewise_command(given, prog_name="likewise", standalone_mode=False, obj=given),
        as_json="--json" in given,
    )
