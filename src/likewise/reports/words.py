"""A rule and what was found, in plain words: the same on the screen and on the page.

`wording` keeps the parts apart, for a page that sets them as a list; `in_words` is all of it, line
by line. Values from the data stand in the text as they are: whoever prints it makes it safe.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from likewise.explaining.groups import Groups
from likewise.reports.findings import Findings
from likewise.reports.safe import shortened, shown
from likewise.rules.feature import Feature
from likewise.rules.rule import Rule

_FEW = 8  # names in a list before it says how many more; pairs too few to speak of
_LINES = 16  # conditions, each on a line of its own
MANY = 60  # names of columns in one condition
_LOPSIDED = 1.2  # one side this many times the other is worth a sentence


@dataclass(frozen=True)
class Wording:
    """A rule in words: when two decisions are alike, when they differ, and what else holds."""

    alike: str
    conditions: tuple[tuple[tuple[str, ...], str], ...]
    """Columns, and what holds in each of them."""
    different: str
    notes: tuple[str, ...]


def in_words(rule: Rule) -> list[str]:
    """The rule in plain words, one line each; conditions begin with a dash.

    >>> in_words(Rule(metric="linf", epsilon=0.16))[0]
    'Two decisions are alike if no coordinate of their inputs differs by more than 0.16.'
    """
    said = wording(rule)
    conditions = (f"- {listed(names, MANY)}: {what}" for names, what in said.conditions)
    return [said.alike, *conditions, said.different, *said.notes]


def wording(rule: Rule) -> Wording:
    if rule.features is None:
        return Wording(_alike_vectors(rule), (), _different(rule), tuple(_notes(rule, {})))
    features: dict[str, Feature] = dict(rule.features)
    measured = {name: one for name, one in features.items() if one.measured}
    alone = rule.metric == "linf"
    each = {
        name: _condition(one, rule.epsilon if alone else 1.0, alone)
        for name, one in measured.items()
    }
    return Wording(
        _alike_tables(rule), _together(each), _different(rule), tuple(_notes(rule, features))
    )


def _together(each: Mapping[str, str]) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Conditions column by column; of many columns, those with the same condition together."""
    if len(each) <= _LINES:
        return tuple(((name,), what) for name, what in each.items())
    names: dict[str, list[str]] = {}
    for name, what in each.items():
        names.setdefault(what, []).append(name)
    return tuple((tuple(some), what) for what, some in names.items())


