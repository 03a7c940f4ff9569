"""Count what a rule finds with each line of it changed, which shows which lines matter.

Invariant: every count is what a `Monitor` with the changed rule and `comparable=True` says about
the same first decisions; those without direction under a changed rule are left out and counted.
Cost: one monitor for each change, within the bounds `MOST_…` (see `vary`).
Not here: keys, windows, and words for the results (reports/sensitivity_section.py)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likewise.errors import BadRule, WrongShape
from likewise.monitor.monitor import Monitor
from likewise.monitor.readers.embedded_reader import EmbeddedColumn, embed_many, pair_embedded
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.rule.variation import (
    CHANGE_KINDS,
    ChangeKind,
    RuleChange,
    Tolerance,
    list_changes,
    list_parts,
)
from likewise.tables.frames import ColumnTable, columns_of
from likewise.tables.known_names import did_you_mean
from likewise.tables.model_names import check_names
from likewise.tables.normalize import sequence_of, to_number_array
from likewise.tables.printing import with_bounded_repr

# Hold the result of `vary` (sensitivity.py): the counts of a rule, and with each line changed.
# Invariant: all counts of a `SensitivityTable` are about the same decisions.


@dataclass(frozen=True)
class VariantCounts:
    """Counts the decisions under one rule."""

    decisions: int
    comparable: int
    """How many had an earlier similar case, whatever its output."""
    violations: int
    """How many contradict an earlier similar case."""
    without_direction: int = 0
    """How many were left out: under cosine, all values that the rule compares are zero in them."""

    @property
    def share(self) -> float:
        """The share of all decisions that are comparable."""
        return self.comparable / self.decisions if self.decisions else 0.0

    @property
    def rate_among_comparable(self) -> float | None:
        """The share of the comparable decisions that contradict one; None if none is comparable."""
        return self.violations / self.comparable if self.comparable else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "decisions": self.decisions,
            "comparable": self.comparable,
            "violations": self.violations,
            "rate_among_comparable": self.rate_among_comparable,
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
    def violations(self) -> int:
        return self.outcome.violations

    def to_dict(self) -> dict[str, Any]:
        change = self.change
        return {
            "column": change.column,
            "columns": list(change.columns),
            "change": change.how,
            "tolerance": change.tolerance,
            "original": change.original,
            "comparable": self.comparable,
            "violations": self.violations,
            "rate_among_comparable": self.outcome.rate_among_comparable,
            "without_direction": self.outcome.without_direction,
        }


@with_bounded_repr
@dataclass(frozen=True)
class SensitivityTable:
    """Holds the counts of a rule as it is, and with each line of it changed.

    Variants of a column are next to each other. Columns are in order of their effect: the largest
    difference that a change of the column makes to one of the two counts.

    baseline  the counts of the rule itself: `comparable` decisions and `violations`
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
            abs(variant.violations - base.violations),
        )

    def rank_blocking_columns(self) -> tuple[Variant, ...]:
        """List the ignored columns, in order of how many decisions are comparable without each."""
        ignored = [one for one in self.variants if one.how == "ignored"]
        return tuple(sorted(ignored, key=lambda one: -one.comparable))

    def to_dict(self) -> dict[str, Any]:
        """Return the table for JSON."""
        return {
            **self.baseline.to_dict(),
            "decisions_given": self.given_count,
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


MOST_ROWS = 10_000
"""How many decisions are used at most, the first ones."""
MOST_COLUMNS = 40
"""How many columns, or named coordinates, are changed at most, the first that are compared."""
MOST_CELLS = 6_000_000
"""How many values are read at most, over all changed rules."""
LEAST_ROWS = 500
"""How many decisions are used in any case; in a very wide rule fewer columns are changed."""
MOST_PAIRS = 10_000_000
"""How many contradicting pairs are found at most, over all changed rules."""
_MOST_PAIRS_PER_CALL = 2_000_000  # pairs that a call to a monitor finds at most
_ROWS_PER_CALL = (50, 2_000)  # decisions in such a call
_SHORTEST = (
    1.0001e-150  # a squared norm; below 1e-150 a monitor refuses it (search/kernels/rows.py)
)


def vary(
    rule: Rule,
    x: Any,
    z: Any = FROM_ROW,
    *,
    columns: Sequence[str] | None = None,
    together: Mapping[str, Sequence[str]] | None = None,
    changes: Sequence[ChangeKind] = CHANGE_KINDS,
    most_rows: int = MOST_ROWS,
    most_columns: int = MOST_COLUMNS,
    within: str | None = None,
    times: Any = None,
    models: str | Sequence[str | None] | None = None,
    threads: int | None = None,
) -> SensitivityTable:
    """Count comparable and contradicting decisions under a rule, and with each line changed.

    For each column: how many decisions would be comparable, and how many would contradict an
    earlier one, if the column were ignored, or its tolerance halved or doubled (rule/variation.py).

    x, z      decisions in order, as for `Monitor.observe_many`
    columns   names of coordinates, for a rule without features. Without names, or with more than
              `most_columns`, epsilon is halved and doubled instead
    together  columns that are changed as one, by the name they get: {"job": ["job_a", "job_b"]}
    changes   some of "ignored", "halved", "doubled"; an empty list for the unchanged rule alone
    within    how long before a decision the past begins that it is compared with, as for `Monitor`;
              then `times` has a time for each
    models    which model made each, as for `Monitor.observe_many`
    threads   how many cores may share the work; all of them by default

    If a rule has many columns (MOST_CELLS), fewer decisions are used, down to LEAST_ROWS, and then
    fewer columns are changed; still fewer decisions are used if the changed rules together find
    more than MOST_PAIRS pairs. No bound is a time, so the same decisions give the same counts on
    every machine. A model embeds each text or picture once.

    >>> people = [
    ...     {"age": 30, "paid": 50, "ok": "no"},
    ...     {"age": 31, "paid": 50, "ok": "no"},
    ...     {"age": 39, "paid": 50, "ok": "yes"},
    ... ]
    >>> rule = Rule(
    ...     features={
    ...         "age": Feature("number", tolerance=5),
    ...         "paid": Feature("number", tolerance="10%"),
    ...     },
    ...     output_column="ok",
    ... )
    >>> found = vary(rule, people)
    >>> found.baseline.comparable, found.baseline.violations
    (1, 0)
    >>> [(one.column, one.how, one.comparable, one.violations) for one in found.variants[:3]]
    [('age', 'ignored', 2, 1), ('age', 'halved', 1, 0), ('age', 'doubled', 2, 1)]
    """
    for change in changes:
        if change not in CHANGE_KINDS:
            raise BadRule(
                f"changes has {change!r}; expected some of {', '.join(CHANGE_KINDS)}"
                + did_you_mean(change, CHANGE_KINDS),
                setting="changes",
            )
    if not isinstance(rule, Rule):
        raise BadRule(f"the rule is {rule!r}; expected a likewise.Rule")
    if columns is not None and len(columns) > most_columns:
        columns = None
    parts = list_parts(rule, columns if rule.features is None else None, together)
    width = len(rule.features or columns or ()) or 1
    most = min(most_columns, max(1, MOST_CELLS // (LEAST_ROWS * width * max(1, len(changes)))))
    decisions = _Decisions.read(rule, x, z, most_rows)
    if within is not None:
        decisions = replace(decisions, within=within, times=times)
    decisions = replace(decisions, models=check_names(models, decisions.given_count))
    rule_changes = list_changes(decisions.rule, parts[:most], columns, changes)
    rules = [decisions.rule, *(change.rule for change in rule_changes)]
    rows = min(len(decisions), max(LEAST_ROWS, MOST_CELLS // (width * len(rules)) // 100 * 100))
    counts = _count_all(rules, decisions, rows, threads)
    variants = tuple(map(Variant, rule_changes, counts[1:]))
    unchanged = tuple(name for part in parts[most:] for name in part.columns)
    table = SensitivityTable(rule, counts[0], variants, decisions.given_count, unchanged)
    return table.in_order_of_effect()


@dataclass(frozen=True, eq=False)
class _Decisions:
    """Holds decisions that were read once, so that many monitors can take them."""

    rule: Rule
    """The rule by which a monitor takes them: without keys or models to load."""
    x: Any
    z: Any
    given_count: int
    within: str | None = None
    times: Any = None
    models: list[str | None] | None = None

    def __len__(self) -> int:
        return len(self.x)

    @classmethod
    def read(cls, rule: Rule, x: Any, z: Any, most: int) -> "_Decisions":
        """Read the first `most` decisions."""
        outputs = None if z is FROM_ROW else sequence_of(z)
        if rule.features is not None:
            decisions = cls._read_table(rule, x, apart=outputs is not None, most=most)
        elif rule.embed is not None:
            x = sequence_of(x)
            vectors = embed_many(rule, x[:most])
            decisions = cls(replace(rule, embed=None), vectors, FROM_ROW, len(x))
        else:
            x = to_number_array(x, "the input")
            decisions = cls(rule, x[:most], FROM_ROW, len(x))
        if outputs is None:
            return decisions
        if len(outputs) != decisions.given_count:
            raise WrongShape(
                f"there are {decisions.given_count} inputs and {len(outputs)} outputs; expected one"
                " output for each input."
            )
        return replace(decisions, z=outputs[:most])

    def first_with_direction(self, rule: Rule, rows: int) -> "_Decisions":
        """Return the first rows, without those that have no direction under a changed rule."""
        if rule.metric != "cosine" or rule.weights == self.rule.weights:
            return replace(self, x=self.x[:rows])
        stored = np.float32 if rule.storage == "float32" else np.float64
        squares = self.x[:rows].astype(stored).astype(np.float64) ** 2
        rest = np.flatnonzero(squares @ np.array(rule.weights) > _SHORTEST).tolist()

        def select(values: Any) -> Any:
            return None if values is None else [values[i] for i in rest]

        z = self.z if self.z is FROM_ROW else select(self.z)
        return replace(
            self, x=self.x[rest], z=z, times=select(self.times), models=select(self.models)
        )

    @classmethod
    def _read_table(cls, rule: Rule, table: Any, *, apart: bool, most: int) -> "_Decisions":
        """Read a table; `apart` says that outputs were given beside it."""
        features: dict[str, Feature] = dict(rule.features or {})
        outputs = rule.output_columns
        names = [name for name, feature in features.items() if feature.is_kept]
        known = None if rule.extra == "ignore" else [*features, *outputs]
        columns = columns_of(table, names if apart else [*names, *outputs], known)
        count = len(next(iter(columns.values())))
        columns = {name: column[:most] for name, column in columns.items()}
        for name, feature in features.items():
            if feature.embed is not None:
                columns[name] = pair_embedded(*EmbeddedColumn(name, feature).read(columns[name]))
            elif feature.kind == "key":
                features[name] = Feature("ignore")
        return cls(replace(rule, features=features), ColumnTable(columns), FROM_ROW, count)


def _count_all(
    rules: Sequence[Rule], decisions: _Decisions, rows: int, threads: int | None
) -> list[VariantCounts]:
    """Count under each rule the first rows; fewer rows if there are too many pairs."""
    while True:
        counts: list[VariantCounts] = []
        pairs = grown = 0.0
        for rule in rules:
            found, more = _run(rule, decisions, rows, threads, MOST_PAIRS - pairs)
            counts.append(found)
            pairs += more
            # Pairs grow with the square of the rows.
            grown += more * (rows / max(1, found.decisions - found.without_direction)) ** 2
            if pairs > MOST_PAIRS:
                break
        else:
            return counts
        expected = grown / len(counts) * len(rules)
        rows = min(rows // 2, int(rows * math.sqrt(MOST_PAIRS / expected)))


def _run(
    rule: Rule, decisions: _Decisions, rows: int, threads: int | None, most_pairs: float
) -> tuple[VariantCounts, int]:
    """Try a rule on the first rows; stop early after more than `most_pairs` pairs.

    Returns the counts, of as many decisions as were tried, and the number of pairs.
    """
    comparable = contradicting = pairs = done = 0
    decisions = decisions.first_with_direction(rule, rows)
    without_direction, rows = rows - len(decisions), len(decisions)
    apart = decisions.z is not FROM_ROW
    limited = decisions.within is not None
    with Monitor(rule, comparable=True, within=decisions.within) as monitor:
        while done < rows and pairs <= most_pairs:
            step = min(
                max(_MOST_PAIRS_PER_CALL // max(1, done), _ROWS_PER_CALL[0]), _ROWS_PER_CALL[1]
            )
            stop = min(done + step, rows)
            z = decisions.z[done:stop] if apart else FROM_ROW
            times = decisions.times[done:stop] if limited else None
            models = None if decisions.models is None else decisions.models[done:stop]
            x = decisions.x[done:stop]
            verdicts = monitor.observe_many(x, z, times=times, models=models, threads=threads)
            assert verdicts.comparable is not None
            comparable += int(np.count_nonzero(verdicts.comparable))
            contradicting += int(np.count_nonzero(verdicts.violations))
            pairs += verdicts.pairs
            done = stop
    tried = done + without_direction
    return VariantCounts(tried, comparable, contradicting, without_direction), pairs
