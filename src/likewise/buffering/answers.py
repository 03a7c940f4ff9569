"""Answers that nobody has read yet, in their order; bounded.

A part of a batch is kept as the monitor answered it. Receipts are made when they are asked for:
making a thousand of them at once would keep callers of `submit` waiting for the interpreter.

Invariant: each answer is given out once, in the order of numbers; if there are too many, the oldest
are let go of and counted.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from likewise.buffering.decisions import Waiting
from likewise.buffering.receipt import Receipt
from likewise.values.verdicts import Verdict

_RECEIPT = 300  # bytes that are kept for an answer without witnesses, about
_WITNESS = 24


@dataclass(frozen=True, eq=False)
class Part:
    """Decisions that were answered together, or one that was refused."""

    numbers: Sequence[int]
    submitted: Sequence[int]
    """When, in microseconds since 1970."""
    answered: int
    """Likewise."""
    verdicts: Any = None
    first_row: int | None = None
    """Of decisions that are stored and whose verdicts are not known."""
    refusal: Exception | None = None

    @classmethod
    def of(cls, entries: Sequence[Waiting], answered: int, **what: Any) -> "Part":
        return cls(
            [entry[0] for entry in entries],
            [entry[2].submitted for entry in entries],
            answered,
            **what,
        )

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def bytes(self) -> int:
        return _RECEIPT * len(self) + _WITNESS * int(getattr(self.verdicts, "pairs", 0))

    def receipt(self, i: int) -> Receipt:
        delay = max(0, self.answered - self.submitted[i]) / 1e6
        if self.verdicts is None:
            row = None if self.first_row is None else self.first_row + i
            return Receipt(self.numbers[i], row=row, refusal=self.refusal, delay=delay)
        verdict = self.verdicts[i]
        if isinstance(verdict, Verdict) and verdict.violation:
            verdict = verdict.whole()  # whoever keeps it does not keep the whole batch
        return Receipt(self.numbers[i], row=verdict.row, verdict=verdict, delay=delay)

    def receipts(self) -> Iterator[Receipt]:
        return map(self.receipt, range(len(self)))


class Answers:
    """At most so many answers, of so many bytes together, about. Whoever calls holds the lock."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._parts: deque[Part] = deque()
        self._read = 0  # answers of the first part that were given out
        self._count = self._bytes = 0
        self.unread = 0
        """Answers that were let go of."""

    def __len__(self) -> int:
        return self._count

    def add(self, part: Part) -> None:
        self._parts.append(part)
        self._count += len(part)
        self._bytes += part.bytes
        while len(self._parts) > 1 and (self._count > self._most or self._bytes > self._most_bytes):
            oldest = self._drop_first()
            self.unread += len(oldest)

    def next(self) -> Receipt | None:
        """The next answer, if there is one."""
        while self._parts:
            part = self._parts[0]
            if self._read < len(part):
                receipt = part.receipt(self._read)
                self._read += 1
                self._count -= 1
                return receipt
            self._drop_first()
        return None

    def _drop_first(self) -> Part:
        """The first part; `_read` of it were given out before."""
        part = self._parts.popleft()
        self._bytes -= part.bytes
        self._count -= len(part) - self._read
        self._read = 0
        return part
