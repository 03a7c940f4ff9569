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
Not here: how pairs are shown (cards.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from likewise.explaining.comparing import protected_columns
from likewise.explaining.pair_card import Whereabouts
from likewise.explaining.side_by_side import Pair, pair_of
from likewise.reports.sameness import same_values
from likewise.values.past import Past
from likewise.values.plain import json_value
from likewise.values.verdicts import Floats, Rows, Verdicts, Witness

POOL = 3
"""So many times the pairs that are wanted are kept, to choose from."""
KINDS = 12
"""So many kinds of two groups have pairs kept of their own."""
_CODES = 2**25  # of a protected column; beyond that, some kinds would share a class
_WITHIN, _OTHERS = -1, -2  # classes: pairs across no groups, and those of further kinds
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


@dataclass(frozen=True, order=True)
class _Found:
    """A pair, ordered by how clear it is."""

    distance: float
    minus_output_distance: float
    later: int
    earlier: int
    values: tuple[int, int] = field(compare=False)
    """A number for the compared values and the output of the later and the earlier side."""
    people: tuple[int, int] = field(compare=False)
    """A number for the person of each; -1 where that is not known."""

    def side(self, which: int) -> tuple[str, int]:
        """Who or what one side is about: 0 the later, 1 the earlier."""
        person = self.people[which]
        return ("person", person) if person >= 0 else ("values", self.values[which])

    @property
    def subjects(self) -> set[tuple[str, int]]:
        """Everything that may be in the list once."""
        named = {("row", self.later), ("row", self.earlier)}
        named |= {("values", one) for one in self.values}
        return named | {("person", one) for one in self.people if one >= 0}


class _Pool:
    """The clearest pairs of one class, each side once: as the later, and as the earlier one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._best: tuple[dict[tuple[str, int], _Found], ...] = ({}, {})

    def add(self, candidates: Sequence[_Found]) -> None:
        for which in (0, 1):
            best = dict(self._best[which])
            for one in candidates:
                side = one.side(which)
                if side not in best or one < best[side]:
                    best[side] = one
            kept = sorted(best.values())[: self._most]
            self._best[which].clear()
            self._best[which].update({one.side(which): one for one in kept})

    @property
    def worst(self) -> tuple[float, float] | None:
        """A pair that is no clearer than this does not enter; None if any does."""
        if any(len(best) < self._most for best in self._best):
            return None
        last = max(max(best.values()) for best in self._best)
        return last.distance, last.minus_output_distance

    def __iter__(self) -> Iterator[_Found]:
        return iter(sorted({*self._best[0].values(), *self._best[1].values()}))


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
        self._kinds: list[int] = []
        self._pools: dict[int, _Pool] = {}
        self._kept: dict[_Found, WorstPair] = {}

    def add(self, verdicts: Verdicts, past: Past) -> None:
        """The pairs of a batch that the monitor has just judged."""
        if verdicts.pairs == 0 or self._most == 0:
            return
        self._protected = protected_columns(past.rule)
        witnesses = verdicts.witnesses
        later = verdicts.first_row + verdicts.owners
        there = past.alive(later) & past.alive(witnesses.rows)  # a window may have left some behind
        at = np.flatnonzero(there)
        classes = self._known(_classes(later[at], witnesses.rows[at], past))
        chosen, of = _clearest(
            at,
            classes,
            later,
            witnesses.rows,
            witnesses.input_distances,
            -witnesses.output_distances,
            {which: pool.worst for which, pool in self._pools.items()},
        )
        candidates = self._candidates(chosen, later, verdicts, past)
        for which in np.unique(of).tolist():
            pool = self._pools.setdefault(which, _Pool(POOL * self._most))
            pool.add([candidates[i] for i in np.flatnonzero(of == which).tolist()])
        entered = [one for pool in self._pools.values() for one in pool]
        self._kept = {one: self._kept.get(one) or self._side_by_side(one, past) for one in entered}

    def _known(self, classes: Rows) -> Rows:
        """The classes, where the first KINDS of them have names and all others are one."""
        different, first = np.unique(classes, return_index=True)
        for which in different[np.argsort(first)].tolist():
            if which != _WITHIN and which not in self._kinds and len(self._kinds) < KINDS:
                self._kinds.append(which)
        named = np.isin(classes, [*self._kinds, _WITHIN])
        return np.where(named, classes, _OTHERS)

    def _candidates(
        self, chosen: Rows, later: Rows, verdicts: Verdicts, past: Past
    ) -> list[_Found]:
        """Those pairs, as they are kept."""
        if len(chosen) == 0:
            return []
        witnesses = verdicts.witnesses
        sides = later[chosen], witnesses.rows[chosen]
        values = [same_values(past, rows).tolist() for rows in sides]
        people = [self._people(rows, past) for rows in sides]
        columns = (
            witnesses.input_distances[chosen].tolist(),
            (-witnesses.output_distances[chosen]).tolist(),
            *(rows.tolist() for rows in sides),
            zip(*values, strict=True),
            zip(*people, strict=True),
        )
        return [_Found(*one) for one in zip(*columns, strict=True)]

    def _people(self, rows: Rows, past: Past) -> list[int]:
        if self._person is None:
            return [-1] * len(rows)
        codes: list[int] = past.codes(self._person, rows).codes.tolist()
        return codes

    def _side_by_side(self, one: _Found, past: Past) -> WorstPair:
        witness = Witness(one.earlier, one.distance, -one.minus_output_distance)
        pair = pair_of(past, one.later, witness, names=self._columns)
        return WorstPair(pair, pair.hidden)

    def pairs(self) -> tuple[WorstPair, ...]:
        """Across groups first, the clearest first."""
        kinds: dict[_Kind, list[_Found]] = {}
        for one in sorted(self._kept):
            kinds.setdefault(_groups_of(self._kept[one].pair, self._protected), []).append(one)
        same = kinds.pop((), [])
        chosen: list[_Found] = []
        taken: set[tuple[str, int]] = set()
        for turns in (list(kinds.values()), [same]):
            _take_turns(turns, chosen, taken, self._most)
        return tuple(self._kept[one] for one in chosen)


def _take_turns(
    turns: list[list[_Found]],
    chosen: list[_Found],
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


def _clearest(
    at: Rows,
    classes: Rows,
    later: Rows,
    earlier: Rows,
    distances: Floats,
    outputs: Floats,
    worst: dict[int, tuple[float, float] | None],
) -> tuple[Rows, Rows]:
    """Of pairs at these places, the clearest of each later row and class; and their classes.

    worst: for classes that are full, what a pair must be clearer than
    """
    kept = np.ones(len(at), dtype=np.bool_)
    for which, limit in worst.items():
        if limit is not None:
            near, far = distances[at], outputs[at]
            clearer = (near < limit[0]) | ((near == limit[0]) & (far < limit[1]))
            kept &= (classes != which) | clearer
    at, classes = at[kept], classes[kept]
    order = np.lexsort((earlier[at], outputs[at], distances[at], later[at], classes))
    at, classes = at[order], classes[order]
    first = np.ones(len(at), dtype=np.bool_)
    first[1:] = (classes[1:] != classes[:-1]) | (later[at[1:]] != later[at[:-1]])
    return at[first], classes[first]


def _groups_of(pair: Pair, protected: Sequence[str]) -> _Kind:
    """The two groups of each protected column in which a pair differs."""
    return tuple(
        (name, *sorted((str(pair.mine[name]), str(pair.other[name]))))
        for name in protected
        if None not in (pair.mine[name], pair.other[name]) and pair.differs(name)
    )


def _classes(rows: Rows, others: Rows, past: Past) -> Rows:
    """The two groups that pairs are across, as a number; _WITHIN if none."""
    classes = np.full(len(rows), _WITHIN, dtype=np.int64)
    for number, name in reversed(list(enumerate(protected_columns(past.rule)))):
        mine, theirs = past.codes(name, rows).codes, past.codes(name, others).codes
        apart = (mine != theirs) & (mine >= 0) & (theirs >= 0)
        one, other = np.minimum(mine, theirs) % _CODES, np.maximum(mine, theirs) % _CODES
        classes[apart] = ((number * _CODES + one) * _CODES + other)[apart]
    return classes
