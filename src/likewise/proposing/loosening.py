"""Loosens a rule by which hardly anything can be compared: wider tolerances, then fewer columns.

First every tolerance goes up one step (1, 2, 5, 10). Then one column after the other is loosened
(several at once while hardly anything is comparable): first those that prevent most comparisons and
tell least about the output. A number goes up another step, and is left out when its turn comes
again; a category is left out.

Invariant: each change has a note. A column that is left out is a guess that a person has to check.
Cost: one count (monitor/sensitivity.py) and one look at some pairs (loosening.py) for each
of at most STEPS steps, and no further step after SECONDS: a slow machine may stop earlier. At the
end, one count for each column ignored.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.monitor.sensitivity import SensitivityTable, VariantCounts, vary
from likewise.proposing.profile import ColumnNote, Profile
from likewise.proposing.tolerances import Family, widen_tolerance
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.rule.variation import RulePart, list_parts
from likewise.tables.array_types import Floats, Rows
from likewise.tables.frames import Column
from likewise.tables.printing import percent

_BLOCK = 1 << 21  # pairs that are compared together, times columns

Flags = npt.NDArray[np.bool_]


# Finds the columns that prevent comparisons, for a rule by which hardly any decisions are similar.
# For every pair of rows, the columns in which it is not near are its blocking set. A row is
# comparable if one of its pairs has an empty set. Where ignoring a single column changes nothing,
# these sets still tell which columns prevent most.
#
# Invariant: a row counts as comparable exactly if a monitor with the rule, which must have the
# metric linf, finds it so: each column is encoded by the rule's own encoder and compared by w|x-y|
# <= reach.
# Cost: rows² / 2 comparisons for each column; of rows that are not comparable, the smallest sets.


@dataclass(frozen=True, eq=False)
class BlockingSets:
    """Holds the smallest blocking sets of the rows of a table that are not comparable."""

    parts: tuple[RulePart, ...]
    later: Rows
    """The later row of each pair that is kept: it is not comparable, and no other earlier row has
    a smaller set with it."""
    sets: Flags
    """For each such pair, the parts in which it is not near."""

    def weights(self) -> Floats:
        """Weigh how much each part prevents: 1 for each row for which it alone is in the way, half
        for each where it is one of two, and so on.
        """
        worth = 0.5 ** (self.sets.sum(axis=1) - 1.0)
        total = np.zeros(len(self.parts))
        for j in range(len(self.parts)):
            rows, first = np.unique(self.later[self.sets[:, j]], return_index=True)
            total[j] = worth[self.sets[:, j]][first].sum() if len(rows) else 0.0
        return total


def find_blocking_sets(
    rule: Rule, columns: Mapping[str, Column], parts: Sequence[RulePart], most: int
) -> BlockingSets:
    """Find the blocking sets of the first `most` rows of a table."""
    rows = min(most, len(next(iter(columns.values()))))
    coordinates = [_coordinates(rule, columns, part, rows) for part in parts]
    reach = rule.epsilon * (1.0 + rule.slack_for("float64"))
    later, sets = [np.zeros(0, dtype=np.int64)], [np.zeros((0, len(parts)), dtype=np.bool_)]
    step = max(1, _BLOCK // max(1, rows * len(parts)))
    for first in range(1, rows, step):
        block = np.arange(first, min(first + step, rows))
        far = _far(coordinates, reach, block)
        counts = far.sum(axis=2)
        earlier = np.arange(int(block[-1])) < block[:, None]
        near = ((counts == 0) & earlier).any(axis=1)
        fewest = np.where(earlier, counts, len(parts) + 1).min(axis=1)
        i, j = np.nonzero((counts == fewest[:, None]) & earlier & ~near[:, None])
        later.append(block[i])
        sets.append(far[i, j])
    return BlockingSets(tuple(parts), np.concatenate(later), np.concatenate(sets))


Coordinate = tuple[float, Floats]
"""A weight, and the numbers of all rows."""


def _coordinates(
    rule: Rule, columns: Mapping[str, Column], part: RulePart, rows: int
) -> list[Coordinate]:
    """Encode the columns of a part with the rule's own encoder."""
    from likewise.monitor.readers.encoding import Encoder

    features: dict[str, Feature] = {name: (rule.features or {})[name] for name in part.columns}
    encoder = Encoder(replace(rule, features=features, protected_must_differ=False))
    read = encoder.read({name: columns[name][:rows] for name in features}, rows)
    return list(zip(encoder.weights, read.vectors.T, strict=True))


