"""A file that is there whole or not at all.

It is written beside its place under a name that nobody can guess, which must be a new one, so that
no link is followed; then it takes its place, and replaces a link there too.
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
    """A file to write to; once the block has ended without an error, it stands at `path`.

    Its permissions are those of any new file. OSError if something cannot be written.
    """
    target = Path(path)
    beside = target.with_name(f".likewise-{secrets.token_hex(12)}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(beside, flags, 0o666), "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


@contextmanager
def name_write_errors(path: Path) -> Iterator[None]:
    """Raise BadFile, with the name of the file that is written, for what the system refuses."""
    try:
        yield
    except OSError as error:
        why = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        raise BadFile(
            f"{path} cannot be written: {why}. Nothing is there now: name a file in a folder that"
            " may be written to and has room.",
            path=path,
        ) from None


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """The same as `whole`, with BadFile for what the system refuses at its begin and its end."""
    with ExitStack() as stack:
        with name_write_errors(path):
            file = stack.enter_context(write_atomically(path))
        yield file
        with name_write_errors(path):
            stack.pop_all().close()
