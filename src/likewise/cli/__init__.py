"""The command `likewise`."""

import argparse
from collections.abc import Sequence

from likewise import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, call, print; the exit code."""
    parser = argparse.ArgumentParser(prog="likewise", description="Like cases, treated alike.")
    parser.add_argument("--version", action="version", version=f"likewise {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("demo", help="watch a generated stream of loan decisions")
    chosen = parser.parse_args(arguments)
    if chosen.command == "demo":
        from likewise.cli.demo import run

        return run()
    parser.print_help()
    return 2
