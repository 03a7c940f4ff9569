"""The decisions of a protected column by group: who belongs where, and who takes no part.

The largest groups stand for themselves. Where there are many, all smaller ones together are one
more group, OTHERS.

Invariant: decisions are sorted by input, group and outcome, so that whatever is summed over them
comes out the same in whatever order they came.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.tables.rows import Floats, Rows
from likewise.verdict.group_effects import OTHERS

MOST_GROUPS = 20
"""Groups of a column that are compared one by one; all others are one more."""


@dataclass(frozen=True, eq=False)
class Members:
    """Decisions that belong to a group, column by column of the same length."""

    values: tuple[Any, ...]
    """The groups, the largest first."""
    group: Rows
    """Of each decision, a place in `values`."""
    scores: Floats
    """How good the outcome is: 1 or 0 for labels, a number as it is, or its opposite."""
    point: Rows
    """The input, see like_points.py."""
    person: Rows | None
    """A number for each person; None if each decision is one."""
    missing: int
    inconsistent: int
    pooled: int

    def people(self, decisions: Rows) -> int:
        """How many people some decisions are about."""
        if self.person is None:
            return len(decisions)
        return len(np.unique(self.person[decisions]))


def sort_into_groups(
    codes: Rows, values: Sequence[Any], scores: Floats, point: Rows, person: Rows | None
) -> Members:
    """Sort decisions into groups.

    codes   of each decision's group, -1 where there is none
    person  a code for each, -1 where there is none: such a decision is a person of its own
    """
    known = codes >= 0
    missing, inconsistent = int((~known).sum()), 0
    if person is not None:
        person = np.where(person < 0, person.max(initial=-1) + 1 + np.arange(len(person)), person)
        several = _find_inconsistent(person[known], codes[known])
        inconsistent = len(several)
        known &= ~np.isin(person, several)
        person = person[known]
    group, chosen, pooled = _largest(codes[known], values)
    scores, point = scores[known], point[known]
    order = np.lexsort((scores, group, point))
    return Members(
        chosen,
        group[order],
        scores[order],
        point[order],
        None if person is None else person[order],
        missing,
        inconsistent,
        pooled,
    )


def _find_inconsistent(person: Rows, codes: Rows) -> Rows:
    """People who are recorded under several groups."""
    each = np.unique(np.stack([person, codes], axis=1), axis=0)[:, 0]
    people, counts = np.unique(each, return_counts=True)
    return people[counts > 1]


def _largest(codes: Rows, values: Sequence[Any]) -> tuple[Rows, tuple[Any, ...], int]:
    """Each decision's group among those that stand for themselves, these, and how many do not."""
    present, sizes = np.unique(codes, return_counts=True)
    by_size = sorted(
        zip(present.tolist(), sizes.tolist(), strict=True),
        key=lambda one: (-one[1], str(values[one[0]])),
    )
    order = [code for code, _ in by_size]
    pooled = len(order) - MOST_GROUPS if len(order) > MOST_GROUPS + 1 else 0
    alone = order[: len(order) - pooled]
    place: npt.NDArray[np.int64] = np.full(len(values) + 1, len(alone))
    place[alone] = np.arange(len(alone))
    chosen = tuple(values[code] for code in alone) + (OTHERS,) * bool(pooled)
    return place[codes], chosen, pooled


@dataclass(frozen=True, eq=False)
class ShuffleUnits:
    """Whose groups are shuffled: people, or decisions where nobody is known to have several."""

    block: Rows
    """Within which a unit's group is exchanged."""
    outcomes: Floats
    group: Rows


def make_units(members: Members, neighbourhood: Rows) -> ShuffleUnits:
    """The units of a column.

    neighbourhood: of each point

    A person has one group in all decisions. The outcome is the mean over these; the block is the
    set of neighbourhoods in which they lie, so that a group is exchanged only between people who
    have like cases in all of the same places.
    """
    at = neighbourhood[members.point]
    if members.person is None:
        return ShuffleUnits(at, members.scores, members.group)
    _, first, person = np.unique(members.person, return_index=True, return_inverse=True)
    outcomes = np.bincount(person, members.scores) / np.bincount(person)
    blocks: dict[tuple[int, ...], int] = {}
    places: list[set[int]] = [set() for _ in first]
    for who, where in zip(person.tolist(), at.tolist(), strict=True):
        places[who].add(where)
    block = [blocks.setdefault(tuple(sorted(one)), len(blocks)) for one in places]
    return ShuffleUnits(np.array(block, np.int64), outcomes, members.group[first])
