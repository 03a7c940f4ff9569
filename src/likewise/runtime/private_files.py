"""Files that only their owner may read, whatever the umask; never opened through a link."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from likewise.errors import BadFile

# Atomic writes: a file appears complete or not at all.
# It is written next to its target under a new name that nobody can guess, so that no link is
# followed. Then it is renamed to its target; a link there is replaced, not followed.


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


FOLDER, FILE = 0o700, 0o600
MISSING_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Error numbers that mean that a file does not exist; any other means that we cannot know."""
NO_FILE_ERRNOS = (*MISSING_ERRNOS, errno.EISDIR, errno.EINVAL)
"""Error numbers that mean that there is no regular file: nothing, or something else."""


def open_private(path: str | os.PathLike[str], flags: int = 0) -> int:
    """Open a file for reading and writing, and create it if it is missing; return the descriptor.

    Raises OSError if that fails, if it is a link, or if it is not a regular file.
    """
    flags |= os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    file = os.open(path, flags, FILE)
    try:
        status = _require_regular(file, path)
        if status.st_size == 0 and stat.S_IMODE(status.st_mode) != FILE and hasattr(os, "fchmod"):
            os.fchmod(file, FILE)  # the umask took more than it should, or somebody made it first
    except BaseException:
        os.close(file)
        raise
    return file


def open_to_read(path: str | os.PathLike[str]) -> int:
    """Open a regular file for reading; raise OSError if it is none. Does not wait for a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    file = os.open(path, flags | getattr(os, "O_BINARY", 0))
    try:
        _require_regular(file, path)
    except BaseException:
        os.close(file)
        raise
    return file


def _require_regular(file: int, path: str | os.PathLike[str]) -> os.stat_result:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"{Path(path).name} is no regular file", os.fspath(path))
    return status


def is_there(path: Path) -> bool:
    """Whether a path exists; raise OSError if the system does not let us know."""
    try:
        path.stat()
    except OSError as error:
        if error.errno in MISSING_ERRNOS:
            return False
        raise
    return True


def make_folder(folder: Path) -> None:
    """Make a folder, and its missing parents, for their owner alone."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        try:
            path.mkdir(FOLDER)
        except FileExistsError:
            if not path.is_dir():
                raise
            continue  # another process made it
        if stat.S_IMODE(path.stat().st_mode) != FOLDER:
            path.chmod(FOLDER)  # the umask took more than it should


def make_private(path: Path) -> None:
    """Make an existing file readable for its owner alone, if it belongs to this user.

    It is not opened: closing a file of SQLite's would drop the locks that SQLite holds on it.
    """
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        code = errno.ELOOP if stat.S_ISLNK(status.st_mode) else errno.EINVAL
        raise OSError(code, f"{path.name} is no regular file", str(path))
    ours = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
    if ours and stat.S_IMODE(status.st_mode) != FILE:
        path.chmod(FILE)


def is_open_to_all(path: Path) -> bool:
    """Whether everybody on this machine may read or write a file; False if it is missing."""
    try:
        return os.name == "posix" and bool(path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH))
    except OSError:
        return False


def explain_os_error(error: OSError) -> str:
    """Return the reason of an error in words."""
    if error.errno == errno.ELOOP:
        name = Path(os.fsdecode(error.filename or "it")).name
        return f"{name} is a link, and likewise writes through none"
    return error.strerror or str(error)
