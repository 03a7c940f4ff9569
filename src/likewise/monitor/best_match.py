"""Make engines that name one witness or none: the nearest that differs, or the steepest.

Invariant: what is refused, and what is remembered, is what any engine refuses and remembers.
"""

from functools import partial

from likewise.errors import BadRule
from likewise.rule.rule import Rule
from likewise.search.engine.engine import Engine
from likewise.search.indexes.best_index import NearestTree
from likewise.search.kernels import table as t
from likewise.verdict.slope import SlopeQuestion


def make_nearest_engine(rule: Rule, limit: float) -> Engine:
    """Make an engine that names the nearest past decision that differs, within a limit."""
    check_best_match_rule(rule)
    return Engine(rule, index="live", tree=partial(NearestTree, limit=limit))


def make_slope_engine(rule: Rule, question: SlopeQuestion) -> Engine:
    """Make an engine that names the steepest past pair."""
    check_best_match_rule(rule)
    tree = partial(NearestTree, question=t.STEEPEST, exponent=question.input_exponent)
    return Engine(rule, index="live", tree=tree, question=question)


def check_compares_all(rule: Rule) -> None:
    """Raise BadRule if a rule says which models are compared."""
    if rule.compare != "all":
        raise BadRule(
            f"compare is {rule.compare!r}, and a search for the nearest or the steepest pair cannot"
            ' leave out pairs; set it to "all" for that, or look at one model at a time',
            setting="compare",
        )


def check_best_match_rule(rule: Rule) -> None:
    """Raise BadRule if the nearest or steepest pair cannot be searched under a rule."""
    if rule.features is not None or rule.embed is not None:
        raise BadRule(
            "the rule has features, or embeds; expected one for inputs that are vectors, since"
            " this search cannot read anything else yet. Encode inputs first, or use a Monitor."
        )
    check_compares_all(rule)
