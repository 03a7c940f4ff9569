"""What a reader noticed in a file and a person should know: a column that is read in another way
than its text stands, or words where numbers seem to be meant.

A source collects remarks while it reads (`source.remarks`); a command shows them once, on standard
error and as "remarks" in JSON.

Invariant: a remark is frozen, and everything that was read differently from its text has one.
"""

from dataclasses import asdict, dataclass
from typing import Any

_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that was noticed."""

    what: str
    """What was noticed, or how it is read."""
    column: str | None = None
    """The column it is about; None: the whole file."""
    example: str | None = None
    """A value as it stands in the file."""
    count: int | None = None
    """How many values it is about, of those read so far."""
    do: str = ""
    """What to do if that is not meant."""

    def __str__(self) -> str:
        about = "" if self.column is None else f"column {shorten(self.column)}: "
        some = [] if self.example is None else [f"such as {shorten(self.example)}"]
        some += [] if self.count is None else [f"{self.count:,} value{'s' * (self.count != 1)}"]
        brackets = f" ({', '.join(some)})" if some else ""
        return f"{about}{self.what}{brackets}.{f' {self.do}.' if self.do else ''}"

    def to_dict(self) -> dict[str, Any]:
        """The same fields, for JSON."""
        return asdict(self)


def shorten(value: str) -> str:
    """A name or a value in quotation marks, not too long."""
    return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 1] + "…")
