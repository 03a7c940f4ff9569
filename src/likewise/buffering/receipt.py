"""What whoever submits decisions is told: a receipt for each, and how it went so far. Frozen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from likewise.values.printing import with_bounded_repr

FULL, TIMEOUT, CLOSED, FORK = "full", "timeout", "closed", "fork"
FAILED, IN_DOUBT = "failed", "in doubt"
"""Why a decision can be lost."""


@with_bounded_repr
class Receipt(NamedTuple):
    """Of one decision. `submit` gives its number; `results` the same number with the answer.

    A number counts what was submitted, a row what the monitor has taken: after a loss or a refusal
    they part ways. Numbers are in the order of the rows.

    >>> Receipt(7)
    Receipt(number=7)
    >>> Receipt(8, lost="full")
    Receipt(number=8, lost='full')
    """

    number: int
    lost: str | None = None
    """Why it was lost, if it was lost at once; it will not be answered."""
    row: int | None = None
    """Its place in the history, once it is answered."""
    verdict: Any = None
    """The monitor's. None where the row is known and there is no verdict: the decision was erased
    before it was judged, or something failed just after it was taken."""
    refusal: Exception | None = None
    """Why the monitor refused it. It is not in the history, and not a loss: it was told."""
    delay: float | None = None
    """Seconds from `submit` to the answer, by the clock."""

    def __repr__(self) -> str:
        known = ((name, value) for name, value in self._asdict().items() if value is not None)
        return f"Receipt({', '.join(f'{name}={value!r}' for name, value in known)})"


@dataclass(frozen=True)
class Stats:
    """How a buffer stands: submitted = answered + refused + lost + waiting + accepted, always."""

    submitted: int
    answered: int
    refused: int
    lost: Mapping[str, int]
    """By reason."""
    waiting: int
    """In memory, those that are being judged included."""
    waiting_bytes: int
    accepted: int = 0
    """In the ledger, and not judged yet."""
    unread: int = 0
    """Answers that nobody read in time, and that were let go of; their decisions are judged."""
    failing: str | None = None
    """Why the monitor's disk takes nothing at the moment; it is tried again."""

    @property
    def all_lost(self) -> int:
        """Lost for whatever reason."""
        return sum(self.lost.values())
