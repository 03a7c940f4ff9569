"""From options to a source: the same words in every command that reads a file, and its remarks."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from likewise.cli import options as o
from likewise.cli.exit_codes import CommandError
from likewise.cli.terminal import say_on_stderr

if TYPE_CHECKING:
    from likewise.sources.file_source import DecisionFile
    from likewise.sources.remarks import Remark
    from likewise.sources.time_columns import DayOrder

_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
_SIGNS = {"comma": ",", "point": ".", ",": ",", ".": "."}
_REMARKS = 20  # shown on a terminal; JSON has all of them


@dataclass(frozen=True)
class ReadingOptions:
    """How a file is read."""

    format: o.Format = None
    delimiter: o.Delimiter = None
    missing: o.Missing = field(default_factory=list)
    on_bad_row: o.OnBadRow = "fail"
    decimal: o.Decimal = None
    dates: o.Dates = None
    encoding: o.Encoding = None
    header: o.Header = None
    sheet: o.Sheet = None

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
        """The order of 03/04/2024, if it was said."""
        from likewise.sources.time_columns import DAY_ORDERS

        return next((order for order in DAY_ORDERS if order == self.dates), None)

    def to_command(self, data: str) -> str:
        """A file and these options, as they are typed: how to read the same in the same way."""
        options = [
            *(["--format", self.format] if self.format else []),
            *(["--delimiter", self.delimiter] if self.delimiter else []),
            *(word for one in self.missing for word in ("--missing", one)),
            *(["--decimal", self.decimal] if self.decimal else []),
            *(["--dates", self.dates] if self.dates else []),
            *(["--encoding", self.encoding] if self.encoding else []),
            *([] if self.header is None else ["--header" if self.header else "--no-header"]),
            *(["--sheet", self.sheet] if self.sheet else []),
        ]
        return shlex.join([data, *options])

    @property
    def source_settings(self) -> dict[str, Any]:
        """For `open_source`."""
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
        """The file, closed again in the end; what was noticed in it is said then."""
        with self.open_quietly(path) as source:
            yield source
            say_remarks(source.name, source.remarks)

    @contextmanager
    def open_quietly(self, path: str) -> "Iterator[DecisionFile]":
        """The file, closed again in the end; nothing is said of it."""
        from likewise.sources.file_source import open_source

        source = open_source(path, **self.source_settings)
        try:
            yield source
        finally:
            source.close()


def say_remarks(name: str, remarks: "Sequence[Remark]", *, several: bool = False) -> None:
    """What was noticed in a file, or in several, on standard error."""
    if not remarks:
        return
    say_on_stderr(f"How {name} {'were' if several else 'was'} read:")
    for remark in remarks[:_REMARKS]:
        say_on_stderr(f"  {remark}")
    if len(remarks) > _REMARKS:
        say_on_stderr(f"  and {len(remarks) - _REMARKS:,} remarks more; --json has all of them")
