"""Checks that the output which a rule calls favourable occurs at all.

A rule that says favourable = "Yes" for a file that says "yes" would count nobody as having lost,
and the numbers would look like good news.

Invariant: `check` raises only after a decision was seen, and only if none had that output.
Cost: one look at each output; at most MOST different ones are kept for the error message.
"""

from typing import Any

from likewise.errors import BadTable
from likewise.rule.rule import Rule
from likewise.sources.protocol import Table, column_values
from likewise.tables.frames import is_missing
from likewise.tables.normalize import to_python_scalar

MOST = 1_000
"""How many different outputs are kept."""
_SHOWN = 6


class OutputsSeen:
    """Collects the outputs of a table, for a rule that says which one everyone wants.

    >>> seen = OutputsSeen(rule)  # doctest: +SKIP
    >>> seen.add(table)  # doctest: +SKIP
    >>> seen.check("decisions.csv")  # doctest: +SKIP
    """

    def __init__(self, rule: Rule) -> None:
        label = rule.output == "label" and rule.favourable is not None
        column = rule.output_column if label else None
        self._column = column if isinstance(column, str) else None
        self._favourable = rule.favourable
        self._seen: set[str] = set()  # each as its repr
        self._has_favourable = False

    def add(self, table: Table) -> None:
        """Add further decisions."""
        if self._column is None or self._has_favourable or len(table) == 0:
            return
        column = column_values(table, self._column)
        outputs = {to_python_scalar(value): 0 for value in column if not is_missing(value)}
        self._has_favourable = self._favourable in outputs
        room = MOST - len(self._seen)
        self._seen.update(map(repr, list(outputs)[:room] if room > 0 else ()))

    def merge(self, fields: dict[str, Any]) -> None:
        """Add what was seen elsewhere, as `to_dict` returned it."""
        self._has_favourable |= fields["found"]
        self._seen.update(fields["seen"])

    def to_dict(self) -> dict[str, Any]:
        """Return what was seen, for JSON."""
        return {"found": self._has_favourable, "seen": sorted(self._seen)}

    def check(self, source: str) -> None:
        """Raise BadTable if no decision so far had the favourable output."""
        if self._column is None or self._has_favourable or not self._seen:
            return
        seen = sorted(self._seen)
        more = f" and {len(seen) - _SHOWN:,} more" if len(seen) > _SHOWN else ""
        raise BadTable(
            f"the rule says favourable = {self._favourable!r}, and no decision of {source} has that"
            f" output: {self._column!r} is {', '.join(seen[:_SHOWN])}{more}. Write one of these in"
            " the rule, spelled exactly like this.",
            path=source,
            columns=[self._column],
        )
