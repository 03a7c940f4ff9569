"""What a person sees while and after something runs: progress on stderr, results on stdout.

Every command prints through this module and through nothing else (ruff's T20 sees to `print`).
Names and values from the data may hold anything: escapes that a terminal obeys, marks that turn the
direction of writing, markup, line feeds. Here they become text: what cannot be printed is shown as
\\x1b or \\u202e.

On a terminal there are colours and a bar that vanishes; in a pipe, plain text and nothing else.

Invariant: what is printed holds printable characters and our own line feeds; on a terminal also the
colours that we chose. JSON means the same before and after.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from likewise.tables.printing import escape_unprintable

if TYPE_CHECKING:
    from rich.console import Console

_DELAY = 1.0
_stderr_log: list[Callable[[str], None]] = []


def say(text: str = "", style: str = "") -> None:
    """A line on stdout; a line feed in it is shown, too."""
    from rich.text import Text

    _console().print(Text(_make_printable(text, sys.stdout), style))


def say_lines(text: str, *, wrap: bool = True) -> None:
    """Several lines on stdout; whoever made them has kept line feeds out of values."""
    from rich.text import Text

    console = _console()
    for line in text.split("\n"):
        console.print(Text(_make_printable(line, sys.stdout)), soft_wrap=None if wrap else True)


def say_on_stderr(text: str) -> None:
    """A message on stderr. Lines after its first are indented, so that none looks like another."""
    if _stderr_log:
        _stderr_log[0](text.removeprefix("likewise: "))
        return
    first, *more = text.split("\n")
    lines = [first, *(f"  {line}" for line in more)]
    print(
        "\n".join(_make_printable(line, sys.stderr) for line in lines), file=sys.stderr, flush=True
    )


def log_stderr(log: Callable[[str], None]) -> None:
    """Have messages for stderr logged instead, where stderr is a log."""
    _stderr_log[:] = [log]


def print_json(told: Mapping[str, Any]) -> None:
    """One object on one line; what JSON cannot hold is text, and a number beyond all is null."""
    print(json_text(told, ascii_only=not _is_unicode(sys.stdout)))


def print_result(told: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """What a command has to say: an object, or a line for people."""
    if as_json:
        print_json(told)
    else:
        say(text)


def confirm(question: str) -> bool:
    """Ask at the terminal."""
    import typer

    return typer.confirm(_make_printable(question, sys.stderr), err=True)


def is_interactive() -> bool:
    """Whether somebody is there to answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_text(question: str) -> str:
    """Ask at the terminal for a word."""
    import typer

    return str(typer.prompt(_make_printable(question, sys.stderr), err=True)).strip()


def width() -> int:
    """Characters on a line of stdout."""
    return _console().width


def _console() -> "Console":
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())


def _make_printable(text: str, stream: TextIO) -> str:
    """Text that can be printed on a stream, whatever its encoding."""
    shown = escape_unprintable(text)
    if _is_unicode(stream):
        return shown
    return shown.encode(stream.encoding, "backslashreplace").decode(stream.encoding)


def _is_unicode(stream: TextIO) -> bool:
    return stream.encoding is None or stream.encoding.lower().startswith("utf")


def json_text(told: Mapping[str, Any], ascii_only: bool = True) -> str:
    """One object on one line, as `print_json` prints it."""
    try:
        text = json.dumps(told, ensure_ascii=ascii_only, allow_nan=False, default=str)
    except ValueError:
        text = json.dumps(_finite(told), ensure_ascii=ascii_only, allow_nan=False, default=str)
    if text.isprintable():
        return text
    # What is not printable can only stand inside a string, where JSON has escapes for it.
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def _finite(value: Any) -> Any:
    """With None for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    infinite = isinstance(value, float) and not abs(value) < float("inf")
    return None if infinite else value


class Bar(Protocol):
    """How far something has come."""

    def update(self, done: int, total: int | None, note: str = "") -> None: ...


class _NoBar:
    """Stands in for a bar where nobody is looking."""

    def update(self, done: int, total: int | None, note: str = "") -> None:
        """Show nothing."""


class _RichBar:
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    def update(self, done: int, total: int | None, note: str = "") -> None:
        self._progress.update(
            self._task, completed=done, total=total, note=escape_unprintable(note)
        )


@contextmanager
def progress(what: str) -> Iterator[Bar]:
    """Show a bar on a terminal, from the second second on; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield _NoBar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    shown = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
    bar = _RichBar(shown, shown.add_task(escape_unprintable(what), total=None, note=""))
    timer = Timer(_DELAY, shown.start)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        timer.join()  # so that it cannot start behind our back
        shown.stop()
