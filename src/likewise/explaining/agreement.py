"""Measure how well similar cases agree, beside the same answers dealt at random (dealing.py).

Cases count, not pairs: take a decision at random, then one of its similar cases. Distinct inputs
with the same answer are counted together.
Invariant: the numbers do not depend on the order of decisions; all sums over pairs are exact.
Cost: one pass over near pairs of distinct inputs for counts, one for the interval.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.explaining.compare_groups import like_points
from likewise.explaining.dealing import (
    Cases,
    Dealt,
    combine_codes,
    deal,
    expect_opposed,
    null_variance,
    t_quantile,
)
from likewise.explaining.dealing import (
    Z as _Z,
)
from likewise.explaining.past import Past
from likewise.rule.rule import Rule
from likewise.tables.array_types import Floats, Rows

MOST_PAIRS = 100_000_000
"""Pairs of distinct inputs and answers; if there are more, nothing is computed."""
KEPT_PAIRS = 1_000_000
"""Up to so many pairs are kept for the second pass; more are searched for again."""
NEWEST = 50_000
"""Where decisions keep coming, so many of the newest are looked at."""
FEWEST_SIMILAR = 5
"""How many similar cases a decision needs to be called opposed by most of them."""
FEWEST_CASES, FEWEST_EFFECTIVE = 30, 5.0
_NEVER = 3.7  # the largest plausible count of an event that never happened, at 97.5 %
_AT_ONCE = 1 << 17

Flags = npt.NDArray[np.bool_]
PointPairs = Callable[[], Iterator[tuple[Rows, Rows]]]
"""Yields the near pairs of distinct points, each once, in chunks; as often as it is called."""


@dataclass(frozen=True)
class Conclusion:
    """Says how a number was computed, or why there is none."""

    code: str
    """ "measured", or why there is no number."""
    sentence: str


@dataclass(frozen=True)
class Agreement:
    """Says how well similar cases agree; shares and indices are None where they mean nothing."""

    comparable: int
    """Decisions with at least one similar case, earlier or later."""
    like_pairs: int
    """Pairs of similar cases, each once."""
    disagreeing_pairs: int
    disagreement: float | None
    """The mean share of a decision's similar cases that disagree with it."""
    expected: float | None
    """That share if the same answers were dealt at random among the comparable cases."""
    index: float | None
    """1 - disagreement / expected: 0 is dice, 1 is always the same answer."""
    low: float | None
    high: float | None
    null_sd: float | None
    """The standard deviation of the index over random deals."""
    index_within_categories: float | None
    """The index if answers are dealt only among cases that are equal in all required categories."""
    opposed_by_most: int
    """Decisions with at least FEWEST_SIMILAR similar cases of which more than half disagree."""
    opposed_of: int
    """Decisions with at least FEWEST_SIMILAR similar cases."""
    opposed_expected: float | None
    """How many of them chance would oppose."""
    opposed_clearly: int
    """Those opposed by a share whose 95 % interval lies above one half."""
    effective: float | None
    """How many decisions, or persons, make up the interval of the index."""
    how: Conclusion
    hubs: int | None = None
    """The fewest decisions that together are in half of all disagreeing pairs."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, without the hubs."""
        fields = asdict(self)
        del fields["hubs"]
        return fields

    def hubs_to_dict(self) -> dict[str, Any] | None:
        """Return the hubs for JSON."""
        return None if self.hubs is None else {"decisions": self.hubs, "of_pairs": 0.5}


NOT_COUNTED = {
    "too-many-pairs": f"There are more than {MOST_PAIRS:,} pairs of similar cases among distinct"
    " inputs, too many to compute the agreement index. A smaller epsilon leaves fewer.",
    "too-many-decisions": "There are too many decisions to compute the agreement index in memory.",
}
"""Codes of a `how` whose counts are 0 because nothing was counted."""


def not_counted(code: str) -> Agreement:
    """Return an agreement that says why nothing was counted."""
    return _empty(code, NOT_COUNTED[code])


