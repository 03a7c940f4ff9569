"""Remarks say what a reader noticed in a file, such as words where numbers seem to be meant.

A source collects remarks while it reads (`source.remarks`); a command shows them once, on standard
error and as "remarks" in JSON.
Invariant: a remark is frozen, and everything that is read differently from its text has one.
"""

from dataclasses import asdict, dataclass
from typing import Any

_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Remark:
    """Says one thing that was noticed in a file."""

    what: str
    """What was noticed, or how the column is read."""
    column: str | None = None
    """The column it is about; None: the whole file."""
    example: str | None = None
    """A value as it stands in the file."""
    count: int | None = None
    """How many of the values read so far it is about."""
    do: str = ""
    """What to do if that is wrong."""

    def __str__(self) -> str:
        about = "" if self.column is None else f"column {shorten(self.column)}: "
        facts = [] if self.example is None else [f"such as {shorten(self.example)}"]
        facts += [] if self.count is None else [f"{self.count:,} value{'s' * (self.count != 1)}"]
        brackets = f" ({', '.join(facts)})" if facts else ""
        return f"{about}{self.what}{brackets}.{f' {self.do}.' if self.do else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return asdict(self)


def shorten(value: str, most: int = _SHOWN) -> str:
    """Quote a name or a value, shortened to `most` characters."""
    return repr(value if len(value) <= most else value[: most - 1] + "…")
