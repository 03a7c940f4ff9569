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
from likewise.runtime.forking import copied_by_fork
from likewise.runtime.log import logger
from likewise.tables.copy_input import as_given
from likewise.watching.background import Backlog, size_of
from likewise.watching.caller_warning import Line, calling_line, warn
from likewise.watching.delivery import Delivery, Patience, Ticket
from likewise.watching.judge_call import (
    NOTHING_FOUND,
    REPEATED,
    Judge,
    Outcome,
    as_answered,
    outcome_of,
)
from likewise.watching.label_warning import LabelHints
from likewise.watching.settings import (
    CAPACITY,
    MAX_BYTES,
    Choices,
    check_key_column,
    shown,
    told_with,
)
from likewise.watching.watch_records import (
    Counts,
    Failure,
    Flagged,
    Handled,
    all_told,
    failure_of,
    let_go,
    rows_told,
)

_CLOSE_SECONDS = 60.0  # that the end of a watch waits for what is judged in its thread
_TOGETHER = 256  # calls that the thread judges in one transaction, at most
_SHARE = 0.1  # of the bound; what probably takes no longer is judged by the caller
_ROWS_AT_FIRST = 100.0  # that a caller judges while nobody knows how long they take

Given: TypeAlias = tuple[Any, Any, tuple[Exception, BaseException | None] | None]
"""What a call was given: the input and the key; or why they could not be had, and what the caller
was handling then."""


class _Call(NamedTuple):
    """A call that something is to be said about."""

    number: int
    handled: Handled
    line: Line | None
    """Where it came from, if it is over by now."""


class _Piece(NamedTuple):
    """A call that the thread is to judge."""

    ticket: Ticket
    given: Given
    z: Any
    rows: int


