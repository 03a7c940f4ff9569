"""Compares two histories under one rule: does one disagree with itself more, and where?

The histories are judged separately: no decision of one contradicts a decision of the other. The
longer one is cut to the length of the shorter, since a longer past has more to contradict. A pair
persists if the same two cases contradict each other in both histories. Two decisions are about the
same case if they have the same key; where there are no keys, if they stand in the same place and
have the same values in all columns but the output. Pairs with a case that is in one history only
are counted apart.

Invariant: persisting pairs are as many in one history as in the other.
Cost: sorting the pairs; where there are no keys, a look at the values of every decision.
Not here: words and the page (compare_page.py), tests and effects (explaining/compare_sides.py).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.explaining.agreement import Agreement, Conclusion, measure_agreement
from likewise.explaining.compare_groups import why_no_groups
from likewise.explaining.compare_sides import SidesComparison, cannot_compare, compare_sides
from likewise.explaining.pairs import make_pair
from likewise.explaining.past import Past
from likewise.reports.clearest import ContradictingPairs
from likewise.reports.evidence import Provenance
from likewise.reports.findings import groups_among
from likewise.reports.joint_decisions import join_decisions
from likewise.reports.judged_history import JudgedHistory
from likewise.reports.selected_pairs import WorstPair
from likewise.reports.totals import Share, wilson
from likewise.rule.rule import Rule
from likewise.tables.array_types import Rows
from likewise.tables.printing import shorten
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.witnesses import Witness

MatchedBy: TypeAlias = Literal["keys", "places and values"]
SHOWN = 6
"""How many pairs of each kind are shown."""


@dataclass(frozen=True)
class ComparedHistory:
    """Holds the numbers of one history, as far as it was compared."""

    name: str
    decisions: int
    """How many decisions were judged."""
    compared: int
    """How many of them were compared, the first: as many as on the other side."""
    comparable: int
    """How many of these had an earlier similar case."""
    violations: int
    """How many of these contradict an earlier one."""
    share: Share
    """The share of comparable decisions that are flagged."""
    in_any_pair: Share
    """The share of compared decisions that are in a contradicting pair."""
    pairs: int
    agreement: Agreement
    """How well its similar cases agree, beside random dealing."""
    bad_rows: int
    groups: tuple[GroupEffects, ...]
    computed: Provenance

    def to_dict(self) -> dict[str, Any]:
        names = ("name", "comparable", "violations", "pairs", "bad_rows")
        share, paired = self.share, self.in_any_pair
        return {
            **{name: getattr(self, name) for name in names},
            "rows": self.decisions,
            "compared_rows": self.compared,
            "rate_among_comparable": share.rate,
            "rate_among_comparable_interval": [share.low, share.high],
            "in_any_pair": paired.count,
            "rate_in_any_pair": paired.rate,
            "rate_in_any_pair_interval": [paired.low, paired.high],
            "agreement": self.agreement.to_dict(),
            "groups": [one.to_dict() for one in self.groups],
            "computed": asdict(self.computed),
        }


@dataclass(frozen=True)
class ShownPair:
    """Shows two decisions side by side, and where they stand."""

    pair: WorstPair
    unit: str
    """What a place counts: lines or rows."""
    place: int
    witness_place: int

    def to_dict(self) -> dict[str, Any]:
        places = {f"row_{self.unit}": self.place, f"witness_{self.unit}": self.witness_place}
        return {**self.pair.to_dict(), **places}


@dataclass(frozen=True)
class PairChanges:
    """Counts pairs that are new, gone, or persist, and shows some."""

    count: int
    of_common: int
    """How many of them are pairs of cases that are in both histories."""
    shown: tuple[ShownPair, ...]

    def to_dict(self) -> dict[str, Any]:
        pairs = [one.to_dict() for one in self.shown]
        return {"count": self.count, "of_common_cases": self.of_common, "examples": pairs}


@dataclass(frozen=True)
class Comparison:
    """Holds the numbers of two histories, side by side."""

    rule: Rule
    one: ComparedHistory
    other: ComparedHistory
    compared: SidesComparison
    """Whether one disagrees with itself more, and whether they answer similar cases differently."""
    matched_by: MatchedBy
    """How the same case is recognised."""
    common: int
    """Cases that are in both histories."""
    new: PairChanges
    gone: PairChanges
    persisting: PairChanges
    no_groups_reason: str | None
    column: str | None = None
    """The column that says which model decided, where both histories come from one file."""
    command: str | None = None

    @property
    def sides(self) -> tuple[ComparedHistory, ComparedHistory]:
        return self.one, self.other

    @property
    def nothing_compared(self) -> tuple[ComparedHistory, ...]:
        """The sides in which no decision had an earlier similar case."""
        return tuple(side for side in self.sides if side.comparable == 0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: numbers, text, lists and dictionaries only."""
        return {
            "a": self.one.to_dict(),
            "b": self.other.to_dict(),
            **self.compared.to_dict(),
            "matched_by": self.matched_by,
            "common_cases": self.common,
            "new": self.new.to_dict(),
            "gone": self.gone.to_dict(),
            "persisting": self.persisting.to_dict(),
            "no_groups_reason": self.no_groups_reason,
            "model_column": self.column,
            "command": self.command,
            "rule": self.rule.to_toml(),
        }


