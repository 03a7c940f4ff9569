"""The frozen records that a watcher keeps, and hands to a user's own callables.

A `Flagged` is a decision that contradicts an earlier one or raises a burst's alarm, a `Failure` a
call that could not be watched, `Counts` count both.
"""

import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from likewise.tables.printing import with_bounded_repr
from likewise.verdict.verdicts import Verdict

HandledErrors: TypeAlias = tuple[BaseException | None, ...]
"""What the caller was handling, if it called inside an `except`."""
T = TypeVar("T")

_MAX_NAMED = 3  # decisions, and witnesses of each, that a message names


@with_bounded_repr
@dataclass(frozen=True, slots=True)
class Flagged:
    """Records a decision that contradicts an earlier one or raises an alarm, and its answer.

    `verdict.violation` and `verdict.alarm` say which of them, or both. For a row of a batch, the
    answer is the output of that row.
    """

    verdict: Verdict
    answer: Any

    @property
    def key(self) -> Any:
        """The caller's own key of the decision, if it has one."""
        return self.verdict.key

    @property
    def witness_keys(self) -> tuple[Any, ...]:
        """The keys of the decisions that it contradicts, in the order of their rows."""
        return self.verdict.witness_keys

    def __str__(self) -> str:
        return describe_verdict(self.verdict)


@with_bounded_repr
@dataclass(frozen=True, slots=True)
class Failure:
    """Records a call, or a row of its batch, that could not be watched. The model had answered.

    `call` counts from 1; `place` is the row's place in the batch, from 0, where a bad row was
    skipped (`on_bad_row="skip"`), and None where the whole call, or the rest of it, failed. Unless
    it was raised, the error is kept without its frames, which would keep what they hold alive;
    `traceback` is their text.
    """

    call: int
    error: Exception
    traceback: str = field(repr=False)
    place: int | None = None

    @property
    def where(self) -> str:
        """The call, and the row of its batch."""
        row = "" if self.place is None else f", row {self.place} of its batch"
        return f"call {self.call}{row}"

    def __str__(self) -> str:
        return f"{self.where}: {type(self.error).__name__}: {self.error}"


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts what was watched so far."""

    decisions: int
    """Decisions that were judged and remembered."""
    violations: int
    """Decisions among these that contradict an earlier one."""
    failures: int
    """Calls or skipped rows that could not be watched, and callables of the user that raised."""
    alarms: int = 0
    """Decisions that raised the alarm of a burst, whether they contradict others or not."""
    repeated: int = 0
    """Decisions whose key the monitor had already; they are not judged again."""
    dropped: int = 0
    """Decisions that found no room in the queue, or that a service never got. The monitor is told
    how many as soon as it can be."""
    unknown: int = 0
    """Decisions whose verdict did not come in time (`wait_seconds`), where "raise" was chosen."""

    def _get_shown(self) -> dict[str, int]:
        """Return the counts that are shown: the rare ones only if they are not zero."""
        rare = ("alarms", "repeated", "dropped", "unknown")
        return {name: n for name, n in asdict(self).items() if n or name not in rare}

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={count}" for name, count in self._get_shown().items())
        return f"Counts({counts})"

    def in_words(self) -> str:
        """Return the counts in words, for a repr and for the log."""
        return ", ".join(f"{count:,} {name}" for name, count in self._get_shown().items())


def add_counts(counts: T, **more: int) -> T:
    """Return a frozen dataclass of counts with more of some of them."""
    sums = {name: getattr(counts, name) + count for name, count in more.items()}
    return replace(counts, **sums)  # type: ignore[type-var]


def failure_of(call: int, error: Exception, place: int | None = None) -> Failure:
    """Return a record of an error, with the text of its frames."""
    return Failure(call, error, "".join(traceback.format_exception(error)), place)


def drop_frames(error: Exception, handled: HandledErrors) -> None:
    """Drop the frames of an error, and cut its chain before what the caller was handling.

    Those exceptions are the caller's own, and stay as they are.
    """
    chain: list[BaseException] = [] if _is_among(error, handled) else [error]
    for one in chain:
        one.__traceback__ = None
        hidden = one.__suppress_context__
        if _is_among(one.__cause__, handled):
            one.__cause__ = None
        if _is_among(one.__context__, handled):
            one.__context__ = None
        one.__suppress_context__ = hidden  # which setting a cause changes
        for other in (one.__cause__, one.__context__):
            if other is not None and not _is_among(other, chain):
                chain.append(other)


def _is_among(error: BaseException | None, errors: Sequence[BaseException | None]) -> bool:
    return error is not None and any(error is other for other in errors)


def describe_verdict(verdict: Verdict) -> str:
    """Describe a violating or alarming verdict: rows, distances, how many neighbours."""
    if verdict.slope is not None:
        against = _describe_witnesses(verdict)
        return f"row {verdict.row} has slope {verdict.slope:.6g} against {against}"
    contradicts = [f"contradicts {_describe_witnesses(verdict)}"] if verdict.violation else []
    alarms = [f"raises an alarm ({verdict.neighbours:,} neighbours)"] if verdict.alarm else []
    return f"row {verdict.row} {' and '.join(contradicts + alarms)}"


def _describe_witnesses(verdict: Verdict) -> str:
    nearest = [
        f"row {one.row} (inputs {one.input_distance:.6g} apart, outputs {one.output_distance:.6g})"
        for one in verdict.witnesses.nearest(_MAX_NAMED)
    ]
    more = len(verdict.witnesses) - len(nearest)
    return ", ".join(nearest) + f" and {more:,} more" * (more > 0)


def describe_flagged(name: str, flagged: Sequence[Flagged], count: int) -> str:
    """Describe the violations and alarms of one call."""
    text = f"{name}: {'; '.join(map(str, flagged[:_MAX_NAMED]))}"
    more = count - len(flagged[:_MAX_NAMED])
    return text + f"; and {more:,} more decisions of this batch" * (more > 0)


def describe_rows(flagged: Sequence[Flagged], count: int) -> str:
    """Describe the violations and alarms of one call for the log: rows, and no values."""
    verdict = flagged[0].verdict
    many = len(verdict.witnesses)
    violation = f"contradicts {many:,} earlier decision{'s' * (many != 1)}"
    if verdict.slope is not None:
        violation = "is too steep"
    reasons = [violation] * bool(verdict.violation) + ["raises an alarm"] * verdict.alarm
    more = f", and {count - 1:,} more of its batch" * (count > 1)
    return f"row {verdict.row} {' and '.join(reasons)}{more}"
