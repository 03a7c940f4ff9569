"""Says a rule in plain words: when decisions are similar, and when they contradict each other.

Values from the data are not escaped: whoever prints the text has to.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from likewise.rule.feature import Feature
from likewise.rule.value_names import name_value
from likewise.tables.printing import format_number, join_names
from likewise.verdict.html import render_in_notebook

_FEW = 8  # values of an order that are shown
_LINES = 16  # up to so many conditions have a line of their own
MANY = 60  # names of columns in one condition


@dataclass(frozen=True)
class RuleWording:
    """Holds a rule in words: when two decisions are similar, when they differ, and notes."""

    alike: str
    conditions: tuple[tuple[tuple[str, ...], str], ...]
    """Columns, and what holds in each of them."""
    different: str
    notes: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """The rule, line by line; conditions begin with a dash."""
        conditions = (f"- {join_names(names, MANY)}: {what}" for names, what in self.conditions)
        return [self.alike, *conditions, self.different, *self.notes]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str | None:
        return render_in_notebook("rule/wording.html", wording=self)


def word_rule(rule: Any) -> RuleWording:
    """Say a rule in plain words.

    rule: a `Rule`, whose module imports this one
    """
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


def _alike_vectors(rule: Any) -> str:
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


def _alike_tables(rule: Any) -> str:
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


def _different(rule: Any) -> str:
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


def _notes(rule: Any, features: Mapping[str, Feature]) -> Iterable[str]:
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