def compare(
    one: JudgedHistory,
    other: JudgedHistory,
    *,
    column: str | None = None,
    command: str | None = None,
    shown: int = SHOWN,
) -> Comparison:
    """Compare two histories that were judged under the same rule.

    column: the column that says which model decided, where both are of one file
    """
    rule = one.past.rule
    whole = len(one), len(other)
    length = min(whole)
    one, other = one.truncate(length), other.truncate(length)
    has_keys = one.keys is not None and other.keys is not None
    matched_by: MatchedBy = "keys" if has_keys else "places and values"
    in_other = _counterparts(one, other, matched_by)
    in_one = np.full(length, -1, np.int64)
    both = np.flatnonzero(in_other >= 0)
    in_one[in_other[both]] = both
    common_new, persists = _find_persisting(other.pairs, in_one, one.pairs, length)
    common_gone, stays = _find_persisting(one.pairs, in_other, other.pairs, length)
    sides = [_summarize(side, many) for side, many in zip((one, other), whole, strict=True)]
    return Comparison(
        rule,
        sides[0],
        sides[1],
        _compare_within_neighbourhoods(one, other, in_other),
        matched_by,
        len(both),
        _select_pairs(other, ~persists, common_new, one, in_one, shown),
        _select_pairs(one, ~stays, common_gone, other, in_other, shown),
        _select_pairs(other, persists, common_new, one, in_one, shown),
        why_no_groups(rule),
        column,
        command,
    )


