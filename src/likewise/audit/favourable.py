"""Whether the output that a rule calls favourable occurs at all.

A rule that says favourable = "Yes" of a file that says "yes" would count nobody as having lost, and
the numbers would look like good news.

Invariant: `check` raises only after a decision was seen, and only if none had that output.
Cost: one look at each output; at most MOST different ones are kept to be named.
"""

from typing import Any

from likewise.errors import BadTable
from likewise.rule.rule import Rule
from likewise.sources.chunk import Table
from likewise.tables.frames import is_missing
from likewise.tables.normalize import to_python_scalar

MOST = 1_000
"""Different outputs kept."""
_SHOWN = 6


class OutputsSeen:
    """The outputs of a table, for a rule that says which one everyone wants.

    >>> seen = OutputsSeen(rule)  # doctest: +SKIP
    >>> seen.add(table)  # doctest: +SKIP
    >>> seen.check("decisions.csv")  # doctest: +SKIP
    """

    def __init__(self, rule: Rule) -> None:
        label = rule.output == "label" and rule.favourable is not None
        column = rule.output_column if label else None
        self._column = column if isinstance(column, str) else None
        self._favourable = rule.favourable
        self._seen: set[str] = set()  # as they are told
        self._found = False

    def add(self, table: Table) -> None:
        """Further decisions."""
        if self._column is None or self._found or len(table) == 0:
            return
        name = self._column
        column = [row.get(name) for row in table] if isinstance(table, list) else table[name]
        outputs = {to_python_scalar(value): 0 for value in column if not is_missing(value)}
        self._found = self._favourable in outputs
        room = MOST - len(self._seen)
        self._seen.update(map(repr, list(outputs)[:room] if room > 0 else ()))

    def merge(self, fields: dict[str, Any]) -> None:
        """Add what was seen elsewhere, as `to_dict` tells it."""
        self._found |= fields["found"]
        self._seen.update(fields["seen"])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"found": self._found, "seen": sorted(self._seen)}

    def check(self, source: str) -> None:
        """Raise BadTable if no decision so far had the favourable output."""
        if self._column is None or self._found or not self._seen:
            return
        seen = sorted(self._seen)
        more = f" and {len(seen) - _SHOWN:,} more" if len(seen) > _SHOWN else ""
        raise BadTable(
            f"the rule says favourable = {self._favourable!r}, and no decision of {source} has that"
            f" output: {self._column!r} is {', '.join(seen[:_SHOWN])}{more}. Say one of these in"
            " the rule, written just so.",
            path=source,
            columns=[self._column],
        )
