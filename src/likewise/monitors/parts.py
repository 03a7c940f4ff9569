"""The parts that a monitor is made of, from what the user declared."""

from typing import Any

from likewise.engine.time_span import TimeSpan
from likewise.ledger.times import duration
from likewise.reading.embedded import EmbeddedReader
from likewise.reading.protocol import Reader
from likewise.reading.tables import TableReader
from likewise.reading.vectors import VectorReader
from likewise.rules.rule import Rule
from likewise.values.errors import BadRule


def reader_of(rule: Rule) -> Reader:
    """What reads decisions under a rule."""
    if not isinstance(rule, Rule):
        raise BadRule(f"the rule is {rule!r}; expected a likewise.Rule")
    if rule.features is not None:
        return TableReader(rule)
    return VectorReader(rule) if rule.embed is None else EmbeddedReader(rule)


def span_of(within: Any) -> TimeSpan:
    """How far back decisions are compared, from words such as "90 days"."""
    length = duration(within) if isinstance(within, str) else None
    if length is None or length <= 0:
        raise BadRule(
            f"within is {within!r}; expected how long before a decision its past begins, such as"
            ' "90 days", "24 hours" or "90 minutes"',
            setting="within",
        )
    return TimeSpan(within.strip(), length)
