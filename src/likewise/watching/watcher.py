"""Watches answers: tells a monitor of each, and reacts as the user chose.

Whoever calls the model asks `given` before the call and says `answered` after it, with the model's
answer in hand. So the answer is there before anything can go wrong here.

Who judges: the caller, where that takes no time to speak of (a history in memory whose lock is
free, and which took less than a tenth of the bound for as many rows before); else a thread, behind
a queue (background.py), for whose verdict the caller waits `wait_seconds` at most; a buffer before
a service (delivery.py). In the background nobody waits.

Invariant: unless the user chose "raise", no Exception leaves a watcher, whatever fails: the input,
the output, the key, the monitor, the disk, the user's own callables. Each failure is counted and
kept. (Warnings that the user has turned into errors are raised: that is a choice, too.)
Cost: a copy of the input, `observe`, and some microseconds; in another thread, a copy of the output
and two changes of threads as well. The latest `keep` violations (with them decisions that
raise a burst's alarm) and failures are kept, nothing else.
"""

import logging
import sys
from collections import deque
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

from likewise.errors import (
    BadRule,
    FailureWarning,
    HintWarning,
    LikewiseError,
    RepeatedKey,
    Unreachable,
    Violation,
    ViolationWarning,
)
from likewise.queueing.receipt import Receipt
from likewise.rule.rule import Rule
from likewise.runtime.forking import register_after_fork
from likewise.runtime.log import logger
from likewise.tables.copy_input import copy_input
from likewise.watching.background import Backlog, size_of
from likewise.watching.caller_warning import CallerLine, find_caller_line, warn
from likewise.watching.delivery import DecisionDelivery, Ticket, VerdictWaiter
from likewise.watching.judge_call import (
    NOTHING_FOUND,
    REPEATED,
    CallJudge,
    CallOutcome,
    normalize_output,
    outcome_of,
)
from likewise.watching.label_warning import LabelHints
from likewise.watching.settings import (
    CAPACITY,
    MAX_BYTES,
    WatchSettings,
    check_key_column,
    describe_policy,
    resolve_target,
)
from likewise.watching.watch_records import (
    Counts,
    Failure,
    Flagged,
    HandledErrors,
    describe_flagged,
    describe_rows,
    drop_frames,
    failure_of,
)

_CLOSE_SECONDS = 60.0  # that the end of a watch waits for what is judged in its thread
_BATCH_CALLS = 256  # calls that the thread judges in one transaction, at most
_CALLER_SHARE = 0.1  # of the bound; what probably takes no longer is judged by the caller
_INITIAL_CALLER_ROWS = 100.0  # that a caller judges while nobody knows how long they take

CapturedInput: TypeAlias = tuple[Any, Any, tuple[Exception, BaseException | None] | None]
"""What a call was given: the input and the key; or why they could not be had, and what the caller
was handling then."""


class _Call(NamedTuple):
    """A call that something is to be said about."""

    number: int
    handled: HandledErrors
    line: CallerLine | None
    """Where it came from, if it is over by now."""


class _Piece(NamedTuple):
    """A call that the thread is to judge."""

    ticket: Ticket
    given: CapturedInput
    z: Any
    rows: int


