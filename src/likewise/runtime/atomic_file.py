"""Atomic writes: a file appears complete or not at all.

It is written next to its target under a new name that nobody can guess, so that no link is
followed. Then it is renamed to its target; a link there is replaced, not followed.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from likewise.errors import BadFile


@contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a file to write to, and rename it to `path` if the block ends without an error.

    Its permissions are those of any new file. Raises OSError if something cannot be written.
    """
    target = Path(path)
    partial = target.with_name(f".likewise-{secrets.token_hex(12)}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(partial, flags, 0o666), "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


@contextmanager
def name_write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into BadFile, which names the file that is being written."""
    try:
        yield
    except OSError as error:
        why = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        raise BadFile(
            f"{path} cannot be written: {why}. No file was written: name a file in a folder that"
            " you may write to and that has room.",
            path=path,
        ) from None


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file as `write_atomically` does, but raise BadFile if it cannot begin or end."""
    with ExitStack() as stack:
        with name_write_errors(path):
            file = stack.enter_context(write_atomically(path))
        yield file
        with name_write_errors(path):
            stack.pop_all().close()
