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
    ]
)
NOT_ASKED = -1
"""Stands for neighbours that were not counted, and for similar cases that were not searched."""
FactsArray = npt.NDArray[Any]


class Facts(NamedTuple):
    """What one verdict says beside its witnesses, by the names of `VerdictContext`."""

    missing_decisions: int = 0
    not_compared: int = 0
    neighbours: int | None = None
    alarm: bool = False
    comparable: bool | None = None

    @classmethod
    def of(cls, stored: Any) -> "Facts":
        """Read one element of an array of `FACTS`."""
        missing, incomplete, near, alarm, comparable = stored.item()
        return cls(
            missing,
            incomplete,
            None if near == NOT_ASKED else near,
            bool(alarm),
            None if comparable == NOT_ASKED else bool(comparable),
        )


NO_FACTS = Facts()


def stored_facts(context: VerdictContext) -> tuple[int, ...]:
    """Return one element for an array of `FACTS`."""
    near, comparable = context.neighbours, context.comparable
    return (
        context.missing_decisions,
        context.not_compared,
        NOT_ASKED if near is None else near,
        context.alarm,
        NOT_ASKED if comparable is None else comparable,
    )


def facts_of_many(verdicts: Verdicts | None, count: int) -> FactsArray:
    """Return the facts of a batch of verdicts; empty ones if the decisions were not judged."""
    facts = np.zeros(count, FACTS)
    facts["neighbours"] = facts["comparable"] = NOT_ASKED
    if verdicts is None:
        return facts
    facts["missing_decisions"] = verdicts.missing_decisions
    if verdicts.not_compared is not None:
        facts["not_compared"] = verdicts.not_compared
    if verdicts.neighbours is not None:
        facts["neighbours"], facts["alarm"] = verdicts.neighbours, verdicts.alarms
    if verdicts.comparable is not None:
        facts["comparable"] = verdicts.comparable
    return facts
