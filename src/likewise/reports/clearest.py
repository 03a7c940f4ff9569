"""Which contradicting pairs are the clearest, class by class, from whatever part of a stream.

One answer against many is clearer than one against one, where it is known how many similar cases
agree; then nearer inputs; then outputs farther apart; then earlier rows. A class is a kind of two
groups that pairs are across. Each decision brings its clearest pair of each class; of these a class
keeps the `most` clearest by their later sides, and the `most` clearest by their earlier sides.

What is kept of parts of a stream can be put together (`merge_parts`), and is then what the whole
stream would have left, whichever part each decision was in. One exception: with more than KINDS
kinds of groups, which pairs of the further kinds are kept may depend on the parts.

Invariant: the pairs kept depend on the decisions, not on how they came in batches or parts.
Cost: 2 * `most` pairs for each class; for each batch, a look at all its pairs.
Not here: what a pair looks like (selected_pairs.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from likewise.explaining.compare_groups import protected_columns
from likewise.explaining.past import Past
from likewise.reports.totals import Z, mix_words, stable_codes, to_words
from likewise.tables.array_types import Floats, Rows
from likewise.verdict.model_counts import CodedColumn
from likewise.verdict.verdicts import Verdicts

KINDS = 12
"""How many kinds of two groups have pairs of their own."""
WITHIN, OTHERS = -1, -2
"""Classes: pairs across no groups, and those of further kinds."""
_Numbers = npt.NDArray[np.uint64]
_Flags = npt.NDArray[np.bool_]
Firsts = dict[int, tuple[int, int]]
"""By class, the later and the earlier row of its first pair."""


def compare_pair_groups(
    past: Past, column: str, later: Rows, earlier: Rows
) -> tuple[CodedColumn, CodedColumn, _Flags]:
    """Return the groups of both rows of each pair, and where they are known and differ."""
    mine, theirs = past.codes(column, later), past.codes(column, earlier)
    apart = (mine.codes != theirs.codes) & (mine.codes >= 0) & (theirs.codes >= 0)
    return mine, theirs, apart


class Sides:
    """Numbers for what pairs are about: equal exactly if what they stand for is the same.

    values: numbers the compared values and the output of rows
    """

    def __init__(self, past: Past, values: Callable[[Rows], _Numbers]) -> None:
        self._past = past
        self.values = values

    def classes(self, later: Rows, earlier: Rows) -> Rows:
        """Number the class of each pair; WITHIN if it is across no groups.

        A class is the two groups in the first protected column in which both are known and differ.
        """
        classes = np.full(len(later), WITHIN, dtype=np.int64)
        for number, name in reversed(list(enumerate(protected_columns(self._past.rule)))):
            mine, theirs, apart = compare_pair_groups(self._past, name, later, earlier)
            sides = (side._replace(codes=side.codes[apart]) for side in (mine, theirs))
            one, other = map(stable_codes, sides)
            kind = [np.full(len(one), number), np.minimum(one, other), np.maximum(one, other)]
            classes[apart] = mix_words(np.column_stack(kind)) >> np.uint64(1)
        return classes

    def people(self, rows: Rows) -> Rows:
        """Number the persons of rows; -1 where that is not known."""
        person = self._past.rule.person_column
        if person is None:
            return np.full(len(rows), -1, np.int64)
        return stable_codes(self._past.codes(person, rows))


@dataclass(frozen=True, order=True)
class ClearPair:
    """A pair, ordered by how clear it is."""

    minus_lopsidedness: int
    distance: float
    minus_output_distance: float
    later: int
    earlier: int
    values: tuple[int, int] = field(compare=False)
    """A number for the compared values and the output of the later and the earlier side."""
    people: tuple[int, int] = field(compare=False)
    """A number for the person of each; -1 where that is not known."""
    support: tuple[int, int] | None = field(default=None, compare=False)
    """How many earlier similar cases the later one has, and how many of them agree."""

    @property
    def rows(self) -> tuple[int, int]:
        """The later and the earlier row."""
        return self.later, self.earlier

    @property
    def subjects(self) -> set[tuple[str, int]]:
        """Rows, values and people, of which each may be in the list once."""
        subjects = {("row", row) for row in self.rows}
        subjects |= {("values", values) for values in self.values}
        return subjects | {("person", person) for person in self.people if person >= 0}


@dataclass(frozen=True, eq=False)
class ContradictingPairs:
    """Holds contradicting pairs, column by column."""

    later: Rows
    earlier: Rows
    distances: Floats
    output_distances: Floats
    near: Rows
    """How many earlier similar cases the later one has; -1 where that is not known."""
    agree: Rows
    """How many of them agree with it."""

    def __len__(self) -> int:
        return len(self.later)

    @property
    def clearness(self) -> tuple[npt.NDArray[Any], ...]:
        """What pairs are sorted by, for np.lexsort: what counts most comes last."""
        lopsided = measure_lopsidedness(self.near, self.agree)
        return self.earlier, self.later, -self.output_distances, self.distances, -lopsided

    def select(self, chosen: npt.NDArray[Any]) -> Self:
        return type(self)(*(column[chosen] for column in vars(self).values()))

    @classmethod
    def none(cls) -> Self:
        rows, distances = np.empty(0, np.int64), np.empty(0)
        return cls(rows, rows, distances, distances, rows, rows)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        columns = zip(*(vars(part).values() for part in [cls.none(), *parts]), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


def measure_lopsidedness(near: Rows, agree: Rows) -> Rows:
    """Measure in tenths how clearly most similar cases got the same answer; 0 if not known.

    It is the lower limit of the share's 95 % interval: 1 against 40 says more than 1 against 1, and
    much more than 20 against 20.
    """
    known = near > 0
    of = np.where(known, near, 1).astype(np.float64)
    most = np.maximum(agree, near - agree)
    square = Z * Z
    middle = (most + square / 2.0) / (of + square)
    half = Z * np.sqrt(most * (of - most) / of + square / 4.0) / (of + square)
    tenths: Rows = np.floor(10.0 * (middle - half)).astype(np.int64)
    return np.where(known, tenths, 0)


def support_of(verdicts: Verdicts) -> tuple[Rows, Rows]:
    """Return how many near cases each decision has, and how many agree; -1 where not known."""
    unknown = np.full(len(verdicts), -1, np.int64)
    return (
        (unknown, unknown)
        if verdicts.near is None
        else (verdicts.near, verdicts.near - verdicts.counts)
    )


def pairs_in(verdicts: Verdicts, support: tuple[Rows, Rows] | None = None) -> ContradictingPairs:
    """Return all pairs of a batch; support: that of its decisions, if the batch has but a part."""
    owners, witnesses = verdicts.owners, verdicts.witnesses
    near, agree = support or support_of(verdicts)
    return ContradictingPairs(
        verdicts.rows[owners],
        witnesses.rows,
        witnesses.input_distances,
        witnesses.output_distances,
        near[owners],
        agree[owners],
    )


@dataclass(frozen=True, eq=False)
class Candidates(ContradictingPairs):
    """Pairs of which some may be among the clearest."""

    classes: Rows
    values: _Numbers
    """Two for each pair: of the later and the earlier side."""
    people: Rows

    @classmethod
    def none(cls) -> Self:
        two = np.empty((0, 2), np.int64)
        columns = vars(ContradictingPairs.none())
        return cls(**columns, classes=two[:, 0], values=two.astype(np.uint64), people=two)

    def reclassify(self, classes: Rows) -> Self:
        """Put the pairs into other classes, and keep the clearest of each decision and class."""
        return replace(self, classes=classes).select(_find_clearest(self, classes))

    def with_rows(self, rows: Rows) -> Self:
        """Rename row i to rows[i]; the pairs stay in order."""
        return replace(self, later=rows[self.later], earlier=rows[self.earlier])

    def pairs(self) -> list[ClearPair]:
        lopsided = measure_lopsidedness(self.near, self.agree)
        order = lopsided, self.distances, self.output_distances, self.later, self.earlier
        columns = *order, self.values, self.people, self.near, self.agree
        return [
            ClearPair(
                -sided,
                near,
                -far,
                later,
                earlier,
                (mine, other),
                (who, whose),
                None if of < 0 else (of, agree),
            )
            for sided, near, far, later, earlier, (mine, other), (who, whose), of, agree in zip(
                *(one.tolist() for one in columns), strict=True
            )
        ]


def _find_clearest(pairs: ContradictingPairs, classes: Rows) -> Rows:
    """Return the place of the clearest pair of each later row and class."""
    earlier, later, *distances = pairs.clearness
    order = np.lexsort((earlier, *distances, later, classes))
    later, classes = later[order], classes[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (classes[1:] != classes[:-1]) | (later[1:] != later[:-1])
    return order[first]


def find_candidates(
    verdicts: Verdicts,
    sides: Sides,
    chosen: _Flags,
    may_enter: Callable[[Rows, ContradictingPairs], _Flags],
    support: tuple[Rows, Rows] | None = None,
) -> tuple[Candidates, Firsts]:
    """Return the clearest pair of each decision and class, and the first pair of each class.

    chosen     which of the witnesses are looked at
    may_enter  tells from classes and pairs which pairs are worth a look
    support    of the decisions, if the verdicts are about a part of the past; see `support_of`
    """
    pairs = pairs_in(verdicts, support).select(chosen)
    classes = sides.classes(pairs.later, pairs.earlier)
    different, first = np.unique(classes, return_index=True)
    firsts = {
        which: (int(pairs.later[place]), int(pairs.earlier[place]))
        for which, place in zip(different.tolist(), first.tolist(), strict=True)
        if which != WITHIN
    }
    may = may_enter(classes, pairs)
    if not may.any():
        return Candidates.none(), firsts
    pairs, classes = pairs.select(may), classes[may]
    at = _find_clearest(pairs, classes)
    pairs = pairs.select(at)
    both = pairs.later, pairs.earlier
    candidates = Candidates(
        **vars(pairs),
        classes=classes[at],
        values=np.stack([sides.values(rows) for rows in both], axis=1),
        people=np.stack([sides.people(rows) for rows in both], axis=1),
    )
    return candidates, firsts


def best_of_sides(candidates: Candidates, which: int, most: int) -> Candidates:
    """Keep the clearest pair of each class and side, of these the `most` clearest of each class.

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
    """Keeps the clearest pairs so far.

    most    of each class and side
    kinds   how many classes beside WITHIN have pairs of their own: those that turn up first
    """

    def __init__(self, most: int, kinds: int = KINDS) -> None:
        self._most = most
        self._most_kinds = kinds
        self._firsts: Firsts = {}
        self._best = (Candidates.none(), Candidates.none())  # by later sides, by earlier sides

    def add(self, candidates: Candidates, firsts: Firsts) -> None:
        """Add pairs of further decisions, which come after those that were added before."""
        new = sorted((first, which) for which, first in firsts.items() if which not in self._firsts)
        room = self._most_kinds - len(self._firsts)
        self._firsts |= {which: first for first, which in new[:room]}
        candidates = candidates.reclassify(self._fold_other_kinds(candidates.classes))
        later, earlier = (
            best_of_sides(Candidates.concatenate([best, candidates]), which, self._most)
            for which, best in enumerate(self._best)
        )
        self._best = later, earlier

    def may_enter(self, classes: Rows, pairs: ContradictingPairs) -> _Flags:
        """Tell which pairs are clearer than the least clear ones of their class."""
        named = self._fold_other_kinds(classes)
        may = np.ones(len(classes), dtype=np.bool_)
        clearness = pairs.clearness[2:]
        for which, limit in self._limits().items():
            clearer = np.zeros(len(classes), dtype=np.bool_)
            for column, least in zip(clearness, reversed(limit), strict=True):
                clearer = (column < least) | ((column == least) & clearer)
            may &= (named != which) | clearer
        return may

    def _limits(self) -> dict[int, tuple[float, ...]]:
        """Return for each full class what its least clear pair has, which a new one has to beat."""
        ends = []
        for best in self._best:
            counts = np.unique(best.classes, return_counts=True)[1]
            full = best.select((np.cumsum(counts) - 1)[counts == self._most])
            limits = zip(*(one.tolist() for one in full.clearness[:1:-1]), strict=True)
            ends.append(dict(zip(full.classes.tolist(), limits, strict=True)))
        later, earlier = ends
        return {which: max(later[which], earlier[which]) for which in later.keys() & earlier}

    def _fold_other_kinds(self, classes: Rows) -> Rows:
        """Keep the classes that have pairs of their own, and make all others one.

        A class that is new and finds room is its own once its candidates are added.
        """
        if len(self._firsts) < self._most_kinds:
            return classes
        return np.where(np.isin(classes, [*self._firsts, WITHIN]), classes, OTHERS)

    def pairs(self) -> list[ClearPair]:
        """Return all pairs that are kept."""
        return self.export_pairs()[0].pairs()

    # Parts of a stream, put together

    def export_pairs(self) -> tuple[Candidates, Firsts]:
        """Return all pairs that are kept, and the first of each class."""
        both = Candidates.concatenate(self._best)
        _, once = np.unique(np.stack([both.later, both.earlier]), axis=1, return_index=True)
        return both.select(once), dict(self._firsts)

    @classmethod
    def merge_parts(cls, most: int, parts: Sequence[tuple[Candidates, Firsts]]) -> Self:
        """Return what the whole stream would have left, from what each part of it left."""
        firsts: Firsts = {}
        for _, own in parts:
            for which, first in own.items():
                firsts[which] = min(first, firsts.get(which, first))
        whole = cls(most)
        whole.add(Candidates.none(), firsts)
        for candidates, _ in parts:
            whole.add(candidates, {})
        return whole


def number_values(past: Past, rows: Rows) -> _Numbers:
    """Number the compared values and the output of rows that are remembered.

    So the list of pairs to look at can know what it has without holding it.
    """
    points = past.points(rows)
    numbers = mix_words(np.hstack([to_words(points.vectors), to_words(_outputs(past, rows))]))
    if points.left_open is not None:  # only where something is, since others may come without it
        is_open = points.left_open.reshape(len(rows), -1)
        numbers = numbers + mix_words(to_words(is_open)) * is_open.any(axis=1)
    return numbers


def _outputs(past: Past, rows: Rows) -> npt.NDArray[Any]:
    if past.rule.output == "label":
        return past.codes("", rows).codes
    if past.rule.output == "number":
        return past.numbers(rows)
    return np.array(past.outputs(rows), dtype=np.float64)