def _empty(code: str, sentence: str) -> Agreement:
    nothing = None, None, None, None, None, None, None
    return Agreement(0, 0, 0, *nothing, 0, 0, None, 0, None, Conclusion(code, sentence))


@dataclass(frozen=True, eq=False)
class Units:
    """Holds distinct cases: input, answer, and whatever else says who is compared with whom."""

    point: Rows
    """The input of each, in ascending order."""
    cases: Cases
    person: Rows | None = None
    """Two units of one person are never compared; -1 for nobody."""
    cell: Rows | None = None
    """The required categories of each, as a code."""

    @property
    def count(self) -> int:
        return len(self.point)

    @property
    def counts_itself(self) -> Flags:
        """Whether decisions of one unit are compared with each other."""
        if self.cases.apart:
            return np.zeros(self.count, np.bool_)
        return np.ones(self.count, np.bool_) if self.person is None else self.person < 0

    def may_be_compared(self, i: Rows, j: Rows) -> Flags | None:
        """Say which pairs of units with near inputs count; None if all do."""
        counted = None
        if self.person is not None:
            counted = (self.person[i] != self.person[j]) | (self.person[i] < 0)
        for codes in self.cases.apart:
            differ = codes[i] != codes[j]
            counted = differ if counted is None else counted & differ
        return counted


def measure_agreement(past: Past, rows: range) -> Agreement:
    """Measure how well the similar cases among these rows agree; forgotten ones are left out."""
    every = np.asarray(rows, np.int64)
    alive = every[past.alive(every)] if len(every) else every
    if len(alive) == 0:
        return measure_units(
            make_units(np.empty(0, np.int64), np.empty((0, 1)), "label"), _yield_nothing
        )
    rule = past.rule
    models, span = past.model_codes(alive), past.span(alive)
    model = np.zeros(len(alive), np.int64) if models is None else models.codes
    points = like_points(past.points(alive), span, models if rule.compare == "within" else None)
    apart = []
    if rule.compare == "across":
        apart.append(model)
    features = rule.features or {}
    if rule.protected_must_differ:
        names = [name for name, one in features.items() if one.kind == "protected"]
        apart.append(combine_codes(*(past.codes(name, alive).codes for name in names)))
    required = required_categories(rule)
    person = rule.person_column
    units = make_units(
        points.point_of,
        _read_answers(past, alive),
        rule.output if rule.output != "probabilities" else rule.output_metric,
        rule.delta,
        pot=model if rule.compare == "within" else None,
        apart=tuple(apart),
        times=None if span is None else span.times,
        span=0 if span is None else span.microseconds,
        person=None if person is None else past.codes(person, alive).codes,
        cell=combine_codes(*(past.codes(one, alive).codes for one in required))
        if required
        else None,
    )
    if not past.alive(alive).all():  # some were erased meanwhile
        return measure_agreement(past, rows)
    return measure_units(units, points.pairs)


def measure_newest(past: Past, rows: int) -> Agreement:
    """Measure how well similar cases agree among the newest of so many rows."""
    return measure_agreement(past, range(max(0, rows - NEWEST), rows))


def required_categories(rule: Rule) -> tuple[str, ...]:
    """List the categories that must be the same, and whose missing values match nothing else."""
    return tuple(
        name
        for name, one in (rule.features or {}).items()
        if one.kind == "category" and one.mismatch is None and one.missing != "match"
    )


def _yield_nothing() -> Iterator[tuple[Rows, Rows]]:
    return iter(())


def _read_answers(past: Past, rows: Rows) -> Floats:
    if past.rule.output == "label":
        return past.codes("", rows).codes.astype(np.float64)[:, None]
    if past.rule.output == "number":
        return past.numbers(rows)[:, None]
    outputs = past.outputs(rows)
    known = next((one for one in outputs if one is not None), ())  # all, unless erased meanwhile
    return np.array([known if one is None else one for one in outputs], np.float64)


