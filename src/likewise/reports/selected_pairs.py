"""Chooses the pairs to look at first: the clearest ones, and no two about the same thing.

1. clearest.py keeps the clearest pairs of each class (two groups), for their later and their
   earlier sides: POOL times as many as are shown.
2. Pairs across groups are chosen before others. Those between the same groups, in all protected
   columns, take turns with the rest, those with the clearest pair first; each gives its clearest
   pair neither side of which was chosen before: not the decision, not the person, and not the same
   compared values with the same output. Pairs within groups fill the places that are left.

So a list may be shorter than asked for: the rest would say the same once more.

Invariant: the list depends on the decisions, not on how they came in batches, unless rows are
forgotten in between: only rows that are remembered when their batch is added can be shown.
Cost: at most 2 * POOL times as many pairs as are shown for each of KINDS + 2 classes, with the
values of both rows as they were when the pair was found; for each batch, a look at all its pairs.
Not here: how pairs are shown (document.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from likewise.errors import BadRow
from likewise.explaining.compare_groups import protected_columns
from likewise.explaining.pairs import DecisionOrigin, make_pair, table_pair, vector_pair
from likewise.explaining.past import Past
from likewise.ledger.ledger import Entry, Ledger
from likewise.reports.clearest import (
    ClearestPairs,
    ClearPair,
    Sides,
    compare_pair_groups,
    find_candidates,
    number_values,
)
from likewise.tables.array_types import Rows
from likewise.tables.codec import json_value
from likewise.verdict.side_by_side import Pair
from likewise.verdict.verdicts import Verdicts
from likewise.verdict.witnesses import Witness

# Shows two decisions of a ledger side by side, even if no monitor remembers them any more.
# Invariant: None if one of the two was erased, or has left the window; nothing of it is shown.


def stored_pair(
    ledger: Ledger, entry: Entry, witness: Witness, *, keys: bool = True
) -> Pair | None:
    """Show a decision beside one of its witnesses.

    keys: whether to show the key column
    """
    other = entry_of(ledger, witness.row)
    if entry.erased or other is None or other.erased:
        return None
    rule = ledger.rule
    models = entry.model, other.model
    if rule.features is None:
        inputs = [ledger.values(row)["input"] for row in (entry.row, witness.row)]
        outputs = [entry.output, other.output]
        return vector_pair(rule, entry.row, witness, inputs, outputs, models)
    key = rule.key_column if keys else None
    mine, theirs = (_values(ledger, one, key) for one in (entry, other))
    return table_pair(rule, entry.row, witness, mine, theirs, models)


def entry_of(ledger: Ledger, row: int) -> Entry | None:
    """Read a decision; None if it has left the window."""
    try:
        return ledger.entry(row)
    except BadRow:
        return None


def whereabouts(entry: Entry) -> DecisionOrigin:
    """Return when a decision was made, for its card."""
    return DecisionOrigin(time=entry.time.removesuffix("Z").replace("T", " ").partition(".")[0])


def _values(ledger: Ledger, entry: Entry, key_column: str | None) -> dict[str, Any]:
    outputs = ledger.rule.output_columns or ("output",)
    values = {name: _restore_number(value) for name, value in ledger.values(entry.row).items()}
    several = list(entry.output) if len(outputs) > 1 else [entry.output]
    key = {} if key_column is None else {key_column: entry.key}
    return {**dict(zip(outputs, several, strict=True)), **key, **values}


def _restore_number(value: Any) -> Any:
    """Return a number as it was written; None where a value was missing."""
    if isinstance(value, float):
        if value != value:  # noqa: PLR0124 - NaN
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value


POOL = 3
"""How many pairs are kept, to choose from, for each one shown."""
PairKind = tuple[tuple[str, ...], ...]
"""The two groups of each protected column in which a pair differs."""


@dataclass(frozen=True)
class WorstPair:
    """Shows two decisions side by side, and how many coordinates are left out."""

    pair: Pair
    omitted_columns: int = 0
    later: DecisionOrigin | None = None
    earlier: DecisionOrigin | None = None

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {**self.pair.to_dict(), "omitted_columns": self.omitted_columns}
        if self.later is not None and self.earlier is not None:
            fields["time"], fields["witness_time"] = self.later.time, self.earlier.time
            both = zip(self.later.ignored, self.earlier.ignored, strict=True)
            fields["ignored"] = [
                {"column": name, "decision": json_value(mine), "witness": json_value(other)}
                for (name, mine), (_, other) in both
            ]
        return fields


def side_by_side(
    past: Past,
    one: ClearPair,
    places: Sequence[int] | None = None,
    *,
    names: Sequence[str] | None = None,
) -> WorstPair:
    """Return the two decisions of a pair, with the values that the past has of them.

    places  the rows of both in this past, where it is not the one of the whole stream
    names   of coordinates, for a rule without features
    """
    witness = Witness(one.earlier, one.distance, -one.minus_output_distance)
    later, earlier = places or (one.later, one.earlier)
    witness_there = replace(witness, row=earlier)
    pair = make_pair(past, later, witness_there, names=names, support=one.support)
    return WorstPair(replace(pair, row=one.later, witness=witness), pair.hidden)


class WorstPairs:
    """Chooses the pairs to look at so far, at most `most`.

    columns: the names of coordinates, for a rule without features
    """

    def __init__(self, most: int, columns: Sequence[str] | None = None) -> None:
        self._most = most
        self._columns = columns
        self._clearest = ClearestPairs(POOL * most)
        self._kinds: dict[ClearPair, PairKind] = {}
        self._chosen: dict[ClearPair, WorstPair] = {}

    def add(self, verdicts: Verdicts, past: Past) -> None:
        """Add the pairs of a batch that the monitor has just judged."""
        if verdicts.pairs == 0 or self._most == 0:
            return
        later, earlier = verdicts.rows[verdicts.owners], verdicts.witnesses.rows
        alive = past.alive(later) & past.alive(earlier)  # a window may have left some behind
        sides = Sides(past, partial(number_values, past))
        self._clearest.add(*find_candidates(verdicts, sides, alive, self._clearest.may_enter))
        self._choose(past)

    def _choose(self, past: Past) -> None:
        """Choose among the pairs so far, and keep the values of those chosen: a window may pass."""
        pairs = self._clearest.pairs()
        later, earlier = np.array([(one.later, one.earlier) for one in pairs], np.int64).T
        kinds = zip(pairs, kinds_of(past, later, earlier), strict=True)
        self._kinds = {one: self._kinds.get(one) or kind for one, kind in kinds}
        alive = (past.alive(later) & past.alive(earlier)).tolist()
        known = zip(pairs, alive, strict=True)
        pairs = [one for one, is_alive in known if is_alive or one in self._chosen]
        self._chosen = {
            one: self._chosen.get(one) or side_by_side(past, one, names=self._columns)
            for one in choose_pairs(pairs, self._kinds, self._most)
        }

    def pairs(self) -> tuple[WorstPair, ...]:
        """Return the chosen pairs: those across groups first, the clearest first."""
        return tuple(self._chosen.values())


def kinds_of(past: Past, later: Rows, earlier: Rows) -> list[PairKind]:
    """Return for each pair of rows the two groups of each protected column in which they differ."""
    kinds: list[PairKind] = [()] * len(later)
    for name in protected_columns(past.rule):
        mine, theirs, apart = compare_pair_groups(past, name, later, earlier)
        for i in np.flatnonzero(apart).tolist():
            groups = mine.values[mine.codes[i]], theirs.values[theirs.codes[i]]
            kinds[i] += ((name, *sorted(map(str, groups))),)
    return kinds


def choose_pairs(
    pairs: Sequence[ClearPair], kinds: Mapping[ClearPair, PairKind], most: int
) -> list[ClearPair]:
    """Choose the pairs to look at among the clearest ones."""
    by_kind: dict[PairKind, list[ClearPair]] = {}
    for one in sorted(pairs):
        by_kind.setdefault(kinds[one], []).append(one)
    within_groups = by_kind.pop((), [])
    chosen: list[ClearPair] = []
    taken: set[tuple[str, int]] = set()
    for turns in (list(by_kind.values()), [within_groups]):
        _take_turns(turns, chosen, taken, most)
    return chosen


def _take_turns(
    turns: list[list[ClearPair]], chosen: list[ClearPair], taken: set[tuple[str, int]], most: int
) -> None:
    """Go round, and take the next pair of each kind that is about nothing taken before."""
    queues = [iter(one) for one in turns]
    while queues:
        left = []
        for queue in queues:
            for one in queue:
                if len(chosen) == most:
                    return
                subjects = one.subjects
                if not subjects & taken:
                    chosen.append(one)
                    taken |= subjects
                    left.append(queue)
                    break
        queues = left
