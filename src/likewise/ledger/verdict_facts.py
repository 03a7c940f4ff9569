"""Define the facts that a record holds of a verdict beside its witnesses, as numbers.

To add a fact, add a field to `FACTS` and to `Facts`; everything between a verdict and the disk
passes an array of `FACTS` on as it is. The chain hashes all of it (format2/chain.py).
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from likewise.verdict.context import VerdictContext
from likewise.verdict.verdicts import Verdicts

FACTS = np.dtype(
    [
        ("missing_decisions", "<i8"),
        ("not_compared", "<i8"),
        ("neighbours", "<i4"),
        ("alarm", "<i2"),
        ("comparable", "<i2"),
        ("near", "<i8"),
    ]
)
NOT_ASKED = -1
"""Stands for neighbours and similar cases that were not counted, or not searched for."""
FactsArray = npt.NDArray[Any]


class Facts(NamedTuple):
    """What one verdict says beside its witnesses, by the names of `VerdictContext`."""

    missing_decisions: int = 0
    not_compared: int = 0
    neighbours: int | None = None
    alarm: bool = False
    comparable: bool | None = None
    near: int | None = None

    @classmethod
    def of(cls, stored: Any) -> "Facts":
        """Read one element of an array of `FACTS`."""
        missing, incomplete, neighbours, alarm, comparable, near = stored.item()
        return cls(
            missing,
            incomplete,
            None if neighbours == NOT_ASKED else neighbours,
            bool(alarm),
            None if comparable == NOT_ASKED else bool(comparable),
            None if near == NOT_ASKED else near,
        )


NO_FACTS = Facts()


def stored_facts(context: VerdictContext) -> tuple[int, ...]:
    """Return one element for an array of `FACTS`."""
    neighbours, comparable, near = context.neighbours, context.comparable, context.near
    return (
        context.missing_decisions,
        context.not_compared,
        NOT_ASKED if neighbours is None else neighbours,
        context.alarm,
        NOT_ASKED if comparable is None else comparable,
        NOT_ASKED if near is None else near,
    )


def facts_of_many(verdicts: Verdicts | None, count: int) -> FactsArray:
    """Return the facts of a batch of verdicts; empty ones if the decisions were not judged."""
    facts = np.zeros(count, FACTS)
    facts["neighbours"] = facts["comparable"] = facts["near"] = NOT_ASKED
    if verdicts is None:
        return facts
    facts["missing_decisions"] = verdicts.missing_decisions
    if verdicts.not_compared is not None:
        facts["not_compared"] = verdicts.not_compared
    if verdicts.neighbours is not None:
        facts["neighbours"], facts["alarm"] = verdicts.neighbours, verdicts.alarms
    if verdicts.comparable is not None:
        facts["comparable"] = verdicts.comparable
    if verdicts.near is not None:
        facts["near"] = verdicts.near
    return facts
