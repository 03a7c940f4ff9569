"""Two histories under one rule: their rates, and which contradictions are new, gone or persist.

The histories are separate: no decision of one is compared with a decision of the other. The longer
one is cut to the length of the shorter, since a longer past has more to contradict.

A pair persists if the same two cases contradict each other in both histories. Two decisions are
about the same case if they have the same key; where there are no keys, if they stand in the same
place and have the same values in all columns but the output. A pair of cases of which one is in
one history only is new or gone for that reason alone, so these are counted apart.

Invariant: persisting pairs are as many in one history as in the other.
Cost: sorting the pairs; where there are no keys, a look at the values of every decision.
Not here: words (compare_words.py), the page (compare_page.py).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.explaining.compare_groups import why_no_groups
from likewise.explaining.pairs import make_pair
from likewise.explaining.past import Past
from likewise.reports.evidence import Provenance
from likewise.reports.findings import groups_among
from likewise.reports.intervals import Difference, Share, difference, wilson
from likewise.reports.judged_history import ContradictingPairs, JudgedHistory
from likewise.reports.selected_pairs import WorstPair
from likewise.rule.rule import Rule
from likewise.tables.rows import Rows
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.html import shorten
from likewise.verdict.witnesses import Witness

MatchedBy: TypeAlias = Literal["keys", "places and values"]
SHOWN = 6
"""Pairs of each kind that are shown."""


@dataclass(frozen=True)
class ComparedHistory:
    """One history, as far as it was compared."""

    name: str
    decisions: int
    """All that were judged."""
    compared: int
    """The first so many of them: as many as on the other side."""
    comparable: int
    """Of these, those that had an earlier like case."""
    flagged: int
    """Of these, those that contradict an earlier one."""
    share: Share
    """Flagged, of the comparable."""
    in_any_pair: Share
    """Decisions in a contradicting pair, of all that were compared."""
    pairs: int
    bad_rows: int
    groups: tuple[GroupEffects, ...]
    computed: Provenance


@dataclass(frozen=True)
class ShownPair:
    """Two decisions side by side, and where they stand."""

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
    """Pairs that are new, gone, or persist."""

    count: int
    of_common: int
    """Of them, those of two cases that are in both histories."""
    shown: tuple[ShownPair, ...]

    def to_dict(self) -> dict[str, Any]:
        pairs = [one.to_dict() for one in self.shown]
        return {"count": self.count, "of_common_cases": self.of_common, "shown": pairs}


@dataclass(frozen=True)
class Comparison:
    """What two histories come to, side by side."""

    rule: Rule
    one: ComparedHistory
    other: ComparedHistory
    difference: Difference | None
    """Of the shares of comparable decisions that contradict; None where one has none."""
    matched_by: MatchedBy
    """How the same case is recognised."""
    common: int
    """Cases that are in both histories."""
    new: PairChanges
    gone: PairChanges
    persisting: PairChanges
    no_groups: str | None
    column: str | None = None
    """The column that says which model decided, where both histories come from one file."""
    command: str | None = None

    @property
    def nothing_compared(self) -> tuple[ComparedHistory, ...]:
        """The sides in which no decision had an earlier like case."""
        return tuple(side for side in (self.one, self.other) if side.comparable == 0)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: numbers, text, lists and dictionaries only."""
        return {
            "a": _side(self.one),
            "b": _side(self.other),
            "difference": None if self.difference is None else asdict(self.difference),
            "same_case_told_by": self.matched_by,
            "common_cases": self.common,
            "new": self.new.to_dict(),
            "gone": self.gone.to_dict(),
            "persisting": self.persisting.to_dict(),
            "no_groups": self.no_groups,
            "model_column": self.column,
            "command": self.command,
            "rule": self.rule.to_toml(),
        }


def _side(side: ComparedHistory) -> dict[str, Any]:
    plain = {
        "name": side.name,
        "rows": side.decisions,
        "compared_rows": side.compared,
        "comparable": side.comparable,
        "flagged": side.flagged,
        "rate_among_comparable": side.share.rate,
        "rate_among_comparable_interval": [side.share.low, side.share.high],
        "in_any_pair": side.in_any_pair.count,
        "rate_in_any_pair": side.in_any_pair.rate,
        "rate_in_any_pair_interval": [side.in_any_pair.low, side.in_any_pair.high],
        "pairs": side.pairs,
        "bad_rows": side.bad_rows,
        "groups": [one.to_dict() for one in side.groups],
        "computed": asdict(side.computed),
    }
    return plain


