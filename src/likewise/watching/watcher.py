"""Tells a monitor of each answer of a model, and reacts as the user chose.

The caller judges if that takes a tenth of its time limit at most and the monitor is free; else a
thread does (delivery.py), for which it waits `wait_seconds`; or a service (delivery.py).
Invariant: unless the user chose "raise", no Exception leaves a watcher, except warnings that the
user turned into errors; each is counted and kept. Cost: a copy of the input, `observe` and some
microseconds; in a thread, a copy of the output and two changes of threads as well.
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
from likewise.queueing.answers import Receipt
from likewise.rule.rule import Rule
from likewise.runtime.forking import register_after_fork
from likewise.runtime.log import logger
from likewise.tables.copy_input import copy_input
from likewise.watching.delivery import Backlog, DecisionDelivery, Ticket, VerdictWaiter, size_of
from likewise.watching.judge_call import (
    NOTHING_FOUND,
    REPEATED,
    CallJudge,
    CallOutcome,
    normalize_output,
    outcome_of,
)
from likewise.watching.settings import (
    CAPACITY,
    MAX_BYTES,
    WatchSettings,
    check_key_column,
    describe_policy,
    resolve_target,
)
from likewise.watching.warnings import CallerLine, LabelHints, find_caller_line, warn
from likewise.watching.watch_records import (
    Counts,
    Failure,
    Flagged,
    HandledErrors,
    add_counts,
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
"""The input and the key of a call; or why there are none, and what the caller was handling then."""


class _Call(NamedTuple):
    """Identifies a call in failures and warnings."""

    number: int
    handled: HandledErrors
    line: CallerLine | None
    """Where it came from; None while it is under way, since it can be found then."""


class _Piece(NamedTuple):
    """Holds a call that the thread is to judge."""

    ticket: Ticket
    captured: CapturedInput
    z: Any
    rows: int


class Watcher:
    """Tells a monitor of decisions. Its methods are thread-safe."""

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
        target, self.monitor = resolve_target(rule_or_monitor, settings or {})
        self.owns_monitor = target.rule is not None
        """Whether the monitor was made here; otherwise it is the user's."""
        self.hint: str | None = None
        """A warning that is given once, at the next answer."""
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
        if target.buffer is not None or self.monitor.remote is not None:
            if target.buffer is not None and self.on_violation != "record":
                raise BadRule(
                    f"on_violation is {describe_policy(self.on_violation)}, but the verdicts of a"
                    " buffer go to its on_verdict, or to results(). Leave it out, or give a monitor"
                    " instead of a buffer.",
                    setting="on_violation",
                )
            self._delivery = DecisionDelivery(
                self.monitor, target.buffer, self._queue_calls, self._handle_receipt
            )
            self._read_rule(self._delivery.rule)
        else:
            if self._key is not None:
                check_key_column(self.monitor.rule)
            keeps_all = self.on_violation == "raise" or callable(self.on_violation)
            self._call_judge = CallJudge(
                self.monitor,
                batched=batched,
                skip=choices.on_bad_row == "skip",
                keep=None if keeps_all else choices.keep,
            )
            self._judge = self._call_judge.judge
            self._read_rule(self.monitor.rule)
        self._violations: deque[Flagged] = deque(maxlen=choices.keep)
        self._failures: deque[Failure] = deque(maxlen=choices.keep)
        self._calls = 0
        self._totals = Counts(0, 0, 0)
        self._uneventful = 0  # decisions beside these totals that contradict nothing
        self._dropped_reported = 0  # how many of the dropped the monitor was told of
        self._lock = Lock()
        self._warned: dict[Any, Any] = {}
        self._logged: set[type[Exception]] = set()
        logger.debug("%s: watched with a %s", name, type(self.monitor).__name__)
        register_after_fork(self)

    def _after_fork(self) -> None:
        self._lock = Lock()

    def _read_rule(self, rule: Rule | None) -> None:
        """Read the rule as soon as it is known: a service may be away at first."""
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
        """Copy the input and the key before the model can change them."""
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

    def observe_answer(self, captured: CapturedInput, answer: Any) -> None:
        """Compare the decision with the past, remember it, and react; now or in the background."""
        if self.closed:
            return
        if self.hint is not None:
            self._warn_hint(None)
        handled, missing = sys.exception(), captured[2]
        if missing is not None and (self._wait_seconds or self._delivery is not None):
            error, earlier = missing
            self._fail_call(error, earlier, handled)
        elif self._delivery is not None:
            self._deliver(self._delivery, captured, answer, handled)
        elif not (self._wait_seconds and self._judge_here(captured, answer, handled)):
            self._judge_in_thread(captured, answer, handled)

    # A monitor in this process

    def _judge_here(
        self, captured: CapturedInput, answer: Any, handled: BaseException | None
    ) -> bool:
        """Judge a call if that is quick and nothing waits; return whether it was judged."""
        core, backlog = self.monitor.core, self._backlog
        lock = None if core is None else core.call_lock
        x, key, _ = captured
        rows = len(x) if self.batched and hasattr(x, "__len__") else 1
        if (
            lock is None
            or rows > self._caller_rows
            or (backlog is not None and backlog.waiting_count)
        ):
            return False
        try:
            z = self._extract_output(answer)
            begin = perf_counter()
            outcome = self._judge_if_free(lock, x, z, key, answer)
            if outcome is None:
                return False
            self._caller_rows = self._quick_seconds * rows / (perf_counter() - begin)
        except Exception as error:
            self._fail_call(error, handled)
            return True
        with self._lock:
            self._calls += 1
            number = self._calls
            self._count_outcome(outcome)
        if self._labels is not None:
            self._check_labels(self._labels, z, None)
        if outcome is not NOTHING_FOUND:
            self._react(_Call(number, (handled,), None), outcome, answer)
        return True

    def _judge_if_free(
        self, lock: Any, x: Any, z: Any, key: Any, answer: Any
    ) -> CallOutcome | None:
        """Judge a call if the monitor is free; return None if another thread uses it.

        lock    the monitor's, a threading.RLock
        """
        if lock._is_owned():  # a call from within another, which the monitor refuses
            return self._judge(x, z, key, answer)
        try:
            if not lock.acquire(blocking=False):
                return None
        except BaseException:  # a signal, which may have come when the lock was taken
            if lock._is_owned():
                lock.release()
            raise
        try:
            return self._judge(x, z, key, answer)
        finally:
            lock.release()

    def _judge_in_thread(
        self, captured: CapturedInput, answer: Any, handled: BaseException | None
    ) -> None:
        """Have the thread judge a call as it is now; wait a moment for the outcome."""
        z: Any = None
        if captured[2] is None:
            try:
                z = copy_input(self._extract_output(answer))
            except Exception as error:
                captured = None, None, (error, handled)
        missing, line = captured[2], find_caller_line()
        earlier = () if missing is None else (missing[1],)
        call = _Call(self._next_call(), (*earlier, handled), line)
        ticket = Ticket(call, answer, batched=self.batched)
        rows = len(z) if self.batched and hasattr(z, "__len__") else 1
        backlog = self._backlog or self._new_backlog()
        waits = self._wait_seconds > 0 and not backlog.is_mine
        if waits:
            ticket.outcomes = []
        ticket.submitted = 1
        lost = 0
        if not backlog.put(_Piece(ticket, captured, z, rows), size_of(captured[0]) + size_of(z)):
            ticket.submitted, lost = 0, rows
            self._record_full_queue(ticket, lost, "calls wait to be judged", "monitor")
        elif self._labels is not None and missing is None:
            self._check_labels(self._labels, z, line)
        if waits:
            self._wait_and_react(self._waiter, ticket, lost, rows)
        elif ticket.failed:
            self._apply_failure_policy(ticket.call, *ticket.failed)

    def _new_backlog(self) -> Backlog[_Piece]:
        """Return the queue and its thread, made when they are first needed."""
        with self._lock:
            if self._backlog is None:
                backlog = Backlog(
                    self._judge_pieces,
                    most=self._queue_calls,
                    most_bytes=MAX_BYTES,
                    batch=_BATCH_CALLS,
                )
                core = self.monitor.core
                if core is not None and core.ledger is not None:
                    core.ledger.drain_before_close(backlog.drain)
                self._backlog = backlog
            return self._backlog

    def _judge_pieces(self, pieces: list[_Piece]) -> None:
        """Judge calls, in the thread."""
        self._report_dropped()
        outcomes = self._call_judge.judge_each(
            [
                (captured[0], z, captured[1], ticket.answer)
                for ticket, captured, z, _ in pieces
                if captured[2] is None
            ]
        )
        for ticket, captured, _, rows in pieces:
            begin, missing = perf_counter(), captured[2]
            outcome = next(outcomes) if missing is None else missing[0]
            self._caller_rows = self._quick_seconds * rows / max(1e-9, perf_counter() - begin)
            if isinstance(outcome, Exception):
                outcome = CallOutcome(failed=[(None, outcome)])
            try:
                self._handle_outcome(ticket, outcome)
            except BaseException as error:  # such as SystemExit of the user's own callable
                logger.error("%s goes on after %s", self.name, type(error).__name__)
            finally:
                self._waiter.notify(ticket)

    # Counting

    def _count_outcome(self, outcome: CallOutcome) -> None:
        """Count an outcome in one step, so that an interruption leaves no part of it.

        The caller has the lock.
        """
        if outcome is NOTHING_FOUND:
            self._uneventful += 1
            return
        self._violations.extend(outcome.flagged)
        self._totals = add_counts(
            self._totals,
            decisions=outcome.decisions,
            violations=outcome.violations,
            alarms=outcome.alarms,
            repeated=outcome.repeated,
        )

    def _add_lost(self, **lost: int) -> None:
        with self._lock:
            self._totals = add_counts(self._totals, **lost)

    # Through a buffer

    def _deliver(
        self,
        delivery: DecisionDelivery,
        captured: CapturedInput,
        answer: Any,
        handled: BaseException | None,
    ) -> None:
        """Submit the decisions of a call; wait for their verdicts if something may be raised."""
        x, key, _ = captured
        line = find_caller_line()
        call = _Call(self._next_call(), (handled,), line)
        ticket = Ticket(call, answer, self.batched)
        if self._may_raise:
            ticket.outcomes = []
        try:
            self._read_rule(delivery.rule)
            z = copy_input(self._extract_output(answer))
            lost = delivery.submit(ticket, x, z, key)
        except Exception as error:
            self._apply_failure_policy(call, (None, error))
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
            " calls, or give more room (queue_calls)."
        )
        ticket.failed.append((None, full))

    def _wait_and_react(
        self, waiter: VerdictWaiter, ticket: Ticket, lost: int, each: int = 1
    ) -> None:
        """Wait for the outcome of a call, and react to it in the thread of the caller.

        each    how many decisions get their verdicts together
        """
        try:
            unknown = lost + each * waiter.wait(ticket, self._wait_seconds)
        except BaseException:
            for place, error in self._take_outcomes(ticket).failed:
                self._record_failure(ticket.call, error, place)
            raise
        outcome = self._take_outcomes(ticket)
        if unknown and self._may_raise:
            self._add_lost(unknown=unknown)
        self._react(ticket.call, outcome, ticket.answer)
        if unknown and self._may_raise and self._when_unknown == "raise":
            raise Unreachable(
                f"{self.name} answered, but the verdict did not come within"
                f" {self._wait_seconds:g} s (when_unknown='raise').",
                in_doubt=True,
            )

    def _take_outcomes(self, ticket: Ticket) -> CallOutcome:
        """Return the outcomes so far as one; from here on nobody waits for this call."""
        with self._lock:
            outcomes, ticket.outcomes = ticket.outcomes or [], None
        return CallOutcome(
            flagged_count=sum(one.flagged_count for one in outcomes),
            flagged=[flagged for one in outcomes for flagged in one.flagged],
            repeated=sum(one.repeated for one in outcomes),
            failed=[*ticket.failed, *(failed for one in outcomes for failed in one.failed)],
        )

    def _handle_receipt(
        self, ticket: Ticket, place: int | None, output: Any, receipt: Receipt | None
    ) -> None:
        """Count what the service answered to one decision, in the thread of the buffer."""
        if receipt is None:
            self._add_lost(dropped=1)
            return
        if isinstance(receipt.refusal, RepeatedKey):
            outcome = REPEATED
        elif receipt.refusal is not None:
            outcome = CallOutcome(failed=[(place, receipt.refusal)])
        elif receipt.verdict is None:
            outcome = NOTHING_FOUND
        else:
            outcome = outcome_of(receipt.verdict, output)
        self._handle_outcome(ticket, outcome)

    def _handle_outcome(self, ticket: Ticket, outcome: CallOutcome) -> None:
        """Count an outcome, in a thread; react to it there if the caller does not wait."""
        with self._lock:
            self._count_outcome(outcome)
            outcomes = ticket.outcomes
            if outcomes is not None:
                outcomes.append(outcome)
        if outcomes is not None or outcome is NOTHING_FOUND:
            return
        if not self._may_raise:
            self._react(ticket.call, outcome, ticket.answer)
            return
        # The caller has its answer already: nothing can be raised any more.
        if outcome.flagged and self.on_violation != "raise":
            self._apply_violation_policy(ticket.call, outcome, ticket.answer)
        for place, error in outcome.failed:
            if self.on_failure == "raise":
                self._record_failure(ticket.call, error, place)
            else:
                self._apply_failure_policy(ticket.call, (place, error))

    def _report_dropped(self) -> None:
        """Tell the monitor what the queue had no room for, before it judges anything later."""
        dropped = self._totals.dropped - self._dropped_reported
        if dropped:
            try:
                self.monitor.record_loss(dropped, "full")
                self._dropped_reported += dropped
            except Exception as error:
                self._fail_call(error)

    def _extract_output(self, answer: Any) -> Any:
        """Extract the output from what the model answered."""
        return normalize_output(answer if self._output is None else self._output(answer))

    def _next_call(self) -> int:
        with self._lock:
            self._calls += 1
            return self._calls

    # Hints

    def _check_labels(self, labels: LabelHints, z: Any, line: CallerLine | None) -> None:
        """Look at the first labels; hint that they are numbers if they hardly repeat."""
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

    def _react(self, call: _Call, outcome: CallOutcome, answer: Any) -> None:
        try:
            if outcome.repeated:
                logger.debug("%s: %d repeated keys", self.name, outcome.repeated)
            if outcome.flagged:
                if logger.isEnabledFor(logging.INFO):
                    text = describe_rows(outcome.flagged, outcome.flagged_count)
                    logger.info("%s: %s", self.name, text)
                self._apply_violation_policy(call, outcome, answer)
        finally:
            if outcome.failed:
                self._apply_failure_policy(call, *outcome.failed)

    def _apply_violation_policy(self, call: _Call, outcome: CallOutcome, answer: Any) -> None:
        """Do what the user chose for violations."""
        policy, flagged, count = self.on_violation, outcome.flagged, outcome.flagged_count
        if policy == "warn":
            warn(ViolationWarning(describe_flagged(self.name, flagged, count)), {}, call.line)
        elif policy == "raise":
            text = f"{describe_flagged(self.name, flagged, count)}. The answer is in .answer."
            raise Violation(text, tuple(one.verdict for one in flagged), answer)
        elif callable(policy):
            failed = []
            for one in flagged:  # an error of one call does not stop the next
                try:
                    policy(one)
                except Exception as error:
                    failed.append((None, error))
            if failed:
                self._apply_failure_policy(call, *failed)

    def _fail_call(self, error: Exception, *handled: BaseException | None) -> None:
        """Do what the user chose for failures, for a call that fails as a whole."""
        self._apply_failure_policy(_Call(self._next_call(), handled, None), (None, error))

    def _apply_failure_policy(self, call: _Call, *failed: tuple[int | None, Exception]) -> None:
        """Do what the user chose for failures; each has a place in the batch, or None."""
        failures = [self._record_failure(call, error, place) for place, error in failed]
        policy = self.on_failure
        if policy == "raise":  # only the first can be raised; the others are kept
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
            self._totals = add_counts(self._totals, failures=1)
            self._failures.append(failure)
            is_new = type(error) not in self._logged
            self._logged.add(type(error))
        level = logging.WARNING if is_new else logging.DEBUG
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

    # Reading

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
        return add_counts(self._totals, decisions=self._uneventful)

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
        """Stop watching; judge what waits; close the monitor if it was made here."""
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
