"""A job: what is audited, by which rule, and how it is read; every task gets one.

A job is sent to other processes and machines, so it holds plain values only, and paths that are
valid wherever its tasks run.
"""

import glob
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from likewise.audit.audit_options import CELL_ROWS, AuditOptions
from likewise.errors import BadFile
from likewise.rule.rule import Rule
from likewise.sources.binding import Binding
from likewise.sources.file_source import BY_NAME, PACKED, DecisionFile, open_source


@dataclass(frozen=True)
class Job:
    """Describes one partitioned audit.

    folder        where cells and results are stored
    files         in the order in which their lines count
    binding       the rule, and the columns that it takes
    options       times, models and bad rows, as for any audit; nothing else in them counts here
    reading       how files are read: the settings of `open_source`
    cell_rows     how many decisions a cell should have at most, as far as space can be cut
    threads       cores that one task may use; all of them by default
    first_rows    how many decisions to keep, the first in order, for what is computed from a part
    pairs         whether every pair is written to the folder, too
    base          the folder that names of files are relative to
    """

    folder: Path
    files: tuple[str, ...]
    binding: Binding
    options: AuditOptions = field(default_factory=AuditOptions)
    reading: dict[str, Any] = field(default_factory=dict)
    cell_rows: int = CELL_ROWS
    threads: int | None = None
    first_rows: int = 200_000
    pairs: bool = False
    base: Path = field(default_factory=Path.cwd)

    @property
    def rule(self) -> Rule:
        return self.binding.rule

    def path(self, number: int) -> Path:
        return self.base / self.files[number]

    def open(self, number: int) -> DecisionFile:
        """Open one of its files."""
        source = open_source(str(self.path(number)), **self.reading)
        missing = [name for name in self.binding.columns if name not in source.columns]
        if missing:
            source.close()
            raise BadFile(
                f"{source.name} has no column {missing[0]!r}, which {self.files[0]} has; expected"
                " files with the same columns.",
                path=source.name,
            )
        return source

    def identity(self) -> dict[str, Any]:
        """Return what the files in its folder depend on, for JSON."""
        options = ("dates", "time_column", "within", "model_column", "skip")
        return {
            "format": 1,
            "rule": self.rule.fingerprint,
            "files": [_stamp(self.path(number)) for number in range(len(self.files))],
            "columns": list(self.binding.columns),
            "types": dict(self.binding.types),
            "reading": json.loads(json.dumps(self.reading)),
            **{name: getattr(self.options, name) for name in options},
            "cell_rows": self.cell_rows,
            "first_rows": self.first_rows,
            "pairs": self.pairs,
        }


def _stamp(path: Path) -> list[Any]:
    """Return a file's name, and what changes when it is written to."""
    try:
        status = path.stat()
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}.", path=path) from None
    return [str(path), status.st_size, status.st_mtime_ns]


def expand_files(names: Sequence[str]) -> tuple[str, ...]:
    """Return the files that are named: folders and patterns give theirs sorted by name.

    In a folder and those below it, files count whose names end as those of tables do.
    """
    files: list[str] = []
    for name in names:
        if name == "-":
            raise BadFile("standard input is read once; expected files, a folder or a pattern.")
        if Path(name).is_dir():
            matching = [str(path) for path in sorted(Path(name).rglob("*")) if _is_table(path)]
        elif glob.has_magic(name) and not Path(name).exists():
            every = glob.glob(name, recursive=True)  # noqa: PTH207 - keeps names as they are given
            matching = sorted(path for path in every if Path(path).is_file())
        else:
            matching = [name]
        if not matching:
            raise BadFile(f"{name} has no tables; expected files such as .parquet or .csv.")
        files += matching
    twice = [one for one in files if files.count(one) > 1] if len(files) < 10_000 else []
    if twice:
        raise BadFile(f"{twice[0]} is named twice; expected each file once.")
    return tuple(files)


def _is_table(path: Path) -> bool:
    if path.name.startswith((".", "_")) or not path.is_file():
        return False
    suffix = Path(path.stem).suffix if path.suffix.lower() in PACKED else path.suffix
    return suffix.lower() in BY_NAME


def name_of(files: Sequence[str]) -> str:
    """Return what messages call the files."""
    return files[0] if len(files) == 1 else f"{len(files):,} files from {files[0]} on"


def digest_of(digests: Sequence[tuple[str, str]]) -> str:
    """Return one checksum for several files: that of `sha256sum FILES | sha256sum`."""
    if len(digests) == 1:
        return digests[0][1]
    listed = "".join(f"{sha256}  {name}\n" for name, sha256 in digests)
    return hashlib.sha256(listed.encode()).hexdigest()
