"""Options of every command that reads a file become a source, and its remarks are printed."""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from likewise.cli.exit_codes import CommandError
from likewise.cli.options import field_option
from likewise.cli.terminal import say_on_stderr
from likewise.errors import BadFile
from likewise.runtime.private_files import name_write_errors, replace_file

if TYPE_CHECKING:
    from likewise.sources.file_source import DecisionFile
    from likewise.sources.remarks import Remark
    from likewise.sources.time_columns import DayOrder


def check_output_path(path: Path | None, option: str, suffixes: Sequence[str] = ()) -> None:
    """Raise CommandError now if nothing could be written there later."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise CommandError(
            f"{option} {path}: expected a name that ends in {' or '.join(suffixes)}."
        )
    if path.is_dir():
        raise CommandError(f"{option} {path} is a folder; expected the name of a file.")
    folder = path.parent
    if not folder.is_dir():
        raise CommandError(
            f"{option} {path}: the folder {folder} does not exist. Make it: mkdir -p {folder}"
        )
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{option} {path}: nothing may be written to the folder {folder}.")


def write_text(path: Path, text: str) -> None:
    """Write a file with this text, whole or not at all."""
    with refuse_unwritable(path), replace_file(path) as file, name_write_errors(path):
        file.write(text.encode("utf-8"))


@contextmanager
def refuse_unwritable(*paths: Path | None) -> Iterator[None]:
    """Raise CommandError if one of these paths cannot be written: bad usage, not bad data."""
    try:
        yield
    except BadFile as error:
        if error.path is None or error.path not in map(str, paths):
            raise
        raise CommandError(str(error)) from None


def check_pairs_path(path: Path | None, data: str) -> None:
    """Raise CommandError now if pairs could not be written there later."""
    check_output_path(path, "--out", (".xlsx", ".csv", ".jsonl", ".parquet"))
    if path is not None and path.exists() and Path(data).exists() and path.samefile(data):
        raise CommandError(f"--out {path} is the file of decisions itself; name another file.")
    if path is not None and path.suffix.lower() == ".xlsx" and find_spec("xlsxwriter") is None:
        raise CommandError(
            f"--out {path} needs xlsxwriter, which is not installed: pip install"
            " '.[excel]' in the clone of likewise. .csv and .parquet need nothing more."
        )


_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
_SIGNS = {"comma": ",", "point": ".", ",": ",", ".": "."}
_REMARKS = 20  # shown on a terminal; JSON has all of them
_reading = partial(field_option, rich_help_panel="How the file is read")


@dataclass(frozen=True)
class ReadingOptions:
    """Options that say how a file is read."""

    format: str | None = _reading(
        "csv, tsv, jsonl, parquet, arrow or excel, if the name of the file does not say."
    )
    delimiter: str | None = _reading(
        "The character between the fields of a CSV file; `tab` is a tab.", show_default="detected"
    )
    missing: list[str] = _reading(
        "Text in a CSV file that stands for a missing value, such as ? or NA; may be repeated.",
        default=[],
        metavar="TEXT",
    )
    on_bad_row: str = _reading(
        "Stop at the first row that cannot be used, or leave such rows out and count them.",
        default="fail",
        metavar="fail|skip",
    )
    decimal: str | None = _reading(
        "The decimal sign of numbers in a CSV file.", metavar="point|comma", show_default="detected"
    )
    dates: str | None = _reading(
        "The order of 03/04/2024 in a column of times.",
        metavar="day-first|month-first",
        show_default="detected",
    )
    encoding: str | None = _reading(
        "The encoding of text, such as utf-8, utf-16, cp1252 or latin-1.", show_default="detected"
    )
    header: bool | None = _reading(
        "Whether the first line has the names of columns; without, they are column_1, …",
        "--header/--no-header",
        show_default="detected",
    )
    sheet: str | None = _reading(
        "The sheet of an Excel workbook.", metavar="NAME", show_default="the first"
    )

    def __post_init__(self) -> None:
        from likewise.sources.file_source import FORMATS
        from likewise.sources.time_columns import DAY_ORDERS

        if self.format is not None and self.format not in FORMATS:
            raise CommandError(f"--format is {self.format!r}; expected {', '.join(FORMATS)}.")
        if self.on_bad_row not in ("fail", "skip"):
            raise CommandError(f"--on-bad-row is {self.on_bad_row!r}; expected fail or skip.")
        delimiter = _NAMES.get(self.delimiter or "", self.delimiter)
        if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n'):
            raise CommandError(
                f"--delimiter is {self.delimiter!r}; expected one character, or tab."
            )
        if self.decimal is not None and self.decimal not in _SIGNS:
            raise CommandError(
                f"--decimal is {self.decimal!r}; expected point or comma (or the sign itself)."
            )
        if self.dates is not None and self.dates not in DAY_ORDERS:
            raise CommandError(f"--dates is {self.dates!r}; expected {' or '.join(DAY_ORDERS)}.")

    @property
    def skips_bad_rows(self) -> bool:
        return self.on_bad_row == "skip"

    @property
    def day_order(self) -> "DayOrder | None":
        """The order of day and month in 03/04/2024, if --dates gives it."""
        return cast("DayOrder | None", self.dates)  # `__post_init__` has checked it

    def to_command(self, data: str) -> str:
        """Return a file and these options as they are typed, to read the file in the same way."""
        words = [data]
        for name in ("format", "delimiter", "missing", "decimal", "dates", "encoding", "sheet"):
            value = getattr(self, name) or []
            for text in [value] if isinstance(value, str) else value:
                words += [f"--{name}", text]
        if self.header is not None:
            words.append("--header" if self.header else "--no-header")
        return shlex.join(words)

    @property
    def source_settings(self) -> dict[str, Any]:
        """Settings for `open_source`."""
        return {
            "format": self.format,
            "delimiter": _NAMES.get(self.delimiter or "", self.delimiter),
            "missing": list(self.missing),
            "decimal": _SIGNS[self.decimal] if self.decimal else None,
            "encoding": self.encoding,
            "header": self.header,
            "sheet": self.sheet,
        }

    @contextmanager
    def open(self, path: str) -> "Iterator[DecisionFile]":
        """Open a file; at the end close it and print the remarks on how it was read."""
        with self.open_quietly(path) as source:
            yield source
            say_remarks(source.name, source.remarks)

    @contextmanager
    def open_quietly(self, path: str) -> "Iterator[DecisionFile]":
        """Open a file, and close it at the end; no remarks are printed."""
        from likewise.sources.file_source import open_source

        source = open_source(path, **self.source_settings)
        try:
            yield source
        finally:
            source.close()


def say_remarks(name: str, remarks: "Sequence[Remark]", *, several: bool = False) -> None:
    """Print remarks on how a file was read, or several, on standard error."""
    if not remarks:
        return
    say_on_stderr(f"How {name} {'were' if several else 'was'} read:")
    for remark in remarks[:_REMARKS]:
        say_on_stderr(f"  {remark}")
    if len(remarks) > _REMARKS:
        say_on_stderr(f"  and {len(remarks) - _REMARKS:,} remarks more; --json has all of them")
