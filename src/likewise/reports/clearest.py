"""Which contradicting pairs are the clearest, class by class, from whatever part of a stream.

Clearer is: nearer; then outputs farther apart; then the earlier rows. A class is a kind of two
groups that pairs are across. Each decision brings its clearest pair of each class; of these a class
keeps those that are the clearest for their later side and for their earlier side, so many of each.

What is kept of parts of a stream can be put together (`merge`), and is then what the whole stream
would have left, whichever part each decision was in. One exception: where there are more than
KINDS kinds of groups, which pairs of the further kinds are kept may depend on the parts.

Invariant: the pairs kept depend on the decisions, not on how they came in batches or parts.
Cost: 2 * `most` pairs for each class; of each batch, a look at all its pairs.
Not here: what a pair looks like (worst.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from likewise.explaining.comparing import protected_columns
from likewise.reports.sameness import same_values
from likewise.values.past import Past
from likewise.values.verdicts import Floats, Rows, Verdicts

KINDS = 12
"""So many kinds of two groups have pairs kept of their own."""
WITHIN, OTHERS = -1, -2
"""Classes: pairs across no groups, and those of further kinds."""
_CODES = 2**25  # of a protected column; beyond that, some kinds would share a class
_UINT = npt.NDArray[np.uint64]
Firsts = dict[int, tuple[int, int]]
"""By class, the later and the earlier row of its first pair."""


class Sides(Protocol):
    """Numbers for what pairs are about: equal exactly if what they stand for is the same."""

    def classes(self, later: Rows, earlier: Rows) -> Rows:
        """The two groups that pairs are across; WITHIN if none."""

    def values(self, rows: Rows) -> _UINT:
        """The compared values and the output of rows."""

    def people(self, rows: Rows) -> Rows:
        """The persons of rows; -1 where that is not known."""


class CodedSides:
    """Sides by the codes that one monitor has given: they mean nothing to another."""

    def __init__(self, past: Past, person: str | None) -> None:
        self._past = past
        self._person = person

    def classes(self, later: Rows, earlier: Rows) -> Rows:
        classes = np.full(len(later), WITHIN, dtype=np.int64)
        for number, name in reversed(list(enumerate(protected_columns(self._past.rule)))):
            mine = self._past.codes(name, later).codes
            theirs = self._past.codes(name, earlier).codes
            apart = (mine != theirs) & (mine >= 0) & (theirs >= 0)
            one, other = np.minimum(mine, theirs) % _CODES, np.maximum(mine, theirs) % _CODES
            classes[apart] = ((number * _CODES + one) * _CODES + other)[apart]
        return classes

    def values(self, rows: Rows) -> _UINT:
        return same_values(self._past, rows)

    def people(self, rows: Rows) -> Rows:
        if self._person is None:
            return np.full(len(rows), -1, np.int64)
        return self._past.codes(self._person, rows).codes


@dataclass(frozen=True, order=True)
class ClearPair:
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


@dataclass(frozen=True, eq=False)
class Candidates:
    """Pairs of which some may be among the clearest, column by column."""

    distances: Floats
    outputs: Floats
    """The distances of outputs, each with its sign turned: less is clearer."""
    later: Rows
    earlier: Rows
    classes: Rows
    values: _UINT
    """Two for each pair: of the later and the earlier side."""
    people: Rows

    def __len__(self) -> int:
        return len(self.later)

    def some(self, chosen: npt.NDArray[Any]) -> "Candidates":
        return Candidates(*(column[chosen] for column in vars(self).values()))

    def under(self, classes: Rows) -> "Candidates":
        """The same pairs in other classes: of each decision and class the clearest."""
        every = Candidates(**{**vars(self), "classes": classes})
        at = np.arange(len(every))
        return every.some(
            clearest(at, classes, self.later, self.earlier, self.distances, self.outputs)
        )

    def with_rows(self, rows: Rows) -> "Candidates":
        """The same pairs, where row i is called rows[i]; in the same order."""
        changed = {"later": rows[self.later], "earlier": rows[self.earlier]}
        return Candidates(**{**vars(self), **changed})

    def pairs(self) -> list[ClearPair]:
        columns = (self.distances, self.outputs, self.later, self.earlier, self.values, self.people)
        return [
            ClearPair(near, far, later, earlier, (mine, other), (who, whose))
            for near, far, later, earlier, (mine, other), (who, whose) in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]

    @classmethod
    def joined(cls, parts: Sequence["Candidates"]) -> "Candidates":
        """All of them; of no parts, none."""
        columns = zip(*(vars(part).values() for part in [_NONE, *parts]), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


_NONE = Candidates(
    np.empty(0),
    np.empty(0),
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty((0, 2), np.uint64),
    np.empty((0, 2), np.int64),
)


def clearest(
    at: Rows, classes: Rows, later: Rows, earlier: Rows, distances: Floats, outputs: Floats
) -> Rows:
    """Of pairs at these places, the clearest of each later row and class."""
    order = np.lexsort((earlier[at], outputs[at], distances[at], later[at], classes[at]))
    at = at[order]
    first = np.ones(len(at), dtype=np.bool_)
    first[1:] = (classes[at[1:]] != classes[at[:-1]]) | (later[at[1:]] != later[at[:-1]])
    return at[first]


def candidates_of(
    verdicts: Verdicts,
    sides: Sides,
    there: npt.NDArray[np.bool_] | None = None,
    may_enter: Callable[[Rows, Floats, Floats], npt.NDArray[np.bool_]] | None = None,
) -> tuple[Candidates, Firsts]:
    """Of the pairs of a batch the clearest of each decision and class, and the first of each class.

    there      which of the witnesses are looked at; all of them, unless given
    may_enter  says of classes, distances and outputs which pairs are worth a look
    """
    witnesses = verdicts.witnesses
    later, earlier = verdicts.rows[verdicts.owners], witnesses.rows
    distances, outputs = witnesses.input_distances, -witnesses.output_distances
    at = np.arange(len(later)) if there is None else np.flatnonzero(there)
    classes = np.full(len(later), WITHIN, np.int64)
    classes[at] = sides.classes(later[at], earlier[at])
    different, first = np.unique(classes[at], return_index=True)
    firsts = {
        which: (int(later[place]), int(earlier[place]))
        for which, place in zip(different.tolist(), at[first].tolist(), strict=True)
        if which != WITHIN
    }
    if may_enter is not None:
        at = at[may_enter(classes[at], distances[at], outputs[at])]
    if len(at) == 0:
        return Candidates.joined([]), firsts
    at = clearest(at, classes, later, earlier, distances, outputs)
    both = later[at], earlier[at]
    candidates = Candidates(
        distances[at],
        outputs[at],
        *both,
        classes[at],
        np.stack([sides.values(rows) for rows in both], axis=1),
        np.stack([sides.people(rows) for rows in both], axis=1),
    )
    return candidates, firsts


class _Pool:
    """The clearest pairs of one class, each side once: as the later, and as the earlier one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._best: tuple[dict[tuple[str, int], ClearPair], ...] = ({}, {})

    def add(self, candidates: Sequence[ClearPair]) -> None:
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

    def __iter__(self) -> Iterator[ClearPair]:
        return iter(sorted({*self._best[0].values(), *self._best[1].values()}))


