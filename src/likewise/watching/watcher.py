"""Watches answers: tells a monitor of each, and reacts as the user chose.

Whoever calls the model asks `given` before the call and says `answered` after it, with the model's
answer in hand. So the answer is there before anything can go wrong here.

Invariant: unless the user chose "raise", no Exception leaves a watcher, whatever fails: the input,
the output, the key, the monitor, the disk, the user's own callables. Each failure is counted and
kept. (Warnings that the user has turned into errors are raised: that is a choice, too.)
Cost: a copy of the input, `observe`, and some microseconds. The latest `keep` violations (with
them decisions that raise a burst's alarm) and failures are kept, nothing else.
"""

import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from likewise.errors import FailureWarning, Violation, ViolationWarning
from likewise.feature import plain
from likewise.forking import copied_by_fork
from likewise.rule import Rule
from likewise.types import Verdict, Verdicts
from likewise.watching.choices import check_keys, check_policy, monitor_of, shown
from likewise.watching.copies import as_answered, as_given, one_output, one_row
from likewise.watching.records import (
    Counts,
    Failure,
    Flagged,
    Handled,
    all_told,
    failure_of,
    let_go,
)
from likewise.watching.warned import warn

KEEP = 100


Given: TypeAlias = tuple[Any, Any, tuple[Exception, BaseException | None] | None]
"""What a call was given: the input and the key; or why they could not be had, and what the caller
was handling then."""


class _Judged(NamedTuple):
    """What came out of one call."""

    decisions: int
    violations: int = 0
    alarms: int = 0
    told: int = 0
    """Decisions that violate, or alarm, or both."""
    flagged: Sequence[Flagged] = ()
    """These, or the latest of them."""


_NOTHING_FOUND = _Judged(1)


