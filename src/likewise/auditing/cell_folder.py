"""Manages the folder of a partitioned audit: what is in it, and which steps are done.

    audit.json            what the rest depends on: files, rule, columns
    look.json             the cuts, and the format of times
    spread/00003.json     file 3 is spread: its pieces by cell, what was refused, its checksum
    spread/00003.npz      the times and keys of its rows, where these count
    cells/00012/          pieces of cell 12, one or more from each file
    order.json            the order of all rows; ranks.bin and left-out.npy where that takes more
    results/00012.npz     cell 12 is judged; results/00012.rows.arrow: rows of it that are shown

Invariant: a step is done when its file exists, which is written atomically and after everything
that it refers to. So a run that was killed continues where it stopped. Pieces that no file refers
to are left over from such a run, and are removed.
Files are readable for their owner alone: they contain the data.
"""

import contextlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from likewise.auditing.job import Job
from likewise.errors import BadFile
from likewise.runtime.private_files import make_folder, write_atomically

try:
    import fcntl
except ImportError:  # Windows: nothing prevents two runs in one folder
    fcntl = None  # type: ignore[assignment]


_KindT = TypeVar("_KindT")
_ORPHAN_WAIT_SECONDS = 30.0
_FOLDERS = ("spread", "cells", "results")
_HALF_WRITTEN = ".likewise-*.partial"


class AuditFolder:
    """Names the files of one such folder, locks it, and begins a job in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = path / "audit.json"
        self.look = path / "look.json"
        self.order = path / "order.json"
        self.ranks = path / "ranks.bin"
        self.left_out = path / "left-out.npy"

    def spread(self, number: int, suffix: str = "json") -> Path:
        return self.path / "spread" / f"{number:05d}.{suffix}"

    def cell(self, cell: int) -> Path:
        return self.path / "cells" / f"{cell:05d}"

    def new_piece(self, cell: int, number: int) -> Path:
        """Return a new name for a piece of a cell from a file."""
        folder = self.cell(cell)
        make_folder(folder)
        return folder / f"{number:05d}-{secrets.token_hex(6)}.arrow"

    def result(self, cell: int, suffix: str = "npz") -> Path:
        return self.path / "results" / f"{cell:05d}.{suffix}"

    def read_column_names(self) -> list[str] | None:
        """Read the columns that its cells hold, or will; None if no audit was begun here."""
        if not self.manifest.exists():
            return None
        return list(read_json(self.manifest, dict).get("columns", []))

    # Steps

    def begin(self, job: Job) -> None:
        """Make the folder for a job, or continue in one that was made for it; raise BadFile."""
        for half_written in self.path.rglob(_HALF_WRITTEN):
            half_written.unlink(missing_ok=True)
        identity = job.identity()
        if self.manifest.exists():
            before = read_json(self.manifest, dict)
            changed = sorted(key for key in identity if before.get(key) != identity[key])
            if changed:
                what = _describe_differences(changed, before, identity)
                raise BadFile(
                    f"{self.path} was begun for another audit: {what}. Name another folder for"
                    " --partition, or remove this one.",
                    path=self.path,
                )
            return
        for name in _FOLDERS:
            make_folder(self.path / name)
        write_json(self.manifest, identity)

    def _check_new_or_own(self) -> None:
        """Raise BadFile if something else is in the folder, before anything is written there."""
        if not self.path.exists() or self.manifest.exists():
            return
        if self.path.is_dir():
            others = {one.name for one in self.path.iterdir() if not one.match(_HALF_WRITTEN)}
            if others <= {"lock", "workers", *_FOLDERS}:
                return
        raise BadFile(
            f"{self.path} exists and is not a folder of a partitioned audit; expected a new or an"
            " empty one. Nothing was changed: name another folder for --partition.",
            path=self.path,
        )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep others from working in this folder; raise BadFile if somebody does.

        Workers of a run that was killed end soon after it, and are waited for. A run that fails
        before space is cut leaves nothing to continue with: a folder that it made is removed.
        """
        self._check_new_or_own()
        new_folders = [one for one in (self.path, *self.path.parents) if not one.exists()]
        make_folder(self.path)
        with (self.path / "lock").open("ab") as file:
            if not _try_lock(file, shared=False):
                raise BadFile(
                    f"another audit is running in {self.path}. Wait for it, or name another folder."
                )
            with (self.path / "workers").open("ab") as workers:
                until = time.monotonic() + _ORPHAN_WAIT_SECONDS
                while not _try_lock(workers, shared=False):
                    if time.monotonic() > until:
                        raise BadFile(
                            f"workers of an earlier audit are still running in {self.path}. Stop"
                            " them, and start again."
                        )
                    time.sleep(0.05)
            begun_here = not self.manifest.exists()
            try:
                yield
            except BaseException:
                if begun_here and not self.look.exists():
                    self._remove(new_folders)
                raise

    def _remove(self, new_folders: list[Path]) -> None:
        """Remove what was begun, and the folders that were made for it."""
        for half_written in self.path.glob(_HALF_WRITTEN):
            half_written.unlink(missing_ok=True)
        for file in (self.manifest, self.path / "workers", self.path / "lock"):
            with contextlib.suppress(OSError):  # Windows: it is open
                file.unlink(missing_ok=True)
        for folder in (*(self.path / name for name in _FOLDERS), *new_folders):
            with contextlib.suppress(
                OSError
            ):  # missing, or not empty: it has somebody else's files
                folder.rmdir()

    @contextmanager
    def mark_working(self) -> Iterator[None]:
        """Hold the lock that says a task is running in this folder."""
        with (self.path / "workers").open("ab") as file:
            _try_lock(file, shared=True)
            yield

    def remove_leftovers(self, number: int) -> None:
        """Remove the pieces of a file that was not spread to its end."""
        for piece in (self.path / "cells").glob(f"*/{number:05d}-*.arrow"):
            piece.unlink(missing_ok=True)