def make_units(
    point: Rows,
    answers: Floats,
    kind: str,
    delta: float = 0.0,
    *,
    pot: Rows | None = None,
    apart: tuple[Rows, ...] = (),
    times: Rows | None = None,
    span: int = 0,
    person: Rows | None = None,
    cell: Rows | None = None,
) -> Units:
    """Put equal decisions together; see `Units` and `Cases`. Everything else follows the point."""
    count = len(point)
    codes = combine_codes(
        point, *answers.T, *apart, np.zeros(count, np.int64) if person is None else person + 1
    )
    _, first, size = np.unique(codes, return_index=True, return_counts=True)
    cases = Cases(
        answers[first],
        kind,
        delta,
        size.astype(np.int64),
        np.zeros(len(first), np.int64) if pot is None else combine_codes(pot)[first],
        tuple(one[first] for one in apart),
        None if times is None else times[first],
        span,
    )
    return Units(
        point[first],
        cases,
        None if person is None else person[first],
        None if cell is None else cell[first],
    )


# The pairs of units


@dataclass
class UnitPairs:
    """Makes pairs of units from near pairs of points; keeps them if they are not too many."""

    units: Units
    points: PointPairs
    _kept: list[tuple[Rows, Rows, Flags]] | None = field(default_factory=list)
    _complete: bool = False
    count: int = 0

    def chunks(self) -> Iterator[tuple[Rows, Rows, Flags]]:
        """Yield two units that are similar cases, and whether their answers differ."""
        if self._complete and self._kept is not None:
            yield from self._kept
            return
        count = 0
        for i, j in self._make():
            counted = self.units.may_be_compared(i, j)
            if counted is not None:
                i, j = i[counted], j[counted]  # noqa: PLW2901
            count += len(i)
            chunk = i, j, self.units.cases.differ(i, j)
            if count > KEPT_PAIRS:
                self._kept = None
            if self._kept is not None:
                self._kept.append(chunk)
            yield chunk
        self._complete, self.count = True, count

    def _make(self) -> Iterator[tuple[Rows, Rows]]:
        point = self.units.point
        points, first, sizes = np.unique(point, return_index=True, return_counts=True)
        start = np.zeros(int(points.max(initial=-1)) + 1, np.int64)
        size = np.zeros_like(start)
        start[points], size[points] = first, sizes
        several = points[sizes > 1]
        for i, j in _expand(several, several, start, size):
            yield i[i > j], j[i > j]
        for later, earlier in self.points():
            if len(points) == self.units.count:
                yield start[later], start[earlier]
            else:
                yield from _expand(later, earlier, start, size)


