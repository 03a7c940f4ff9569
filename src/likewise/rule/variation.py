"""A rule with one line changed: a column ignored, its tolerance halved, or doubled.

What each line of a rule does is seen from what happens without it. Here the changed rules are made;
monitor/sensitivity.py counts what comes of each.

A relative tolerance and one in steps scale like any other: half of "10%" is "5%". A category that
must match can only be ignored. One whose mismatch has a cost gets twice the cost for "halved", half
of it for "doubled": either way "halved" is stricter, "doubled" looser. In a rule without features a
coordinate's tolerance is what epsilon and its weight make it. Cosine has no tolerances, so there a
coordinate is ignored or not.

Invariant: a changed rule differs from the given one in the columns of its change alone. A change
that gives no rule (the only column ignored, a tolerance out of range) is left out.
Not here: which columns are one (a one-hot family); whoever calls says that.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from likewise.errors import BadRule
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.tables.printing import with_bounded_repr

ChangeKind: TypeAlias = Literal["ignored", "halved", "doubled"]
CHANGE_KINDS: tuple[ChangeKind, ...] = ("ignored", "halved", "doubled")
_FACTORS: dict[ChangeKind, float] = {"halved": 0.5, "doubled": 2.0}

Tolerance: TypeAlias = float | str | None


@with_bounded_repr
@dataclass(frozen=True)
class RuleChange:
    """One line of a rule changed, and the rule that this gives."""

    column: str | None
    """A column, or the name that several have together; None for epsilon."""
    columns: tuple[str, ...]
    how: ChangeKind
    tolerance: Tolerance
    """What it is then; None if the column is ignored, or where several columns have several."""
    instead_of: Tolerance
    rule: Rule


@dataclass(frozen=True)
class RulePart:
    """What is changed at once: a column, or several under one name; none for epsilon."""

    name: str | None
    columns: tuple[str, ...]


def list_parts(
    rule: Rule,
    coordinates: Sequence[str] | None = None,
    together: Mapping[str, Sequence[str]] | None = None,
) -> tuple[RulePart, ...]:
    """The columns that are compared, in their order; epsilon where coordinates have no names.

    coordinates: their names, for a rule without features
    together: columns that are changed as one, by the name that they get
    """
    if rule.features is None and coordinates is None:
        return (RulePart(None, ()),)
    names = _list_compared_columns(rule, coordinates)
    one_of = {name: title for title, some in (together or {}).items() for name in some}
    parts: dict[tuple[str, bool], RulePart] = {}
    for name in names:
        title = one_of.get(name)
        if title is None:
            parts[name, False] = RulePart(name, (name,))
        else:
            columns = tuple(one for one in names if one_of.get(one) == title)
            parts.setdefault((title, True), RulePart(title, columns))
    return tuple(parts.values())


def _list_compared_columns(rule: Rule, coordinates: Sequence[str] | None) -> list[str]:
    if rule.features is not None:
        return [name for name, feature in rule.features.items() if feature.is_compared]
    assert coordinates is not None
    weights = rule.weights or (1.0,) * len(coordinates)
    if len(weights) != len(coordinates) or len(set(coordinates)) < len(coordinates):
        raise BadRule(
            f"columns are {list(coordinates)!r}, and the rule has {len(weights)} weights; expected"
            " a name for each coordinate, each name once",
            setting="columns",
        )
    return [name for name, weight in zip(coordinates, weights, strict=True) if weight > 0]


def list_changes(
    rule: Rule,
    parts: Sequence[RulePart],
    coordinates: Sequence[str] | None = None,
    hows: Sequence[ChangeKind] = CHANGE_KINDS,
) -> tuple[RuleChange, ...]:
    """Each part changed in each of these ways, as far as that gives a rule."""
    return tuple(
        change
        for part in parts
        for how in hows
        for change in _change_part(rule, part, how, coordinates or ())
    )


def _change_part(
    rule: Rule, part: RulePart, how: ChangeKind, coordinates: Sequence[str]
) -> Iterator[RuleChange]:
    try:
        if not part.columns:
            yield from _of_epsilon(rule, how)
        elif rule.features is None:
            yield from _of_coordinates(rule, part, how, coordinates)
        else:
            yield from _of_columns(rule, part, how)
    except BadRule:
        return


def _of_epsilon(rule: Rule, how: ChangeKind) -> Iterator[RuleChange]:
    if how != "ignored":
        epsilon = rule.epsilon * _FACTORS[how]
        yield RuleChange(None, (), how, epsilon, rule.epsilon, replace(rule, epsilon=epsilon))


def _of_columns(rule: Rule, part: RulePart, how: ChangeKind) -> Iterator[RuleChange]:
    before = {name: (rule.features or {})[name] for name in part.columns}
    after = {name: _feature(feature, how) for name, feature in before.items()}
    if after != before:
        changed = replace(rule, features={**(rule.features or {}), **after})
        both = _tolerance(after.values()), _tolerance(before.values())
        yield RuleChange(part.name, part.columns, how, *both, changed)


def _feature(feature: Feature, how: ChangeKind) -> Feature:
    """A feature as it is changed; the same where it cannot be."""
    if how == "ignored":
        return Feature("ignore")
    factor = _FACTORS[how]
    if feature.mismatch is not None:
        return replace(feature, mismatch=feature.mismatch / factor)
    if feature.tolerance is None:
        return feature
    if isinstance(feature.tolerance, str):
        percent = float(feature.tolerance.removesuffix("%"))
        return replace(feature, tolerance=f"{percent * factor:.15g}%")
    return replace(feature, tolerance=feature.tolerance * factor)


def _tolerance(features: Iterable[Feature]) -> Tolerance:
    """The tolerance, or the cost of a mismatch, of features that have the same."""
    different = {one.tolerance if one.mismatch is None else one.mismatch for one in features}
    return different.pop() if len(different) == 1 else None


def _of_coordinates(
    rule: Rule, part: RulePart, how: ChangeKind, coordinates: Sequence[str]
) -> Iterator[RuleChange]:
    if rule.metric == "cosine" and how != "ignored":
        return
    power = 2.0 if rule.metric == "l2" else 1.0
    factor = 0.0 if how == "ignored" else _FACTORS[how] ** -power
    weights = dict(zip(coordinates, rule.weights or (1.0,) * len(coordinates), strict=True))
    after = {**weights, **{name: weights[name] * factor for name in part.columns}}
    changed = replace(rule, weights=tuple(after.values()))
    alone = {rule.epsilon * weights[name] ** (-1.0 / power) for name in part.columns}
    before = alone.pop() if len(alone) == 1 and rule.metric != "cosine" else None
    then = None if before is None or how == "ignored" else before * _FACTORS[how]
    yield RuleChange(part.name, part.columns, how, then, before, changed)
