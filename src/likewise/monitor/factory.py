"""Make the parts of a monitor from what the user declared."""

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
    """Make the reader for decisions under a rule."""
    if not isinstance(rule, Rule):
        raise BadRule(f"the rule is {rule!r}; expected a likewise.Rule")
    if rule.features is not None:
        return TableReader(rule)
    return VectorReader(rule) if rule.embed is None else EmbeddedReader(rule)


def read_slope_options(
    slope: bool, slope_limit: float | None, input_exponent: float | None, **others: object
) -> dict[str, float] | None:
    """Return the settings for slopes that were given; None if contradictions are looked for.

    others: settings for contradictions, which `slope` excludes: falsy, or "auto", if not given
    """
    if not isinstance(slope, bool):
        raise BadRule(f"slope is {slope!r}; expected True or False", setting="slope")
    given = {"input_exponent": input_exponent, "limit": slope_limit}
    options = {name: value for name, value in given.items() if value is not None}
    if not slope and options:
        raise BadRule(
            "slope_limit and input_exponent are about slopes: say slope=True", setting="slope"
        )
    for name, value in others.items():
        is_default = name == "index" and isinstance(value, str) and value == "auto"
        if slope and value and not is_default:
            raise BadRule(
                f"{name} is {value!r}, and slope is True: {name} is about contradictions, so leave"
                " one of them out.",
                setting=name,
            )
    return options if slope else None


def make_time_span(within: Any) -> TimeSpan:
    """Make the limit on how far back decisions are compared, from words such as "90 days"."""
    length = duration(within) if isinstance(within, str) else None
    if length is None or length <= 0:
        raise BadRule(
            f"within is {within!r}; expected how long before a decision its past begins, such as"
            ' "90 days", "24 hours" or "90 minutes"',
            setting="within",
        )
    return TimeSpan(within.strip(), length)