class ClearestPairs:
    """The clearest pairs so far.

    most    of each class and side
    kinds   classes that have pairs kept of their own, beside WITHIN: those that turn up first
    """

    def __init__(self, most: int, kinds: int = KINDS) -> None:
        self._most = most
        self._most_kinds = kinds
        self._firsts: dict[int, tuple[int, int]] = {}
        self._pools: dict[int, _Pool] = {}

    def add(self, candidates: Candidates, firsts: Firsts) -> None:
        """Of further decisions, which come after those that were added before."""
        new = sorted((first, which) for which, first in firsts.items() if which not in self._firsts)
        room = self._most_kinds - len(self._firsts)
        self._firsts |= {which: first for first, which in new[:room]}
        candidates = candidates.under(self._named(candidates.classes))
        pairs = candidates.pairs()
        for which in np.unique(candidates.classes).tolist():
            pool = self._pools.setdefault(which, _Pool(self._most))
            pool.add([pairs[i] for i in np.flatnonzero(candidates.classes == which).tolist()])

    def may_enter(self, classes: Rows, distances: Floats, outputs: Floats) -> npt.NDArray[np.bool_]:
        """Which pairs are clearer than the least clear ones of their class."""
        named = self._named(classes)
        may = np.ones(len(classes), dtype=np.bool_)
        for which, pool in self._pools.items():
            limit = pool.worst
            if limit is not None:
                clearer = (distances < limit[0]) | ((distances == limit[0]) & (outputs < limit[1]))
                may &= (named != which) | clearer
        return may

    def _named(self, classes: Rows) -> Rows:
        """The classes, where those that have names keep them and all others are one.

        A class that is new and finds room has a name once its candidates are added.
        """
        if len(self._firsts) < self._most_kinds:
            return classes
        return np.where(np.isin(classes, [*self._firsts, WITHIN]), classes, OTHERS)

    def __iter__(self) -> Iterator[ClearPair]:
        return (pair for pool in self._pools.values() for pair in pool)

    # Parts of a stream, put together

    def kept(self) -> tuple[Candidates, Firsts]:
        """All pairs that are kept, and the first of each class."""
        parts = [
            Candidates(
                np.array([one.distance for one in pairs]),
                np.array([one.minus_output_distance for one in pairs]),
                np.array([one.later for one in pairs], np.int64),
                np.array([one.earlier for one in pairs], np.int64),
                np.full(len(pairs), which, np.int64),
                np.array([one.values for one in pairs], np.uint64),
                np.array([one.people for one in pairs], np.int64),
            )
            for which, pairs in ((which, list(pool)) for which, pool in self._pools.items())
        ]
        return Candidates.joined(parts), dict(self._firsts)

    @classmethod
    def merged(
        cls, most: int, parts: "Sequence[tuple[Candidates, Firsts]]", kinds: int = KINDS
    ) -> "ClearestPairs":
        """What the whole stream would have left, from what each part of it left."""
        firsts: Firsts = {}
        for _, own in parts:
            for which, first in own.items():
                firsts[which] = min(first, firsts.get(which, first))
        whole = cls(most, kinds)
        whole.add(Candidates.joined([]), firsts)
        for candidates, _ in parts:
            whole.add(candidates, {})
        return whole
