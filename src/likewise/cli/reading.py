"""From options to a source: the same words in every command that reads a file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from likewise.cli.endings import Stop
from likewise.sources.files import FORMATS, Source, open_source

_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}


@dataclass(frozen=True)
class Reading:
    """How a file is read."""

    format: str | None = None
    delimiter: str | None = None
    missing: Sequence[str] = ()
    on_bad_row: str = "fail"

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise Stop(f"--format is {self.format!r}; expected {', '.join(FORMATS)}.")
        if self.on_bad_row not in ("fail", "skip"):
            raise Stop(f"--on-bad-row is {self.on_bad_row!r}; expected fail or skip.")
        delimiter = _NAMES.get(self.delimiter or "", self.delimiter)
        if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n'):
            raise Stop(f"--delimiter is {self.delimiter!r}; expected one character, or tab.")

    @property
    def skip(self) -> bool:
        return self.on_bad_row == "skip"

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """The file, closed again in the end."""
        delimiter = _NAMES.get(self.delimiter or "", self.delimiter)
        source = open_source(path, format=self.format, delimiter=delimiter, missing=self.missing)
        try:
            yield source
        finally:
            source.close()
