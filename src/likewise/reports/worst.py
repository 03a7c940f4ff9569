"""Pairs to look at first: the clearest contradictions of a stream, and no two about the same thing.

Clearer is: nearer; then outputs farther apart; then the earlier rows. The rule, in its order:

1. Pairs are sorted by the two groups that they are across: those of the first protected column in
   which both sides are known and differ. Pairs across none are a class of their own, and so are all
   pairs together whose groups turn up after KINDS others. Each decision brings its clearest pair of
   each class.
2. Of each class, pairs are kept that are the clearest for their later side, and that are the
   clearest for their earlier side; POOL times as many as are wanted, the clearest ones. A side is
   a person where a column says who that is, else its compared values with its output.
3. Pairs across groups are chosen before others. Those between the same groups, in all protected
   columns, take turns with the rest, those with the clearest pair first; each gives its clearest
   pair neither side of which was chosen before: not the decision, not the person, and not the same
   compared values with the same output. Pairs within groups fill the places that are left.

So a list may be shorter than wanted: the rest would say the same once more.

Invariant: the list depends on the decisions, not on how they came in batches, unless rows are
forgotten in between: only rows that are remembered when their batch is added can be shown.
Cost: at most 2 * POOL times as many pairs as are wanted for each of KINDS + 2 classes, with the
values of both rows as they were when the pair was found; of each batch, a look at all its pairs.
Not here: which pairs are the clearest (clearest.py), how pairs are shown (cards.py).
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.explaining.comparing import protected_columns
from likewise.explaining.pair_card import Whereabouts
from likewise.explaining.side_by_side import Pair, pair_of
from likewise.reports.clearest import ClearestPairs, ClearPair, CodedSides, candidates_of
from likewise.values.past import Past
from likewise.values.plain import json_value
from likewise.values.verdicts import Verdicts, Witness

POOL = 3
"""So many times the pairs that are wanted are kept, to choose from."""
_Kind = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class WorstPair:
    """Two decisions side by side, and how many coordinates are left out."""

    pair: Pair
    left_out: int = 0
    later: Whereabouts | None = None
    earlier: Whereabouts | None = None

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {**self.pair.to_dict(), "left_out": self.left_out}
        if self.later is not None and self.earlier is not None:
            told["time"], told["witness_time"] = self.later.time, self.earlier.time
            told["ignored"] = [
                {"column": name, "this": json_value(mine), "witness": json_value(other)}
                for (name, mine), (_, other) in zip(
                    self.later.ignored, self.earlier.ignored, strict=True
                )
            ]
        return told


def told_time(moment: datetime.datetime | np.datetime64) -> str:
    """A moment for a card: a day, unless it says more. It may lie beyond the year 9999."""
    return str(np.asarray(moment, "datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")


class WorstPairs:
    """The pairs to look at so far: `most` at most.

    columns   the names of coordinates, for a rule without features
    person    the column that says whom a decision is about, if one does
    """

    def __init__(
        self, most: int, columns: Sequence[str] | None = None, person: str | None = None
    ) -> None:
        self._most = most
        self._columns = columns
        self._person = person
        self._protected: tuple[str, ...] = ()
        self._clearest = ClearestPairs(POOL * most)
        self._kept: dict[ClearPair, WorstPair] = {}

    def add(self, verdicts: Verdicts, past: Past) -> None:
        """The pairs of a batch that the monitor has just judged."""
        if verdicts.pairs == 0 or self._most == 0:
            return
        self._protected = protected_columns(past.rule)
        later, earlier = verdicts.rows[verdicts.owners], verdicts.witnesses.rows
        there = past.alive(later) & past.alive(earlier)  # a window may have left some behind
        sides = CodedSides(past, self._person)
        self._clearest.add(*candidates_of(verdicts, sides, there, self._clearest.may_enter))
        self._kept = {
            one: self._kept.get(one) or self._side_by_side(one, past) for one in self._clearest
        }

    def _side_by_side(self, one: ClearPair, past: Past) -> WorstPair:
        witness = Witness(one.earlier, one.distance, -one.minus_output_distance)
        pair = pair_of(past, one.later, witness, names=self._columns)
        return WorstPair(pair, pair.hidden)

    def pairs(self) -> tuple[WorstPair, ...]:
        """Across groups first, the clearest first."""
        return chosen_pairs(self._kept, self._protected, self._most)


def chosen_pairs(
    kept: Mapping[ClearPair, WorstPair], protected: Sequence[str], most: int
) -> tuple[WorstPair, ...]:
    """Of the clearest pairs, those to look at."""
    kinds: dict[_Kind, list[ClearPair]] = {}
    for one in sorted(kept):
        kinds.setdefault(_groups_of(kept[one].pair, protected), []).append(one)
    same = kinds.pop((), [])
    chosen: list[ClearPair] = []
    taken: set[tuple[str, int]] = set()
    for turns in (list(kinds.values()), [same]):
        _take_turns(turns, chosen, taken, most)
    return tuple(kept[one] for one in chosen)


def _take_turns(
    turns: list[list[ClearPair]],
    chosen: list[ClearPair],
    taken: set[tuple[str, int]],
    most: int,
) -> None:
    """Go round, and take the next pair of each that is about nothing taken before."""
    queues = [iter(one) for one in turns]
    while queues and len(chosen) < most:
        left = []
        for queue in queues:
            one = next((pair for pair in queue if not pair.subjects & taken), None)
            if one is not None and len(chosen) < most:
                chosen.append(one)
                taken |= one.subjects
                left.append(queue)
        queues = left


def _groups_of(pair: Pair, protected: Sequence[str]) -> _Kind:
    """The two groups of each protected column in which a pair differs."""
    return tuple(
        (name, *sorted((str(pair.mine[name]), str(pair.other[name]))))
        for name in protected
        if None not in (pair.mine[name], pair.other[name]) and pair.differs(name)
    )
