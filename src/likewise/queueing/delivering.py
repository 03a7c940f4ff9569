"""Deliver waiting decisions to a monitor, in order, after reporting losses (see `Deliverer`).

Invariant: each decision is judged once, or refused, or lost and counted; losses are reported before
the next decisions are judged.
Not here: when a batch is taken, and which (buffer.py, waiting_decisions.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from likewise.errors import BadDecision, BadFile, Forbidden, RepeatedKey, Unreachable
from likewise.monitor.batching import JudgedRows, RejectedRow, isolate_bad_rows
from likewise.monitor.protocol import AnyMonitor
from likewise.queueing.answers import FAILED, IN_DOUBT, ReceiptLog
from likewise.queueing.bounded_queue import BoundedQueue
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
"""Stands for unknown verdicts: the decisions are stored, and then something failed."""
MOST_PER_TRANSACTION = 1 << 15
"""How many decisions a ledger writes as one transaction. No batch is larger, so none is stored in
part."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5  # seconds before a failed call is tried again
_TEMPORARY_ERRORS = (BadFile, Unreachable, Forbidden)  # the decisions can be delivered later
_Part = list[WaitingEntry]


class _ForeignError(BadDecision):
    """Wraps an error that a user's index, embedder or label raised about a decision."""

    code = "failed"

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Deliverer:
    """Calls the monitor; used by one thread at a time.

    copies      how decisions were copied; vectors are put together as an array
    given_up    whether decisions that cannot be delivered at once are to be lost

    A monitor takes a batch whole or refuses it whole. A refused batch is judged in parts
    (monitor/batching.py), so that each refused decision is refused alone and the others are judged.

    With a ledger a batch can be accepted first: it is on disk, in its order, and is judged by
    `judge_accepted` when there is time. If somebody else's call had it judged, the ledger is asked
    for the verdicts.

    If the monitor's disk fails, the call is tried again. The failed commit may have succeeded, so
    the monitor's rows are read first.

    A monitor behind a service (client/) has rows of others as well, so they do not help. Its calls
    have ids instead: the same call is made again under its id, and the service does it once. If not
    even the service can tell whether it was done, the decisions count as lost ("in doubt").
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
        self._ledger = None if monitor.core is None else monitor.core.ledger
        self._queue = queue
        self._answers = answers
        self._copies = copies
        self._given_up = given_up
        self._request: str | None = None  # the id of the last call, if calls have ids
        self._loss_request: str | None = None  # likewise, while a loss is being reported
        self._part: _Part = []  # what the last call was about, and the monitor's rows before it
        self._before = 0
        self._in_doubt: Callable[[_Part], _Part] | None = None  # resolves a call that failed
        self._losses: list[Loss] = []  # losses that are being reported
        self._missing_before: int | None = None
        self._wake_calls: SimpleQueue[None] = SimpleQueue()
        self.can_accept = self._ledger is not None and self._ledger.rows_taken > 0
        """Whether decisions can be accepted: into a ledger that has a row."""
        self.failing: str | None = None
        """Why the monitor takes nothing at the moment."""

    def wake(self) -> None:
        """End a pause, to check at once whether to give up."""
        self._wake_calls.put(None)

    def is_over(self) -> bool:
        """Whether nothing more can be judged: it was given up, or the monitor is closed."""
        return self._given_up() or self._monitor.closed

    # Decisions

    def deliver(self, batch: _Part) -> _Part:
        """Have a batch judged; return what is left of it if that was given up."""
        return self._try_until_over(batch, self._deliver)

    def accept(self, batch: _Part) -> _Part:
        """Have a batch accepted, trying at least once; return what is left if that was given up."""
        return self._try_until_over(batch, self._accept, once=True)

    def judge_accepted(self, most: int) -> None:
        """Judge the next accepted decisions; they go on waiting if that fails."""
        try:
            self._judge_accepted(most)
            self.failing = None
        except Exception as error:  # a failed disk, or an index of the user's
            self._note_failure(error)
            self._sleep(_LONGEST_PAUSE)

    def _try_until_over(
        self, rest: _Part, step: Callable[[_Part], _Part], *, once: bool = False
    ) -> _Part:
        """Repeat a step while it fails for a time; return what is left of the decisions."""
        pause = _FIRST_PAUSE
        try:
            while once or (rest and not self.is_over()):
                once = False
                try:
                    rest = step(rest)
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
        """Resolve a call in doubt, or have decisions judged; return what is left of them."""
        if self._in_doubt is not None:
            return self._in_doubt(rest)
        self._copies.load_rule()
        self.report_losses()
        for outcome in self._run_in_parts(rest, self._observe):
            if isinstance(outcome, RejectedRow):
                self._answer_refused(outcome)
            elif outcome.answer is STORED:
                self._answer_stored(outcome.rows)
            else:
                verdicts = outcome.answer
                self._answers.answer(outcome.rows, verdicts=verdicts, pairs=verdicts.pairs)
                self.can_accept = self._ledger is not None
            del rest[: len(outcome.rows)]
        return rest

    def _run_in_parts(
        self, batch: _Part, judge: Callable[[_Part], Any]
    ) -> Iterator[JudgedRows[_Part, Any] | RejectedRow[_Part]]:
        """Judge a batch in as few parts as possible; yield each part, or refused decision."""
        for part in self._copies.read(list(batch)):
            if isinstance(part, tuple):
                yield RejectedRow([part[0]], part[1])
            elif part:
                for run in split_runs(part, vectors=self._copies.vectors):
                    yield from isolate_bad_rows(run, judge)

    def _observe(self, part: _Part) -> Any:
        """Have decisions judged together; BadDecision if they are refused."""
        if self._remote is None and len(part) > 1 and self._may_be_stored(part):
            raise BadDecision("they are delivered one by one.")
        self._request = uuid4().hex
        return self._call(part, self._observe_many, self._answer_stored)

    def _observe_many(self, part: _Part) -> Any:
        arguments = make_arguments(part, vectors=self._copies.vectors)
        if self._remote is not None:
            return self._remote.observe_many(**arguments, request=self._request)
        return self._monitor.observe_many(**arguments, threads=1)

    def _call(
        self, part: _Part, call: Callable[[_Part], Any], record_stored: Callable[[_Part], None]
    ) -> Any:
        """Make a call about a part; STORED if the monitor took it and a user's code failed then.

        record_stored: what to do with decisions that turn out to be stored though the call failed
        """
        self._part = part
        resolve_doubt = partial(self._resolve_doubt, record_stored)
        if self._remote is None:
            self._before = self._rows()
        try:
            return call(part)
        except BadDecision:
            raise
        except _TEMPORARY_ERRORS:
            self._in_doubt = resolve_doubt
            raise
        except BaseException as error:  # of a user's index, embedder or label
            self._in_doubt = resolve_doubt
            stored = self._rows() - self._before
            self._in_doubt = None
            if stored == len(part):
                return STORED
            raise _ForeignError(error) from error

    def _rows(self) -> int:
        """Count the decisions of the monitor; accepted ones count, and are not judged for that."""
        return self._monitor.rows if self._ledger is None else self._ledger.rows_taken

    def _may_be_stored(self, part: _Part) -> bool:
        """Whether a ledger may have one of them already, under its key.

        It would answer that one, and store the others. If the disk fails then, its rows do not
        tell how many of the part are stored; so such decisions are delivered one by one.
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
        keys = [key for key in keys if key is not None]
        past = self._monitor.past
        return len(set(keys)) < len(keys) or any(past.row_of(key) is not None for key in keys)

    def _answer_stored(self, part: _Part) -> None:
        """Answer a part that is in the rows from `_before` on, whatever has failed since."""
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

    def _resolve_doubt(self, record_stored: Callable[[_Part], None], rest: _Part) -> _Part:
        """Find out what the last call stored, though it failed; return what is left."""
        if self._remote is not None:
            return self._repeat_call(rest)
        stored = max(0, min(self._rows() - self._before, len(self._part)))
        if stored:
            record_stored(rest[:stored])
        self._in_doubt = None
        return rest[stored:]

    def _repeat_call(self, rest: _Part) -> _Part:
        """Make the last call again, under its id."""
        count = len(self._part)
        try:
            verdicts = self._observe_many(self._part)
        except BadDecision:  # judging them in parts will tell which ones are refused
            self._in_doubt = None
            return rest
        except Unreachable as error:
            if not error.lasting:
                raise
            self._in_doubt = None
            self._lose(rest[:count], IN_DOUBT)
            return rest[count:]
        self._in_doubt = None
        self._answers.answer(rest[:count], verdicts=verdicts, pairs=verdicts.pairs)
        return rest[count:]

    # Accepted first, judged later

    def _accept(self, rest: _Part) -> _Part:
        """Accept a batch; a key that the ledger has is answered after all earlier decisions."""
        if self._in_doubt is not None:
            return self._in_doubt(rest)
        self.report_losses()
        for outcome in self._run_in_parts(rest, self._accept_part):
            if isinstance(outcome, RejectedRow) and isinstance(outcome.error, RepeatedKey):
                return self._deliver_first(rest)
            if isinstance(outcome, RejectedRow):
                self._answer_refused(outcome)
            elif outcome.answer is STORED:
                self._record_accepted(outcome.rows)
            else:
                self._answers.accept(outcome.rows, outcome.answer)
            del rest[: len(outcome.rows)]
        return rest

    def _accept_part(self, part: _Part) -> Any:
        return self._call(part, self._accept_many, self._record_accepted)

    def _accept_many(self, part: _Part) -> range:
        assert self._ledger is not None
        return self._ledger.accept(**make_arguments(part, vectors=self._copies.vectors))

    def _record_accepted(self, part: _Part) -> None:
        """Note that a part is accepted in the rows from `_before` on."""
        self._answers.accept(part, range(self._before, self._before + len(part)))

    def _deliver_first(self, rest: _Part) -> _Part:
        """Have the first decision judged, after all that were accepted."""
        while len(self._answers.accepted):
            if self.is_over():
                return rest
            self._judge_accepted(MOST_PER_TRANSACTION)
        return self._deliver(rest[:1]) + rest[1:]

    def _judge_accepted(self, most: int) -> None:
        """Judge the next decisions, and answer all that are judged by now.

        Some may be judged without a verdict here: somebody else's call had them judged, or they
        were erased before that.
        """
        ledger, accepted = self._ledger, self._answers.accepted
        assert ledger is not None
        self.report_losses()
        found = None
        if accepted.first.rows is not None:
            found = ledger.judge_accepted(min(most, len(accepted.first)))
        judged = ledger.rows_taken - ledger.accepted_count
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
                verdicts: Verdicts | Sequence[Verdict | None] = found
                if (found.first_row, end) != (first, stop):
                    verdicts = [found[row - found.first_row] for row in range(first, stop)]
            else:
                if found is not None and first < found.first_row:
                    stop = min(stop, found.first_row)
                verdicts = ledger.verdicts_of(range(first, stop))
            self._answers.answer_accepted(stop - first, verdicts)

    # Losses

    def report_losses(self) -> None:
        """Report all losses to the monitor, one after the other."""
        if self._queue.losses.unreported:
            with self._queue.lock:
                self._losses += self._queue.take_unreported()
        while self._losses:
            self._report_loss(self._losses[0])
            del self._losses[0]

    def _report_loss(self, loss: Loss) -> None:
        """Report a loss once; if a service cannot tell whether it was reported, perhaps twice."""
        since, until = (None if one is None else one / 1e6 for one in (loss.since, loss.until))
        details: dict[str, Any] = {"first": loss.first, "last": loss.last}
        details |= {"since": since, "until": until}
        if self._remote is None:
            missing = self._monitor.missing_decisions
            if self._missing_before is None:
                self._missing_before = missing
            if missing < self._missing_before + loss.count:  # else an earlier try succeeded
                self._monitor.record_loss(loss.count, loss.reason, **details)
            self._missing_before = None
            return
        request = self._loss_request = self._loss_request or uuid4().hex
        try:
            self._remote.record_loss(loss.count, loss.reason, **details, request=request)
        except Unreachable as error:
            if error.lasting:
                self._loss_request = None
            raise
        self._loss_request = None

    def try_report_losses(self) -> bool:
        """Report all losses if that is possible now; return whether none is left."""
        try:
            self.report_losses()
        except Exception as error:
            lost = sum(one.count for one in self._losses)
            logger.error("%d lost decisions could not be told: %s", lost, type(error).__name__)
        return not self._losses

    def record_end(self, name: str) -> None:
        """Record in a ledger that nothing waits any more, unless a loss could not be reported."""
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
