"""What a rule comes to with each line of it changed: the answer of `vary` (sensitivity.py), as
values.

Invariant: all counts of a `Varied` rest on the same decisions.
"""

from dataclasses import dataclass, replace
from typing import Any

from likewise.rule.rule import Rule
from likewise.rule.variation import ChangeKind, RuleChange, Tolerance
from likewise.tables.printing import with_bounded_repr


@dataclass(frozen=True)
class VariantCounts:
    """What a rule comes to."""

    decisions: int
    comparable: int
    """Had an earlier like case, whatever its output."""
    contradicting: int
    """Contradict an earlier like case."""
    without_direction: int = 0
    """Decisions that were left out: under cosine, all that the rule looks at is zero in them."""

    @property
    def share(self) -> float:
        """Of all decisions, those that are comparable."""
        return self.comparable / self.decisions if self.decisions else 0.0

    @property
    def rate(self) -> float | None:
        """Of the comparable decisions, those that contradict one; None if none is comparable."""
        return self.contradicting / self.comparable if self.comparable else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "decisions": self.decisions,
            "comparable": self.comparable,
            "contradicting": self.contradicting,
            "rate": self.rate,
        }


@with_bounded_repr
@dataclass(frozen=True)
class Variant:
    """A rule with one line changed, and what it comes to."""

    change: RuleChange
    outcome: VariantCounts

    @property
    def column(self) -> str | None:
        """What was changed; None for epsilon."""
        return self.change.column

    @property
    def how(self) -> ChangeKind:
        return self.change.how

    @property
    def tolerance(self) -> Tolerance:
        return self.change.tolerance

    @property
    def comparable(self) -> int:
        return self.outcome.comparable

    @property
    def contradicting(self) -> int:
        return self.outcome.contradicting

    def to_dict(self) -> dict[str, Any]:
        change = self.change
        return {
            "column": change.column,
            "columns": list(change.columns),
            "change": change.how,
            "tolerance": change.tolerance,
            "instead_of": change.instead_of,
            "comparable": self.comparable,
            "contradicting": self.contradicting,
            "rate": self.outcome.rate,
            "without_direction": self.outcome.without_direction,
        }


@with_bounded_repr
@dataclass(frozen=True)
class SensitivityTable:
    """What a rule comes to as it is, and with each line of it changed.

    Variants of a column stand together. Columns come in order of their effect: the largest
    difference that a change of the column makes to one of the two counts.

    as_it_is  what the rule itself comes to: `comparable` and `contradicting` decisions.
    variants  each with its `column` (None for epsilon), `how` it was changed, and the same counts.
    """

    rule: Rule
    baseline: VariantCounts
    variants: tuple[Variant, ...]
    given_count: int
    """Decisions that there were; the first `decisions` of them were looked at."""
    unchanged: tuple[str, ...] = ()
    """Columns that are compared and were not changed, since there are too many."""

    @property
    def decisions(self) -> int:
        """From which everything was computed."""
        return self.baseline.decisions

    def effect(self, variant: Variant) -> int:
        """The larger of the differences that a change makes to the two counts."""
        base = self.baseline
        return max(
            abs(variant.comparable - base.comparable),
            abs(variant.contradicting - base.contradicting),
        )

    def rank_blocking_columns(self) -> tuple[Variant, ...]:
        """Columns ignored, those first without which most decisions would be comparable."""
        ignored = [one for one in self.variants if one.how == "ignored"]
        return tuple(sorted(ignored, key=lambda one: -one.comparable))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self.baseline.to_dict(),
            "given": self.given_count,
            "variants": [one.to_dict() for one in self.variants],
            "unchanged": list(self.unchanged),
        }

    def in_order_of_effect(self) -> "SensitivityTable":
        """The same, the column first whose changes make the largest difference."""
        effects: dict[tuple[str, ...], int] = {}
        for one in self.variants:
            columns = one.change.columns
            effects[columns] = max(effects.get(columns, 0), self.effect(one))
        places = {
            columns: i for i, columns in enumerate(sorted(effects, key=lambda one: -effects[one]))
        }
        ordered = sorted(self.variants, key=lambda one: places[one.change.columns])
        return replace(self, variants=tuple(ordered))
