"""Reads files under one folder, and nothing outside of it.

A name is a path in the folder, or an absolute path below it. It must lead to a regular file, since
a pipe or a device could block, never end or act when opened; links within the folder are followed.
Invariant: a missing file, one outside, one that is not regular and one without permission are
refused in the same words, so that nobody learns which files exist.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Any

from likewise.errors import BadRule
from likewise.tables.printing import shorten

_LONGEST = 200  # characters of a path in an error
_MACHINE_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)  # not the name's fault
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY  # works without a right to list it
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class PictureFolder:
    """Reads files of a declared folder, which is resolved to a real path once."""

    def __init__(self, declared: str) -> None:
        self._named = Path(declared).absolute()
        self._real = Path(os.path.realpath(self._named))
        if not self._real.is_dir():
            raise BadRule(f"folder is {declared!r}; expected an existing folder", setting="folder")

    def read(self, name: str | os.PathLike[Any], most: int) -> bytes:
        """Return the content of a file; raise ValueError if it may not be opened or is too long."""
        try:
            file = _open_regular_file(self._real, self._steps(Path(os.fsdecode(name))))
        except (OSError, ValueError) as error:
            raise ValueError(f"{_quote_path(name)} {_explain(error)}") from None
        try:
            with os.fdopen(file, "rb") as opened:
                size = os.fstat(file).st_size
                content = opened.read(min(size, most) + 1)
        except OSError as error:
            raise ValueError(f"{_quote_path(name)} cannot be read: {error.strerror}") from None
        if size > most or len(content or b"") > most:
            raise file_too_large_error(_quote_path(name), most)
        return content or b""

    def _steps(self, name: Path) -> tuple[str, ...]:
        """Return the path from the folder to a file without links; raise ValueError if outside."""
        if ".." in name.parts:
            raise ValueError(name)
        if name.is_absolute():
            start = self._named if name.is_relative_to(self._named) else self._real
            name = name.relative_to(start)
        resolved = Path(os.path.realpath(self._real / name))
        steps = resolved.relative_to(self._real).parts
        if not steps:
            raise ValueError(name)
        return steps


def _open_regular_file(folder: Path, steps: tuple[str, ...]) -> int:
    """Return the descriptor of a regular file in the folder; follow no links.

    The steps had no links when they were resolved. If one has become a link since then, the system
    refuses to follow it.
    """
    at = os.open(folder, _FOLDER)
    try:
        for step in steps[:-1]:
            below = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            at, above = below, at
            os.close(above)
        before = os.stat(steps[-1], dir_fd=at, follow_symlinks=False)
        if not stat.S_ISREG(before.st_mode):  # opening a device may have an effect
            raise ValueError(steps[-1])
        file = os.open(steps[-1], _FILE, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(file).st_mode):  # it was replaced in the meantime
        os.close(file)
        raise ValueError(steps[-1])
    return file


def _explain(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS:
        return f"cannot be opened now: {error.strerror}"
    return (
        "is no file that may be opened; expected the path of a regular file in the folder that the"
        " rule declares"
    )


def file_too_large_error(what: str, most: int) -> ValueError:
    return ValueError(f"{what} has more bytes than limit_bytes, {most:,}")


def _quote_path(name: Any) -> str:
    return repr(shorten(os.fsdecode(name), _LONGEST))