def _find_persisting(
    pairs: ContradictingPairs, counterpart: Rows, others: ContradictingPairs, length: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Tell which pairs are of cases that the other history has, and which are pairs there, too."""
    later, earlier = counterpart[pairs.later], counterpart[pairs.earlier]
    common = (later >= 0) & (earlier >= 0)
    codes = _pair_codes(others.later, others.earlier, length)
    return common, common & np.isin(_pair_codes(later, earlier, length), codes)


def _summarize(side: JudgedHistory, decisions: int) -> ComparedHistory:
    comparable, flagged, many = int(side.comparable.sum()), side.flagged_count, len(side)
    return ComparedHistory(
        side.name,
        decisions,
        many,
        comparable,
        flagged,
        wilson(flagged, comparable),
        wilson(side.in_any_pair, many),
        len(side.pairs),
        measure_agreement(side.past, range(many)),
        side.bad_rows,
        groups_among(side.past, range(many)),
        side.computed,
    )


def _compare_within_neighbourhoods(
    one: JudgedHistory, other: JudgedHistory, in_other: Rows
) -> SidesComparison:
    """Compare what both answered to similar cases; in_other: the row about the same case."""
    many = len(one)
    cases, keys = np.arange(many), one.keys
    if keys is not None:  # so that the order of decisions does not matter
        cases[sorted(range(many), key=lambda row: repr(keys[row]))] = np.arange(many)
    theirs = many + np.arange(len(other))
    both = np.flatnonzero(in_other >= 0)
    theirs[in_other[both]] = cases[both]
    joint = join_decisions(one, other, np.concatenate([cases, theirs]))
    if joint is None:
        why = "The inputs of the two have different shapes, so no case of one is near the other's."
        return cannot_compare(Conclusion("different-inputs", why))
    return compare_sides(joint)


# The same cases


def _counterparts(one: JudgedHistory, other: JudgedHistory, matched_by: MatchedBy) -> Rows:
    """Find for each decision of one that about the same case in the other; -1 if there is none."""
    if matched_by == "keys":
        return _match_cases(one.keys or (), other.keys or ())
    rows = _match_cases(one.cases.tolist(), other.cases.tolist())
    matched = np.flatnonzero(rows >= 0)
    same = _have_same_values(one.past, matched, other.past, rows[matched])
    rows[matched[~same]] = -1
    return rows


def _match_cases(mine: Sequence[Any], theirs: Sequence[Any]) -> Rows:
    places = {name: row for row, name in enumerate(theirs) if name is not None}
    return np.array([places.get(name, -1) for name in mine], np.int64)


def _have_same_values(one: Past, rows: Rows, other: Past, others: Rows) -> npt.NDArray[np.bool_]:
    """Tell which rows are the same in everything but the output."""
    if one.rule.features is None:
        mine, theirs = one.inputs(rows), other.inputs(others)
        if mine.shape != theirs.shape:
            return np.zeros(len(rows), dtype=np.bool_)
        equal: npt.NDArray[np.bool_] = (mine == theirs).reshape(len(rows), -1).all(axis=1)
        return equal
    features = one.rule.features.items()
    names = [name for name, feature in features if feature.kind not in ("key", "ignore")]

    def read_values(past: Past, row: int) -> list[Any]:
        values = past.values(row)
        return [values[name] for name in names]

    pairs = zip(rows.tolist(), others.tolist(), strict=True)
    same = [read_values(one, row) == read_values(other, place) for row, place in pairs]
    return np.array(same, np.bool_)


def _pair_codes(later: Rows, earlier: Rows, length: int) -> Rows:
    """Return a number for each two rows, whichever came first."""
    codes: Rows = np.minimum(later, earlier) * length + np.maximum(later, earlier)
    return codes


# What is shown


def _select_pairs(
    side: JudgedHistory,
    chosen: npt.NDArray[np.bool_],
    common: npt.NDArray[np.bool_],
    other_history: JudgedHistory,
    counterpart: Rows,
    most: int,
) -> PairChanges:
    """Count the chosen pairs of a side, and show some; first those of cases that both have.

    counterpart: for each row, that of the other side about the same case
    """
    of_common = chosen & common
    pairs = side.pairs.select(of_common if of_common.any() else chosen)
    shown = [_show_pair(side, pairs, i, other_history, counterpart) for i in _clearest(pairs, most)]
    return PairChanges(int(chosen.sum()), int(of_common.sum()), tuple(shown))


def _clearest(pairs: ContradictingPairs, most: int) -> list[int]:
    """Find the clearest pairs, no decision twice."""
    seen: set[int] = set()
    chosen: list[int] = []
    for i in np.lexsort(pairs.clearness).tolist():
        both = {int(pairs.later[i]), int(pairs.earlier[i])}
        if not both & seen:
            seen |= both
            chosen.append(i)
        if len(chosen) == most:
            break
    return chosen


def _show_pair(
    side: JudgedHistory,
    pairs: ContradictingPairs,
    i: int,
    other_history: JudgedHistory,
    counterpart: Rows,
) -> ShownPair:
    """Show a pair side by side, with the outputs that the other history has for both cases."""
    later, earlier = int(pairs.later[i]), int(pairs.earlier[i])
    witness = Witness(earlier, float(pairs.distances[i]), float(pairs.output_distances[i]))
    pair = make_pair(side.past, later, witness, names=side.columns)
    places = [int(counterpart[row]) for row in (later, earlier)]
    if min(places) >= 0:
        name = f"{', '.join(pair.outputs)} in {shorten(other_history.name, 40)}"
        mine, other = other_history.past.outputs(places)
        pair = replace(pair, mine={**pair.mine, name: mine}, other={**pair.other, name: other})
    own = int(side.places[later]), int(side.places[earlier])
    return ShownPair(WorstPair(pair, pair.hidden), side.computed.unit, *own)
