"""The parts that a monitor is made of, from what the user declared."""

from typing import Any

from likewise.errors import BadRule
from likewise.monitor.readers.embedded_reader import EmbeddedReader
from likewise.monitor.readers.protocol import Reader
from likewise.monitor.readers.table_reader import TableReader
from likewise.monitor.readers.vector_reader import VectorReader
from likewise.monitor.time_span import TimeSpan
from likewise.rule.rule import Rule
from likewise.tables.times import duration


def make_reader(rule: Rule) -> Reader:
    """What reads decisions under a rule."""
    if not isinstance(rule, Rule):
        raise BadRule(f"the rule is {rule!r}; expected a likewise.Rule")
    if rule.features is not None:
        return TableReader(rule)
    return VectorReader(rule) if rule.embed is None else EmbeddedReader(rule)


def read_slope_options(
    slope: bool, slope_limit: float | None, input_exponent: float | None, **others: object
) -> dict[str, float] | None:
    """Read what is asked of slopes, as far as it is said; None if contradictions are asked for.

    others: settings that are about contradictions, and that were given
    """
    if not isinstance(slope, bool):
        raise BadRule(f"slope is {slope!r}; expected True or False", setting="slope")
    given = {"input_exponent": input_exponent, "limit": slope_limit}
    said = {name: value for name, value in given.items() if value is not None}
    if not slope and said:
        raise BadRule(
            "slope_limit and input_exponent are about slopes: say slope=True", setting="slope"
        )
    for name, value in others.items():
        if slope and value:
            raise BadRule(
                f"{name} is {value!r}, and slope is True: {name} is about contradictions, so leave"
                " one of them out.",
                setting=name,
            )
    return said if slope else None


def make_time_span(within: Any) -> TimeSpan:
    """How far back decisions are compared, from words such as "90 days"."""
    length = duration(within) if isinstance(within, str) else None
    if length is None or length <= 0:
        raise BadRule(
            f"within is {within!r}; expected how long before a decision its past begins, such as"
            ' "90 days", "24 hours" or "90 minutes"',
            setting="within",
        )
    return TimeSpan(within.strip(), length)
