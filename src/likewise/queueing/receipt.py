"""Define what a buffer returns (receipts, statistics), and its settings; all are frozen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from likewise.errors import BadRule
from likewise.tables.known_names import check_one_of
from likewise.tables.printing import with_bounded_repr

FULL, TIMEOUT, CLOSED, FORK = "full", "timeout", "closed", "fork"
FAILED, IN_DOUBT = "failed", "in doubt"
"""The reasons why decisions are lost."""


@with_bounded_repr
class Receipt(NamedTuple):
    """Identifies one decision: `submit` returns its number, `results` adds the answer.

    A number counts submitted decisions, a row those that the monitor has taken: after a loss or a
    refusal they differ. Numbers are in the order of the rows.

    >>> Receipt(7)
    Receipt(number=7)
    >>> Receipt(8, lost="full")
    Receipt(number=8, lost='full')
    """

    number: int
    lost: str | None = None
    """Why it was lost at once, and so will not be answered; None otherwise."""
    row: int | None = None
    """Its place in the history, once it is answered."""
    verdict: Any = None
    """The monitor's verdict. None if the row is known and there is no verdict: the decision was
    erased before it was judged, or something failed just after it was taken."""
    refusal: Exception | None = None
    """Why the monitor refused it. A refused decision is not in the history, and not lost."""
    delay: float | None = None
    """Seconds from `submit` to the answer, by the clock."""

    def __repr__(self) -> str:
        known = ((name, value) for name, value in self._asdict().items() if value is not None)
        return f"Receipt({', '.join(f'{name}={value!r}' for name, value in known)})"


@dataclass(frozen=True)
class BufferStats:
    """Counts decisions: submitted = answered + refused + lost + waiting + accepted, always."""

    submitted: int
    answered: int
    refused: int
    lost: Mapping[str, int]
    """Lost decisions by reason."""
    waiting: int
    """Decisions in memory, including those that are being judged."""
    waiting_bytes: int
    accepted: int = 0
    """Decisions in the ledger that are not judged yet."""
    unread: int = 0
    """Answers that nobody read in time, and that were dropped; their decisions are judged."""
    failing: str | None = None
    """Why the monitor takes nothing at the moment, such as a full disk; it is tried again."""

    @property
    def total_lost(self) -> int:
        """How many decisions were lost for any reason."""
        return sum(self.lost.values())


WhenFull: TypeAlias = Literal["block", "drop_newest", "accept"]
POLICIES = ("block", "drop_newest", "accept")


@dataclass(frozen=True, kw_only=True)
class BufferSettings:
    """Checks and holds the settings of a buffer; `lw.buffered` explains them."""

    capacity: int
    max_bytes: int
    when_full: WhenFull
    timeout: float | None
    batch_rows: int
    batch_seconds: float
    on_verdict: Callable[[Receipt], Any] | None

    def __post_init__(self) -> None:
        for name in ("capacity", "max_bytes", "batch_rows"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadRule(f"{name} is {value!r}; expected a whole number from 1", setting=name)
        if not _is_seconds(self.batch_seconds):
            raise BadRule(
                f"batch_seconds is {self.batch_seconds!r}; expected seconds, from 0",
                setting="batch_seconds",
            )
        if self.timeout is not None and not _is_seconds(self.timeout):
            raise BadRule(
                f"timeout is {self.timeout!r}; expected seconds, from 0, or None", setting="timeout"
            )
        check_one_of("when_full", self.when_full, POLICIES)
        if self.timeout is not None and self.when_full == "drop_newest":
            raise BadRule(
                'timeout is given, and with when_full="drop_newest" nothing waits. Leave it out, or'
                ' let when_full be "block" or "accept".',
                setting="timeout",
            )
        if self.on_verdict is not None and not callable(self.on_verdict):
            raise BadRule(
                f"on_verdict is {self.on_verdict!r}; expected a callable, or None",
                setting="on_verdict",
            )


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
