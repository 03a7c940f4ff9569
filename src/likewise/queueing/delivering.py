"""Tells a monitor of decisions that waited, in their order, and of losses before them.

A monitor takes a batch whole or refuses it whole. A refused batch is judged in parts
(monitor/bad_rows.py), so that each refused decision is told alone and its neighbours are judged.

With a ledger a batch can be accepted first: it is on disk, in its order, and is judged by
`judge_accepted` when there is time. If somebody else's call has them judged, the ledger is asked
for the verdicts.

If the monitor's disk fails, the call is tried again. The failed commit may have succeeded, so the
monitor's rows are read first.

A monitor behind a service (client/) has rows of others as well, so they say nothing. Its calls have
ids instead: the same call is made again under its id, and the service does it once. If not even the
service can tell whether it was done, the decisions count as lost ("in doubt"), on the safe side.

Invariant: each decision is judged once, or refused, or lost and counted; losses are told before the
decisions that are judged next.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from likewise.errors import BadDecision, BadFile, Forbidden, RepeatedKey, Unreachable
from likewise.monitor.bad_rows import JudgedRows, RejectedRow, isolate_bad_rows
from likewise.monitor.protocol import AnyMonitor, RemoteMonitor
from likewise.queueing.answers import ReceiptLog
from likewise.queueing.bounded_queue import BoundedQueue
from likewise.queueing.receipt import FAILED, IN_DOUBT
from likewise.queueing.waiting_decisions import (
    InputCopier,
    SubmittedDecision,
    WaitingEntry,
    make_arguments,
    split_runs,
)
from likewise.runtime.log import logger
from likewise.verdict.losses import Loss
from likewise.verdict.verdicts import Verdict, Verdicts

STORED = None
"""Stands for verdicts that are not known: the decisions are stored, and then something failed."""
MOST_PER_TRANSACTION = 1 << 15
"""Decisions that a ledger writes as one transaction: no batch is larger, so none is half there."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5  # seconds before a failed disk is tried again
_TEMPORARY_ERRORS = (BadFile, Unreachable, Forbidden)  # the decisions can be told later
_Part = list[WaitingEntry]


