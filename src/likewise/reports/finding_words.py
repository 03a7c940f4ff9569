"""Describes a rule and findings in plain words, for the terminal and for pages.

`word_rule` returns a rule in parts, for a page that shows them as a list; `describe_rule` returns
lines of text. Values from the data are not escaped: whoever prints the text has to.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from likewise.reports.findings import Findings
from likewise.reports.group_section import group_sentences
from likewise.reports.headline import describe_agreement
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.rule.value_names import name_value
from likewise.tables.printing import format_number, join_names, percent, shorten

_FEW = 8  # values of an order that are shown
_LINES = 16  # up to so many conditions have a line of their own
MANY = 60  # names of columns in one condition
_ONLY = 0.1  # a smaller share of comparable decisions is called small


@dataclass(frozen=True)
class RuleWording:
    """Holds a rule in words: when two decisions are similar, when they differ, and notes."""

    alike: str
    conditions: tuple[tuple[tuple[str, ...], str], ...]
    """Columns, and what holds in each of them."""
    different: str
    notes: tuple[str, ...]


def describe_rule(rule: Rule) -> list[str]:
    """Describe the rule in plain words, line by line; conditions begin with a dash.

    >>> describe_rule(Rule(metric="linf", epsilon=0.16))[0]
    'Two decisions are similar if no coordinate of their inputs differs by more than 0.16.'
    """
    wording = word_rule(rule)
    conditions = (f"- {join_names(names, MANY)}: {what}" for names, what in wording.conditions)
    return [wording.alike, *conditions, wording.different, *wording.notes]


def word_rule(rule: Rule) -> RuleWording:
    """Describe the rule in plain words, in parts."""
    features: Mapping[str, Feature] = rule.features or {}
    alone = rule.metric == "linf"
    conditions = {
        name: _condition(one, rule.epsilon if alone else 1.0, alone)
        for name, one in features.items()
        if one.is_compared
    }
    alike = _alike_vectors(rule) if rule.features is None else _alike_tables(rule)
    notes = tuple(_notes(rule, features))
    return RuleWording(alike, _group(conditions), _different(rule), notes)


def _group(conditions: Mapping[str, str]) -> tuple[tuple[tuple[str, ...], str], ...]:
    """List conditions by column; if there are many, columns with the same condition together."""
    if len(conditions) <= _LINES:
        return tuple(((name,), what) for name, what in conditions.items())
    columns: dict[str, list[str]] = {}
    for name, what in conditions.items():
        columns.setdefault(what, []).append(name)
    return tuple((tuple(names), what) for what, names in columns.items())


# Near


def _alike_vectors(rule: Rule) -> str:
    epsilon = format_number(rule.epsilon)
    conditions = {
        "linf": f"no coordinate of their inputs differs by more than {epsilon}",
        "l1": f"the differences of their inputs' coordinates add up to at most {epsilon}",
        "l2": f"their inputs lie at most {epsilon} apart (Euclidean distance)",
        "cosine": f"the cosine distance of their inputs is at most {epsilon}",
    }
    if rule.weights is not None:
        weighted = ", each multiplied by its weight,"
        conditions = {
            "linf": f"no difference of a coordinate{weighted} is more than {epsilon}",
            "l1": f"the differences of coordinates{weighted} add up to at most {epsilon}",
            "l2": f"their inputs lie at most {epsilon} apart (weighted Euclidean distance)",
            "cosine": f"the weighted cosine distance of their inputs is at most {epsilon}",
        }
    embedder = _describe_embedder(rule.embed)
    return f"Two decisions are similar if {conditions[rule.metric]}{embedder}."


def _describe_embedder(embed: Any) -> str:
    return "" if embed is None else f", as {embed.text} embeds them"


def _alike_tables(rule: Rule) -> str:
    if rule.metric == "linf":
        return "Two decisions are similar if all of this holds:"
    together = "add up to" if rule.metric == "l1" else "combine (root of the sum of squares) to"
    return (
        "Two decisions are similar if their differences, each measured in the unit given here,"
        f" {together} at most {format_number(rule.epsilon)}:"
    )


def _condition(feature: Feature, epsilon: float, alone: bool) -> str:
    """Say when two values of one column are near. alone: each column by itself, else together."""
    if feature.kind == "category":
        text = _category(feature, epsilon, alone)
    elif feature.ratio is not None:
        above = format_number(round(100 * (feature.ratio**epsilon - 1), 6))
        text = f"within {above}% of each other" if alone else f"in units of {above}% of the value"
    else:
        size = float(feature.tolerance or 0) * epsilon
        amount, more = format_number(size), _describe_embedder(feature.embed)
        if feature.kind == "ordinal":
            amount += " step" if size == 1 else " steps"
            more = f", in the order {_order(feature)}"
        text = (f"at most {amount} apart" if alone else f"in units of {amount}") + more
    missing = {
        "reject": "",
        "mismatch": "; a missing value is near another missing value only",
        "match": "; a missing value is near any other value",
    }[feature.missing]
    return text + missing


def _category(feature: Feature, epsilon: float, alone: bool) -> str:
    if feature.mismatch is None:
        return "the same"
    if not alone:
        return f"the same, or a difference of {format_number(feature.mismatch)}"
    return "may differ" if feature.mismatch <= epsilon else "the same"


def _order(feature: Feature) -> str:
    order = [str(one) for one in feature.order or ()]
    if len(order) > _FEW:
        order = [*order[: _FEW - 2], "…", order[-1]]
    return " < ".join(order)


# Different


def _different(rule: Rule) -> str:
    name = "their outputs" if rule.output_column is None else f"their {rule.output_columns[0]}"
    if rule.output == "label":
        what = f"{name} {'are' if rule.output_column is None else 'is'} not the same"
        return f"Two similar decisions contradict each other if {what}."
    if rule.output == "number":
        how = f"{name} {'differ' if rule.output_column is None else 'differs'}"
    else:
        how = {
            "linf": "some probability differs",
            "l1": "the probabilities differ in sum",
            "l2": "the probabilities differ (Euclidean distance)",
            "tv": "the probabilities differ (total variation)",
        }[rule.output_metric]
    by = f"by more than {format_number(rule.delta)}" if rule.delta else "at all"
    return f"Two similar decisions contradict each other if {how} {by}."


def _notes(rule: Rule, features: Mapping[str, Feature]) -> Iterable[str]:
    def of_kind(kind: str) -> list[str]:
        return [name for name, one in features.items() if one.kind == kind]

    protected, ignored = of_kind("protected"), of_kind("ignore")
    if protected:
        verb, they = ("is", "it does") if len(protected) == 1 else ("are", "they do")
        yield (
            f"{join_names(protected)} {verb} protected: {they} not affect whether decisions are"
            " similar."
        )
        if rule.protected_must_differ:
            yield "Only pairs that differ in a protected column count."
    if rule.person_column is not None:
        yield f"Pairs of the same {rule.person_column} do not count."
    if rule.compare != "all":
        kind = "the same model" if rule.compare == "within" else "different models"
        yield f"Only decisions of {kind} are compared."
    if ignored:
        yield f"Ignored: {join_names(ignored)}."
    if rule.favourable is not None:
        if rule.output == "number" and rule.favourable in ("high", "low"):
            better = "higher" if rule.favourable == "high" else "lower"
            yield f"The {better} output is the better one to get."
        else:
            wanted = name_value(rule.output_labels, rule.favourable)
            yield f"The output that everyone wants: {wanted}."


def describe_time_limit(within: str | None) -> list[str]:
    """Describe a limit in time, if there is one."""
    limit = (
        f"A decision is compared only with those at most {within} before it: pairs farther apart in"
        " time do not count."
    )
    return [] if within is None else [limit]


# Found


def describe_findings(findings: Findings) -> list[str]:
    """Describe what was found, sentence by sentence, the most important first."""
    if findings.rows == 0:
        return ["There were no decisions to look at.", *_describe_missing(findings)]
    if findings.nothing_compared:
        return [
            f"Nothing could be compared, so nothing follows: none of {_many(findings.rows)} had an"
            " earlier similar case.",
            *_describe_missing(findings),
            *_describe_loosening(findings),
        ]
    shares, missing = describe_shares(findings), list(_describe_missing(findings))
    groups = group_sentences(findings.groups) if findings.violations else []
    if findings.agreement is None:
        return [*shares, *missing, *groups]
    headline = describe_agreement(findings.agreement, findings.rule)
    return [*headline.sentences, *missing, *groups, *shares]


def describe_shares(findings: Findings) -> list[str]:
    """Describe which share contradicts an earlier decision, and which share could be compared."""
    sentences = list(_describe_contradicting(findings))
    identical = findings.margins.identical
    if identical:
        verb = "contradicts" if identical == 1 else "contradict"
        sentences.append(
            f"{_many(identical)} {verb} an earlier one that was the same in everything that counts."
        )
    return [*sentences, *_describe_any_order(findings), *_describe_models(findings)]


def _many(decisions: int) -> str:
    return f"{decisions:,} decision{'s' * (decisions != 1)}"


def _describe_contradicting(findings: Findings) -> Iterable[str]:
    """Say how many decisions contradict an earlier one, of those that could and of all."""
    flagged, rows, comparable = findings.violations, findings.rows, findings.with_earlier
    verb = "contradicts" if flagged == 1 else "contradict"
    if comparable is None:
        who = f"None of {_many(rows)} contradicts"
        if flagged:
            who = f"{flagged:,} of {_many(rows)} ({percent(findings.rate)}) {verb}"
        yield (
            f"{who} an earlier one about a similar case. How many had an earlier similar case was"
            " not counted."
        )
        return
    them = f"{comparable:,} comparable decision{'s' * (comparable != 1)}"
    if flagged == 0:
        yield f"None of {them} contradicts an earlier one about a similar case."
    else:
        yield (
            f"{percent(flagged / comparable)} of the comparable decisions ({flagged:,} of"
            f" {comparable:,}) {verb} an earlier one about a similar case; that is"
            f" {percent(findings.rate)} of all {rows:,}."
        )
    left = rows - comparable
    if left:
        only = "Only " * (comparable < _ONLY * rows)
        yield (
            f"{only}{comparable:,} of {_many(rows)} ({percent(comparable / rows)}) had an earlier"
            f" similar case to be compared with; the other {left:,} had none, so nothing follows"
            f" about {'it' if left == 1 else 'them'}."
        )


def _describe_missing(findings: Findings) -> Iterable[str]:
    """Say how many decisions are known to be missing."""
    missing = findings.missing_decisions
    if missing:
        are = "is" if missing == 1 else "are"
        yield (
            f"{_many(missing)} {are} known to be missing from this history. Contradictions with"
            f" {'it' if missing == 1 else 'them'} are not counted."
        )


def _describe_any_order(findings: Findings) -> Iterable[str]:
    """Say how many decisions are in any pair, and what the order is without a time column."""
    count = findings.in_any_pair
    if count:
        yield (
            f"{count:,} of {_many(findings.rows)} ({percent(findings.rate_in_any_pair)})"
            f" belong{'s' * (count == 1)} to at least one contradicting pair."
        )
    order = findings.computed.order
    if order.lines and order.column is None:
        yield 'No time column is named, so "earlier" means "above in the file".'


def _describe_models(findings: Findings) -> Iterable[str]:
    """Say how many pairs are within a model and how many across, where both are compared."""
    models = findings.by_model
    if findings.pairs == 0 or findings.rule.compare != "all" or len(models) < 2:
        return
    within = sum(one.within.pairs for one in models)
    across = findings.pairs - within
    pairs = f"{findings.pairs:,} contradicting pair{'s' * (findings.pairs != 1)}"
    yield (
        f"Of {pairs}, {within:,} {'is' if within == 1 else 'are'} within one model, {across:,}"
        " across two."
    )


def _describe_loosening(findings: Findings) -> Iterable[str]:
    """Say what to loosen, where nothing could be compared."""
    loosening, has_columns = findings.loosening, findings.rule.features is not None
    if loosening is None:
        return
    part = loosening.decisions < findings.rows
    first = f"Of the first {_many(loosening.decisions)}" if part else "Of these"
    if loosening.columns:
        counts = [f"{count:,} without {shorten(name, 60)}" for name, count in loosening.columns[:3]]
        yield (
            f"{first}, leaving one column out would make comparable: {join_names(counts)}."
            " Ignore such a column, or widen its tolerance."
        )
    elif has_columns:
        yield f"{first}, none would be comparable if one column alone were left out."
    if loosening.epsilons:
        how = "all tolerances times" if has_columns else "an epsilon of"
        shares = [
            f"{percent(share)} with {how} {format_number(_round_up(one))}"
            for one, share in loosening.epsilons
        ]
        yield f"{first}, this share would be comparable: {join_names(shares)}."
    if findings.computed.order.within is not None:
        yield f"Or compare over a longer time than {findings.computed.order.within}."
    elif not loosening.columns and not loosening.epsilons:
        yield "Compare fewer columns, or let categories differ at a cost (mismatch)."


def _round_up(epsilon: float) -> float:
    """Round up to a number that a person would type."""
    if epsilon <= 0:
        return epsilon
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return float(f"{math.ceil(epsilon / unit * (1 - 1e-9)) * unit:.3g}")
