"""A command ends with an exit code for schedulers and one message for people, never a traceback.

    0    fine
    1    more violations than --max-rate allows
    2    bad usage: the command, the rule, an output path, or a ledger that cannot be opened
    3    bad data: the file, or a row of it, cannot be used
    130  interrupted; 143 terminated (SIGTERM); 141 the reader of the output has closed it
    70   a fault of likewise itself

Invariant: every failure says what happened and what to do now.
"""

import errno
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from threading import current_thread, main_thread
from typing import Any

from likewise.cli.terminal import say_on_stderr
from likewise.errors import BadRule, CannotRead, LikewiseError

FINE, OVER, USAGE, DATA = 0, 1, 2, 3
INTERRUPTED, ENDED, UNREAD, FAULT = 130, 143, 141, 70


class CommandError(Exception):
    """End the command with this message and exit code."""

    code = "stopped"

    def __init__(self, message: str, exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class _Terminated(BaseException):
    """Unwinds the command after SIGTERM, so that it cleans up as after an interrupt."""


@contextmanager
def _raise_on_sigterm() -> Iterator[None]:
    """Raise on SIGTERM, so that half-written files are removed."""

    def terminate(*_: object) -> None:
        raise _Terminated

    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_command(command: Callable[[], Any], *, as_json: bool = False) -> int:
    """Run a command, say why it failed if it did, and return its exit code.

    as_json: whether standard output is JSON, so that a failure is printed as an object
    """
    from typer.exceptions import Abort, TyperException

    try:
        with _raise_on_sigterm():
            code = command()
        sys.stdout.flush()
        return int(code or FINE)
    except (BrokenPipeError, SystemExit) as ending:  # the parser turns the first into the second
        if isinstance(ending, SystemExit) and not isinstance(ending.__context__, BrokenPipeError):
            raise
        _discard_output()
        return UNREAD
    except TyperException as error:
        return _report_usage_error(error, as_json)
    except _Terminated:
        return _report_failure(ENDED, "ended", "terminated (SIGTERM).")
    except (KeyboardInterrupt, Abort):
        return _report_failure(INTERRUPTED, "interrupted", "interrupted.")
    except Exception as error:
        facts = error.facts() if isinstance(error, LikewiseError) else {}
        return _report_failure(*_describe(error), facts, as_json)


def _describe(error: Exception) -> tuple[int, str, str]:
    """Return the exit code, the code and the message for a failure."""
    if isinstance(error, CommandError):
        return error.exit_code, error.code, str(error)
    if isinstance(error, LikewiseError):
        usage = isinstance(error, BadRule | CannotRead)
        return USAGE if usage else DATA, error.code, str(error)
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        why = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        return USAGE, "cannot-write", f"cannot write{where}: {why}."
    if isinstance(error, MemoryError):
        text = (
            "there is not enough memory for this many decisions. Audit fewer of them, with fewer"
            " columns, or on a larger machine."
        )
        return DATA, "out-of-memory", text
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{PurePath(last.filename).name}, line {last.lineno}"
    named = f"{type(error).__name__}: {error}"
    return FAULT, "fault", f"a fault of likewise, please report it: {named} ({where})."


def _report_failure(
    exit_code: int,
    code: str,
    message: str,
    facts: dict[str, Any] | None = None,
    as_json: bool = False,
) -> int:
    """Say why a command failed: a line for people and, where output is JSON, an object."""
    try:
        if as_json:
            failure = {"error": {"code": code, "message": message, **(facts or {})}}
            sys.stdout.write(f"{json.dumps(failure, default=str)}\n")
        sys.stdout.flush()
    except OSError:
        _discard_output()
    say_on_stderr(f"likewise: {message}")
    return exit_code


def _report_usage_error(error: Any, as_json: bool) -> int:
    """Say what the parser did not understand, and which --help to read.

    The context is not asked for its help: Typer prints that on stdout instead of returning it.
    Without any argument the parser has already printed the help, when it made the error.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        return USAGE
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".")
    if context is not None:
        message = f"{message}. See: {context.command_path} --help"
    message = message or "the command was not understood. See: likewise --help"
    return _report_failure(USAGE, "bad-usage", message, as_json=as_json)


def _discard_output() -> None:
    """Send the rest of the output to nowhere, so that closing stdout does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