def _expand(one: Rows, other: Rows, start: Rows, size: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Yield the pairs of units of pairs of points."""
    each = size[one] * size[other]
    before = np.concatenate([[0], np.cumsum(each)])
    done = 0
    while done < before[-1]:
        stop = min(done + _AT_ONCE, int(before[-1]))
        number = np.arange(done, stop)
        pair = np.searchsorted(before, number, side="right") - 1
        within, width = number - before[pair], size[other[pair]]
        yield start[one[pair]] + within // width, start[other[pair]] + within % width
        done = stop


def _add_up(i: Rows, j: Rows, weights: Floats, into: Floats) -> None:
    """Add for both units of each pair the weight of the other one."""
    into += np.bincount(i, weights[j], len(into))
    into += np.bincount(j, weights[i], len(into))


def _round_to_grid(values: Floats, most: float) -> Floats:
    """Round values so that sums of up to `most` of them are exact, in any order."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0:
        return values
    step = 2.0 ** (math.ceil(math.log2(largest)) + math.ceil(math.log2(most + 1.0)) - 52)
    return np.asarray(np.rint(values / step) * step)


@dataclass(frozen=True, eq=False)
class SimilarCounts:
    """Holds for each decision of a unit how many similar cases it has, and how many disagree."""

    similar: Floats
    opposing: Floats
    size: Floats
    """How many decisions each unit has; 0 for those without a similar case."""

    @property
    def shares(self) -> Floats:
        return np.asarray(self.opposing / np.maximum(self.similar, 1.0))

    def total(self, values: Floats) -> float:
        """Add up a value of each comparable decision."""
        return math.fsum((self.size * values).tolist())


def count_pairs(pairs: UnitPairs) -> SimilarCounts | None:
    """Count the similar cases of each unit; None if there are too many pairs."""
    units = pairs.units
    size = units.cases.size.astype(np.float64)
    similar = np.where(units.counts_itself, size - 1.0, 0.0)
    opposing = np.zeros(units.count)
    seen = 0
    for i, j, differ in pairs.chunks():
        seen += len(i)
        if seen > MOST_PAIRS:
            return None
        _add_up(i, j, size, similar)
        _add_up(i[differ], j[differ], size, opposing)
    return SimilarCounts(similar, opposing, np.where(similar > 0, size, 0.0))


@dataclass(frozen=True, eq=False)
class Sums:
    """Holds sums over the similar cases of each unit, those that disagree apart."""

    nearby: Floats
    """1 / similar."""
    alone: Floats
    """Those that have no other similar case; such are left out of the following."""
    alone_opposing: Floats
    excess: Floats
    """opposing / (similar (similar - 1)): what the share gains if a similar case is left out."""
    excess_opposing: Floats
    step_opposing: Floats
    """1 / (similar - 1): what it loses if that one disagrees."""
    hubs: int | None
    persons: "PersonSums | None" = None


@dataclass(frozen=True, eq=False)
class PersonSums:
    """Holds what is lost if a person with several decisions is left out."""

    person: Rows
    change: Floats
    """The change of the sum of shares of similar cases."""
    gone: Floats
    """Similar cases that then have none."""


def sum_over_pairs(pairs: UnitPairs, counts: SimilarCounts) -> Sums:
    """Add up what the interval needs: the second pass."""
    units, k, b, size = pairs.units, counts.similar, counts.opposing, counts.size
    most = float(k.max(initial=1.0))
    more = np.maximum(k - 1.0, 1.0)
    is_alone = k == 1
    own = np.where(units.counts_itself, np.maximum(size - 1.0, 0.0), 0.0)
    inverse = _round_to_grid(1.0 / np.maximum(k, 1.0), most)
    excess = _round_to_grid(np.where(is_alone, 0.0, counts.shares / more), most)
    step = _round_to_grid(np.where(is_alone, 0.0, 1.0 / more), most)
    nearby, alone, excesses = own * inverse, own * is_alone, own * excess
    inverse, excess, step = inverse * size, excess * size, step * size
    alone_opposing, excess_opposing, step_opposing = (np.zeros(units.count) for _ in range(3))
    values, rank = np.unique(b, return_inverse=True)
    covered = np.zeros(len(values))
    grouped = _find_several(units)
    ordered: list[tuple[Rows, Rows, Flags]] = []
    for i, j, differ in pairs.chunks():
        _add_up(i, j, inverse, nearby)
        _add_up(i, j, excess, excesses)
        x, y = i[differ], j[differ]
        _add_up(x, y, excess, excess_opposing)
        _add_up(x, y, step, step_opposing)
        few = is_alone[i] | is_alone[j]
        if few.any():
            _add_up(i[few], j[few], size * is_alone, alone)
            few &= differ
            _add_up(i[few], j[few], size * is_alone, alone_opposing)
        covered += np.bincount(np.maximum(rank[x], rank[y]), size[x] * size[y], len(values))
        if grouped is not None:
            for one, other in ((i, j), (j, i)):
                chosen = grouped[one]
                ordered.append((one[chosen], other[chosen], differ[chosen]))
    return Sums(
        nearby,
        alone,
        alone_opposing,
        excesses,
        excess_opposing,
        step_opposing,
        _count_hubs(covered, np.bincount(rank, size, len(values)).astype(np.float64)),
        None if grouped is None else _sum_by_person(units, counts, ordered),
    )


def _count_hubs(covered: Floats, decisions: Floats) -> int | None:
    """Count the fewest decisions that are in half of all disagreeing pairs.

    covered    pairs by the larger number of disagreeing pairs that one of the two has, ascending
    decisions  how many decisions have such a number

    Decisions with the most disagreeing pairs come first. Of equal ones a part may suffice; the best
    part of a class is in at least as large a part of its pairs.
    """
    half = float(covered.sum()) / 2.0
    if half == 0.0:
        return None
    taken = 0.0
    for pairs, count in zip(covered[::-1].tolist(), decisions[::-1].tolist(), strict=True):
        if pairs >= half:
            return int(taken + math.ceil(count * half / pairs))
        half -= pairs
        taken += count
    raise AssertionError("all decisions together are in all pairs")


def _find_several(units: Units) -> Flags | None:
    """Mark the units of persons with several decisions; None if there are none."""
    if units.person is None:
        return None
    person = units.person
    decisions = np.bincount(person + 1, units.cases.size)
    several = (decisions[person + 1] > 1) & (person >= 0)
    return several if several.any() else None


def _sum_by_person(
    units: Units, counts: SimilarCounts, ordered: list[tuple[Rows, Rows, Flags]]
) -> PersonSums:
    """Compute for each person with several decisions what becomes of their similar cases."""
    assert units.person is not None
    mine, other, differ = (np.concatenate(parts) for parts in zip(*ordered, strict=True))
    key = units.person[mine] * units.count + other
    key, which = np.unique(key, return_inverse=True)
    size = counts.size[mine]
    lost = np.bincount(which, size, len(key))
    lost_opposing = np.bincount(which, size * differ, len(key))
    person, unit = np.divmod(key, units.count)
    left = counts.similar[unit] - lost
    share = (counts.opposing[unit] - lost_opposing) / np.maximum(left, 1.0)
    change = np.where(left > 0, share, 0.0) - counts.shares[unit]
    persons, place, each = np.unique(person, return_inverse=True, return_counts=True)
    most = float(each.max(initial=1)) * float(counts.size.max(initial=1.0))
    change = _round_to_grid(change, most) * counts.size[unit]
    return PersonSums(
        persons,
        np.bincount(place, change, len(persons)).astype(np.float64),
        np.bincount(place, counts.size[unit] * (left == 0), len(persons)).astype(np.float64),
    )


# The index and its interval


def measure_units(units: Units, points: PointPairs) -> Agreement:
    """Measure how well similar units agree.

    points: the near pairs of distinct points
    """
    pairs = UnitPairs(units, points)
    counts = count_pairs(pairs)
    if counts is None:
        return not_counted("too-many-pairs")
    kept = np.flatnonzero(counts.size)
    cases = units.cases.select(kept)
    k, b, n = counts.similar[kept], counts.opposing[kept], cases.size
    comparable = cases.decisions
    if comparable == 0:
        return _empty("nothing-compared", "No decision has a similar case.")
    dealt = deal(cases)
    disagreement, expected = _mean(n, counts.shares[kept]), _mean(n, dealt.shares)
    sums = sum_over_pairs(pairs, counts)
    is_large = k >= FEWEST_SIMILAR
    is_opposed = is_large & (b > k / 2)
    code, interval, effective = _estimate(pairs, counts, sums, kept, dealt, disagreement, expected)
    remarks = [SENTENCES[code]]
    null_sd = opposed_expected = None
    if cases.apart or cases.times is not None:
        remarks.append(
            "Not every two decisions may be compared, whatever their inputs, so how much random"
            " deals vary has no formula and is left out."
        )
    else:
        opposed_expected = expect_opposed(k, n, dealt, cases.pot, FEWEST_SIMILAR)
        if expected > 0:
            variance = null_variance(k, sums.nearby[kept], n, dealt, cases.pot)
            null_sd = math.sqrt(variance) / expected
    if dealt.error is not None:
        remarks.append(
            "The expected share comes from a sample of decisions; its standard error is"
            f" {dealt.error:.2g}."
        )
    limits = interval or (None, None, None)
    within = None
    if interval is not None and units.cell is not None:
        cells = replace(cases, pot=combine_codes(cases.pot, units.cell[kept]))
        expected_within = _mean(n, deal(cells).shares)
        within = 1.0 - disagreement / expected_within if expected_within > 0 else None
    return Agreement(
        comparable,
        int(counts.total(counts.similar)) // 2,
        int(counts.total(counts.opposing)) // 2,
        disagreement,
        expected,
        limits[0],
        limits[1],
        limits[2],
        null_sd,
        within,
        int(n[is_opposed].sum()),
        int(n[is_large].sum()),
        opposed_expected,
        int(n[is_opposed & ((2.0 * b - k) ** 2 > _Z**2 * k)].sum()),  # Wilson's lower limit > 1/2
        effective,
        Conclusion(code, " ".join(remarks)),
        sums.hubs,
    )


SENTENCES = {
    "measured": "The index sets the mean share of similar cases that disagree against the same"
    " answers dealt at random.",
    "all-the-same": "All answers are the same among the comparable decisions, so there is nothing"
    " that could disagree.",
    "too-few": f"Fewer than {FEWEST_CASES} decisions have a similar case, too few for an index.",
    "few-decide": "A handful of decisions make up this number, so it says little about the others.",
}
"""What each code of a `how` means, where pairs were counted."""


def _mean(size: Rows, values: Floats) -> float:
    return math.fsum((size * values).tolist()) / math.fsum(size.tolist())


def _estimate(
    pairs: UnitPairs,
    counts: SimilarCounts,
    sums: Sums,
    kept: Rows,
    dealt: Dealt,
    observed: float,
    expected: float,
) -> tuple[str, tuple[float, float, float] | None, float | None]:
    """Return a code, the index with its interval if there is one, and the effective number."""
    if expected == 0.0:
        return "all-the-same", None, None
    if counts.total(np.ones(len(counts.size))) < FEWEST_CASES:
        return "too-few", None, None
    ratio = observed / expected
    if observed == 0.0:
        separate = _count_separate_pairs(pairs, counts)
        return "measured", (1.0, 1.0 - min(1.0, _NEVER / separate) / expected, 1.0), None
    variance, effective = _measure_spread(
        pairs.units, counts, sums, kept, dealt, observed, expected
    )
    if effective < FEWEST_EFFECTIVE:
        return "few-decide", None, effective
    width = t_quantile(2.0 * effective) * math.sqrt(variance) / ratio
    limits = 1.0 - ratio * math.exp(width), 1.0 - ratio * math.exp(-width)
    return "measured", (1.0 - ratio, *limits), effective


def _measure_spread(
    units: Units,
    counts: SimilarCounts,
    sums: Sums,
    kept: Rows,
    dealt: Dealt,
    observed: float,
    expected: float,
) -> tuple[float, float]:
    """Return the variance of the index, and how many decisions or persons make it up.

    Each decision, or person, is left out in turn: exactly for the observed share, linearly for the
    expected one. Adding up the squares counts a pair twice; what pairs contribute on their own is
    subtracted, in part.
    """
    size, k, b, share = counts.size, counts.similar, counts.opposing, counts.shares
    m, total = counts.total(np.ones(units.count)), counts.total(share)
    moved = np.zeros(units.count)  # what a decision does to the expected share
    for pot in np.unique(units.cases.pot[kept]).tolist():
        part = units.cases.pot[kept] == pot
        mean = _mean(units.cases.size[kept][part], dealt.shares[part])
        moved[kept[part]] = (2.0 * (dealt.shares[part] - mean) + mean - expected) / m
    change = sums.excess - sums.alone_opposing - sums.step_opposing - share
    left = m - 1.0 - sums.alone
    gone = np.where(left > 0, observed - (total + change) / np.maximum(left, 1.0), 0.0)
    influence = (gone - observed / expected * moved) / expected
    weight = size
    if sums.persons is not None:
        persons = sums.persons
        assert units.person is not None
        place = np.searchsorted(persons.person, units.person)
        place = np.minimum(place, len(persons.person) - 1)
        theirs = (persons.person[place] == units.person) & (size > 0)
        weight = np.where(theirs, 0.0, size)
        place, n = place[theirs], size[theirs]
        each = np.bincount(place, n)
        share_sums, moved_sums = (
            np.bincount(place, n * _round_to_grid(values, float(each.max()))[theirs])
            for values in (share, moved)
        )
        left = m - each - persons.gone
        without = (total - share_sums + persons.change) / np.maximum(left, 1.0)
        gone = np.where(left > 0, observed - without, 0.0)
        influence = np.append(influence, (gone - observed / expected * moved_sums) / expected)
        weight = np.append(weight, np.ones(len(each)))
    squares = influence**2
    first = math.fsum((weight * squares).tolist())
    fourth = math.fsum((weight * squares**2).tolist())
    # of each pair of similar cases, the square of what it does to the shares of both
    is_alone = k == 1
    agree = np.where(is_alone, observed, share / np.maximum(k - 1.0, 1.0))
    disagree = np.where(is_alone, 1.0, 1.0 / np.maximum(k - 1.0, 1.0)) - agree
    agree_opposing = sums.excess_opposing + observed * sums.alone_opposing
    of_pairs = b * disagree**2 + (k - b) * agree**2
    of_pairs += agree * (sums.excess + observed * sums.alone - agree_opposing)
    of_pairs += disagree * (sums.step_opposing + sums.alone_opposing - agree_opposing)
    twice = counts.total(of_pairs) / (m * expected) ** 2
    second = max(first - twice, first / 3.0)
    return second + (first - second) / 4.0, first**2 / fourth if fourth > 0 else 0.0


def _count_separate_pairs(pairs: UnitPairs, counts: SimilarCounts) -> int:
    """Count similar pairs of which no two have a decision in common, picked greedily.

    Pairs come in an order that follows from who is similar to whom, not from row numbers.
    """
    units = pairs.units
    size = units.cases.size
    paired = np.where(units.counts_itself, size // 2, 0)
    left = size - 2 * paired
    parts = [(i, j) for i, j, _ in pairs.chunks()] or [(np.empty(0, np.int64),) * 2]
    i, j = (np.concatenate(part) for part in zip(*parts, strict=True))
    mark = _mix(size.astype(np.uint64) + (counts.similar * 2.0**32).astype(np.uint64))
    for _ in range(3):
        around = mark.copy()
        np.add.at(around, i, mark[j] * size[j].astype(np.uint64))
        np.add.at(around, j, mark[i] * size[i].astype(np.uint64))
        mark = _mix(around)
    order = np.lexsort((mark[i] + mark[j], counts.similar[i] + counts.similar[j]))
    i, j = i[order], j[order]
    found = int(paired.sum())
    while True:
        open_pairs = (left[i] > 0) & (left[j] > 0)
        i, j = i[open_pairs], j[open_pairs]
        if len(i) == 0:
            return found
        number = np.arange(len(i))
        first = np.full(units.count, len(i))
        np.minimum.at(first, i, number)
        np.minimum.at(first, j, number)
        chosen = (first[i] == number) & (first[j] == number)
        x, y = i[chosen], j[chosen]
        taken = np.minimum(left[x], left[y])
        left[x] -= taken
        left[y] -= taken
        found += int(taken.sum())


def _mix(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix the bits of words (splitmix64; Steele, Lea and Flood 2014)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(31))
