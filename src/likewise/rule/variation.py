"""Makes rules with one line changed: a column ignored, or its tolerance halved or doubled.

"halved" is stricter and "doubled" is looser: the cost of a category's mismatch is doubled for
"halved". A coordinate's tolerance follows from epsilon and its weight; cosine has none.
Invariant: a changed rule differs only in the columns of its change; a change that gives no valid
rule is left out. Not here: the effect of each change (monitor/sensitivity.py).
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
    """A change of one line of a rule, and the rule that results."""

    column: str | None
    """A column, or the common name of several; None for epsilon."""
    columns: tuple[str, ...]
    how: ChangeKind
    tolerance: Tolerance
    """The new tolerance; None if the column is ignored, or if several columns have several."""
    original: Tolerance
    """The tolerance before the change."""
    rule: Rule


@dataclass(frozen=True)
class RulePart:
    """The columns that are changed at once: one, or several under one name; none for epsilon."""

    name: str | None
    columns: tuple[str, ...]


def list_parts(
    rule: Rule,
    coordinates: Sequence[str] | None = None,
    together: Mapping[str, Sequence[str]] | None = None,
) -> tuple[RulePart, ...]:
    """List the columns that are compared, in their order; epsilon if coordinates have no names.

    coordinates     the names of coordinates, for a rule without features
    together        columns that are changed at once, such as one-hot columns, by their common name
    """
    if rule.features is None and coordinates is None:
        return (RulePart(None, ()),)
    names = _list_compared_columns(rule, coordinates)
    title_of = {name: title for title, group in (together or {}).items() for name in group}
    parts: dict[tuple[str, bool], RulePart] = {}
    for name in names:
        title = title_of.get(name)
        if title is None:
            parts[name, False] = RulePart(name, (name,))
        else:
            columns = tuple(other for other in names if title_of.get(other) == title)
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
    """List the changes of each part in each of these ways that give a valid rule."""
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
            yield from _change_epsilon(rule, how)
        elif rule.features is None:
            yield from _change_coordinates(rule, part, how, coordinates)
        else:
            yield from _change_columns(rule, part, how)
    except BadRule:
        return


def _change_epsilon(rule: Rule, how: ChangeKind) -> Iterator[RuleChange]:
    if how != "ignored":
        epsilon = rule.epsilon * _FACTORS[how]
        yield RuleChange(None, (), how, epsilon, rule.epsilon, replace(rule, epsilon=epsilon))


def _change_columns(rule: Rule, part: RulePart, how: ChangeKind) -> Iterator[RuleChange]:
    features = dict(rule.features or {})
    before = {name: features[name] for name in part.columns}
    after = {name: _change_feature(feature, how) for name, feature in before.items()}
    if after != before:
        changed = replace(rule, features=features | after)
        both = _common_tolerance(after.values()), _common_tolerance(before.values())
        yield RuleChange(part.name, part.columns, how, *both, changed)


def _change_feature(feature: Feature, how: ChangeKind) -> Feature:
    """Return the changed feature; the feature itself if it cannot be changed in this way."""
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


def _common_tolerance(features: Iterable[Feature]) -> Tolerance:
    """Return the tolerance, or cost of a mismatch, that all features have; else None."""
    different = {one.tolerance if one.mismatch is None else one.mismatch for one in features}
    return different.pop() if len(different) == 1 else None


def _change_coordinates(
    rule: Rule, part: RulePart, how: ChangeKind, coordinates: Sequence[str]
) -> Iterator[RuleChange]:
    if rule.metric == "cosine" and how != "ignored":
        return
    power = 2.0 if rule.metric == "l2" else 1.0
    factor = 0.0 if how == "ignored" else _FACTORS[how] ** -power
    weights = dict(zip(coordinates, rule.weights or (1.0,) * len(coordinates), strict=True))
    scaled = weights | {name: weights[name] * factor for name in part.columns}
    changed = replace(rule, weights=tuple(scaled.values()))
    tolerances = {rule.epsilon * weights[name] ** (-1.0 / power) for name in part.columns}
    before = tolerances.pop() if len(tolerances) == 1 and rule.metric != "cosine" else None
    after = None if before is None or how == "ignored" else before * _FACTORS[how]
    yield RuleChange(part.name, part.columns, how, after, before, changed)
