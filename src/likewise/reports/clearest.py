"""Which contradicting pairs are the clearest, class by class, from whatever part of a stream.

Clearer is: nearer; then outputs farther apart; then the earlier rows. A class is a kind of two
groups that pairs are across. Each decision brings its clearest pair of each class; of these a class
keeps those that are the clearest for their later side and for their earlier side, so many of each.

What is kept of parts of a stream can be put together (`merge`), and is then what the whole stream
would have left, whichever part each decision was in. One exception: where there are more than
KINDS kinds of groups, which pairs of the further kinds are kept may depend on the parts.

Invariant: the pairs kept depend on the decisions, not on how they came in batches or parts.
Cost: 2 * `most` pairs for each class; of each batch, a look at all its pairs.
Not here: what a pair looks like (selected_pairs.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from likewise.explaining.compare_groups import protected_columns
from likewise.explaining.past import Past
from likewise.tables.rows import Floats, Rows
from likewise.verdict.past_rows import CodedColumn
from likewise.verdict.verdicts import Verdicts

KINDS = 12
"""So many kinds of two groups have pairs kept of their own."""
WITHIN, OTHERS = -1, -2
"""Classes: pairs across no groups, and those of further kinds."""
_CODES = 2**25  # of a protected column; beyond that, some kinds would share a class
_UINT = npt.NDArray[np.uint64]
_STEP = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: neighbouring places get far numbers
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


def classes_across(
    past: Past,
    later: Rows,
    earlier: Rows,
    numbers_of: Callable[[CodedColumn], Rows],
    number_class: Callable[[int, Rows, Rows], Rows],
) -> Rows:
    """Return the class of each pair: its two groups in the first protected column that differs.

    numbers_of  gives a number for each group; below 0 where it is not known
    named       gives the class of a column, and the smaller and the larger number of two groups
    """
    classes = np.full(len(later), WITHIN, dtype=np.int64)
    for number, name in reversed(list(enumerate(protected_columns(past.rule)))):
        mine, theirs = (numbers_of(past.codes(name, rows)) for rows in (later, earlier))
        apart = (mine != theirs) & (mine >= 0) & (theirs >= 0)
        found = number_class(number, np.minimum(mine, theirs), np.maximum(mine, theirs))
        classes[apart] = found[apart]
    return classes


class CodedSides:
    """Sides by the codes that one monitor has given: they mean nothing to another."""

    def __init__(self, past: Past, person: str | None) -> None:
        self._past = past
        self._person = person

    def classes(self, later: Rows, earlier: Rows) -> Rows:
        def number_class(number: int, one: Rows, other: Rows) -> Rows:
            return (number * _CODES + one % _CODES) * _CODES + other % _CODES

        return classes_across(self._past, later, earlier, lambda codes: codes.codes, number_class)

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

    @property
    def subjects(self) -> set[tuple[str, int]]:
        """Everything that may be in the list once."""
        later, earlier = zip(self.values, self.people, strict=True)
        subjects = {("row", self.later), ("row", self.earlier)}
        for values, person in (later, earlier):
            subjects.add(("values", values))
            if person >= 0:
                subjects.add(("person", person))
        return subjects


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

    @property
    def clearness(self) -> tuple[npt.NDArray[Any], ...]:
        """What pairs are sorted by, for np.lexsort: what counts most comes last."""
        return self.earlier, self.later, self.outputs, self.distances

    def select(self, chosen: npt.NDArray[Any]) -> "Candidates":
        return Candidates(*(column[chosen] for column in vars(self).values()))

    def reclassify(self, classes: Rows) -> "Candidates":
        """The same pairs in other classes: of each decision and class the clearest."""
        every = Candidates(**{**vars(self), "classes": classes})
        at = np.arange(len(every))
        return every.select(
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
    def concatenate(cls, parts: Sequence["Candidates"]) -> "Candidates":
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
        return Candidates.concatenate([]), firsts
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


def best_of_sides(candidates: Candidates, which: int, most: int) -> Candidates:
    """Of each class and side the clearest pair; of each class `most` of these, the clearest first.

    which: 0 for the later side, 1 for the earlier. A side is a person where that is known, else
    its values.
    """
    people = candidates.people[:, which]
    known = people >= 0
    sides = np.where(known, people.astype(np.uint64), candidates.values[:, which])
    order = np.lexsort((*candidates.clearness, sides, known, candidates.classes))
    changes = [column[order] for column in (candidates.classes, known, sides)]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = np.any([column[1:] != column[:-1] for column in changes], axis=0)
    best = candidates.select(order[first])
    best = best.select(np.lexsort((*best.clearness, best.classes)))
    _, begins, counts = np.unique(best.classes, return_index=True, return_counts=True)
    return best.select(np.arange(len(best)) - np.repeat(begins, counts) < most)


class ClearestPairs:
    """The clearest pairs so far.

    most    of each class and side
    kinds   classes that have pairs kept of their own, beside WITHIN: those that turn up first
    """

    def __init__(self, most: int, kinds: int = KINDS) -> None:
        self._most = most
        self._most_kinds = kinds
        self._firsts: dict[int, tuple[int, int]] = {}
        self._best = (_NONE, _NONE)  # for their later sides, and for their earlier sides

    def add(self, candidates: Candidates, firsts: Firsts) -> None:
        """Of further decisions, which come after those that were added before."""
        new = sorted((first, which) for which, first in firsts.items() if which not in self._firsts)
        room = self._most_kinds - len(self._firsts)
        self._firsts |= {which: first for first, which in new[:room]}
        candidates = candidates.reclassify(self._fold_other_kinds(candidates.classes))
        later, earlier = (
            best_of_sides(Candidates.concatenate([best, candidates]), which, self._most)
            for which, best in enumerate(self._best)
        )
        self._best = later, earlier

    def may_enter(self, classes: Rows, distances: Floats, outputs: Floats) -> npt.NDArray[np.bool_]:
        """Which pairs are clearer than the least clear ones of their class."""
        named = self._fold_other_kinds(classes)
        may = np.ones(len(classes), dtype=np.bool_)
        for which, (distance, output) in self._limits().items():
            clearer = (distances < distance) | ((distances == distance) & (outputs < output))
            may &= (named != which) | clearer
        return may

    def _limits(self) -> dict[int, tuple[float, float]]:
        """By class that is full: the distances of a pair, and no pair enters that is no clearer."""
        ends = []
        for best in self._best:
            counts = np.unique(best.classes, return_counts=True)[1]
            full = best.select((np.cumsum(counts) - 1)[counts == self._most])
            limits = zip(full.distances.tolist(), full.outputs.tolist(), strict=True)
            ends.append(dict(zip(full.classes.tolist(), limits, strict=True)))
        later, earlier = ends
        return {which: max(later[which], earlier[which]) for which in later.keys() & earlier}

    def _fold_other_kinds(self, classes: Rows) -> Rows:
        """The classes, where those that have names keep them and all others are one.

        A class that is new and finds room has a name once its candidates are added.
        """
        if len(self._firsts) < self._most_kinds:
            return classes
        return np.where(np.isin(classes, [*self._firsts, WITHIN]), classes, OTHERS)

    def pairs(self) -> list[ClearPair]:
        """All pairs that are kept."""
        return self.export_pairs()[0].pairs()

    # Parts of a stream, put together

    def export_pairs(self) -> tuple[Candidates, Firsts]:
        """All pairs that are kept, and the first of each class."""
        both = Candidates.concatenate(self._best)
        _, once = np.unique(np.stack([both.later, both.earlier]), axis=1, return_index=True)
        return both.select(once), dict(self._firsts)

    @classmethod
    def merge_parts(
        cls, most: int, parts: "Sequence[tuple[Candidates, Firsts]]", kinds: int = KINDS
    ) -> "ClearestPairs":
        """What the whole stream would have left, from what each part of it left."""
        firsts: Firsts = {}
        for _, own in parts:
            for which, first in own.items():
                firsts[which] = min(first, firsts.get(which, first))
        whole = cls(most, kinds)
        whole.add(Candidates.concatenate([]), firsts)
        for candidates, _ in parts:
            whole.add(candidates, {})
        return whole


# Whether two decisions are the same in all that counts


def same_values(past: Past, rows: Rows) -> _UINT:
    """A number for what was compared, and for the output, of rows that are remembered.

    Equal values and outputs have equal numbers; different ones have different numbers, but for one
    case in 2**64. So the list of pairs to look at can know what it has without holding it.
    """
    points = past.points(rows)
    numbers = _mix_words(np.hstack([_words(points.vectors), _words(_outputs(past, rows))]))
    if points.left_open is not None:  # only where something is, since others may come without it
        is_open = points.left_open.reshape(len(rows), -1)
        numbers = numbers + _mix_words(_words(is_open)) * is_open.any(axis=1)
    return numbers


def _outputs(past: Past, rows: Rows) -> npt.NDArray[Any]:
    if past.rule.output == "label":
        return past.codes("", rows).codes
    if past.rule.output == "number":
        return past.numbers(rows)
    return np.array(past.outputs(rows), dtype=np.float64)


def _words(values: npt.NDArray[Any]) -> _UINT:
    """Values as rows of 64-bit words; 0.0 and -0.0 are the same."""
    flat = values.reshape(len(values), -1)
    if flat.dtype.kind == "f":
        flat = flat.astype(np.float64) + 0.0
    elif flat.dtype.kind in "bi":
        flat = flat.astype(np.int64)
    else:
        flat = flat.astype(np.uint64)
    return np.ascontiguousarray(flat).view(np.uint64)


def _mix_words(words: _UINT) -> _UINT:
    """One number for each row: words are mixed with their places, and added up.

    The mixing is splitmix64 (Steele, Lea and Flood 2014): every bit of a word moves every other.
    """
    places = np.arange(1, words.shape[1] + 1, dtype=np.uint64)
    mixed: _UINT = (words + places * _STEP).astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed = mixed ^ (mixed >> np.uint64(31))
    total: _UINT = mixed.sum(axis=1, dtype=np.uint64)
    return total
