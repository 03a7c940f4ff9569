"""Watches answers: tells a monitor of each, and reacts as the user chose.

Whoever calls the model asks `given` before the call and says `answered` after it, with the model's
answer in hand. So the answer is there before anything can go wrong here.

Invariant: unless the user chose "raise", no Exception leaves a watcher, whatever fails: the input,
the output, the key, the monitor, the disk, the user's own callables. Each failure is counted and
kept. (Warnings that the user has turned into errors are raised: that is a choice, too.)
Cost: a copy of the input, `observe`, and some microseconds; in the background, a copy of the output
as well, and `observe` in another thread. The latest `keep` violations (with them decisions that
raise a burst's alarm) and failures are kept, nothing else.
"""

import logging
import sys
from collections import deque
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from likewise.buffering.receipt import Receipt
from likewise.intake.copies import as_answered
from likewise.rules.rule import Rule
from likewise.runtime.forking import copied_by_fork
from likewise.runtime.log import logger
from likewise.values.errors import (
    BadRule,
    FailureWarning,
    HintWarning,
    LikewiseError,
    RepeatedKey,
    Unreachable,
    Violation,
    ViolationWarning,
)
from likewise.values.given import as_given
from likewise.watching.background import Backlog
from likewise.watching.delivery import CAPACITY, Delivery, Ticket
from likewise.watching.judging import NOTHING_FOUND, REPEATED, Judge, Outcome, outcome_of
from likewise.watching.labels import LabelHints
from likewise.watching.records import (
    Counts,
    Failure,
    Flagged,
    Handled,
    all_told,
    failure_of,
    let_go,
    rows_told,
)
from likewise.watching.settings import (
    QUEUE_CALLS,
    Choices,
    check_key_column,
    shown,
    told_with,
)
from likewise.watching.warn import Line, calling_line, warn

_CLOSE_SECONDS = 60.0  # that the end of a watch waits for its background

Given: TypeAlias = tuple[Any, Any, tuple[Exception, BaseException | None] | None]
"""What a call was given: the input and the key; or why they could not be had, and what the caller
was handling then."""
_NOT_READ: Any = object()
"""Stands for an output that has not been read from the answer yet."""


class _Call(NamedTuple):
    """A call that something is to be said about."""

    number: int
    handled: Handled
    line: Line | None
    """Where it came from, if it is over by now."""


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
        self._columns = True
        self._labels: LabelHints | None = None
        self._backlog: Backlog | None = None
        self._delivery: Delivery | None = None
        self._queue_calls = choices.queue_calls or QUEUE_CALLS
        self._rule_known = False
        if told.buffer is not None or self.monitor.remote is not None:
            if told.buffer is not None and self.on_violation != "record":
                raise BadRule(
                    f"on_violation is {shown(self.on_violation)}, but the verdicts of a buffer go"
                    " to its on_verdict, or to results(). Leave it out, or give a monitor instead"
                    " of a buffer.",
                    setting="on_violation",
                )
            self._queue_calls = choices.queue_calls or CAPACITY
            self._delivery = Delivery(self.monitor, told.buffer, self._queue_calls, self._delivered)
            self._learn(self._delivery.rule)
        else:
            if self._key is not None:
                check_key_column(self.monitor.rule)
            all_wanted = self.on_violation == "raise" or callable(self.on_violation)
            self._judge = Judge(
                self.monitor,
                batched=batched,
                skip=choices.on_bad_row == "skip",
                keep=None if all_wanted else choices.keep,
            ).judge
            self._learn(self.monitor.rule)
            if choices.background:
                self._backlog = Backlog(self._queue_calls)
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
        elif self._backlog is None:
            self._settle(given, answer, _NOT_READ, sys.exception(), None)
        else:
            self._settle_later(self._backlog, given, answer, sys.exception())

    def _settle_later(
        self, backlog: Backlog, given: Given, answer: Any, handled: BaseException | None
    ) -> None:
        """Have the decision judged in the background, as it is now."""
        z: Any = None
        if given[2] is None:
            try:
                z = as_given(self._read(answer))
            except Exception as error:
                given = None, None, (error, handled)
        line = calling_line()
        if backlog.put(partial(self._settle, given, answer, z, handled, line)):
            return
        dropped = len(z) if self.batched and hasattr(z, "__len__") else 1
        self._add(dropped=dropped)
        full = LikewiseError(
            f"the queue is full: {self._queue_calls:,} calls wait to be judged. What comes now is"
            " not judged, and counted as dropped. Make fewer calls, or more room: queue_calls="
        )
        self._fail(_Call(self._next_call(), (handled,), line), (None, full))

    def _settle(
        self,
        given: Given,
        answer: Any,
        z: Any,
        handled: BaseException | None,
        line: Line | None,
    ) -> None:
        if self._backlog is not None:
            self._tell_dropped()
        x, key, missing = given
        if missing is not None:
            error, earlier = missing
            self._fail(_Call(self._next_call(), (earlier, handled), line), (None, error))
            return
        try:
            z = self._read(answer) if z is _NOT_READ else z
            judged = self._judge(x, z, key, answer)
        except Exception as failed:
            self._fail(_Call(self._next_call(), (handled,), line), (None, failed))
            return
        with self._lock:
            self._calls += 1
            number = self._calls
            self._count(judged)
        if self._labels is not None:
            self._look_at(self._labels, z, line)
        if judged is not NOTHING_FOUND:
            self._react(_Call(number, (handled,), line), judged, answer)

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
            self._add(dropped=lost)
            full = LikewiseError(
                f"the queue is full: {self._queue_calls:,} decisions wait for the service. What"
                " comes now is not judged, and counted as dropped. It is told to the service."
            )
            ticket.failed.append((None, full))
        try:
            if self._waits:
                self._await(delivery, ticket, lost)
        finally:
            if ticket.failed:
                self._fail(call, *ticket.failed)

    def _await(self, delivery: Delivery, ticket: Ticket, lost: int) -> None:
        unknown = lost + delivery.wait(ticket, self._wait_seconds)
        with self._lock:
            outcomes, ticket.outcomes = ticket.outcomes or [], None
        for one in outcomes:
            if one.failed:
                ticket.failed.extend(one.failed)
        flagged = [each for one in outcomes for each in one.flagged]
        if flagged and self.on_violation != "record":
            self._tell(
                ticket.call, Outcome(flagged_count=len(flagged), flagged=flagged), ticket.answer
            )
        if unknown:
            self._add(unknown=unknown)
            if self._when_unknown == "raise":
                raise Unreachable(
                    f"{self.name} answered, but the verdict did not come within"
                    f" {self._wait_seconds:g} s (when_unknown='raise').",
                    in_doubt=True,
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
            self._dropped_told += dropped
            try:
                self.monitor.lost(dropped, "full")
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
