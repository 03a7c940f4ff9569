"""What a person sees while and after something runs: progress on stderr, results on stdout.

On a terminal there are colours and a bar that vanishes; in a pipe, plain text and nothing else.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console

_PATIENCE = 2.5  # seconds; loading compiled kernels takes less, compiling them takes more
_DELAY = 1.0
_COMPILING = "compiling, once per machine ..."
_COMPILING_AGAIN = "compiling ..."  # where kernels cannot be kept


def console() -> "Console":
    """Where results go; text from the data is printed as it is, never as markup."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())


def visible(text: str) -> str:
    """Text without what a terminal would obey: escapes are shown, lines stay lines."""
    return "\n".join(
        "".join(one if one.isprintable() or one == "\t" else repr(one)[1:-1] for one in line)
        for line in text.split("\n")
    )


class Bar(Protocol):
    """How far something has come."""

    def update(self, done: int, total: int | None, note: str = "") -> None: ...


class _NoBar:
    """Nobody is looking; but if the first step takes long, kernels are being compiled: say so."""

    def __init__(self, compiles: bool) -> None:
        self._timer = Timer(_PATIENCE, _say_compiling)
        self._timer.daemon = True
        if compiles:
            self._timer.start()

    def update(self, done: int, total: int | None, note: str = "") -> None:
        self._timer.cancel()


def _say_compiling() -> None:
    kernels = sys.modules.get("likewise.kernels.compile")  # not imported for this
    kept = getattr(kernels, "kept", True)
    print(_COMPILING if kept else _COMPILING_AGAIN, file=sys.stderr)


class _RichBar:
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    def update(self, done: int, total: int | None, note: str = "") -> None:
        self._progress.update(self._task, completed=done, total=total, note=note)


@contextmanager
def progress(what: str, *, compiles: bool = True) -> Iterator[Bar]:
    """A bar on a terminal, from the second second on; elsewhere a word if kernels are compiled."""
    if not sys.stderr.isatty():
        quiet = _NoBar(compiles)
        try:
            yield quiet
        finally:
            quiet.update(0, None)
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
    bar = _RichBar(shown, shown.add_task(what, total=None, note=""))
    timer = Timer(_DELAY, shown.start)
    timer.daemon = True
    timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        timer.join()  # so that it cannot start behind our back
        shown.stop()
