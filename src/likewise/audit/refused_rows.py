"""Bad rows: how many there are, the first few, and how many of each kind.

Invariant: every row that is added is counted; reasons with one code about one column are one kind.
Cost: a few reasons, however many rows there are.
"""

from dataclasses import astuple
from typing import Any

from likewise.monitor.bad_rows import RejectedRow, describe_refusal
from likewise.sources.chunk import Chunk, RefusedRow

SHOWN = 10
_KINDS = 20  # kinds of reasons that are counted apart


class RefusedRows:
    """Rows that could not be read, or not be judged."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[RefusedRow] = []
        self._kinds: dict[tuple[str, str], tuple[RefusedRow, int]] = {}

    def add(self, row: RefusedRow, many: int = 1) -> None:
        """A row; or the first of `many` that are refused for one kind of reason."""
        self.count += many
        if len(self.first) < SHOWN:
            self.first.append(row)
        self._add_kind(row, many)

    def _add_kind(self, row: RefusedRow, many: int) -> None:
        kind = row.code, row.column
        if kind in self._kinds or len(self._kinds) < _KINDS:
            first, before = self._kinds.get(kind, (row, 0))
            self._kinds[kind] = first, before + many

    def kinds(self) -> list[tuple[RefusedRow, int]]:
        """The first row refused for each kind of reason, and how many; the most frequent first."""
        return sorted(self._kinds.values(), key=lambda one: (-one[1], one[0].place))

    def merge(self, later: "RefusedRows") -> None:
        """Add those of a later file, or part of one."""
        self.count += later.count
        self.first += later.first[: SHOWN - len(self.first)]
        for row, many in later._kinds.values():
            self._add_kind(row, many)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `of_dict` gives it back."""
        return {
            "count": self.count,
            "first": [astuple(one) for one in self.first],
            "kinds": [[*astuple(one), many] for one, many in self._kinds.values()],
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "RefusedRows":
        made = cls()
        made.count = fields["count"]
        made.first = [RefusedRow(*one) for one in fields["first"]]
        for *one, many in fields["kinds"]:
            made._add_kind(RefusedRow(*one), many)
        return made


def refused_row(row: RejectedRow[Chunk]) -> RefusedRow:
    """Return where a row stands that was refused, and why."""
    error = row.error
    return RefusedRow(
        int(row.rows.places[0]), describe_refusal(error), error.code, error.column or ""
    )