def compare(
    one: JudgedHistory,
    other: JudgedHistory,
    *,
    column: str | None = None,
    command: str | None = None,
    shown: int = SHOWN,
) -> Comparison:
    """Two histories that were judged under the same rule.

    column: the one that says which model decided, where both are of one file
    """
    rule = one.past.rule
    length = min(len(one), len(other))
    whole = len(one), len(other)
    one, other = one.truncate(length), other.truncate(length)
    told_by: MatchedBy = "places and values"
    if one.keys is not None and other.keys is not None:
        told_by = "keys"
    in_other = _counterparts(one, other, told_by)
    in_one = np.full(length, -1, np.int64)
    both = np.flatnonzero(in_other >= 0)
    in_one[in_other[both]] = both
    before = _codes(one.pairs.later, one.pairs.earlier, length)
    mapped = in_one[other.pairs.later], in_one[other.pairs.earlier]
    known = (mapped[0] >= 0) & (mapped[1] >= 0)
    persists = known & np.isin(_codes(*mapped, length), before)
    left = in_other[one.pairs.later], in_other[one.pairs.earlier]
    known_before = (left[0] >= 0) & (left[1] >= 0)
    now = _codes(other.pairs.later, other.pairs.earlier, length)
    stays = known_before & np.isin(_codes(*left, length), now)
    sides = [_side_of(side, many) for side, many in zip((one, other), whole, strict=True)]
    return Comparison(
        rule,
        sides[0],
        sides[1],
        difference(sides[0].share, sides[1].share),
        told_by,
        len(both),
        _kind(other, ~persists, known, one, in_one, shown),
        _kind(one, ~stays, known_before, other, in_other, shown),
        _kind(other, persists, known, one, in_one, shown),
        why_no_groups(rule),
        column,
        command,
    )


def _side_of(side: JudgedHistory, decisions: int) -> ComparedHistory:
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
        side.bad_rows,
        groups_among(side.past, range(many)),
        side.computed,
    )


# The same cases


def _counterparts(one: JudgedHistory, other: JudgedHistory, matched_by: MatchedBy) -> Rows:
    """For each decision of one, that about the same case in the other; -1 if there is none."""
    if matched_by == "keys":
        return _match_cases(one.keys or (), other.keys or ())
    rows = _match_cases(one.cases.tolist(), other.cases.tolist())
    there = np.flatnonzero(rows >= 0)
    same = _same_values(one.past, there, other.past, rows[there])
    rows[there[~same]] = -1
    return rows


def _match_cases(mine: Sequence[Any], theirs: Sequence[Any]) -> Rows:
    places = {name: row for row, name in enumerate(theirs) if name is not None}
    return np.array([places.get(name, -1) for name in mine], np.int64)


def _same_values(one: Past, rows: Rows, other: Past, others: Rows) -> npt.NDArray[np.bool_]:
    """Which rows are the same in everything but the output."""
    if one.rule.features is None:
        mine, theirs = one.inputs(rows), other.inputs(others)
        if mine.shape != theirs.shape:
            return np.zeros(len(rows), dtype=np.bool_)
        equal: npt.NDArray[np.bool_] = (mine == theirs).reshape(len(rows), -1).all(axis=1)
        return equal
    features = one.rule.features.items()
    kept = [name for name, feature in features if feature.kind not in ("key", "ignore")]
    return np.array(
        [
            _select_values(one.values(row), kept) == _select_values(other.values(place), kept)
            for row, place in zip(rows.tolist(), others.tolist(), strict=True)
        ],
        np.bool_,
    )


def _select_values(values: dict[str, Any], names: Sequence[str]) -> list[Any]:
    return [values[name] for name in names]


def _codes(later: Rows, earlier: Rows, length: int) -> Rows:
    """A number for each two rows, whichever came first."""
    codes: Rows = np.minimum(later, earlier) * length + np.maximum(later, earlier)
    return codes


# What is shown


def _kind(
    side: JudgedHistory,
    chosen: npt.NDArray[np.bool_],
    known: npt.NDArray[np.bool_],
    other_history: JudgedHistory,
    counterpart: Rows,
    most: int,
) -> PairChanges:
    """Chosen pairs of a side; each row of the other side that is about the same case."""
    of_common = chosen & known
    pairs = side.pairs.select(of_common if of_common.any() else chosen)
    shown = [_show_pair(side, pairs, i, other_history, counterpart) for i in _clearest(pairs, most)]
    return PairChanges(int(chosen.sum()), int(of_common.sum()), tuple(shown))


def _clearest(pairs: ContradictingPairs, most: int) -> list[int]:
    """The nearest pairs, no decision twice."""
    order = np.lexsort((pairs.earlier, pairs.later, -pairs.output_distances, pairs.distances))
    seen: set[int] = set()
    found: list[int] = []
    for i in order.tolist():
        two = {int(pairs.later[i]), int(pairs.earlier[i])}
        if not two & seen:
            seen |= two
            found.append(i)
        if len(found) == most:
            break
    return found


def _show_pair(
    side: JudgedHistory,
    pairs: ContradictingPairs,
    i: int,
    other_history: JudgedHistory,
    counterpart: Rows,
) -> ShownPair:
    """A pair side by side; with what the other history has for the same cases, if it has them."""
    later, earlier = int(pairs.later[i]), int(pairs.earlier[i])
    witness = Witness(earlier, float(pairs.distances[i]), float(pairs.output_distances[i]))
    pair = make_pair(side.past, later, witness, names=side.columns)
    places = [int(counterpart[row]) for row in (later, earlier)]
    if min(places) >= 0:
        name = f"{', '.join(pair.outputs)} in {shorten(other_history.name, 40)}"
        mine, other = other_history.past.outputs(places)
        pair = replace(pair, mine={**pair.mine, name: mine}, other={**pair.other, name: other})
    lines = int(side.places[later]), int(side.places[earlier])
    return ShownPair(WorstPair(pair, pair.hidden), side.computed.unit, *lines)
