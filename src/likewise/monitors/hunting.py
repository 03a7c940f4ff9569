"""A monitor whose decisions have one witness or none: the nearest, or the steepest.

Invariant: what is refused, and what is remembered, is what any `Monitor` refuses and remembers.
"""

from functools import partial
from typing import Any

from likewise.engine.engine import Engine
from likewise.indexes.nearest import NearestTree
from likewise.kernels import table as t
from likewise.monitors.monitor import Monitor
from likewise.reading.vectors import VectorReader
from likewise.rules.rule import Rule
from likewise.rules.steepest import Steepest
from likewise.values.errors import BadRule


def refuse_compare(rule: Rule) -> None:
    """Raise BadRule if a rule says which models are compared."""
    if rule.compare != "all":
        raise BadRule(
            f"compare is {rule.compare!r}, and a hunt for the nearest or the steepest knows nothing"
            ' of pairs that do not count; set it to "all" for that, or look at one model at a time',
            setting="compare",
        )


def hunting_monitor(rule: Rule, **question: Any) -> Monitor:
    """The monitor behind `calibrate` and `SlopeMonitor`; its trees answer the question."""
    engine = hunting_engine(rule, **question)
    return Monitor.of(VectorReader(rule), engine)


def hunting_engine(rule: Rule, **question: Any) -> Engine:
    """An engine whose trees answer the question; BadRule if it cannot under such a rule."""
    refuse_unhuntable(rule)
    return Engine(rule, index="live", tree=partial(NearestTree, **question))


def slopes_engine(rule: Rule, question: Steepest) -> Engine:
    """An engine that names the steepest past pair."""
    return hunting_engine(rule, question=t.STEEPEST, exponent=question.input_exponent)


def slope_monitor(rule: Rule, question: Steepest) -> Monitor:
    """The monitor inside of a `SlopeMonitor` in memory."""
    return Monitor.of(VectorReader(rule), slopes_engine(rule, question))


def refuse_unhuntable(rule: Rule) -> None:
    """Raise BadRule if nobody can hunt under a rule."""
    if not isinstance(rule, Rule):
        raise BadRule(f"the rule is {rule!r}; expected a likewise.Rule")
    if rule.features is not None or rule.embed is not None:
        raise BadRule(
            "the rule has features, or embeds; expected one for inputs that are vectors, since"
            " a hunt cannot read anything else yet. Encode inputs first, or use a Monitor."
        )
    refuse_compare(rule)