def _far(parts: Sequence[Sequence[Coordinate]], reach: float, block: Rows) -> Flags:
    """Tell for rows of a block and all rows before its last in which parts they are not near."""
    earlier = int(block[-1])
    far = np.zeros((len(block), earlier, len(parts)), dtype=np.bool_)
    for i, coordinates in enumerate(parts):
        for weight, column in coordinates:
            far[:, :, i] |= weight * np.abs(column[block, None] - column[None, :earlier]) > reach
    return far


ROWS = 20_000
"""How many rows a rule is tried on, the first of the file: "earlier" means above."""
USEFUL = 0.05
"""The share of decisions that should be comparable; below it a rule is loosened."""
STEPS = 24
SECONDS = 15.0
_ROWS = 1_500  # rows whose pairs are compared in a step
_MOST_UNITS = 100  # at most so many columns, or families, are ignored once each
_LEFT = 2  # columns that stay
_FAR = 0.25  # below this part of USEFUL, several columns are loosened in a step
_AT_ONCE = 8  # one in so many of them
_NOISE = 0.05  # an association that may be chance
_BINS = 10
_WIDEST = 2  # steps that a tolerance goes up before its column is left out
_WIDER = (
    "Tolerances are wider than at first, since hardly any two decisions would be similar otherwise."
)
_LEFT_OUT = (
    "Left out so that decisions can be compared: it prevents many comparisons and tells little"
    " about the output. If it is a good reason for a different answer, put it back."
)


@dataclass(frozen=True)
class LoosenedRule:
    """Holds a rule that was tried, and what was changed so that it compares anything."""

    rule: Rule
    trial: VariantCounts
    before: VariantCounts
    """The counts of the rule as it was proposed."""
    notes: tuple[ColumnNote, ...]
    varied: SensitivityTable
    """The counts with each column, or family, ignored, computed from the first rows."""
    rows: int
    """The rows of the whole table; the rule may have been tried on the first of them."""
    widened: Mapping[str, int] = field(default_factory=dict)
    """By column, how many steps its tolerance went up."""

    def sentences(self) -> list[str]:
        """Describe the trial for people."""
        trial = self.trial
        first = "" if trial.decisions == self.rows else "the first "
        rows = f"{first}{trial.decisions:,} rows"
        if trial.rate_among_comparable is None:
            lines = [
                f"Tried on {rows}: NOTHING COULD BE COMPARED, so nothing follows. No decision has"
                " an earlier one about a similar case. Widen tolerances, or leave columns out."
            ]
        else:
            verb = "contradicts" if trial.violations == 1 else "contradict"
            share = percent(trial.rate_among_comparable)
            lines = [
                f"Tried on {rows}: {trial.comparable:,} decisions ({percent(trial.share)}) had an"
                f" earlier similar case; {trial.violations:,} of those ({share}) {verb} one."
            ]
        if self.before is not trial:
            lines.append(
                f"The rule as first proposed compared {self.before.comparable:,} decisions, so it"
                " was loosened."
            )
        most = self._prevents_most()
        if most is not None:
            tried = self.varied.decisions
            part = "the first " * (bool(first) or tried < trial.decisions)
            lines.append(
                f"The column that prevents most comparisons: {most['column']!r}; without it"
                f" {most['more']:,} more of {part}{tried:,} rows could be compared."
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **self.trial.to_dict(),
            "first_proposed": self.before.to_dict(),
            "most_blocking": self._prevents_most(),
            "blocking": self._list_prevented(),
            "decisions_examined": self.varied.decisions,
        }

    def _list_prevented(self) -> list[dict[str, Any]]:
        """List how many more would be comparable without each column or family; most first."""
        before = self.varied.baseline.comparable
        return [
            {
                "column": one.column or "",
                "columns": list(one.change.columns),
                "more": one.comparable - before,
            }
            for one in self.varied.rank_blocking_columns()
        ]

    def _prevents_most(self) -> dict[str, Any] | None:
        return next((one for one in self._list_prevented()[:1] if one["more"]), None)