def figure(value: float) -> str:
    """A number as a person would write it."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.6g}" if 1e-4 <= abs(value) < 1e15 else f"{value:.4g}"


def percent(share: float) -> str:
    """A share, with as many digits as it needs; never 0% for something, nor 100% for less."""
    hundred = 100 * share
    if share in (0, 1):
        return f"{hundred:.0f}%"
    if hundred >= 99.95:
        return f"{hundred:.2f}%" if hundred < 99.995 else "almost 100%"
    return f"{hundred:.1f}%" if hundred >= 1 else f"{hundred:.2g}%"


def listed(names: Iterable[Any], most: int = _FEW) -> str:
    """a, b and c."""
    texts = [str(name) for name in names]
    if len(texts) > most:
        texts = [*texts[:most], f"{len(texts) - most:,} more"]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


# Near


def _alike_vectors(rule: Rule) -> str:
    epsilon = figure(rule.epsilon)
    weighted = "" if rule.weights is None else ", each multiplied by its weight,"
    said = {
        "linf": f"no coordinate of their inputs differs by more than {epsilon}",
        "l1": f"the differences of their inputs' coordinates add up to at most {epsilon}",
        "l2": f"their inputs lie at most {epsilon} apart (Euclidean distance)",
        "cosine": f"the cosine distance of their inputs is at most {epsilon}",
    }[rule.metric]
    if rule.weights is not None:
        said = {
            "linf": f"no difference of a coordinate{weighted} is more than {epsilon}",
            "l1": f"the differences of coordinates{weighted} add up to at most {epsilon}",
            "l2": f"their inputs lie at most {epsilon} apart (weighted Euclidean distance)",
            "cosine": f"the weighted cosine distance of their inputs is at most {epsilon}",
        }[rule.metric]
    return f"Two decisions are alike if {said}{_by(rule.embed)}."


def _by(embed: Any) -> str:
    return "" if embed is None else f", as {embed.text} embeds them"


def _alike_tables(rule: Rule) -> str:
    if rule.metric == "linf":
        return "Two decisions are alike if all of this holds:"
    together = "add up to" if rule.metric == "l1" else "come together (root of their squares) to"
    return (
        "Two decisions are alike if their differences, each measured in the unit given here,"
        f" {together} at most {figure(rule.epsilon)}:"
    )


def _condition(feature: Feature, epsilon: float, alone: bool) -> str:
    """What likeness means in one column. alone: each column by itself, else together."""
    if feature.kind == "category":
        text = _category(feature, epsilon, alone)
    elif feature.ratio is not None:
        above = figure(round(100 * (feature.ratio**epsilon - 1), 6))
        text = f"within {above}% of each other" if alone else f"in units of {above}% of the value"
    else:
        size = float(feature.tolerance or 0) * epsilon
        amount = figure(size)
        if feature.kind == "ordinal":
            amount += " step" if size == 1 else " steps"
            text = f"at most {amount} apart" if alone else f"in units of {amount}"
            text += f", in the order {_order(feature)}"
        else:
            text = f"at most {amount} apart" if alone else f"in units of {amount}"
            text += _by(feature.embed)
    missing = {
        "reject": "",
        "mismatch": "; a missing value is like another missing value only",
        "match": "; a missing value is like any other",
    }[feature.missing]
    return text + missing


def _category(feature: Feature, epsilon: float, alone: bool) -> str:
    if feature.mismatch is None:
        return "the same"
    if not alone:
        return f"the same, or a difference of {figure(feature.mismatch)}"
    return "may differ" if feature.mismatch <= epsilon else "the same"


def _order(feature: Feature) -> str:
    order = [str(one) for one in feature.order or ()]
    if len(order) > _FEW:
        order = [*order[: _FEW - 2], "…", order[-1]]
    return " < ".join(order)


# Different


def _different(rule: Rule) -> str:
    name = "their outputs" if rule.output_column is None else f"their {_columns(rule)[0]}"
    if rule.output == "label":
        verb = "are" if rule.output_column is None else "is"
        return f"Two alike decisions contradict each other if {name} {verb} not the same."
    apart = figure(rule.delta)
    if rule.output == "number":
        verb = "differ" if rule.output_column is None else "differs"
        by = f"by more than {apart}" if rule.delta else "at all"
        return f"Two alike decisions contradict each other if {name} {verb} {by}."
    how = {
        "linf": "some probability differs",
        "l1": "the probabilities differ in sum",
        "l2": "the probabilities differ (Euclidean distance)",
        "tv": "the probabilities differ (total variation)",
    }[rule.output_metric]
    by = f"by more than {apart}" if rule.delta else "at all"
    return f"Two alike decisions contradict each other if {how} {by}."


def _columns(rule: Rule) -> tuple[str, ...]:
    given = rule.output_column or ()
    return (given,) if isinstance(given, str) else tuple(given)


def _notes(rule: Rule, features: Mapping[str, Feature]) -> Iterable[str]:
    def of_kind(kind: str) -> list[str]:
        return [name for name, one in features.items() if one.kind == kind]

    protected, ignored = of_kind("protected"), of_kind("ignore")
    if protected:
        verb, they = ("is", "it takes") if len(protected) == 1 else ("are", "they take")
        yield f"{listed(protected)} {verb} protected: {they} no part in likeness."
        if rule.protected_must_differ:
            yield "Only pairs that differ in a protected column count."
    if ignored:
        yield f"Not looked at: {listed(ignored)}."
    if rule.favourable is not None:
        if rule.output == "number" and rule.favourable in ("high", "low"):
            better = "higher" if rule.favourable == "high" else "lower"
            yield f"The {better} output is the better one to get."
        else:
            yield f"The output that everyone wants: {rule.favourable}."


# Found


def found_in_words(findings: Findings) -> list[str]:
    """What was found, one sentence each, the most important first."""
    if findings.rows == 0:
        return ["There were no decisions to look at."]
    many = f"{findings.rows:,} decision{'s' * (findings.rows != 1)}"
    if findings.flagged == 0:
        return [f"None of {many} contradicts an earlier one about a like case."]
    verb = "contradicts" if findings.flagged == 1 else "contradict"
    sentences = [
        f"{findings.flagged:,} of {many} ({percent(findings.rate)}) {verb} an earlier one"
        " about a like case."
    ]
    identical = findings.margins.identical
    if identical:
        whom = "was" if identical == 1 else "were"
        sentences.append(
            f"{identical:,} of them {whom} decided differently from a case that was the same in"
            " everything that counts."
        )
    for groups in findings.groups:
        sentences += [one for one in [lopsided(groups)] if one]
    return sentences


def between(groups: Groups) -> list[tuple[Any, Any, int, int]]:
    """Two groups, and how often the first lost to the second and the second to the first.

    The first is the one that lost more often; the largest counts come first.
    """
    seen: dict[tuple[Any, Any], tuple[int, int]] = {}
    for one, other in groups.pairs:
        if one == other or (other, one) in seen:
            continue
        seen[one, other] = groups.lost(one, other), groups.lost(other, one)
    ordered = [
        (one, other, lost, won) if lost >= won else (other, one, won, lost)
        for (one, other), (lost, won) in seen.items()
    ]
    return sorted(ordered, key=lambda pair: (-pair[2] - pair[3], str(pair[0]), str(pair[1])))


def lopsided(groups: Groups) -> str | None:
    """The two groups with the most pairs between them, where one lost clearly more often."""
    for loser, winner, lost, won in between(groups)[:1]:
        if lost >= _LOPSIDED * won and lost - won >= _FEW:
            often = f"in {lost:,} pairs, the other way round in {won:,}"
            names = [shortened(shown(one), 60) for one in (groups.column, loser, winner)]
            return "By {}: {} got less than a like {} {}.".format(*names, often)
    return None
