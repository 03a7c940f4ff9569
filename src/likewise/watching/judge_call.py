"""Has a monitor judge the decisions of a call.

A monitor takes a batch whole or refuses it whole. Where it knows the keys of some rows already, the
others are judged; where bad rows are to be skipped, monitor/batching.py finds them.
Invariant: each row of a batch is judged, repeated or failed; or the call fails as a whole.
Cost: `observe` or `observe_many`, and one microsecond; for a refused batch more (batching.py).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from likewise.errors import BadDecision, RepeatedKey, UnexpectedValue
from likewise.monitor.batching import RejectedRow, isolate_bad_rows
from likewise.monitor.protocol import AnyMonitor
from likewise.monitor.readers.protocol import Decision
from likewise.tables.copy_input import copy_input
from likewise.tables.frames import columns_of
from likewise.tables.normalize import array_of_tensor, is_tensor, require_list, to_python_scalar
from likewise.verdict.verdicts import Verdict
from likewise.watching.watch_records import Flagged


def normalize_output(z: Any) -> Any:
    """Return outputs as lists, arrays or plain values."""
    if type(z) is np.ndarray and z.ndim:
        return z
    if is_tensor(z):
        z = array_of_tensor(z)
    elif hasattr(z, "to_numpy"):  # a series or a frame, whose z[0] may be anything
        z = z.to_numpy()
    return to_python_scalar(z)


def select_rows(x: Any, at: list[int]) -> Any:
    """Return the rows of a batch, or its outputs, at these places."""
    if isinstance(x, list | tuple):
        return [x[i] for i in at]
    if hasattr(x, "iloc"):
        return x.iloc[at]
    if isinstance(x, np.ndarray) or not hasattr(x, "take"):
        return x[at]
    return x.take(at)  # an Arrow table


def extract_only_row(x: Any, z: Any, is_table: bool) -> Any:
    """Return the only row of a batch of one; None for others, which `observe_many` reads.

    Judging a row as a batch takes many times as long as judging a row.
    """
    if len(x) != 1 or len(z) != 1:
        return None
    if isinstance(x, np.ndarray):
        return x[0] if x.ndim > 1 and not is_table else None
    if type(x) is not list:
        return None
    return x[0] if type(x[0]) is dict or (not is_table and type(x[0]) is list) else None


def extract_only_output(z: Any, is_number: bool) -> Any:
    """Return the only output of a batch of one."""
    if type(z) is np.ndarray and (z.ndim == 1 or (is_number and z.size == 1)):
        return to_python_scalar(z.reshape(-1)[0])
    return to_python_scalar(z[0])


class CallOutcome(NamedTuple):
    """Says what came out of one call."""

    decisions: int = 0
    violations: int = 0
    alarms: int = 0
    flagged_count: int = 0
    """How many decisions contradict others, raise an alarm, or both."""
    flagged: Sequence[Flagged] = ()
    """Records of these decisions, or of the latest of them."""
    repeated: int = 0
    """How many decisions have keys that the monitor knows already."""
    failed: Sequence[tuple[int | None, Exception]] = ()
    """Places in the batch, and why they could not be judged; None for the rest of the batch."""

    def merge(self, other: "CallOutcome") -> "CallOutcome":
        """Add up the counts, and join the sequences, of two outcomes."""
        return CallOutcome(
            self.decisions + other.decisions,
            self.violations + other.violations,
            self.alarms + other.alarms,
            self.flagged_count + other.flagged_count,
            [*self.flagged, *other.flagged],
            self.repeated + other.repeated,
            [*self.failed, *other.failed],
        )


WatchedCall: TypeAlias = tuple[Any, Any, Any, Any]
"""The input of a call, its output, its key, and its answer."""

NOTHING_FOUND = CallOutcome(decisions=1)
"""The outcome of most calls."""
REPEATED = CallOutcome(repeated=1)


class CallJudge:
    """Has a monitor judge calls.

    skip    whether a bad row fails alone, and not its batch
    keep    how many of the flagged decisions of a batch are kept; None for all
    """

    def __init__(self, monitor: AnyMonitor, *, batched: bool, skip: bool, keep: int | None) -> None:
        self._monitor = monitor
        core = monitor.core
        self._joining = None if core is None or core.ledger is None else core
        """Where consecutive decisions share a transaction; None if there is no ledger."""
        self._batched = batched
        self._skip = skip
        self._keep = keep
        self._is_table = monitor.rule.features is not None
        self._is_number = monitor.rule.output == "number"

    def judge(self, x: Any, z: Any, key: Any, answer: Any) -> CallOutcome:
        """Judge a call; raise what the monitor raises, unless it is about a row that is skipped."""
        if not self._batched:
            return self._judge_one(x, z, key, answer)
        try:
            return self._judge_part(x, z, key)
        except RepeatedKey:
            pass
        except BadDecision:
            if not self._skip:
                raise
        _check_rows(x)
        if len(x) != len(z) or (key is not None and len(key) != len(z)):
            return self._judge_many(x, z, key)  # the monitor says what does not fit
        return self._judge_in_parts(x, z, key)

    def judge_each(self, calls: Sequence[WatchedCall]) -> Iterator[CallOutcome | Exception]:
        """Judge calls in their order; yield what came out of each, or what was raised.

        Consecutive calls of one decision share a transaction of a ledger.
        """
        singles: list[tuple[Decision, Any, WatchedCall]] = []
        for call in calls:
            decision = self._only_decision(call) if self._joining is not None else None
            if decision is not None:
                singles.append(decision)
                continue
            yield from self._judge_together(singles)
            singles = []
            yield self._try_judge(call)
        yield from self._judge_together(singles)

    def _only_decision(self, call: WatchedCall) -> tuple[Decision, Any, WatchedCall] | None:
        """Return the decision of a call that has one, and its output; None if it may have more."""
        x, z, key, answer = call
        if self._batched:
            try:
                row = extract_only_row(x, z, self._is_table)
            except TypeError:
                return None
            if row is None or (key is not None and len(key) != 1):
                return None
            x, z = row, extract_only_output(z, self._is_number)
            key, answer = None if key is None else key[0], z
        return Decision(x, z, key), answer, call

    def _judge_together(
        self, singles: Sequence[tuple[Decision, Any, WatchedCall]]
    ) -> Iterator[CallOutcome | Exception]:
        if len(singles) < 2 or self._joining is None:
            yield from (self._try_judge(call) for _, _, call in singles)
            return
        answers: Sequence[Verdict | Exception]
        try:
            answers = self._joining.observe_each([decision for decision, _, _ in singles])
        except Exception as error:  # none of them was taken
            answers = [error] * len(singles)
        for (_, output, call), answer in zip(singles, answers, strict=True):
            if isinstance(answer, BadDecision):
                yield self._try_judge(call)  # it is refused again, as it would be alone
            else:
                yield answer if isinstance(answer, Exception) else outcome_of(answer, output)

    def _try_judge(self, call: WatchedCall) -> CallOutcome | Exception:
        try:
            return self.judge(*call)
        except Exception as error:
            return error
        except BaseException as error:  # such as SystemExit of a user's index
            return BadDecision(f"judging it raised {type(error).__name__}.")

    def _judge_part(self, x: Any, z: Any, keys: Any) -> CallOutcome:
        """Judge a batch, or a part of one."""
        try:
            row = extract_only_row(x, z, self._is_table)
        except TypeError:
            _check_rows(x)
            raise
        if row is None:
            return self._judge_many(x, z, keys)
        output = extract_only_output(z, self._is_number)
        return self._judge_one(row, output, None if keys is None else keys[0], output)

    def _judge_one(self, x: Any, z: Any, key: Any, answer: Any) -> CallOutcome:
        observe = self._monitor.observe
        try:
            return outcome_of(observe(x, z) if key is None else observe(x, z, key=key), answer)
        except RepeatedKey:
            return REPEATED

    def _judge_many(self, x: Any, z: Any, keys: Any) -> CallOutcome:
        observe_many = self._monitor.observe_many
        verdicts = observe_many(x, z) if keys is None else observe_many(x, z, keys=keys)
        violating, alarming, repeated = verdicts.violations, verdicts.alarms, 0
        if verdicts.first_verdicts is not None:
            violating, repeated = violating & ~verdicts.repeated, int(verdicts.repeated.sum())
        at = np.flatnonzero(violating | alarming).tolist()
        latest = at if self._keep is None else at[-self._keep :]
        return CallOutcome(
            len(verdicts) - repeated,
            int(np.count_nonzero(violating)),
            int(np.count_nonzero(alarming)),
            len(at),
            [Flagged(verdicts[i].detach(), _copy_output(z[i])) for i in latest],
            repeated,
        )

    # Batches that were refused

    def _judge_in_parts(self, x: Any, z: Any, keys: Any) -> CallOutcome:
        """Judge a refused batch in parts: repeated rows are counted, bad ones fail."""
        repeated = self._find_known_keys(x, keys)
        places = [i for i in range(len(z)) if i not in repeated]
        judged = CallOutcome(repeated=len(repeated))
        refusal = BadDecision if self._skip else RepeatedKey
        try:
            for outcome in isolate_bad_rows(
                places, lambda at: self._judge_rows(x, z, keys, at), refusal
            ):
                if not isinstance(outcome, RejectedRow):
                    judged = judged.merge(outcome.answer)
                elif isinstance(outcome.error, RepeatedKey):
                    judged = judged.merge(REPEATED)
                else:
                    failed = (outcome.rows[0], outcome.error.with_place(None))
                    judged = judged.merge(CallOutcome(failed=[failed]))
        except Exception as error:
            if judged.decisions == 0:
                raise
            # What was judged is remembered, and counts.
            return judged.merge(CallOutcome(failed=[(None, error)]))
        return judged

    def _judge_rows(self, x: Any, z: Any, keys: Any, at: list[int]) -> CallOutcome:
        """Judge the rows at these places."""
        return self._judge_part(
            copy_input(select_rows(x, at), self._is_table),
            select_rows(z, at),
            None if keys is None else [keys[i] for i in at],
        )

    def _find_known_keys(self, x: Any, keys: Any) -> set[int]:
        """Return the places whose keys the monitor has.

        Unless bad rows are skipped, these include places with the key of an earlier place; if they
        are skipped, the earlier row may be a bad one, and the monitor decides.
        """
        places: set[int] = set()
        seen: set[Any] = set()
        for i, key in self._enumerate_keys(x, keys):
            try:
                if self._monitor.row_of(key) is not None or (key in seen and not self._skip):
                    places.add(i)
                seen.add(key)
            except (BadDecision, TypeError):  # not a valid key: the monitor says so
                continue
        return places

    def _enumerate_keys(self, x: Any, keys: Any) -> Iterator[tuple[int, Any]]:
        """Yield the place and the key of each row that has one."""
        column = self._monitor.rule.key_column
        if keys is None and column is not None:
            keys = read_keys(x, column, self._monitor.rule)
        return ((i, key) for i, key in enumerate(() if keys is None else keys) if key is not None)


def outcome_of(verdict: Verdict, answer: Any) -> CallOutcome:
    """Return the outcome of a call that has one verdict."""
    if verdict.repeated:
        return REPEATED
    violation, alarm = verdict.violation, verdict.alarm
    if not violation and not alarm:
        return NOTHING_FOUND
    return CallOutcome(1, violation, alarm, 1, [Flagged(verdict, answer)])


def _check_rows(x: Any) -> None:
    if not hasattr(x, "__len__"):
        raise UnexpectedValue(
            f"the input is a {type(x).__name__}, whose rows cannot be read; expected an array, a"
            " frame or a list.",
            advice="Say with input= how to make one of it.",
        )


def read_keys(table: Any, column: str, rule: Any) -> Sequence[Any]:
    """Return the keys in a column of a table; none if a row lacks columns of the rule."""
    names = [name for name, feature in rule.features.items() if feature.kind != "ignore"]
    all_names = [*rule.features, *rule.output_columns]
    try:
        columns = columns_of(table, names, all_names if rule.extra == "reject" else None)
        return require_list(columns[column])
    except BadDecision:
        return ()


def _copy_output(output: Any) -> Any:
    return output.copy() if isinstance(output, np.ndarray) else to_python_scalar(output)
