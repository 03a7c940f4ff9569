"""Bad rows: how many there are, the first few, and how many of each kind.

Invariant: every row that is added is counted; reasons that differ only in values are one kind.
Cost: a few reasons, however many rows there are.
"""

import re
from typing import Any

from likewise.sources.chunk import Refused

SHOWN = 10
_KINDS = 20  # kinds of reasons that are counted apart
_COLUMN = re.compile(r"'[^']*'")
_VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|-?\d[\d.,]*")


class RefusedRows:
    """Rows that could not be read, or not be judged."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Refused] = []
        self._kinds: dict[str, tuple[Refused, int]] = {}

    def add(self, row: Refused, many: int = 1) -> None:
        """A row; or the first of `many` that are refused for one kind of reason."""
        self.count += many
        if len(self.first) < SHOWN:
            self.first.append(row)
        self._add_kind(row, many)

    def _add_kind(self, row: Refused, many: int) -> None:
        kind = _kind(row.why)
        if kind in self._kinds or len(self._kinds) < _KINDS:
            first, before = self._kinds.get(kind, (row, 0))
            self._kinds[kind] = first, before + many

    def kinds(self) -> list[tuple[Refused, int]]:
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
            "first": [[one.place, one.why] for one in self.first],
            "kinds": [[one.place, one.why, many] for one, many in self._kinds.values()],
        }

    @classmethod
    def of_dict(cls, told: dict[str, Any]) -> "RefusedRows":
        made = cls()
        made.count = told["count"]
        made.first = [Refused(*one) for one in told["first"]]
        for place, why, many in told["kinds"]:
            made._add_kind(Refused(place, why), many)
        return made


def _kind(why: str) -> str:
    """A reason without its values, but with the column that it begins with, if it does.

    >>> _kind("'age' is 'old'; expected a number")
    "'age' is …; expected a number"
    """
    column = _COLUMN.match(why)
    name = column[0] if column else ""
    return name + _VALUES.sub("…", why[len(name) :])