def _try_lock(file: IO[bytes], *, shared: bool) -> bool:
    """Take the lock of a file if it is free; closing the file releases it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


_OPTIONS = {
    "format": "the version of the folder",
    "rule": "the rule",
    "reading": "how files are read",
    "dates": "--dates",
    "time_column": "--time-column",
    "within": "--within",
    "model_column": "--model-column",
    "skip": "--on-bad-row",
    "cell_rows": "--cell-rows",
}
"""What a user would call each key of the manifest."""


def _describe_differences(changed: list[str], before: dict[str, Any], now: dict[str, Any]) -> str:
    """Say what has changed, in the words of the options."""
    if "files" in changed:
        then = {tuple(one) for one in before.get("files", ())}
        new = [one[0] for one in now["files"] if tuple(one) not in then]
        return f"{new[0] if new else 'one of its files'} has changed"
    options = [key for key in _OPTIONS if key in changed]
    if options:  # these explain why columns and their types differ, if they do
        return " and ".join(_describe_difference(key, before.get(key), now[key]) for key in options)
    return f"{', '.join(changed)} {'has' if len(changed) == 1 else 'have'} changed"


def _describe_difference(key: str, before: Any, now: Any) -> str:
    if key in ("format", "rule", "reading"):
        return f"{_OPTIONS[key]} has changed"
    if key == "skip":
        before, now = ("skip" if one else "fail" for one in (before, now))
    was, is_now = ("not given" if one is None else one for one in (before, now))
    return f"{_OPTIONS[key]} was {was} and is {is_now}"


def read_json(path: Path, kind: type[_KindT]) -> _KindT:
    """Read plain values, or a dataclass of them, as `write_json` wrote them."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadFile(
            f"{path} cannot be read ({error}). Remove the folder and start again.", path=path
        ) from None


def write_json(path: Path, value: Any) -> None:
    with write_atomically(path) as file:
        file.write(msgspec.json.encode(value))
