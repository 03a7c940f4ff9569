"""Places to write to: looked at before the work begins, written whole or not at all."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from likewise.cli.endings import Stop


def check_place(path: Path | None, option: str, suffixes: Sequence[str] = ()) -> None:
    """Raise Stop now if nothing could be written there later."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise Stop(f"{option} {path}: expected a name that ends in {' or '.join(suffixes)}.")
    if path.is_dir():
        raise Stop(f"{option} {path} is a folder; expected the name of a file.")
    folder = path.parent
    if not folder.is_dir():
        raise Stop(f"{option} {path}: the folder {folder} is not there. Make it: mkdir -p {folder}")
    if not os.access(folder, os.W_OK):
        raise Stop(f"{option} {path}: nothing may be written to the folder {folder}.")


def write_text(path: Path, text: str) -> None:
    """A file with this text, whole or not at all."""
    with replacing(path) as file, told(path):
        file.write(text.encode("utf-8"))


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What goes wrong while a file is written, with its name."""
    try:
        yield
    except OSError as error:
        why = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        raise Stop(
            f"{path} cannot be written: {why}. Nothing is there now: name a file in a folder that"
            " may be written to and has room."
        ) from None


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which stands at the path once all is written."""
    from likewise.reports.whole import whole

    with ExitStack() as stack:
        with told(path):
            file = stack.enter_context(whole(path))
        yield file
        with told(path):
            stack.pop_all().close()
