"""Engines whose decisions have one witness or none: the nearest that differs, or the steepest.

Invariant: what is refused, and what is remembered, is what any engine refuses and remembers.
"""

from functools import partial

from likewise.errors import BadRule
from likewise.rule.rule import Rule
from likewise.search.engine.engine import Engine
from likewise.search.indexes.best_index import NearestTree
from likewise.search.kernels import table as t
from likewise.verdict.slope import Steepest


def nearest_engine(rule: Rule, limit: float) -> Engine:
    """Make an engine that names the nearest past decision that differs, within a limit."""
    refuse_unhuntable(rule)
    return Engine(rule, index="live", tree=partial(NearestTree, limit=limit))


def slopes_engine(rule: Rule, question: Steepest) -> Engine:
    """Make an engine that names the steepest past pair."""
    refuse_unhuntable(rule)
    tree = partial(NearestTree, question=t.STEEPEST, exponent=question.input_exponent)
    return Engine(rule, index="live", tree=tree, question=question)


def refuse_compare(rule: Rule) -> None:
    """Raise BadRule if a rule says which models are compared."""
    if rule.compare != "all":
        raise BadRule(
            f"compare is {rule.compare!r}, and a hunt for the nearest or the steepest knows nothing"
            ' of pairs that do not count; set it to "all" for that, or look at one model at a time',
            setting="compare",
        )


def refuse_unhuntable(rule: Rule) -> None:
    """Raise BadRule if nobody can hunt under a rule."""
    if rule.features is not None or rule.embed is not None:
        raise BadRule(
            "the rule has features, or embeds; expected one for inputs that are vectors, since"
            " a hunt cannot read anything else yet. Encode inputs first, or use a Monitor."
        )
    refuse_compare(rule)