def loosen_rule(
    rule: Rule,
    table: Any,
    columns: Mapping[str, Column],
    families: Sequence[Family],
    profiles: Mapping[str, Profile],
) -> LoosenedRule:
    """Return the rule as it is if it is useful; else loosened, or as it was if nothing helps.

    table, columns  the rows that it is tried on
    profiles        of the whole table
    """
    rows = len(next(iter(profiles.values())))
    until = time.monotonic() + SECONDS
    together: dict[str, list[str]] = {}  # a one-hot family is one part
    for family in families:
        together.setdefault(family.name, []).extend(family.columns)
    proposed, first = rule, _try_rule(rule, table)
    if first.share >= USEFUL:
        return LoosenedRule(rule, first, first, (), _vary_ignoring(rule, table, together), rows)
    numbers = [name for name, one in (rule.features or {}).items() if one.kind == "number"]
    rule, widened = _widen_tolerances(rule, numbers), dict.fromkeys(numbers, 1)
    left_out: list[str] = []
    tells = _measure_association(list_parts(rule, together=together), rule, profiles)
    for _ in range(STEPS):
        share = _try_rule(rule, table).share
        parts = list_parts(rule, together=together)
        if share >= USEFUL or len(parts) <= _LEFT or time.monotonic() > until:
            break
        at_once = 1 if share >= _FAR * USEFUL else max(1, len(parts) // _AT_ONCE)
        ranked = _rank_parts(find_blocking_sets(rule, columns, parts, _ROWS), tells)
        for part in ranked[:at_once]:
            column = part.columns[0]
            if widened.get(column, _WIDEST) < _WIDEST:
                rule, widened[column] = _widen_tolerances(rule, part.columns), _WIDEST
            else:
                rule = _ignore_part(rule, part)
                left_out += part.columns
    trial = _try_rule(rule, table)
    steps = {name: count for name, count in widened.items() if name not in left_out}
    texts = ((tuple(steps), _WIDER), (tuple(left_out), _LEFT_OUT))
    notes = tuple(ColumnNote("loosened", names, text) for names, text in texts if names)
    if trial.share <= first.share:
        rule, trial, notes, steps = proposed, first, (), {}
    varied = _vary_ignoring(rule, table, together)
    return LoosenedRule(rule, trial, first, notes, varied, rows, steps)


def _try_rule(rule: Rule, table: Any) -> VariantCounts:
    """Count what the rule compares and contradicts."""
    return vary(rule, table, changes=(), most_rows=ROWS).baseline


def _vary_ignoring(
    rule: Rule, table: Any, together: Mapping[str, Sequence[str]]
) -> SensitivityTable:
    """Count the same with each column ignored; families as one."""
    most = _MOST_UNITS
    return vary(
        rule, table, together=together, changes=("ignored",), most_rows=ROWS, most_columns=most
    )


def _widen_tolerances(rule: Rule, numbers: Sequence[str]) -> Rule:
    """Widen the tolerances of these columns by one step."""
    features: dict[str, Feature] = dict(rule.features or {})
    for name in numbers:
        tolerance = features[name].tolerance
        assert tolerance is not None
        features[name] = replace(features[name], tolerance=widen_tolerance(tolerance))
    return replace(rule, features=features)


def _ignore_part(rule: Rule, part: RulePart) -> Rule:
    features = {**(rule.features or {}), **dict.fromkeys(part.columns, Feature("ignore"))}
    return replace(rule, features=features)


def _rank_parts(ways: BlockingSets, tells: Mapping[RulePart, float]) -> list[RulePart]:
    """Rank the parts that prevent anything: first what prevents most for what it tells."""
    prevents = {
        part: weight / (_NOISE + tells[part])
        for part, weight in zip(ways.parts, ways.weights(), strict=True)
        if weight > 0
    }
    ordered = sorted(prevents, key=lambda part: -prevents[part])
    return ordered[: len(ways.parts) - _LEFT]


def _measure_association(
    parts: Sequence[RulePart], rule: Rule, profiles: Mapping[str, Profile]
) -> dict[RulePart, float]:
    """Measure how much each part tells about the output, from 0 to 1 (Cramér's V, corrected)."""
    output = _bin_values(profiles[rule.output_columns[0]])
    return {
        part: max(_association(_bin_values(profiles[name]), output) for name in part.columns)
        for part in parts
    }


def _bin_values(profile: Profile) -> Rows:
    """Return codes of a column; numbers with many values are binned into tenths."""
    if not profile.numeric or len(profile.different) <= _BINS:
        return profile.codes + 1
    numbers = profile.numbers
    edges = np.unique(np.nanquantile(numbers, np.linspace(0, 1, _BINS + 1)[1:-1]))
    bins = np.searchsorted(edges, numbers, side="right") + 1
    return np.where(np.isnan(numbers), 0, bins).astype(np.int64)


def _association(one: Rows, other: Rows) -> float:
    _, rows = np.unique(one, return_inverse=True)
    _, columns = np.unique(other, return_inverse=True)
    r, k, n = int(rows.max()) + 1, int(columns.max()) + 1, len(rows)
    if min(r, k) < 2 or r * k > 10 * n:
        return 0.0
    table = np.zeros((r, k))
    np.add.at(table, (rows, columns), 1.0)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / n
    phi2 = float(((table - expected) ** 2 / expected).sum()) / n
    free = (r - 1) * (k - 1) / (n - 1)
    small = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1.0
    return float(np.sqrt(max(0.0, phi2 - free) / small)) if small > 0 else 0.0