class _ForeignError(BadDecision):
    """A decision that made a monitor fail with an error of somebody else's."""

    code = "failed"

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Deliverer:
    """The one that calls the monitor; used by one thread at a time.

    copies      how decisions were copied; vectors are put together as an array
    given_up    whether what is in hand, and cannot be told at once, is to be lost
    """

    def __init__(
        self,
        monitor: AnyMonitor,
        queue: BoundedQueue[SubmittedDecision],
        answers: ReceiptLog,
        *,
        copies: InputCopier,
        given_up: Callable[[], bool],
    ) -> None:
        self._monitor = monitor
        self._remote = monitor.remote
        self._ledger = monitor.accepting
        self._queue = queue
        self._answers = answers
        self._copies = copies
        self._given_up = given_up
        self._request: str | None = None  # the ids of the calls that are made, where calls have ids
        self._loss_request: str | None = None
        self._part: _Part = []  # what the monitor was told last, and how many rows it had before
        self._before = 0
        self._in_doubt: Callable[[_Part], _Part] | None = None  # what to do before anything else
        self._losses: list[Loss] = []  # that are being told
        self._missing_before: int | None = None
        self._wake_calls: SimpleQueue[None] = SimpleQueue()
        self.can_accept = self._ledger is not None and self._ledger.rows_taken > 0
        """Whether decisions can be accepted: into a ledger that has a row."""
        self.failing: str | None = None
        """Why the monitor's disk takes nothing at the moment."""

    def wake(self) -> None:
        """Have it look at once whether to give up."""
        self._wake_calls.put(None)

    def is_over(self) -> bool:
        """Whether nothing more can be judged: it was given up, or the monitor is closed."""
        return self._given_up() or self._monitor.closed

    # Decisions

    def deliver(self, batch: _Part) -> _Part:
        """Have a batch judged; what is left of it if that was given up, else nothing."""
        return self._try_until_over(batch, self._deliver)

    def accept(self, batch: _Part) -> _Part:
        """Have a batch accepted, once at least; what is left of it if that was given up."""
        return self._try_until_over(batch, self._accept, once=True)

    def judge_accepted(self, most: int) -> None:
        """Have the next of the accepted decisions judged; they go on waiting if that fails."""
        try:
            self._judge_accepted(most)
            self.failing = None
        except Exception as error:  # a failed disk, or an index of the user's
            self._note_failure(error)
            self._sleep(_LONGEST_PAUSE)

    def _try_until_over(
        self, rest: _Part, tell: Callable[[_Part], _Part], *, once: bool = False
    ) -> _Part:
        pause = _FIRST_PAUSE
        try:
            while once or (rest and not self.is_over()):
                once = False
                try:
                    rest = tell(rest)
                    self.failing = None
                except _TEMPORARY_ERRORS as error:
                    self._note_failure(error)
                    if self.is_over():
                        break
                    self._sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
        except BaseException:
            self._in_doubt = None
            self._lose(rest, FAILED)
            raise
        return rest

    def _lose(self, entries: _Part, reason: str) -> None:
        with self._queue.lock:
            self._queue.drop_in_hand((entry[0] for entry in entries), reason)

    def _deliver(self, rest: _Part) -> _Part:
        """What is left of it if the monitor was in doubt; else nothing, or BadFile is raised."""
        if self._in_doubt is not None:
            return self._in_doubt(rest)
        self._copies.load_rule()
        self.report_losses()
        for outcome in self._sift(rest, self._observe):
            if isinstance(outcome, RejectedRow):
                self._answer_refused(outcome)
            elif outcome.answer is STORED:
                self._answer_stored(outcome.rows)
            else:
                self._answers.answer(outcome.rows, verdicts=outcome.answer)
                self.can_accept = self._ledger is not None
            del rest[: len(outcome.rows)]
        return rest

    def _sift(
        self, batch: _Part, judge: Callable[[_Part], Any]
    ) -> Iterator[JudgedRows[_Part, Any] | RejectedRow[_Part]]:
        for part in self._copies.read(list(batch)):
            if isinstance(part, tuple):
                yield RejectedRow([part[0]], part[1])
            elif part:
                for run in split_runs(part, vectors=self._copies.vectors):
                    yield from isolate_bad_rows(run, judge)

    def _observe(self, part: _Part) -> Any:
        """The verdicts of decisions that are told together; BadDecision if they are refused."""
        if self._remote is None and len(part) > 1 and self._may_be_stored(part):
            raise BadDecision("they are told one by one.")
        self._request = uuid4().hex
        return self._call(part, self._observe_many, self._after_doubt)

    def _observe_many(self, part: _Part) -> Any:
        given = make_arguments(part, vectors=self._copies.vectors)
        if self._remote is not None:
            return self._remote.observe_many(**given, request=self._request)
        return self._monitor.observe_many(**given, threads=1)

    def _call(
        self, part: _Part, call: Callable[[_Part], Any], after: Callable[[_Part], _Part]
    ) -> Any:
        """Have a part taken; STORED if it is and then something of a user's has failed."""
        self._part = part
        if self._remote is None:
            self._before = self._rows()
        try:
            return call(part)
        except BadDecision:
            raise
        except _TEMPORARY_ERRORS:
            self._in_doubt = after
            raise
        except BaseException as error:  # of a user's index, embedder or label
            self._in_doubt = after
            stored = self._rows() - self._before
            self._in_doubt = None
            if stored == len(part):
                return STORED
            raise _ForeignError(error) from error

    def _rows(self) -> int:
        """Decisions that the monitor has, accepted ones included, which stay accepted."""
        return self._monitor.rows if self._ledger is None else self._ledger.rows_taken

    def _may_be_stored(self, part: _Part) -> bool:
        """Whether a ledger may have one of them already, under its key.

        It would answer that one, and store the others. If the disk fails then, its rows do not
        say how many of the part are stored; so such decisions are told alone.
        """
        if not self._monitor.durable:
            return False
        column = self._monitor.rule.key_column
        keys = [entry[2].key for entry in part]
        if column is not None:
            rows = [entry[2].x for entry in part]
            if not all(isinstance(row, Mapping) for row in rows):
                return True
            keys = [row.get(column) for row in rows]
        given = [key for key in keys if key is not None]
        past = self._monitor.past
        return len(set(given)) < len(given) or any(past.row_of(key) is not None for key in given)

    def _answer_stored(self, part: _Part) -> None:
        """A part is in the rows behind `_before`, whatever has failed since."""
        rows = range(self._before, self._before + len(part))
        verdicts = None
        if self._ledger is not None:
            with suppress(BadFile):
                verdicts = self._ledger.verdicts_of(rows)
        self._answers.answer(part, rows=rows, verdicts=verdicts)

    def _answer_refused(self, outcome: RejectedRow[_Part]) -> None:
        (entry,) = outcome.rows
        error: Any = (
            outcome.error.error if isinstance(outcome.error, _ForeignError) else outcome.error
        )
        if isinstance(error, BadDecision):
            error = error.with_place(None)
        elif not isinstance(error, Exception):  # such as SystemExit
            error = BadDecision(f"judging it raised {type(error).__name__}.")
        self._answers.refuse(entry, error)

    def _after_doubt(self, rest: _Part) -> _Part:
        """See whether what was told last is stored, though the disk failed."""
        if self._remote is not None:
            return self._repeat_call(rest)
        stored = max(0, min(self._rows() - self._before, len(self._part)))
        if stored:
            self._answer_stored(rest[:stored])
        self._in_doubt = None
        return rest[stored:]

    def _repeat_call(self, rest: _Part) -> _Part:
        """Make the last call again, under its id."""
        count = len(self._part)
        try:
            verdicts = self._observe_many(self._part)
        except BadDecision:  # which is told with each decision, when they are judged in parts
            self._in_doubt = None
            return rest
        except Unreachable as error:
            if not error.lasting:
                raise
            self._in_doubt = None
            self._lose(rest[:count], IN_DOUBT)
            return rest[count:]
        self._in_doubt = None
        self._answers.answer(rest[:count], verdicts=verdicts)
        return rest[count:]

    # Accepted first, judged later

    def _accept(self, rest: _Part) -> _Part:
        """Accept a batch; a key that the ledger has is answered once all before it are judged."""
        if self._in_doubt is not None:
            return self._in_doubt(rest)
        self.report_losses()
        for outcome in self._sift(rest, self._accept_part):
            if isinstance(outcome, RejectedRow) and isinstance(outcome.error, RepeatedKey):
                return self._deliver_first(rest)
            if isinstance(outcome, RejectedRow):
                self._answer_refused(outcome)
            else:
                first = self._before if outcome.answer is STORED else outcome.answer.start
                rows = range(first, first + len(outcome.rows))
                self._answers.accept(outcome.rows, rows)
            del rest[: len(outcome.rows)]
        return rest

    def _accept_part(self, part: _Part) -> Any:
        return self._call(part, self._accept_many, self._after_doubt_of_accepted)

    def _accept_many(self, part: _Part) -> range:
        assert self._ledger is not None
        return self._ledger.accept(**make_arguments(part, vectors=self._copies.vectors))

    def _after_doubt_of_accepted(self, rest: _Part) -> _Part:
        stored = max(0, min(self._rows() - self._before, len(self._part)))
        self._in_doubt = None
        if stored:
            rows = range(self._before, self._before + stored)
            self._answers.accept(rest[:stored], rows)
        return rest[stored:]

    def _deliver_first(self, rest: _Part) -> _Part:
        """Have the first decision judged after all that were accepted."""
        while len(self._answers.accepted):
            if self.is_over():
                return rest
            self._judge_accepted(MOST_PER_TRANSACTION)
        first = rest[:1]
        left = self._deliver(first)
        return left + rest[1:]

    def _judge_accepted(self, most: int) -> None:
        """Judge the next decisions, and answer all that are judged by now.

        Those that are judged though this has no verdicts of them were judged by somebody else's
        call, or were erased before that.
        """
        ledger, accepted = self._ledger, self._answers.accepted
        assert ledger is not None
        self.report_losses()
        found = None
        if accepted.first.rows is not None:
            found = ledger.judge_accepted(min(most, len(accepted.first)))
        rows = ledger.rows_taken
        judged = rows - ledger.accepted_count
        while len(accepted):
            part = accepted.first
            if part.rows is None:
                self._answers.answer_accepted(1)
                continue
            first, stop = part.rows.start, min(part.rows.stop, judged)
            if first >= stop:
                return
            end = -1 if found is None else found.first_row + len(found)
            if found is not None and found.first_row <= first < end:
                stop = min(stop, end)
                told: Verdicts | Sequence[Verdict | None] = found
                if (found.first_row, end) != (first, stop):
                    told = [found[row - found.first_row] for row in range(first, stop)]
            else:
                if found is not None and first < found.first_row:
                    stop = min(stop, found.first_row)
                told = ledger.verdicts_of(range(first, stop))
            self._answers.answer_accepted(stop - first, told)

    # Losses

    def report_losses(self) -> None:
        """Tell what is pending, one after the other."""
        if self._queue.losses.unreported:
            with self._queue.lock:
                self._losses += self._queue.take_unreported()
        while self._losses:
            loss = self._losses[0]
            if self._remote is not None:
                self._report_loss_to_service(self._remote, loss)
                del self._losses[0]
                continue
            missing = self._monitor.missing
            if self._missing_before is None:
                self._missing_before = missing
            if missing < self._missing_before + loss.count:  # else an earlier try came through
                self._monitor.record_loss(loss.count, loss.reason, **_times_of(loss))
            self._missing_before = None
            del self._losses[0]

    def _report_loss_to_service(self, remote: RemoteMonitor, loss: Loss) -> None:
        """Under an id; if nobody can tell whether it was told, it is told again: better twice."""
        self._loss_request = self._loss_request or uuid4().hex
        try:
            remote.record_loss(
                loss.count, loss.reason, **_times_of(loss), request=self._loss_request
            )
        except Unreachable as error:
            if error.lasting:
                self._loss_request = None
            raise
        self._loss_request = None

    def try_report_losses(self) -> bool:
        """Tell what is pending, if that can be done now; whether nothing is pending any more."""
        try:
            self.report_losses()
        except Exception as error:
            lost = sum(one.count for one in self._losses)
            logger.error("%d lost decisions could not be told: %s", lost, type(error).__name__)
        return not self._losses

    def record_end(self, name: str) -> None:
        """Have a ledger chain that nothing waits any more, unless a loss could not be told."""
        if not self.try_report_losses() or self._ledger is None:
            return
        try:
            self._ledger.end_buffer(name)
        except Exception as error:
            logger.warning("a ledger does not know of a buffer's end: %s", type(error).__name__)

    # Failures

    def _note_failure(self, error: Exception) -> None:
        if self.failing is None:
            kind = type(error).__name__
            logger.warning("a buffer cannot tell its monitor: %s; trying again", kind)
        self.failing = str(error)

    def _sleep(self, seconds: float) -> None:
        with suppress(Empty):
            self._wake_calls.get(timeout=seconds)


def _times_of(loss: Loss) -> dict[str, Any]:
    """What a monitor is told of a loss beside its count and reason."""
    since, until = (None if one is None else one / 1e6 for one in (loss.since, loss.until))
    return {"first": loss.first, "last": loss.last, "since": since, "until": until}
