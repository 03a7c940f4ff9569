"""What has become of every decision: counted, kept for whoever asks, and told to a callable.

Invariant: each number that was given is answered, refused, lost or waiting, and counted as one of
these.
"""

import time as clock
from collections.abc import Callable, Sequence
from typing import Any

from likewise.buffering.answers import Answers, Part
from likewise.buffering.bounded_queue import BoundedQueue
from likewise.buffering.decisions import SubmittedDecision, Waiting
from likewise.buffering.receipt import Receipt
from likewise.buffering.tally import Tally
from likewise.runtime.log import logger
from likewise.values.losses import Loss


class Accounts:
    """Of one buffer.

    tell    called with every receipt, in the thread that judges; without it receipts are kept
            until they are read
    """

    def __init__(self, answers: Answers, tell: Callable[[Receipt], Any] | None) -> None:
        self.tally = Tally()
        self.answers = answers
        self._tell = tell
        self._told_to_fail = False
        self.queue: BoundedQueue[
            SubmittedDecision
        ]  # whose lock is held while something changes here

    # By whoever submits

    def lost_at_submit(self, number: int, reason: str) -> None:
        """In one step; the caller holds the lock."""
        now = microseconds_now()
        loss = Loss(1, reason, number, number, now, now)
        self.tally = self.tally.with_lost_number(loss, number)

    # By the thread that judges

    def answered(self, entries: Sequence[Waiting], **what: Any) -> None:
        """Decisions that were in hand have verdicts, or rows alone."""
        part = Part.of(entries, microseconds_now(), **what)
        with self.queue.lock:
            self.tally = self.tally.with_answered(len(part))
            self._settled(part)
        self._say(part)

    def refused(self, entry: Waiting, error: Exception) -> None:
        """A decision that was in hand is refused."""
        error.__traceback__ = None  # whose frames would keep the whole batch
        part = Part.of([entry], microseconds_now(), refusal=error)
        with self.queue.lock:
            self.tally = self.tally.with_refused()
            self._settled(part)
        self._say(part)

    def _settled(self, part: Part) -> None:
        self.queue.in_hand -= len(part)
        if self._tell is None:
            self.answers.add(part)

    def _say(self, part: Part) -> None:
        if self._tell is None:
            return
        for receipt in part.receipts():
            try:
                self._tell(receipt)
            except BaseException as error:
                if not self._told_to_fail:
                    logger.warning("on_verdict raises %s; judging goes on", type(error).__name__)
                self._told_to_fail = True

    def lost_in_hand(self, entries: Sequence[Waiting], reason: str) -> None:
        """Decisions that were in hand will not be judged."""
        if not entries:
            return
        now = microseconds_now()
        loss = Loss(len(entries), reason, entries[0][0], entries[-1][0], now, now)
        with self.queue.lock:
            self.tally = self.tally.with_lost(loss)
            self.queue.in_hand -= len(entries)

    def lost(
        self, count: int, reason: str, first: int | None = None, last: int | None = None
    ) -> None:
        """Decisions that were waiting elsewhere cannot be judged any more."""
        now = microseconds_now()
        with self.queue.lock:
            self.tally = self.tally.with_lost(Loss(count, reason, first, last, now, now))

    def take_pending(self) -> tuple[Loss, ...]:
        """Losses that the monitor is to be told of; whoever takes them tells it."""
        if not self.tally.pending:
            return ()
        with self.queue.lock:
            pending = self.tally.pending
            self.tally = self.tally.with_told()
        return pending


def microseconds_now() -> int:
    """Since 1970."""
    return clock.time_ns() // 1000
