"""How a command ends: an exit code for schedulers, and one message for people, no traceback.

    0    fine
    1    more violations than --max-rate allows
    2    bad usage: the command, the rule, a place to write to, or a ledger that cannot be looked at
    3    bad data: the file cannot be used, or a row of it
    130  interrupted; 143 told to end (SIGTERM); 141 whoever read the output has gone
    70   a fault of likewise itself

Invariant: whatever happens, something says what and what to do now.
"""

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from threading import current_thread, main_thread
from typing import Any

from likewise.cli.screen import say_aside
from likewise.values.errors import BadRule, CannotLook, LikewiseError

FINE, OVER, USAGE, DATA = 0, 1, 2, 3
INTERRUPTED, ENDED, UNREAD, FAULT = 130, 143, 141, 70


class Stop(Exception):
    """End the command with this message and code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


class _Ended(BaseException):
    """SIGTERM: what was begun is tidied up, as after an interrupt."""


@contextmanager
def _tidily() -> Iterator[None]:
    """A signal to end raises, so that half-written files are removed."""

    def end(*_: object) -> None:
        raise _Ended

    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def ended(command: Callable[[], Any]) -> int:
    """The exit code of a command, its failure told."""
    from typer.exceptions import Abort, TyperException

    try:
        with _tidily():
            code = command()
        sys.stdout.flush()
        return int(code or FINE)
    except (BrokenPipeError, SystemExit) as done:  # the parser makes one of the other
        if isinstance(done, SystemExit) and not isinstance(done.__context__, BrokenPipeError):
            raise
        _let_go()
        return UNREAD
    except TyperException as error:
        return _usage(error)
    except (KeyboardInterrupt, Abort, _Ended) as asked:
        if isinstance(asked, _Ended):
            return _tell("told to end.", ENDED)
        return _tell("interrupted.", INTERRUPTED)
    except Exception as error:
        return _tell(*_told(error))


def _told(error: Exception) -> tuple[str, int]:
    """What to say of a failure, and the exit code."""
    if isinstance(error, Stop):
        return str(error), error.code
    if isinstance(error, LikewiseError):
        return str(error), USAGE if isinstance(error, BadRule | CannotLook) else DATA
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        why = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        return f"cannot write{where}: {why}.", USAGE
    if isinstance(error, MemoryError):
        return (
            "there is not enough memory for this many decisions. Audit fewer of them, with fewer"
            " columns, or on a larger machine.",
            DATA,
        )
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{PurePath(last.filename).name}, line {last.lineno}"
    named = f"{type(error).__name__}: {error}"
    return f"a fault of likewise, please report it: {named} ({where}).", FAULT


def _tell(message: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _let_go()
    say_aside(f"likewise: {message}")
    return code


def _usage(error: Any) -> int:
    """What the parser did not understand, and how to ask it.

    Nobody here asks a context for its help: Typer prints that on stdout instead of returning it.
    Without any argument the parser has printed the help already, when it made the error.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        return USAGE
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".")
    if context is not None:
        message = f"{message}. See: {context.command_path} --help"
    return _tell(message or "the command was not understood. See: likewise --help", USAGE)


def _let_go() -> None:
    """What is still to be written has nowhere to go; closing must not complain once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
