"""Every command prints through this module: progress on stderr, results on stdout.

Names and values from the data may hold anything, such as terminal escapes or marks that reverse the
direction of writing. Unprintable characters are shown as \\x1b or \\u202e; JSON keeps its meaning.
Invariant: the output holds printable characters and our own line feeds, on a terminal also our
colours and a progress bar that vanishes. In a pipe it is plain text.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any, TextIO

from likewise.tables.printing import escape_unprintable, json_text

if TYPE_CHECKING:
    from rich.console import Console

_DELAY = 1.0
_stderr_log: list[Callable[[str], None]] = []


def say(text: str = "", style: str = "") -> None:
    """Print a line on stdout; a line feed in the text is shown, not obeyed."""
    from rich.text import Text

    _console().print(Text(_make_printable(text, sys.stdout), style))


def say_lines(text: str, *, wrap: bool = True) -> None:
    """Print several lines on stdout; the caller has kept line feeds out of values."""
    from rich.text import Text

    console = _console()
    for line in text.split("\n"):
        console.print(Text(_make_printable(line, sys.stdout)), soft_wrap=None if wrap else True)


def say_on_stderr(text: str) -> None:
    """Print a message on stderr; further lines are indented, so that none looks like another."""
    if _stderr_log:
        _stderr_log[0](text.removeprefix("likewise: "))
        return
    first, *more = text.split("\n")
    lines = [first, *(f"  {line}" for line in more)]
    printable = "\n".join(_make_printable(line, sys.stderr) for line in lines)
    print(printable, file=sys.stderr, flush=True)


def log_stderr(log: Callable[[str], None]) -> None:
    """Send messages for stderr to a log instead, where stderr is a log."""
    _stderr_log[:] = [log]


def print_json(values: Mapping[str, Any]) -> None:
    """Print one object on one line; other objects become text, infinity and NaN become null."""
    print(json_text(values, ascii_only=not _is_unicode(sys.stdout)))


def print_result(values: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print the result of a command: an object, or a line for people."""
    if as_json:
        print_json(values)
    else:
        say(text)


def print_fields(result: object, *, as_json: bool, **more: Any) -> None:
    """Print a result: an object of its fields, and more of them, or its own text for people."""
    print_result({**more, **vars(result)}, str(result), as_json=as_json)


def confirm(question: str) -> bool:
    """Ask a yes-or-no question at the terminal."""
    import typer

    return typer.confirm(_make_printable(question, sys.stderr), err=True)


def is_interactive() -> bool:
    """Tell whether somebody at a terminal can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_text(question: str) -> str:
    """Ask for a word at the terminal."""
    import typer

    return str(typer.prompt(_make_printable(question, sys.stderr), err=True)).strip()


def width() -> int:
    """Return how many characters fit on a line of stdout."""
    return _console().width


def _console() -> "Console":
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())


def _make_printable(text: str, stream: TextIO) -> str:
    """Return text that a stream can print, whatever its encoding."""
    printable = escape_unprintable(text)
    if _is_unicode(stream):
        return printable
    return printable.encode(stream.encoding, "backslashreplace").decode(stream.encoding)


def _is_unicode(stream: TextIO) -> bool:
    return stream.encoding is None or stream.encoding.lower().startswith("utf")


class Bar:
    """Shows how far a task has come, or nothing where stderr is no terminal."""

    def __init__(self, live_bar: Any = None, task: Any = None) -> None:
        self._live_bar, self._task = live_bar, task

    def update(self, done: int, total: int | None, note: str = "") -> None:
        if self._live_bar is not None:
            self._live_bar.update(
                self._task, completed=done, total=total, note=escape_unprintable(note)
            )


@contextmanager
def progress(what: str) -> Iterator[Bar]:
    """Show a bar on a terminal, for tasks longer than a second; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    live_bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
    bar = Bar(live_bar, live_bar.add_task(escape_unprintable(what), total=None, note=""))
    timer = Timer(_DELAY, live_bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        timer.join()  # so that the bar cannot start after it was stopped
        live_bar.stop()
