"""What a proposal says about columns: one note for each thing that a person should look at.

Invariant: the texts are ours; names and values from the data stand in `columns`, or in the text as
their repr, and whoever shows a note makes it safe.
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
    """Something about one column or several."""

    about: About
    columns: tuple[str, ...]
    text: str

    def to_dict(self) -> dict[str, object]:
        """As JSON has it."""
        return {"about": self.about, "columns": list(self.columns), "text": self.text}
