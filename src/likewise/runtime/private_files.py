"""Files that only their owner may read: made so whatever the umask, never through a link."""

import errno
import os
import stat
from pathlib import Path

FOLDER, FILE = 0o700, 0o600
MISSING_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""What the system says of a file that is not there; anything else is a failure to look."""
NO_FILE_ERRNOS = (*MISSING_ERRNOS, errno.EISDIR, errno.EINVAL)
"""The same where something else may be in its place."""


def open_private(path: str | os.PathLike[str], flags: int = 0) -> int:
    """A descriptor to read and write a file, which is made unless it is there.

    OSError if that fails, if it is a link, or if it is no regular file.
    """
    flags |= os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    file = os.open(path, flags, FILE)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, f"{Path(path).name} is no regular file", os.fspath(path))
        if found.st_size == 0 and stat.S_IMODE(found.st_mode) != FILE and hasattr(os, "fchmod"):
            os.fchmod(file, FILE)  # the umask took more than it should, or somebody made it first
    except BaseException:
        os.close(file)
        raise
    return file


def open_to_read(path: str | os.PathLike[str]) -> int:
    """A descriptor to read a regular file; OSError if it is none. Does not wait for a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    file = os.open(path, flags | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, f"{Path(path).name} is no regular file", os.fspath(path))
    return file


def is_there(path: Path) -> bool:
    """Whether there is something under that name; OSError if that cannot be told."""
    try:
        path.stat()
    except OSError as error:
        if error.errno in MISSING_ERRNOS:
            return False
        raise
    return True


def make_folder(folder: Path) -> None:
    """Make a folder, and those above that are not there, for their owner alone."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        try:
            one.mkdir(FOLDER)
        except FileExistsError:
            if not one.is_dir():
                raise
            continue  # another process made it
        if stat.S_IMODE(one.stat().st_mode) != FOLDER:
            one.chmod(FOLDER)  # the umask took more than it should


def make_private(path: Path) -> None:
    """Have a file that was made earlier readable for its owner alone, if it is ours to change.

    By its name: to open and close a file of SQLite's would drop the locks that it holds on it.
    """
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        code = errno.ELOOP if stat.S_ISLNK(found.st_mode) else errno.EINVAL
        raise OSError(code, f"{path.name} is no regular file", str(path))
    ours = hasattr(os, "geteuid") and found.st_uid == os.geteuid()
    if ours and stat.S_IMODE(found.st_mode) != FILE:
        path.chmod(FILE)


def is_open_to_all(path: Path) -> bool:
    """Whether everybody on this machine may read or write a file; False if it is not there."""
    try:
        return os.name == "posix" and bool(path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH))
    except OSError:
        return False


def explain_os_error(error: OSError) -> str:
    """The reason for people."""
    if error.errno == errno.ELOOP:
        name = Path(os.fsdecode(error.filename or "it")).name
        return f"{name} is a link, and nothing is written through one"
    return error.strerror or str(error)