class Watcher:
    """Tells a monitor of decisions. Methods may be called from several threads."""

    def __init__(
        self,
        watched_by: Any,
        *,
        name: str,
        batched: bool,
        choices: Choices,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.on_violation = choices.on_violation
        self.on_failure = choices.on_failure
        self.name = name
        self.batched = batched
        self.closed = False
        told, self.monitor = told_with(watched_by, settings or {})
        self.owned = told.rule is not None  # the monitor; else it is the user's
        self.hint: str | None = None
        """Warned of once, at the next answer."""
        self._input, self._output, self._key = choices.input, choices.output, choices.key
        self._wait_seconds, self._when_unknown = choices.wait_seconds, choices.when_unknown
        self._waits = "raise" in (self.on_violation, self.on_failure)
        if choices.background:
            self._wait_seconds = 0.0
        self._columns = True
        self._labels: LabelHints | None = None
        self._backlog: Backlog[_Piece] | None = None
        self._patience = Patience()
        self._quick = _SHARE * self._wait_seconds
        self._rows_here = _ROWS_AT_FIRST
        """Rows that take a caller no longer than its share of the bound, as the last ones did."""
        self._delivery: Delivery | None = None
        self._queue_calls = choices.queue_calls or CAPACITY
        self._rule_known = False
        if told.buffer is not None or self.monitor.remote is not None:
            if told.buffer is not None and self.on_violation != "record":
                raise BadRule(
                    f"on_violation is {shown(self.on_violation)}, but the verdicts of a buffer go"
                    " to its on_verdict, or to results(). Leave it out, or give a monitor instead"
                    " of a buffer.",
                    setting="on_violation",
                )
            self._delivery = Delivery(self.monitor, told.buffer, self._queue_calls, self._delivered)
            self._learn(self._delivery.rule)
        else:
            if self._key is not None:
                check_key_column(self.monitor.rule)
            all_wanted = self.on_violation == "raise" or callable(self.on_violation)
            self._judging = Judge(
                self.monitor,
                batched=batched,
                skip=choices.on_bad_row == "skip",
                keep=None if all_wanted else choices.keep,
            )
            self._judge = self._judging.judge
            self._learn(self.monitor.rule)
        self._violations: deque[Flagged] = deque(maxlen=choices.keep)
        self._failures: deque[Failure] = deque(maxlen=choices.keep)
        self._calls = 0
        self._counted: tuple[int, ...] = (0,) * 7  # the fields of Counts, in their order
        self._dropped_told = 0  # of the dropped, those that the monitor was told of
        self._lock = Lock()
        self._warned: dict[Any, Any] = {}
        self._logged: set[type[Exception]] = set()
        logger.debug("%s: watched with a %s", name, type(self.monitor).__name__)
        copied_by_fork(self)

    def _after_fork(self) -> None:
        self._lock = Lock()

    def _learn(self, rule: Rule | None) -> None:
        """Look at the rule, when it is known: a service may be away."""
        if rule is not None and not self._rule_known:
            self._rule_known = True
            self._columns = rule.features is not None
            self._labels = LabelHints() if rule.output == "label" else None
            if self._key is not None and self._delivery is not None:
                check_key_column(rule)

    @property
    def output(self) -> str:
        """The kind of output of the rule; "label" while the rule is not known."""
        rule = self.monitor.rule if self._delivery is None else self._delivery.rule
        return "label" if rule is None else rule.output

    # Around a call

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
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
            return as_given(x, self._columns), key, None
        except Exception as error:
            return None, None, (error, handled)

    def answered(self, given: Given, answer: Any) -> None:
        """Compare the decision with the past, remember it, and react; now or in the background."""
        if self.closed:
            return
        if self.hint is not None:
            self._say_hint(None)
        if self._delivery is not None:
            self._deliver(self._delivery, given, answer, sys.exception())
            return
        handled = sys.exception()
        if not (self._wait_seconds and self._settle_here(given, answer, handled)):
            self._settle_in_thread(given, answer, handled)

    # A monitor in this process

    def _settle_here(self, given: Given, answer: Any, handled: BaseException | None) -> bool:
        """Judge a call, if it takes no time to speak of and nothing waits; whether it was."""
        turn, backlog, rows = self.monitor.turn, self._backlog, 1
        x, key, missing = given
        if self.batched and missing is None and hasattr(x, "__len__"):
            rows = len(x)
        if turn is None or rows > self._rows_here or (backlog is not None and backlog.waiting):
            return False
        if missing is not None:
            error, earlier = missing
            self._fail(_Call(self._next_call(), (earlier, handled), None), (None, error))
            return True
        try:
            z = self._read(answer)
            begin = perf_counter()
            judged = self._judge_in_turn(turn, x, z, key, answer)
            if judged is None:
                return False
            self._rows_here = self._quick * rows / (perf_counter() - begin)
        except Exception as failed:
            self._fail(_Call(self._next_call(), (handled,), None), (None, failed))
            return True
        with self._lock:
            self._calls += 1
            number = self._calls
            self._count(judged)
        if self._labels is not None:
            self._look_at(self._labels, z, None)
        if judged is not NOTHING_FOUND:
            self._react(_Call(number, (handled,), None), judged, answer)
        return True

    def _judge_in_turn(self, turn: Any, x: Any, z: Any, key: Any, answer: Any) -> Outcome | None:
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

    def _settle_in_thread(self, given: Given, answer: Any, handled: BaseException | None) -> None:
        """Have a call judged in the thread, as it is now; wait for what comes out, for a moment."""
        z: Any = None
        if given[2] is None:
            try:
                z = as_given(self._read(answer))
            except Exception as error:
                given = None, None, (error, handled)
        missing, line = given[2], calling_line()
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
            self._say_full(ticket, lost, "calls wait to be judged", "monitor")
        elif self._labels is not None and missing is None:
            self._look_at(self._labels, z, line)
        if waits:
            self._await(self._patience, ticket, lost, rows)
        elif ticket.failed:
            self._fail(ticket.call, *ticket.failed)

    def _new_backlog(self) -> Backlog[_Piece]:
        """The queue and its thread, made when they are first needed."""
        with self._lock:
            if self._backlog is None:
                backlog = Backlog(
                    self._judge_pieces,
                    most=self._queue_calls,
                    most_bytes=MAX_BYTES,
                    batch=_TOGETHER,
                )
                if self.monitor.accepting is not None:
                    self.monitor.accepting.drain_before_close(backlog.drain)
                self._backlog = backlog
            return self._backlog

    def _judge_pieces(self, pieces: list[_Piece]) -> None:
        """Judge calls, in the thread."""
        self._tell_dropped()
        judged = self._judging.judge_each(
            [
                (one.given[0], one.z, one.given[1], one.ticket.answer)
                for one in pieces
                if one.given[2] is None
            ]
        )
        for ticket, given, _, rows in pieces:
            begin, missing = perf_counter(), given[2]
            found = next(judged) if missing is None else missing[0]
            self._rows_here = self._quick * rows / max(1e-9, perf_counter() - begin)
            if isinstance(found, Exception):
                found = Outcome(failed=[(None, found)])
            try:
                self._came(ticket, found)
            except BaseException as error:  # such as SystemExit of the user's own callable
                logger.error("%s goes on after %s", self.name, type(error).__name__)
            finally:
                self._patience.came(ticket)

    # Counting

    def _count(self, judged: Outcome) -> None:
        """In one step: an interruption leaves all of it, or nothing. The caller has the lock."""
        decisions, violations, failures, alarms, repeated, *others = self._counted
        if judged is NOTHING_FOUND:
            self._counted = (decisions + 1, violations, failures, alarms, repeated, *others)
            return
        self._violations.extend(judged.flagged)
        self._counted = (
            decisions + judged.decisions,
            violations + judged.violations,
            failures,
            alarms + judged.alarms,
            repeated + judged.repeated,
            *others,
        )

    def _add(self, dropped: int = 0, unknown: int = 0) -> None:
        with self._lock:
            *others, before, unknown_before = self._counted
            self._counted = (*others, before + dropped, unknown_before + unknown)

    # Through a buffer

    def _deliver(
        self, delivery: Delivery, given: Given, answer: Any, handled: BaseException | None
    ) -> None:
        """Submit the decisions of a call; wait for their verdicts if something may be raised."""
        x, key, missing = given
        line = calling_line()
        if missing is not None:
            error, earlier = missing
            self._fail(_Call(self._next_call(), (earlier, handled), line), (None, error))
            return
        call = _Call(self._next_call(), (handled,), line)
        ticket = Ticket(call, answer, self.batched)
        if self._waits:
            ticket.outcomes = []
        try:
            self._learn(delivery.rule)
            z = as_given(self._read(answer))
            lost = delivery.submit(ticket, x, z, key)
        except Exception as failed:
            self._fail(call, (None, failed))
            return
        if self._labels is not None:
            self._look_at(self._labels, z, line)
        if lost:
            self._say_full(ticket, lost, "decisions wait for the service", "service")
        if self._waits:
            self._await(delivery.patience, ticket, lost)
        elif ticket.failed:
            self._fail(call, *ticket.failed)

    def _say_full(self, ticket: Ticket, lost: int, what: str, who: str) -> None:
        self._add(dropped=lost)
        full = LikewiseError(
            f"the queue is full: {self._queue_calls:,} {what}, or fewer that take much memory. What"
            f" comes now is not judged, and counted as dropped; the {who} is told. Make fewer"
            " calls, or more room: queue_calls="
        )
        ticket.failed.append((None, full))

    def _await(self, patience: Patience, ticket: Ticket, lost: int, each: int = 1) -> None:
        """Wait for what comes out of a call, and react to it in the thread of the caller.

        each    decisions that come together
        """
        try:
            unknown = lost + each * patience.wait(ticket, self._wait_seconds)
        except BaseException:
            for place, error in self._came_so_far(ticket).failed:
                self._note(ticket.call, error, place)
            raise
        judged = self._came_so_far(ticket)
        if unknown and self._waits:
            self._add(unknown=unknown)
        self._react(ticket.call, judged, ticket.answer)
        if unknown and self._waits and self._when_unknown == "raise":
            raise Unreachable(
                f"{self.name} answered, but the verdict did not come within"
                f" {self._wait_seconds:g} s (when_unknown='raise').",
                in_doubt=True,
            )

    def _came_so_far(self, ticket: Ticket) -> Outcome:
        """What has come out of a call; what comes from here on, nobody waits for."""
        with self._lock:
            outcomes, ticket.outcomes = ticket.outcomes or [], None
        return Outcome(
            flagged_count=sum(one.flagged_count for one in outcomes),
            flagged=[each for one in outcomes for each in one.flagged],
            repeated=sum(one.repeated for one in outcomes),
            failed=[*ticket.failed, *(each for one in outcomes for each in one.failed)],
        )

    def _delivered(
        self, ticket: Ticket, place: int | None, output: Any, receipt: Receipt | None
    ) -> None:
        """Count what the service answered to one decision, in the thread of the buffer."""
        if receipt is None:
            self._add(dropped=1)
            return
        if isinstance(receipt.refusal, RepeatedKey):
            judged = REPEATED
        elif receipt.refusal is not None:
            judged = Outcome(failed=[(place, receipt.refusal)])
        elif receipt.verdict is None:
            judged = NOTHING_FOUND
        else:
            judged = outcome_of(receipt.verdict, output)
        self._came(ticket, judged)

    def _came(self, ticket: Ticket, judged: Outcome) -> None:
        """Count what came out, in a thread; react to it there if the caller does not wait."""
        with self._lock:
            self._count(judged)
            waited = ticket.outcomes
            if waited is not None:
                waited.append(judged)
        if waited is not None or judged is NOTHING_FOUND:
            return
        if not self._waits:
            self._react(ticket.call, judged, ticket.answer)
            return
        # Too late for whoever called: nothing can be raised any more.
        if judged.flagged and self.on_violation != "raise":
            self._tell(ticket.call, judged, ticket.answer)
        for place_there, error in judged.failed:
            if self.on_failure == "raise":
                self._note(ticket.call, error, place_there)
            else:
                self._fail(ticket.call, (place_there, error))

    def _tell_dropped(self) -> None:
        """Tell the monitor what the queue had no room for, before it judges anything further."""
        dropped = self._counted[5] - self._dropped_told
        if dropped:
            try:
                self.monitor.lost(dropped, "full")
                self._dropped_told += dropped
            except Exception as error:
                self._fail(_Call(self._next_call(), (), None), (None, error))

    def _read(self, answer: Any) -> Any:
        """The output, from what the model answered."""
        return as_answered(answer if self._output is None else self._output(answer))

    def _next_call(self) -> int:
        with self._lock:
            self._calls += 1
            return self._calls

    # Hints

    def _look_at(self, labels: LabelHints, z: Any, line: Line | None) -> None:
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
            self._say_hint(line)

    def _say_hint(self, line: Line | None) -> None:
        text, self.hint = self.hint, None
        if text is not None:
            logger.warning("%s", text)
            warn(HintWarning(text), {}, line)

    # Reacting

    def _react(self, call: _Call, judged: Outcome, answer: Any) -> None:
        try:
            if judged.repeated:
                logger.debug("%s: %d repeated keys", self.name, judged.repeated)
            if judged.flagged:
                if logger.isEnabledFor(logging.INFO):
                    text = rows_told(judged.flagged, judged.flagged_count)
                    logger.info("%s: %s", self.name, text)
                self._tell(call, judged, answer)
        finally:
            if judged.failed:
                self._fail(call, *judged.failed)

    def _tell(self, call: _Call, judged: Outcome, answer: Any) -> None:
        """Do what the user chose for violations."""
        policy, flagged, count = self.on_violation, judged.flagged, judged.flagged_count
        if policy == "warn":
            warn(ViolationWarning(all_told(self.name, flagged, count)), {}, call.line)
        elif policy == "raise":
            text = f"{all_told(self.name, flagged, count)}. The answer is in .answer."
            raise Violation(text, tuple(one.verdict for one in flagged), answer)
        elif callable(policy):
            failed = []
            for one in flagged:  # each is told, whatever the one before it did
                try:
                    policy(one)
                except Exception as error:
                    failed.append((None, error))
            if failed:
                self._fail(call, *failed)

    def _fail(self, call: _Call, *failed: tuple[int | None, Exception]) -> None:
        """Do what the user chose for failures; each has a place in the batch, or None."""
        failures = [self._note(call, error, place) for place, error in failed]
        policy = self.on_failure
        if policy == "raise":  # the first; the others are kept
            for further in failures[1:]:
                let_go(further.error, call.handled)
            first = failures[0]
            place = "" if first.place is None else f", row {first.place} of its batch"
            first.error.add_note(
                f"(while watching {self.name}{place}, which had answered; on_failure='raise')"
            )
            raise first.error
        for failure in failures:
            let_go(failure.error, call.handled)
        if callable(policy):
            for failure in failures:
                try:
                    policy(failure)
                except Exception as another:
                    second = self._note(call, another)
                    let_go(another, call.handled)
                    self._warn_of(call, [second])
        elif policy == "warn":
            self._warn_of(call, failures)

    def _note(self, call: _Call, error: Exception, place: int | None = None) -> Failure:
        failure = failure_of(call.number, error, place)
        with self._lock:
            decisions, violations, failures, *others = self._counted
            self._counted = (decisions, violations, failures + 1, *others)
            self._failures.append(failure)
            new = type(error) not in self._logged
            self._logged.add(type(error))
        level = logging.WARNING if new else logging.DEBUG
        kind = type(error).__name__
        logger.log(level, "%s: %s was not watched: %s", self.name, failure.where, kind)
        return failure

    def _warn_of(self, call: _Call, failures: list[Failure]) -> None:
        first = failures[0]
        place = "" if first.place is None else f"row {first.place} of its batch: "
        more = f" (and {len(failures) - 1:,} more{' rows' * bool(place)})" * (len(failures) > 1)
        text = (
            f"{self.name} answered, but was not watched: {place}"
            f"{type(first.error).__name__}: {first.error}{more}"
            f" (see .failures; on_failure={shown(self.on_failure)} chose to go on)"
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
        return Counts(*self._counted)

    @property
    def waiting(self) -> int:
        if self._delivery is not None:
            return self._delivery.waiting
        return 0 if self._backlog is None else self._backlog.waiting

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
                logger.warning("%s: closed before %d calls are judged", self.name, self.waiting)
            logger.info("%s: watched no more, after %s", self.name, self.counts.in_words())
        if self.owned:
            self.monitor.close()

    def __str__(self) -> str:
        policies = f"on_violation={shown(self.on_violation)}, on_failure={shown(self.on_failure)}"
        waiting = f", {self.waiting:,} calls waiting" * (self.waiting > 0)
        return f"{policies}: {self.counts.in_words()}{waiting}{', closed' * self.closed}"