class Watcher:
    """Tells a monitor of decisions. Methods may be called from several threads."""

    def __init__(
        self,
        rule_or_monitor: Any,
        *,
        name: str,
        batched: bool,
        choices: WatchSettings,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.on_violation = choices.on_violation
        self.on_failure = choices.on_failure
        self.name = name
        self.batched = batched
        self.closed = False
        told, self.monitor = resolve_target(rule_or_monitor, settings or {})
        self.owns_monitor = told.rule is not None  # the monitor; else it is the user's
        self.hint: str | None = None
        """Warned of once, at the next answer."""
        self._input, self._output, self._key = choices.input, choices.output, choices.key
        self._wait_seconds, self._when_unknown = choices.wait_seconds, choices.when_unknown
        self._may_raise = "raise" in (self.on_violation, self.on_failure)
        if choices.background:
            self._wait_seconds = 0.0
        self._is_table = True
        self._labels: LabelHints | None = None
        self._backlog: Backlog[_Piece] | None = None
        self._waiter = VerdictWaiter()
        self._quick_seconds = _CALLER_SHARE * self._wait_seconds
        self._caller_rows = _INITIAL_CALLER_ROWS
        """Rows that take a caller no longer than its share of the bound, as the last ones did."""
        self._delivery: DecisionDelivery | None = None
        self._queue_calls = choices.queue_calls or CAPACITY
        self._rule_known = False
        if told.buffer is not None or self.monitor.remote is not None:
            if told.buffer is not None and self.on_violation != "record":
                raise BadRule(
                    f"on_violation is {describe_policy(self.on_violation)}, but the verdicts"
                    " of a buffer go"
                    " to its on_verdict, or to results(). Leave it out, or give a monitor instead"
                    " of a buffer.",
                    setting="on_violation",
                )
            self._delivery = DecisionDelivery(
                self.monitor, told.buffer, self._queue_calls, self._handle_receipt
            )
            self._read_rule(self._delivery.rule)
        else:
            if self._key is not None:
                check_key_column(self.monitor.rule)
            all_wanted = self.on_violation == "raise" or callable(self.on_violation)
            self._call_judge = CallJudge(
                self.monitor,
                batched=batched,
                skip=choices.on_bad_row == "skip",
                keep=None if all_wanted else choices.keep,
            )
            self._judge = self._call_judge.judge
            self._read_rule(self.monitor.rule)
        self._violations: deque[Flagged] = deque(maxlen=choices.keep)
        self._failures: deque[Failure] = deque(maxlen=choices.keep)
        self._calls = 0
        self._totals: tuple[int, ...] = (0,) * 7  # the fields of Counts, in their order
        self._dropped_reported = 0  # of the dropped, those that the monitor was told of
        self._lock = Lock()
        self._warned: dict[Any, Any] = {}
        self._logged: set[type[Exception]] = set()
        logger.debug("%s: watched with a %s", name, type(self.monitor).__name__)
        register_after_fork(self)

    def _after_fork(self) -> None:
        self._lock = Lock()

    def _read_rule(self, rule: Rule | None) -> None:
        """Look at the rule, when it is known: a service may be away."""
        if rule is not None and not self._rule_known:
            self._rule_known = True
            self._is_table = rule.features is not None
            self._labels = LabelHints() if rule.output == "label" else None
            if self._key is not None and self._delivery is not None:
                check_key_column(rule)

    @property
    def output(self) -> str:
        """The kind of output of the rule; "label" while the rule is not known."""
        rule = self.monitor.rule if self._delivery is None else self._delivery.rule
        return "label" if rule is None else rule.output

    # Around a call

    def capture_input(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CapturedInput:
        """The input and the key, before the model can change them."""
        handled = sys.exception()
        try:
            if self._input is not None:
                x = self._input(*args, **kwargs)
            elif args or kwargs:
                x = args[0] if args else next(iter(kwargs.values()))
            else:
                raise TypeError(
                    f"{self.name} was called without arguments, so there is no input; say with"
                    " input= where it comes from"
                )
            key = None if self._key is None else self._key(*args, **kwargs)
            return copy_input(x, self._is_table), key, None
        except Exception as error:
            return None, None, (error, handled)

    def observe_answer(self, given: CapturedInput, answer: Any) -> None:
        """Compare the decision with the past, remember it, and react; now or in the background."""
        if self.closed:
            return
        if self.hint is not None:
            self._warn_hint(None)
        if self._delivery is not None:
            self._deliver(self._delivery, given, answer, sys.exception())
            return
        handled = sys.exception()
        if not (self._wait_seconds and self._judge_here(given, answer, handled)):
            self._judge_in_thread(given, answer, handled)

    # A monitor in this process

    def _judge_here(self, given: CapturedInput, answer: Any, handled: BaseException | None) -> bool:
        """Judge a call, if it takes no time to speak of and nothing waits; whether it was."""
        turn, backlog, rows = self.monitor.call_lock, self._backlog, 1
        x, key, missing = given
        if self.batched and missing is None and hasattr(x, "__len__"):
            rows = len(x)
        if (
            turn is None
            or rows > self._caller_rows
            or (backlog is not None and backlog.waiting_count)
        ):
            return False
        if missing is not None:
            error, earlier = missing
            self._apply_failure_policy(
                _Call(self._next_call(), (earlier, handled), None), (None, error)
            )
            return True
        try:
            z = self._extract_output(answer)
            begin = perf_counter()
            judged = self._judge_if_free(turn, x, z, key, answer)
            if judged is None:
                return False
            self._caller_rows = self._quick_seconds * rows / (perf_counter() - begin)
        except Exception as failed:
            self._apply_failure_policy(_Call(self._next_call(), (handled,), None), (None, failed))
            return True
        with self._lock:
            self._calls += 1
            number = self._calls
            self._count_outcome(judged)
        if self._labels is not None:
            self._check_labels(self._labels, z, None)
        if judged is not NOTHING_FOUND:
            self._react(_Call(number, (handled,), None), judged, answer)
        return True

    def _judge_if_free(
        self, turn: Any, x: Any, z: Any, key: Any, answer: Any
    ) -> CallOutcome | None:
        """Judge a call if the monitor is free; None if another thread uses it.

        turn    its lock, a threading.RLock
        """
        if turn._is_owned():  # the monitor refuses a call out of another
            return self._judge(x, z, key, answer)
        try:
            if not turn.acquire(blocking=False):
                return None
        except BaseException:  # a signal, which may have come when the lock was taken
            if turn._is_owned():
                turn.release()
            raise
        try:
            return self._judge(x, z, key, answer)
        finally:
            turn.release()

    def _judge_in_thread(
        self, given: CapturedInput, answer: Any, handled: BaseException | None
    ) -> None:
        """Have a call judged in the thread, as it is now; wait for what comes out, for a moment."""
        z: Any = None
        if given[2] is None:
            try:
                z = copy_input(self._extract_output(answer))
            except Exception as error:
                given = None, None, (error, handled)
        missing, line = given[2], find_caller_line()
        earlier = () if missing is None else (missing[1],)
        ticket = Ticket(
            _Call(self._next_call(), (*earlier, handled), line), answer, batched=self.batched
        )
        rows = len(z) if self.batched and hasattr(z, "__len__") else 1
        backlog = self._backlog or self._new_backlog()
        waits = self._wait_seconds > 0 and not backlog.is_mine
        if waits:
            ticket.outcomes = []
        ticket.submitted = 1
        lost = 0
        if not backlog.put(_Piece(ticket, given, z, rows), size_of(given[0]) + size_of(z)):
            ticket.submitted, lost = 0, rows
            self._record_full_queue(ticket, lost, "calls wait to be judged", "monitor")
        elif self._labels is not None and missing is None:
            self._check_labels(self._labels, z, line)
        if waits:
            self._wait_and_react(self._waiter, ticket, lost, rows)
        elif ticket.failed:
            self._apply_failure_policy(ticket.call, *ticket.failed)

    def _new_backlog(self) -> Backlog[_Piece]:
        """The queue and its thread, made when they are first needed."""
        with self._lock:
            if self._backlog is None:
                backlog = Backlog(
                    self._judge_pieces,
                    most=self._queue_calls,
                    most_bytes=MAX_BYTES,
                    batch=_BATCH_CALLS,
                )
                if self.monitor.accepting is not None:
                    self.monitor.accepting.drain_before_close(backlog.drain)
                self._backlog = backlog
            return self._backlog

    def _judge_pieces(self, pieces: list[_Piece]) -> None:
        """Judge calls, in the thread."""
        self._report_dropped()
        judged = self._call_judge.judge_each(
            [
                (one.given[0], one.z, one.given[1], one.ticket.answer)
                for one in pieces
                if one.given[2] is None
            ]
        )
        for ticket, given, _, rows in pieces:
            begin, missing = perf_counter(), given[2]
            found = next(judged) if missing is None else missing[0]
            self._caller_rows = self._quick_seconds * rows / max(1e-9, perf_counter() - begin)
            if isinstance(found, Exception):
                found = CallOutcome(failed=[(None, found)])
            try:
                self._handle_outcome(ticket, found)
            except BaseException as error:  # such as SystemExit of the user's own callable
                logger.error("%s goes on after %s", self.name, type(error).__name__)
            finally:
                self._waiter.notify(ticket)

    # Counting

    def _count_outcome(self, judged: CallOutcome) -> None:
        """In one step: an interruption leaves all of it, or nothing. The caller has the lock."""
        decisions, violations, failures, alarms, repeated, *others = self._totals
        if judged is NOTHING_FOUND:
            self._totals = (decisions + 1, violations, failures, alarms, repeated, *others)
            return
        self._violations.extend(judged.flagged)
        self._totals = (
            decisions + judged.decisions,
            violations + judged.violations,
            failures,
            alarms + judged.alarms,
            repeated + judged.repeated,
            *others,
        )

    def _add_lost(self, dropped: int = 0, unknown: int = 0) -> None:
        with self._lock:
            *others, before, unknown_before = self._totals
            self._totals = (*others, before + dropped, unknown_before + unknown)

    # Through a buffer

    def _deliver(
        self,
        delivery: DecisionDelivery,
        given: CapturedInput,
        answer: Any,
        handled: BaseException | None,
    ) -> None:
        """Submit the decisions of a call; wait for their verdicts if something may be raised."""
        x, key, missing = given
        line = find_caller_line()
        if missing is not None:
            error, earlier = missing
            self._apply_failure_policy(
                _Call(self._next_call(), (earlier, handled), line), (None, error)
            )
            return
        call = _Call(self._next_call(), (handled,), line)
        ticket = Ticket(call, answer, self.batched)
        if self._may_raise:
            ticket.outcomes = []
        try:
            self._read_rule(delivery.rule)
            z = copy_input(self._extract_output(answer))
            lost = delivery.submit(ticket, x, z, key)
        except Exception as failed:
            self._apply_failure_policy(call, (None, failed))
            return
        if self._labels is not None:
            self._check_labels(self._labels, z, line)
        if lost:
            self._record_full_queue(ticket, lost, "decisions wait for the service", "service")
        if self._may_raise:
            self._wait_and_react(delivery.waiter, ticket, lost)
        elif ticket.failed:
            self._apply_failure_policy(call, *ticket.failed)

    def _record_full_queue(self, ticket: Ticket, lost: int, what: str, who: str) -> None:
        self._add_lost(dropped=lost)
        full = LikewiseError(
            f"the queue is full: {self._queue_calls:,} {what}, or fewer that take much memory. What"
            f" comes now is not judged, and counted as dropped; the {who} is told. Make fewer"
            " calls, or more room: queue_calls="
        )
        ticket.failed.append((None, full))

    def _wait_and_react(
        self, waiter: VerdictWaiter, ticket: Ticket, lost: int, each: int = 1
    ) -> None:
        """Wait for what comes out of a call, and react to it in the thread of the caller.

        each    decisions that come together
        """
        try:
            unknown = lost + each * waiter.wait(ticket, self._wait_seconds)
        except BaseException:
            for place, error in self._take_outcomes(ticket).failed:
                self._record_failure(ticket.call, error, place)
            raise
        judged = self._take_outcomes(ticket)
        if unknown and self._may_raise:
            self._add_lost(unknown=unknown)
        self._react(ticket.call, judged, ticket.answer)
        if unknown and self._may_raise and self._when_unknown == "raise":
            raise Unreachable(
                f"{self.name} answered, but the verdict did not come within"
                f" {self._wait_seconds:g} s (when_unknown='raise').",
                in_doubt=True,
            )

    def _take_outcomes(self, ticket: Ticket) -> CallOutcome:
        """What has come out of a call; what comes from here on, nobody waits for."""
        with self._lock:
            outcomes, ticket.outcomes = ticket.outcomes or [], None
        return CallOutcome(
            flagged_count=sum(one.flagged_count for one in outcomes),
            flagged=[each for one in outcomes for each in one.flagged],
            repeated=sum(one.repeated for one in outcomes),
            failed=[*ticket.failed, *(each for one in outcomes for each in one.failed)],
        )

    def _handle_receipt(
        self, ticket: Ticket, place: int | None, output: Any, receipt: Receipt | None
    ) -> None:
        """Count what the service answered to one decision, in the thread of the buffer."""
        if receipt is None:
            self._add_lost(dropped=1)
            return
        if isinstance(receipt.refusal, RepeatedKey):
            judged = REPEATED
        elif receipt.refusal is not None:
            judged = CallOutcome(failed=[(place, receipt.refusal)])
        elif receipt.verdict is None:
            judged = NOTHING_FOUND
        else:
            judged = outcome_of(receipt.verdict, output)
        self._handle_outcome(ticket, judged)

    def _handle_outcome(self, ticket: Ticket, judged: CallOutcome) -> None:
        """Count what came out, in a thread; react to it there if the caller does not wait."""
        with self._lock:
            self._count_outcome(judged)
            waited = ticket.outcomes
            if waited is not None:
                waited.append(judged)
        if waited is not None or judged is NOTHING_FOUND:
            return
        if not self._may_raise:
            self._react(ticket.call, judged, ticket.answer)
            return
        # Too late for whoever called: nothing can be raised any more.
        if judged.flagged and self.on_violation != "raise":
            self._apply_violation_policy(ticket.call, judged, ticket.answer)
        for place_there, error in judged.failed:
            if self.on_failure == "raise":
                self._record_failure(ticket.call, error, place_there)
            else:
                self._apply_failure_policy(ticket.call, (place_there, error))

    def _report_dropped(self) -> None:
        """Tell the monitor what the queue had no room for, before it judges anything further."""
        dropped = self._totals[5] - self._dropped_reported
        if dropped:
            try:
                self.monitor.record_loss(dropped, "full")
                self._dropped_reported += dropped
            except Exception as error:
                self._apply_failure_policy(_Call(self._next_call(), (), None), (None, error))

    def _extract_output(self, answer: Any) -> Any:
        """The output, from what the model answered."""
        return normalize_output(answer if self._output is None else self._output(answer))

    def _next_call(self) -> int:
        with self._lock:
            self._calls += 1
            return self._calls

    # Hints

    def _check_labels(self, labels: LabelHints, z: Any, line: CallerLine | None) -> None:
        """Look at the first labels; hint at numbers if they hardly repeat."""
        if labels.hardly_repeat(z if self.batched else (z,)):
            self.hint = (
                f"{self.name} is watched by a rule about labels, but its outputs are numbers that"
                " hardly repeat, so that almost any two of them differ. For numbers, say"
                ' output="number" and delta in the rule.'
            )
        if labels.done:
            self._labels = None
        if self.hint is not None:
            self._warn_hint(line)

    def _warn_hint(self, line: CallerLine | None) -> None:
        text, self.hint = self.hint, None
        if text is not None:
            logger.warning("%s", text)
            warn(HintWarning(text), {}, line)

    # Reacting

    def _react(self, call: _Call, judged: CallOutcome, answer: Any) -> None:
        try:
            if judged.repeated:
                logger.debug("%s: %d repeated keys", self.name, judged.repeated)
            if judged.flagged:
                if logger.isEnabledFor(logging.INFO):
                    text = describe_rows(judged.flagged, judged.flagged_count)
                    logger.info("%s: %s", self.name, text)
                self._apply_violation_policy(call, judged, answer)
        finally:
            if judged.failed:
                self._apply_failure_policy(call, *judged.failed)

    def _apply_violation_policy(self, call: _Call, judged: CallOutcome, answer: Any) -> None:
        """Do what the user chose for violations."""
        policy, flagged, count = self.on_violation, judged.flagged, judged.flagged_count
        if policy == "warn":
            warn(ViolationWarning(describe_flagged(self.name, flagged, count)), {}, call.line)
        elif policy == "raise":
            text = f"{describe_flagged(self.name, flagged, count)}. The answer is in .answer."
            raise Violation(text, tuple(one.verdict for one in flagged), answer)
        elif callable(policy):
            failed = []
            for one in flagged:  # each is told, whatever the one before it did
                try:
                    policy(one)
                except Exception as error:
                    failed.append((None, error))
            if failed:
                self._apply_failure_policy(call, *failed)

    def _apply_failure_policy(self, call: _Call, *failed: tuple[int | None, Exception]) -> None:
        """Do what the user chose for failures; each has a place in the batch, or None."""
        failures = [self._record_failure(call, error, place) for place, error in failed]
        policy = self.on_failure
        if policy == "raise":  # the first; the others are kept
            for further in failures[1:]:
                drop_frames(further.error, call.handled)
            first = failures[0]
            place = "" if first.place is None else f", row {first.place} of its batch"
            first.error.add_note(
                f"(while watching {self.name}{place}, which had answered; on_failure='raise')"
            )
            raise first.error
        for failure in failures:
            drop_frames(failure.error, call.handled)
        if callable(policy):
            for failure in failures:
                try:
                    policy(failure)
                except Exception as another:
                    second = self._record_failure(call, another)
                    drop_frames(another, call.handled)
                    self._warn_failures(call, [second])
        elif policy == "warn":
            self._warn_failures(call, failures)

    def _record_failure(self, call: _Call, error: Exception, place: int | None = None) -> Failure:
        failure = failure_of(call.number, error, place)
        with self._lock:
            decisions, violations, failures, *others = self._totals
            self._totals = (decisions, violations, failures + 1, *others)
            self._failures.append(failure)
            new = type(error) not in self._logged
            self._logged.add(type(error))
        level = logging.WARNING if new else logging.DEBUG
        kind = type(error).__name__
        logger.log(level, "%s: %s was not watched: %s", self.name, failure.where, kind)
        return failure

    def _warn_failures(self, call: _Call, failures: list[Failure]) -> None:
        first = failures[0]
        place = "" if first.place is None else f"row {first.place} of its batch: "
        more = f" (and {len(failures) - 1:,} more{' rows' * bool(place)})" * (len(failures) > 1)
        text = (
            f"{self.name} answered, but was not watched: {place}"
            f"{type(first.error).__name__}: {first.error}{more}"
            f" (see .failures; on_failure={describe_policy(self.on_failure)} chose to go on)"
        )
        warn(FailureWarning(text), self._warned, call.line)

    # Looking

    @property
    def violations(self) -> tuple[Flagged, ...]:
        with self._lock:
            return tuple(self._violations)

    @property
    def failures(self) -> tuple[Failure, ...]:
        with self._lock:
            return tuple(self._failures)

    @property
    def counts(self) -> Counts:
        return Counts(*self._totals)

    @property
    def waiting_count(self) -> int:
        if self._delivery is not None:
            return self._delivery.waiting_count
        return 0 if self._backlog is None else self._backlog.waiting_count

    def flush(self, seconds: float) -> bool:
        if self._delivery is not None:
            return self._delivery.flush(seconds)
        return self._backlog is None or self._backlog.drain(seconds)

    def close(self) -> None:
        """Watch no more; judge what waits; let go of the monitor, if it was made here."""
        if not self.closed:
            self.closed = True
            if self._delivery is not None:
                self._delivery.close()
            elif not self.flush(_CLOSE_SECONDS):
                logger.warning(
                    "%s: closed before %d calls are judged", self.name, self.waiting_count
                )
            logger.info("%s: watched no more, after %s", self.name, self.counts.in_words())
        if self.owns_monitor:
            self.monitor.close()

    def __str__(self) -> str:
        policies = (
            f"on_violation={describe_policy(self.on_violation)},"
            f" on_failure={describe_policy(self.on_failure)}"
        )
        waiting = f", {self.waiting_count:,} calls waiting" * (self.waiting_count > 0)
        return f"{policies}: {self.counts.in_words()}{waiting}{', closed' * self.closed}"
