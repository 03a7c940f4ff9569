"""Sort the decisions of a protected column into groups: who belongs where, and who is left out.

If there are many groups, all smaller ones together are one more group, OTHERS.
Invariant: decisions are sorted by input, group and outcome, so that sums over them do not depend on
the order in which they came.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.tables.array_types import Floats, Rows
from likewise.verdict.group_effects import OTHERS

MOST_GROUPS = 20
"""How many groups of a column are compared one by one; all others are one more group."""


@dataclass(frozen=True, eq=False)
class Members:
    """Holds the decisions that belong to a group, as columns of the same length."""

    values: tuple[Any, ...]
    """The groups, the largest first."""
    group: Rows
    """The group of each decision, a place in `values`."""
    scores: Floats
    """How good the outcome is: 1 or 0 for labels, a number as it is, or its opposite."""
    point: Rows
    """The input, as a point of compare_groups.py."""
    person: Rows | None
    """A number for each person; None if each decision is one."""
    missing: int
    """How many decisions were left out because they have no group."""
    inconsistent: int
    """How many people were left out because they are recorded under several groups."""
    pooled: int
    """How many groups are in OTHERS."""

    def people(self, decisions: Rows) -> int:
        """Count the people that some decisions are about."""
        if self.person is None:
            return len(decisions)
        return len(np.unique(self.person[decisions]))


def sort_into_groups(
    codes: Rows, values: Sequence[Any], scores: Floats, point: Rows, person: Rows | None
) -> Members:
    """Sort decisions into groups.

    codes   the code of each decision's group, -1 for none
    person  the code of each decision's person; -1 for none, which counts as a person of its own
    """
    is_member = codes >= 0
    missing, inconsistent = int((~is_member).sum()), 0
    if person is not None:
        person = np.where(person < 0, person.max(initial=-1) + 1 + np.arange(len(person)), person)
        several = _find_inconsistent(person[is_member], codes[is_member])
        inconsistent = len(several)
        is_member &= ~np.isin(person, several)
        person = person[is_member]
    group, chosen, pooled = _pool_small_groups(codes[is_member], values)
    scores, point = scores[is_member], point[is_member]
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
    """Find people who are recorded under several groups."""
    each = np.unique(np.stack([person, codes], axis=1), axis=0)[:, 0]
    people, counts = np.unique(each, return_counts=True)
    return people[counts > 1]


def _pool_small_groups(codes: Rows, values: Sequence[Any]) -> tuple[Rows, tuple[Any, ...], int]:
    """Return each decision's group, the groups, and how many small ones are pooled as OTHERS."""
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


def make_units(members: Members, neighbourhood: Rows) -> tuple[Rows, Floats, Rows]:
    """Make the units whose groups are shuffled: people, or decisions if each one is a person.

    neighbourhood: the neighbourhood of each point

    Returns the block of each unit, within which its group may be exchanged, its outcome and group.
    A person has one group in all decisions. The outcome is the mean over these; the block is the
    set of their neighbourhoods, so that a group is exchanged only between people who have similar
    cases in all of the same places.
    """
    at = neighbourhood[members.point]
    if members.person is None:
        return at, members.scores, members.group
    _, first, person = np.unique(members.person, return_index=True, return_inverse=True)
    outcomes = np.bincount(person, members.scores) / np.bincount(person)
    blocks: dict[tuple[int, ...], int] = {}
    places: list[set[int]] = [set() for _ in first]
    for who, where in zip(person.tolist(), at.tolist(), strict=True):
        places[who].add(where)
    block = [blocks.setdefault(tuple(sorted(one)), len(blocks)) for one in places]
    return np.array(block, np.int64), outcomes, members.group[first]
