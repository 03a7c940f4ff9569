"""What chance alone would give: the same answers, dealt at random among the comparable cases.

Invariant: nothing is shuffled; closed forms, or all pairs of cases, or a seeded sample of these.
The order of cases does not matter.
Cost: sorting the cases; all pairs for probabilities, and for numbers compared within a time span.
Not here: what was really found among similar cases (agreement.py).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.explaining.column_groups import find_first_larger
from likewise.tables.array_types import Floats, Rows

Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""
MOST_CASES = 20_000
"""Up to so many comparable cases, every pair is compared where there is no closed form."""
_LEAST_PARTNERS = 1_000
_AT_ONCE = 1 << 22  # pairs of cases
_ROUNDING = 1e-12  # of a squared mean: a smaller variance is 0
_MOST_MARKED, _MOST_DRAWS = 512, 128  # distinct arguments; between more of them is interpolated


@dataclass(frozen=True, eq=False)
class Cases:
    """Holds cases by answer, and says which of them may be compared, whatever their inputs."""

    answers: Floats
    """A row for each case: the code of a label, a number, or probabilities."""
    kind: str
    """ "label", "number", or the metric of probabilities."""
    delta: float
    size: Rows
    """How many decisions each case stands for: they are the same in all that is here."""
    pot: Rows
    """Only cases of one pot may be compared: decisions of one model, for instance."""
    apart: tuple[Rows, ...] = ()
    """Codes, two of which must differ: models, or protected values."""
    times: Rows | None = None
    span: int = 0
    """How far apart the times of two cases may be, if there are any."""

    @property
    def decisions(self) -> int:
        return int(self.size.sum())

    def select(self, chosen: npt.NDArray[np.bool_] | Rows) -> "Cases":
        """Return some of the cases."""
        return replace(
            self,
            answers=self.answers[chosen],
            size=self.size[chosen],
            pot=self.pot[chosen],
            apart=tuple(one[chosen] for one in self.apart),
            times=None if self.times is None else self.times[chosen],
        )

    @np.errstate(over="ignore")  # what overflows is different
    def differ(self, i: Rows, j: Rows) -> npt.NDArray[np.bool_]:
        """Say of pairs of cases whether their answers differ, as the kernels compare them."""
        if self.kind == "label":
            return np.asarray(self.answers[i, 0] != self.answers[j, 0])
        total = np.zeros(np.broadcast_shapes(i.shape, j.shape))
        for column in self.answers.T:
            gap = np.abs(column[i] - column[j])
            if self.kind == "linf":
                np.maximum(total, gap, out=total)
            else:
                total += gap * gap if self.kind == "l2" else gap
        if self.kind == "l2":
            total = np.sqrt(total)
        elif self.kind == "tv":
            total *= 0.5
        return total > self.delta

    def may_be_compared(self, i: Rows, j: Rows) -> npt.NDArray[np.bool_]:
        """Say of pairs of cases whether they may be compared, whatever their inputs."""
        permitted = np.asarray(self.pot[i] == self.pot[j])
        for codes in self.apart:
            permitted &= codes[i] != codes[j]
        if self.times is not None:
            permitted &= np.abs(self.times[i] - self.times[j]) <= self.span
        return permitted


@dataclass(frozen=True, eq=False)
class Dealt:
    """Says how often each case would disagree with others that it may be compared with."""

    others: Floats
    """How many other decisions each case may be compared with."""
    different: Floats
    """How many of these have a different answer."""
    error: float | None = None
    """The standard error of the mean share, where it comes from a sample."""

    @property
    def shares(self) -> Floats:
        """The share that is different; 0 where there are no others."""
        return np.asarray(self.different / np.maximum(self.others, 1.0))


def combine_codes(*columns: npt.NDArray[Any]) -> Rows:
    """Number the distinct combinations of codes; the first column counts most in the order."""
    combined: Rows = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, codes = np.unique(column, return_inverse=True)
        both = combined * (int(codes.max(initial=0)) + 1) + codes.reshape(-1)
        combined = np.unique(both, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return combined


@np.errstate(over="ignore")  # what overflows is different
def deal(cases: Cases, seed: int = 0) -> Dealt:
    """Count for each case the other ones that it may be compared with, and the different ones."""
    closed = cases.kind == "label" or (cases.kind == "number" and cases.times is None)
    if not closed or len(cases.apart) > 1:
        return _compare_all(cases, seed)
    others, different = _count_in_pots(cases, cases.pot)
    for codes in cases.apart:
        same, same_different = _count_in_pots(cases, combine_codes(cases.pot, codes))
        others, different = others - same, different - same_different
    return Dealt(others - (not cases.apart), different)


def _count_in_pots(cases: Cases, pot: Rows) -> tuple[Floats, Floats]:
    """Count for each case the decisions in its pot, itself included, and the different ones."""
    every = _count_in_windows(cases, pot)
    if cases.kind == "label":
        same = combine_codes(pot, cases.answers[:, 0].astype(np.int64))
        return every, every - _count_in_windows(cases, same)
    different = np.empty(len(pot))
    order = np.lexsort((cases.answers[:, 0], pot))
    for part in np.split(order, np.flatnonzero(np.diff(pot[order])) + 1):
        values, which = np.unique(cases.answers[part, 0], return_inverse=True)
        before = np.concatenate([[0.0], np.cumsum(np.bincount(which, cases.size[part]))])
        larger = find_first_larger(values, cases.delta)
        smaller = len(values) - find_first_larger(-values[::-1], cases.delta)[::-1]
        different[part] = (before[-1] - before[larger] + before[smaller])[which]
    return every, different


def _count_in_windows(cases: Cases, pot: Rows) -> Floats:
    """Count for each case the decisions of its pot that are not too far away in time."""
    if cases.times is None:
        return np.asarray(np.bincount(pot, cases.size)[pot], np.float64)
    moments, rank = np.unique(cases.times, return_inverse=True)
    place = pot * len(moments)
    order = np.argsort(place + rank, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(cases.size[order])])
    placed = (place + rank)[order]
    first = np.searchsorted(moments, cases.times - cases.span, "left")
    stop = np.searchsorted(moments, cases.times + cases.span, "right")
    return np.asarray(
        before[np.searchsorted(placed, place + stop)]
        - before[np.searchsorted(placed, place + first)]
    )


def _compare_all(cases: Cases, seed: int) -> Dealt:
    """Compare all pairs of cases; beyond MOST_CASES decisions, each with a sample of decisions."""
    partners, weights = np.arange(len(cases.size)), cases.size.astype(np.float64)
    sampled = cases.decisions > MOST_CASES
    if sampled:
        count = max(_LEAST_PARTNERS, MOST_CASES**2 // cases.decisions)
        keys = *cases.answers.T, cases.pot
        order = np.lexsort(keys if cases.times is None else (*keys, cases.times))
        drawn = np.random.default_rng(seed).choice(cases.decisions, count, replace=False)
        decision = np.searchsorted(np.cumsum(cases.size[order]), drawn, side="right")
        partners, drawn = np.unique(order[decision], return_counts=True)
        weights = drawn.astype(np.float64)
    others, different = np.empty(len(cases.size)), np.empty(len(cases.size))
    step = max(1, _AT_ONCE // len(partners))
    for start in range(0, len(cases.size), step):
        mine = np.arange(start, min(start + step, len(cases.size)))[:, None]
        permitted = cases.may_be_compared(mine, partners[None])
        others[mine[:, 0]] = permitted @ weights
        different[mine[:, 0]] = (permitted & cases.differ(mine, partners[None])) @ weights
    if not cases.apart:  # a decision is no partner of its own
        others[partners] -= weights / cases.size[partners]
    if not sampled:
        return Dealt(others, different)
    dealt = Dealt(others, different)
    spread = np.repeat(dealt.shares[partners], weights.astype(np.int64))
    return replace(dealt, error=float(np.std(np.sort(spread)) / math.sqrt(len(spread))))


# How much the mean share of disagreeing similar cases would vary from one deal to the next


def null_variance(similar: Floats, nearby: Floats, size: Rows, dealt: Dealt, pot: Rows) -> float:
    """Return the variance of the mean share over all deals (Mantel 1967; Cliff and Ord 1981).

    similar  how many similar cases each case has, at least 1
    nearby   the sum of 1 / similar over its similar cases
    """
    decisions = math.fsum(size.tolist())
    total = 0.0
    for one in np.unique(pot).tolist():
        part = pot == one
        n, k, h = size[part], similar[part], nearby[part]
        m = math.fsum(n.tolist())
        d = dealt.shares[part] * (m - 1.0)
        w0 = 2.0 * m
        w1 = math.fsum((n * 2.0 * (1.0 / k + h / k)).tolist())
        w2 = math.fsum((n * (1.0 + h) ** 2).tolist())
        b0, b2 = math.fsum((n * d).tolist()), math.fsum((n * d * d).tolist())
        pairs = m * (m - 1.0)
        second = 2.0 * w1 * b0 / pairs
        if m > 2:
            second += 4.0 * (w2 - w1) * (b2 - b0) / (pairs * (m - 2.0))
        if m > 3:
            four = pairs * (m - 2.0) * (m - 3.0)
            second += (w0 * w0 + 2.0 * w1 - 4.0 * w2) * (b0 * b0 + 2.0 * b0 - 4.0 * b2) / four
        mean = b0 / pairs
        variance = second / w0**2 - mean**2
        if variance > _ROUNDING * mean**2:
            total += (m / decisions) ** 2 * variance
    return total


# How many would be opposed by most of their similar cases


def expect_opposed(similar: Floats, size: Rows, dealt: Dealt, pot: Rows, fewest: int) -> float:
    """Return how many cases with `fewest` similar ones most of these would oppose, on average."""
    expected: list[float] = []
    for one in np.unique(pot).tolist():
        part = pot == one
        n, k = size[part], similar[part].astype(np.int64)
        others = int(n.sum()) - 1
        marked, weights = _thin_out(np.rint(dealt.shares[part] * others).astype(np.int64), n)
        draws, which = np.unique(k[k >= fewest], return_inverse=True)
        chances = _interpolate_chances(draws, others, marked, weights / n.sum())
        expected += (n[k >= fewest] * chances[which]).tolist()
    return math.fsum(expected)


def _thin_out(values: Rows, weights: Rows) -> tuple[Rows, Floats]:
    """Return distinct values with their weights; where they are many, means of adjacent ones."""
    distinct, which = np.unique(values, return_inverse=True)
    summed: Floats = np.bincount(which, weights).astype(np.float64)
    if len(distinct) <= _MOST_MARKED:
        return distinct, summed
    part = np.floor((np.cumsum(summed) - summed) / summed.sum() * _MOST_MARKED).astype(np.int64)
    _, part = np.unique(part, return_inverse=True)
    each: Floats = np.bincount(part, summed).astype(np.float64)
    return np.rint(np.bincount(part, summed * distinct) / each).astype(np.int64), each


def _interpolate_chances(draws: Rows, others: int, marked: Rows, weights: Floats) -> Floats:
    """Return the mean chance for each number of draws; where these are many, interpolated.

    Even and odd numbers of draws are kept apart: only an even number can be split in halves.
    """
    chances = np.empty(len(draws))
    for odd in (0, 1):
        part = np.flatnonzero(draws % 2 == odd)
        chosen = part
        if len(part) > _MOST_DRAWS:
            steps = np.geomspace(1.0, len(part), _MOST_DRAWS) - 1.0
            chosen = part[np.unique(steps.astype(np.int64))]
        each = [
            math.fsum((weights * chance_of_most(others, marked, int(k))).tolist())
            for k in draws[chosen].tolist()
        ]
        if each:
            chances[part] = np.interp(draws[part], draws[chosen], each)
    return chances


def chance_of_most(population: int, marked: Rows, draws: int) -> Floats:
    """Return the chance that more than half of some draws are marked (hypergeometric).

    At most about ten standard deviations are added up; what lies beyond is below 1e-20.
    """
    most = draws // 2 + 1
    width = min(draws + 1, int(5.0 * math.sqrt(draws)) + 2)
    is_low = draws * marked < most * population  # then the upper tail is the smaller one
    steps = np.arange(width)
    found = np.where(is_low[:, None], most + steps, most - 1 - steps)
    rest, missed = marked[:, None] - found, draws - found
    blank = population - marked[:, None] - missed
    valid = (found >= 0) & (rest >= 0) & (missed >= 0) & (blank >= 0)
    log = _log_factorials(population)
    found, rest, missed, blank = (np.where(valid, one, 0) for one in (found, rest, missed, blank))
    of_marked, of_blank = log[marked][:, None], log[population - marked][:, None]
    logs = of_marked - log[found] - log[rest] + of_blank - log[missed] - log[blank]
    logs -= log[population] - log[draws] - log[population - draws]
    tail = np.where(valid, np.exp(np.where(valid, logs, 0.0)), 0.0).sum(axis=1)
    return np.asarray(np.where(is_low, tail, 1.0 - tail))


def _log_factorials(most: int) -> Floats:
    """Return log(n!) for n from 0 to `most`; made again only for a larger one."""
    global _LOGS  # noqa: PLW0603
    if len(_LOGS) <= most:
        _LOGS = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])
    return _LOGS


_LOGS: Floats = np.zeros(1)


def t_quantile(freedom: float) -> float:
    """Return the 97.5 % point of Student's t for at least 10 degrees of freedom.

    An expansion by powers of 1/freedom (Abramowitz and Stegun 26.7.5), good to 1e-5.
    """
    z = Z
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))