class Watcher:
    """Tells a monitor of decisions. Methods may be called from several threads."""

    def __init__(
        self,
        watched_by: Any,
        *,
        name: str,
        batched: bool,
        on_violation: Any,
        on_failure: Any,
        input: Callable[..., Any] | None,
        output: Callable[[Any], Any] | None,
        key: Callable[..., Any] | None = None,
        keep: int = KEEP,
        settings: dict[str, Any] | None = None,
    ) -> None:
        check_policy("on_violation", on_violation)
        check_policy("on_failure", on_failure)
        for what, one in {"input": input, "output": output, "key": key}.items():
            if one is not None and not callable(one):
                raise TypeError(f"{what} is {one!r}; expected a callable, or None")
        if not isinstance(keep, int) or keep < 1:
            raise ValueError(f"keep is {keep!r}; expected a whole number from 1")
        self.on_violation = on_violation
        self.on_failure = on_failure
        self.name = name
        self.batched = batched
        self.closed = False
        self.owned = isinstance(watched_by, Rule)  # the monitor; else it is the user's
        self.monitor = monitor_of(watched_by, settings or {})
        self._columns = self.monitor.rule.features is not None
        self._number = self.monitor.rule.output == "number"
        self._input, self._output, self._key = input, output, key
        if key is not None:
            check_keys(self.monitor)
        self._keep = keep
        self._violations: deque[Flagged] = deque(maxlen=keep)
        self._failures: deque[Failure] = deque(maxlen=keep)
        self._calls = 0
        self._counts = Counts(0, 0, 0)
        self._lock = Lock()
        self._warned: dict[Any, Any] = {}
        copied_by_fork(self)

    def _after_fork(self) -> None:
        self._lock = Lock()

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
        """Compare the decision with the past, remember it, and react."""
        if self.closed:
            return
        handled = sys.exception()
        x, key, missing = given
        if missing is not None:
            error, earlier = missing
            self._fail(self._next_call(), error, (earlier, handled))
            return
        try:
            judged = self._judge(x, key, answer)
        except Exception as failed:
            self._fail(self._next_call(), failed, (handled,))
            return
        with self._lock:
            self._calls += 1
            call, before = self._calls, self._counts
            self._violations.extend(judged.flagged)
            self._counts = Counts(  # in one step: an interruption leaves all of it, or nothing
                before.decisions + judged.decisions,
                before.violations + judged.violations,
                before.failures,
                before.alarms + judged.alarms,
            )
        if judged.flagged:
            self._react(call, judged, answer, (handled,))

    def _next_call(self) -> int:
        with self._lock:
            self._calls += 1
            return self._calls

    def _judge(self, x: Any, key: Any, answer: Any) -> _Judged:
        z = as_answered(answer if self._output is None else self._output(answer))
        monitor = self.monitor
        if self.batched:
            only = one_row(x, self._columns) if len(x) == 1 and len(z) == 1 else None
            if only is None:
                return self._judge_many(x, z, key)
            x, key = only, None if key is None else key[0]
            z = answer = one_output(z, self._number)
        verdict = monitor.observe(x, z) if key is None else monitor.observe(x, z, key=key)
        violation = bool(verdict.violation)
        alarm = isinstance(verdict, Verdict) and verdict.alarm
        if not violation and not alarm:
            return _NOTHING_FOUND
        return _Judged(1, violation, alarm, 1, [Flagged(verdict, answer)])

    def _judge_many(self, x: Any, z: Any, keys: Any) -> _Judged:
        monitor = self.monitor
        verdicts = (
            monitor.observe_many(x, z) if keys is None else monitor.observe_many(x, z, keys=keys)
        )
        violating = np.asarray(verdicts.violations)
        alarming = verdicts.alarms if isinstance(verdicts, Verdicts) else np.zeros_like(violating)
        at = np.flatnonzero(violating | alarming).tolist()
        all_wanted = self.on_violation == "raise" or callable(self.on_violation)
        wanted = at if all_wanted else at[-self._keep :]
        return _Judged(
            len(verdicts),
            int(np.count_nonzero(violating)),
            int(np.count_nonzero(alarming)),
            len(at),
            [Flagged(_alone(verdicts[i]), _own(z[i])) for i in wanted],
        )

    # Reacting

    def _react(self, call: int, judged: _Judged, answer: Any, handled: Handled) -> None:
        policy, flagged, count = self.on_violation, judged.flagged, judged.told
        if policy == "warn":
            warn(ViolationWarning(all_told(self.name, flagged, count)), {})
        elif policy == "raise":
            text = f"{all_told(self.name, flagged, count)}. The answer is in .answer."
            raise Violation(text, tuple(one.verdict for one in flagged), answer)
        elif callable(policy):
            failed = []
            for one in flagged:  # each is told, whatever the one before it did
                try:
                    policy(one)
                except Exception as error:
                    failed.append(error)
            if self.on_failure == "raise":  # the first; the others are kept
                for further in failed[1:]:
                    self._note(call, further)
                del failed[1:]
            for one_failed in failed:
                self._fail(call, one_failed, handled)

    def _fail(self, call: int, error: Exception, handled: Handled) -> None:
        failure = self._note(call, error)
        policy = self.on_failure
        if policy == "raise":
            error.add_note(f"(while watching {self.name}, which had answered; on_failure='raise')")
            raise error
        let_go(error, handled)
        if callable(policy):
            try:
                policy(failure)
            except Exception as another:
                failure = self._note(call, another)
                let_go(another, handled)
                self._warn_of(failure)
        elif policy == "warn":
            self._warn_of(failure)

    def _note(self, call: int, error: Exception) -> Failure:
        failure = failure_of(call, error)
        with self._lock:
            self._counts = replace(self._counts, failures=self._counts.failures + 1)
            self._failures.append(failure)
        return failure

    def _warn_of(self, failure: Failure) -> None:
        error = failure.error
        text = (
            f"{self.name} answered, but was not watched: {type(error).__name__}: {error}"
            f" (see .failures; on_failure={shown(self.on_failure)} chose to go on)"
        )
        warn(FailureWarning(text), self._warned)

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
        return self._counts

    def close(self) -> None:
        """Watch no more; let go of the monitor, if it was made here."""
        self.closed = True
        if self.owned:
            self.monitor.close()

    def __str__(self) -> str:
        policies = f"on_violation={shown(self.on_violation)}, on_failure={shown(self.on_failure)}"
        counts = self.counts
        told = (
            f"{counts.decisions:,} decisions, {counts.violations:,} violations,"
            f" {counts.failures:,} failures{f', {counts.alarms:,} alarms' * (counts.alarms > 0)}"
        )
        return f"{policies}: {told}{', closed' * self.closed}"


def _alone(verdict: Any) -> Any:
    """A verdict of a batch, without the arrays of the batch behind its witnesses."""
    if isinstance(verdict, Verdict):
        found = verdict.witnesses
        object.__setattr__(verdict, "witnesses", found.some(np.ones(len(found), np.bool_)))
    return verdict


def _own(output: Any) -> Any:
    return output.copy() if isinstance(output, np.ndarray) else plain(output)
