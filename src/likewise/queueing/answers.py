"""Count and keep the answers to submitted decisions, or pass them to a callable.

Answers are kept in batches, and receipts are made one by one on demand: making a thousand of them
at once would keep callers of `submit` waiting for the interpreter.
Invariant: each answer is given out once, in the order of numbers; if there are too many, the oldest
are dropped and counted.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from likewise.errors import BadRule
from likewise.queueing.bounded_queue import BoundedQueue, microseconds_now
from likewise.queueing.waiting_decisions import SubmittedDecision, WaitingEntry
from likewise.runtime.log import logger
from likewise.tables.array_types import Rows
from likewise.tables.known_names import check_one_of
from likewise.tables.printing import with_bounded_repr
from likewise.verdict.verdicts import Verdict, Verdicts

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


@dataclass(frozen=True)
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
        for name, more in (("batch_seconds", ""), ("timeout", ", or None")):
            value = getattr(self, name)
            if not (_is_seconds(value) or (more and value is None)):
                expected = f"seconds, from 0{more}"
                raise BadRule(f"{name} is {value!r}; expected {expected}", setting=name)
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


_RECEIPT = 300  # bytes in memory of an answer without witnesses, about
_WITNESS = 24


@dataclass(frozen=True, eq=False)
class AnswerBatch:
    """Holds decisions that are answered together, or one that is refused."""

    numbers: Rows
    submitted: Rows
    """When they were submitted, in microseconds since 1970."""
    rows: range | None = None
    """The rows of decisions whose verdicts are not known."""
    verdicts: "Verdicts | Sequence[Verdict | None] | None" = None
    """The verdicts, if they are known; an entry None has a row and no verdict."""
    pairs: int = 0
    """How many witnesses the verdicts have, where they hold arrays of them."""
    refusal: Exception | None = None
    answered: int = 0
    """When they were answered, in microseconds since 1970."""

    @classmethod
    def of(cls, entries: Sequence[WaitingEntry], **fields: Any) -> "AnswerBatch":
        """Make a batch of entries; further fields by name."""
        return cls(
            np.array([entry[0] for entry in entries]),
            np.array([entry[2].submitted for entry in entries]),
            **fields,
        )

    def __len__(self) -> int:
        return len(self.numbers)

    def select(self, chosen: slice) -> "AnswerBatch":
        """Return some of decisions that have no verdicts yet."""
        rows = None if self.rows is None else self.rows[chosen]
        return replace(
            self, numbers=self.numbers[chosen], submitted=self.submitted[chosen], rows=rows
        )

    @property
    def bytes(self) -> int:
        """How much memory the answers take, about."""
        return _RECEIPT * len(self) + _WITNESS * self.pairs

    def receipt(self, i: int) -> Receipt:
        """Make the receipt of one decision."""
        number = int(self.numbers[i])
        delay = max(0, self.answered - int(self.submitted[i])) / 1e6
        verdict = None if self.verdicts is None else self.verdicts[i]
        if verdict is None:
            row = None if self.rows is None else self.rows[i]
            return Receipt(number, row=row, refusal=self.refusal, delay=delay)
        if verdict.violation:
            verdict = verdict.detach()  # so that keeping it does not keep the whole batch
        return Receipt(number, row=verdict.row, verdict=verdict, delay=delay)


class AcceptedQueue:
    """Holds decisions that a ledger has accepted until they are judged; callers hold the lock.

    Refused decisions among them wait as well, so that receipts come in the order of numbers.
    """

    def __init__(self) -> None:
        self._parts: deque[AnswerBatch] = deque()
        self.count = 0
        """How many of them the ledger has."""

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def first(self) -> AnswerBatch:
        return self._parts[0]

    @property
    def first_number(self) -> int:
        return int(self._parts[0].numbers[0])

    def add(self, part: AnswerBatch) -> None:
        self._parts.append(part)
        self.count += 0 if part.rows is None else len(part)

    def take_refusals(self) -> list[AnswerBatch]:
        """Take out those that the ledger has refused."""
        refused = [part for part in self._parts if part.rows is None]
        self._parts = deque(part for part in self._parts if part.rows is not None)
        return refused

    def take(self, count: int) -> AnswerBatch:
        """Take out the first so many decisions of the first part."""
        whole = self._parts[0]
        part, rest = whole.select(slice(count)), whole.select(slice(count, None))
        if len(rest):
            self._parts[0] = rest
        else:
            self._parts.popleft()
        self.count -= 0 if part.rows is None else len(part)
        return part


class ReceiptLog:
    """Counts answers and refusals, and keeps a bounded number of receipts.

    queue               the queue whose lock is held while something changes here
    most, most_bytes    how many receipts are kept, and how much memory they take together
    on_receipt          called with every receipt, in the thread that judges; without it receipts
                        are kept until they are read
    """

    def __init__(
        self,
        queue: BoundedQueue[SubmittedDecision],
        most: int,
        most_bytes: int,
        on_receipt: Callable[[Receipt], Any] | None,
    ) -> None:
        self._queue = queue
        self._most, self._most_bytes = most, most_bytes
        self._on_receipt = on_receipt
        self._has_warned = False
        self._parts: deque[AnswerBatch] = deque()
        self._read_count = 0  # how many answers of the first part were given out
        self._count = self._bytes = 0
        self.answered = self.refused = 0
        self.accepted = AcceptedQueue()
        self.unread = 0
        """How many answers were dropped before anybody read them."""

    def __len__(self) -> int:
        return self._count

    # By the thread that judges

    def answer(self, entries: Sequence[WaitingEntry], **fields: Any) -> None:
        """Answer decisions that were in hand, with verdicts or with rows alone."""
        part = AnswerBatch.of(entries, answered=microseconds_now(), **fields)
        with self._queue.lock:
            self._queue.in_hand -= len(part)
            self.answered += len(part)
            self._keep(part)
        self._notify(part)

    def refuse(self, entry: WaitingEntry, error: Exception) -> None:
        """Refuse a decision that was in hand; its receipt comes after those of accepted ones."""
        error.__traceback__ = None  # its frames would keep the whole batch in memory
        part = AnswerBatch.of([entry], answered=microseconds_now(), refusal=error)
        with self._queue.lock:
            self._queue.in_hand -= 1
            self.refused += 1
            if len(self.accepted):
                self.accepted.add(part)
                return
            self._keep(part)
        self._notify(part)

    def accept(self, entries: Sequence[WaitingEntry], rows: range) -> None:
        """Note that decisions that were in hand are in the ledger, in these rows, to be judged."""
        part = AnswerBatch.of(entries, rows=rows)
        with self._queue.lock:
            self._queue.in_hand -= len(part)
            self.accepted.add(part)

    def answer_accepted(
        self, count: int, verdicts: "Verdicts | Sequence[Verdict | None] | None" = None
    ) -> None:
        """Answer the first so many accepted decisions, or give out the refusal that is first."""
        with self._queue.lock:
            part = self.accepted.take(count)
            if part.rows is not None:
                self.answered += count
                part = replace(part, verdicts=verdicts, answered=microseconds_now())
            self._keep(part)
        self._notify(part)

    def release_accepted(self) -> None:
        """Give out the refusals; accepted decisions will be judged by others."""
        for part in self.accepted.take_refusals():
            with self._queue.lock:
                self._keep(part)
            self._notify(part)

    def _notify(self, part: AnswerBatch) -> None:
        if self._on_receipt is None:
            return
        for receipt in map(part.receipt, range(len(part))):
            try:
                self._on_receipt(receipt)
            except BaseException as error:
                if not self._has_warned:
                    logger.warning("on_verdict raises %s; judging goes on", type(error).__name__)
                self._has_warned = True

    # Kept receipts

    def _keep(self, part: AnswerBatch) -> None:
        if self._on_receipt is not None:
            return
        self._parts.append(part)
        self._count += len(part)
        self._bytes += part.bytes
        while len(self._parts) > 1 and (self._count > self._most or self._bytes > self._most_bytes):
            self.unread += len(self._drop_first())

    def next(self) -> Receipt | None:
        """Take the next receipt; None if there is none."""
        while self._parts:
            part = self._parts[0]
            if self._read_count < len(part):
                receipt = part.receipt(self._read_count)
                self._read_count += 1
                self._count -= 1
                return receipt
            self._drop_first()
        return None

    def _drop_first(self) -> AnswerBatch:
        """Remove the first part, of which `_read_count` answers were given out before."""
        part = self._parts.popleft()
        self._bytes -= part.bytes
        self._count -= len(part) - self._read_count
        self._read_count = 0
        return part
