"""Notes on columns: one for each thing in a proposal that a person should look at.

Invariant: names and values from the data are in `columns`, or in the text as their repr; whoever
shows a note has to escape it.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

About: TypeAlias = Literal[
    "output", "truth", "decision", "score", "leak", "index", "identifier", "text", "constant",
    "empty", "nested", "rounded", "time", "weight", "protected", "age", "proxy", "family", "code",
    "count", "loosened",
]  # fmt: skip


@dataclass(frozen=True)
class ColumnNote:
    """Says something about one column or several."""

    about: About
    columns: tuple[str, ...]
    text: str

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {"about": self.about, "columns": list(self.columns), "text": self.text}
