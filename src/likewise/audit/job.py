"""What is audited, by which rule, and how it is read: all that a task has to be told.

A job goes to other processes and machines as it is, so it holds plain values only, and paths that
are good wherever its tasks run.
"""

import glob
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from likewise.audit.audit_options import CELL_ROWS
from likewise.errors import BadFile
from likewise.rule.rule import Rule
from likewise.sources.binding import Binding
from likewise.sources.file_source import BY_NAME, PACKED, DecisionFile, open_source
from likewise.sources.remarks import Remark
from likewise.sources.time_columns import DayOrder, TimeForm


@dataclass(frozen=True)
class Job:
    """One partitioned audit.

    folder        where cells and results are kept
    files         in the order in which their lines count
    binding       the rule, and the columns that it takes
    reading       how files are read: the settings of `open_source`
    dates         the order of day and month, where the values do not tell
    time_column, model_column, within   as for any audit
    skip          whether bad rows are left out
    cell_rows     decisions that a cell is to have, at most, as far as space can be cut
    threads       cores that one task may use; all of them, unless given
    first_rows    of the first decisions in order, so many are kept for what is computed from a part
    pairs         whether every pair is written down, too
    base          the folder in which names of files are meant
    """

    folder: Path
    files: tuple[str, ...]
    binding: Binding
    reading: dict[str, Any] = field(default_factory=dict)
    dates: DayOrder | None = None
    time_column: str | None = None
    within: str | None = None
    model_column: str | None = None
    skip: bool = False
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
        """One of its files."""
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
        """What the files in its folder depend on, for JSON."""
        return {
            "format": 1,
            "rule": self.rule.fingerprint,
            "files": [_stamp(self.path(number)) for number in range(len(self.files))],
            "columns": list(self.binding.columns),
            "types": dict(self.binding.types),
            "reading": json.loads(json.dumps(self.reading)),
            "dates": self.dates,
            "time_column": self.time_column,
            "within": self.within,
            "model_column": self.model_column,
            "skip": self.skip,
            "cell_rows": self.cell_rows,
            "first_rows": self.first_rows,
            "pairs": self.pairs,
        }


def _stamp(path: Path) -> list[Any]:
    """A file, and what differs once it was written to."""
    try:
        found = path.stat()
    except OSError as error:
        raise BadFile(f"{path} cannot be looked at: {error.strerror}.", path=path) from None
    return [str(path), found.st_size, found.st_mtime_ns]


def expand_files(names: Sequence[str]) -> tuple[str, ...]:
    """The files that are meant: each as it is; of folders and patterns, by name.

    In a folder, files count whose names end as those of tables do, in it and in folders below.
    """
    files: list[str] = []
    for one in names:
        if one == "-":
            raise BadFile("standard input is read once; expected files, a folder or a pattern.")
        if Path(one).is_dir():
            found = [str(path) for path in sorted(Path(one).rglob("*")) if _is_table(path)]
        elif glob.has_magic(one) and not Path(one).exists():
            named = glob.glob(one, recursive=True)  # noqa: PTH207 - keeps names as they are given
            found = sorted(path for path in named if Path(path).is_file())
        else:
            found = [one]
        if not found:
            raise BadFile(f"{one} has no tables; expected files such as .parquet or .csv.")
        files += found
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
    """One checksum for several files, as `sha256sum FILES | sha256sum` tells it."""
    if len(digests) == 1:
        return digests[0][1]
    listed = "".join(f"{sha256}  {name}\n" for name, sha256 in digests)
    return hashlib.sha256(listed.encode()).hexdigest()


def form_to_dict(form: TimeForm | None) -> dict[str, Any] | None:
    """How times are written, for JSON."""
    if form is None:
        return None
    remarks = [one.to_dict() for one in form.remarks]
    return {"column": form.column, "form": form.form, "remarks": remarks}


def time_form_from_dict(fields: dict[str, Any] | None) -> TimeForm | None:
    if fields is None:
        return None
    return TimeForm(
        fields["column"], fields["form"], tuple(Remark(**one) for one in fields["remarks"])
    )
