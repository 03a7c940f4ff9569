"""Hold the result of `vary` (sensitivity.py): the counts of a rule, and with each line changed.

Invariant: all counts of a `SensitivityTable` are about the same decisions.
"""

from dataclasses import dataclass, replace
from typing import Any

from likewise.rule.rule import Rule
from likewise.rule.variation import ChangeKind, RuleChange, Tolerance
from likewise.tables.printing import with_bounded_repr


@dataclass(frozen=True)
class VariantCounts:
    """Counts the decisions under one rule."""

    decisions: int
    comparable: int
    """How many had an earlier similar case, whatever its output."""
    contradicting: int
    """How many contradict an earlier similar case."""
    without_direction: int = 0
    """How many were left out: under cosine, all values that the rule compares are zero in them."""

    @property
    def share(self) -> float:
        """The share of all decisions that are comparable."""
        return self.comparable / self.decisions if self.decisions else 0.0

    @property
    def rate(self) -> float | None:
        """The share of the comparable decisions that contradict one; None if none is comparable."""
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
    """Holds a rule with one line changed, and its counts."""

    change: RuleChange
    outcome: VariantCounts

    @property
    def column(self) -> str | None:
        """The column that was changed; None for epsilon."""
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
    """Holds the counts of a rule as it is, and with each line of it changed.

    Variants of a column are next to each other. Columns are in order of their effect: the largest
    difference that a change of the column makes to one of the two counts.

    baseline  the counts of the rule itself: `comparable` and `contradicting` decisions
    variants  each with its `column` (None for epsilon), `how` it was changed, and the same counts
    """

    rule: Rule
    baseline: VariantCounts
    variants: tuple[Variant, ...]
    given_count: int
    """How many decisions were given; the first `decisions` of them were used."""
    unchanged: tuple[str, ...] = ()
    """Columns that are compared and were not changed, since there are too many."""

    @property
    def decisions(self) -> int:
        """How many decisions everything was computed from."""
        return self.baseline.decisions

    def effect(self, variant: Variant) -> int:
        """Return the larger of the differences that a change makes to the two counts."""
        base = self.baseline
        return max(
            abs(variant.comparable - base.comparable),
            abs(variant.contradicting - base.contradicting),
        )

    def rank_blocking_columns(self) -> tuple[Variant, ...]:
        """List the ignored columns, in order of how many decisions are comparable without each."""
        ignored = [one for one in self.variants if one.how == "ignored"]
        return tuple(sorted(ignored, key=lambda one: -one.comparable))

    def to_dict(self) -> dict[str, Any]:
        """Return the table for JSON."""
        return {
            **self.baseline.to_dict(),
            "given": self.given_count,
            "variants": [one.to_dict() for one in self.variants],
            "unchanged": list(self.unchanged),
        }

    def in_order_of_effect(self) -> "SensitivityTable":
        """Sort the variants: the column first whose changes make the largest difference."""
        effects: dict[tuple[str, ...], int] = {}
        for variant in self.variants:
            columns = variant.change.columns
            effects[columns] = max(effects.get(columns, 0), self.effect(variant))
        order = sorted(effects, key=lambda columns: -effects[columns])
        ordered = sorted(self.variants, key=lambda one: order.index(one.change.columns))
        return replace(self, variants=tuple(ordered))
