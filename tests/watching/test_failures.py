"""A watcher that fails never breaks the model, and never fails in silence."""

import json
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.watching.watch_records import Counts
from tests.support.refusals import warns
from tests.support.small_disk import on_small_disk, skip_without
from tests.watching.models import RULE, classifier, flowers


def no(*args, **kwargs):
    raise RuntimeError("not today")


def positive(x):
    return bool(np.sum(x) > 0)


def closed_monitor():
    monitor = lw.Monitor(RULE)
    monitor.close()
    return monitor


def wide_monitor():
    monitor = lw.Monitor(RULE)
    monitor.observe(np.zeros(7), True)
    return monitor


class BrokenMonitor(lw.Monitor):
    """One that fails as only someone else's can."""

    def observe(self, *args, **kwargs):
        raise MemoryError("none left")

    observe_many = observe


GOOD = [1.0, 2.0]
FAILING = {
    "NaN in the input": (lw.Monitor(RULE), {}, [np.nan, 1.0], lw.errors.UnexpectedValue),
    "words in the input": (
        lw.Monitor(RULE), {"input": lambda x: ["a"]}, GOOD, lw.errors.UnexpectedValue
    ),
    "wrong shape": (wide_monitor(), {}, GOOD, lw.errors.WrongShape),
    "closed monitor": (closed_monitor(), {}, GOOD, lw.errors.BadDecision),
    "broken monitor": (BrokenMonitor(RULE), {}, GOOD, MemoryError),
    "output no label": (
        lw.Monitor(RULE), {"output": lambda z: [z]}, GOOD, lw.errors.UnexpectedValue
    ),
    "input raises": (lw.Monitor(RULE), {"input": no}, GOOD, RuntimeError),
    "output raises": (lw.Monitor(RULE), {"output": no}, GOOD, RuntimeError),
}  # fmt: skip


@pytest.fixture(params=FAILING, ids=[name.replace(" ", "-") for name in FAILING])
def failing(request):
    return FAILING[request.param]


def test_failure_warns_unless_told_otherwise_and_the_answer_is_given(failing):
    monitor, settings, x, kind = failing
    rows = len(monitor) if hasattr(monitor, "__len__") else 0
    watched = lw.watch(positive, monitor, **settings)
    assert watched.on_failure == "warn"
    with warns(lw.errors.FailureWarning) as warned:
        answer = watched(x)
    assert answer == positive(x)
    assert warned[0].filename == __file__
    assert watched.counts == Counts(0, 0, 1)
    (failure,) = watched.failures
    assert failure.call == 1 and type(failure.error) is kind
    assert failure.error.__traceback__ is None and "Traceback" in failure.traceback
    assert str(failure).startswith("call 1: ")
    if rows:
        assert len(monitor) == rows


def test_failure_is_only_recorded_if_so_chosen(failing):
    monitor, settings, x, kind = failing
    watched = lw.watch(positive, monitor, on_failure="record", **settings)
    assert watched(x) == watched(x) == positive(x)
    assert watched.counts.failures == 2
    assert [(failure.call, type(failure.error)) for failure in watched.failures] == [
        (1, kind),
        (2, kind),
    ]


def test_failure_is_raised_if_so_chosen(failing):
    monitor, settings, x, kind = failing
    watched = lw.watch(positive, monitor, on_failure="raise", **settings)
    with pytest.raises(kind) as raised:
        watched(x)
    assert "while watching positive" in raised.value.__notes__[0]
    assert watched.counts.failures == 1


def test_failure_goes_to_a_callable_if_so_chosen(failing):
    monitor, settings, x, kind = failing
    got = []
    watched = lw.watch(positive, monitor, on_failure=got.append, **settings)
    assert watched(x) == positive(x)
    assert tuple(got) == watched.failures
    assert type(got[0].error) is kind


def test_watching_goes_on_after_a_failure():
    watched = lw.watch(positive, RULE, on_failure="record")
    for x in ([1.0], [np.nan], [1.0, 2.0], [0.9], [-0.1]):
        watched(x)
    assert watched.counts == Counts(3, 0, 2)
    assert [failure.call for failure in watched.failures] == [2, 3]


def test_bad_row_fails_its_batch_whole():
    model, X = classifier(), flowers()
    X[3, 0] = np.nan
    watched = lw.watch(lambda X: model.predict(np.nan_to_num(X)), RULE, batched=True)
    with warns(lw.errors.FailureWarning):
        watched(X)
    assert len(watched.monitor) == 0
    watched(X[4:])
    assert watched.counts.decisions == len(X) - 4


@pytest.mark.parametrize("answers", [[1, 2, 3], 7, None], ids=["too-many", "one", "none"])
def test_batch_with_another_number_of_outputs_fails(answers):
    watched = lw.watch(lambda X: answers, RULE, batched=True, on_failure="record")
    assert watched(np.zeros((2, 2))) is answers
    assert watched(np.zeros((1, 2))) is answers
    assert watched.counts == Counts(0, 0, 2)


def test_call_without_arguments_has_no_input():
    watched = lw.watch(lambda: 1, RULE)
    with warns(lw.errors.FailureWarning):
        assert watched() == 1


def test_callable_for_violations_that_raises_is_a_failure_and_the_rest_are_told():
    got = []

    def on_violation(record):
        got.append(record.verdict.row)
        raise RuntimeError(f"pager, row {record.verdict.row}")

    watched = lw.watch(
        lambda X: np.arange(len(X)),
        RULE,
        batched=True,
        on_violation=on_violation,
        on_failure="record",
    )
    assert watched(np.zeros((4, 2))).tolist() == [0, 1, 2, 3]
    assert got == [1, 2, 3]
    assert watched.counts == Counts(4, 3, 3)
    assert [str(failure.error) for failure in watched.failures] == [
        f"pager, row {row}" for row in got
    ]
    assert len(watched.monitor) == 4


def test_callable_for_failures_that_raises_is_recorded_and_warned_of():
    watched = lw.watch(positive, RULE, on_failure=no)
    with pytest.warns(lw.errors.FailureWarning, match="not today"):
        assert watched([np.nan]) is False
    assert [type(failure.error) for failure in watched.failures] == [
        lw.errors.UnexpectedValue,
        RuntimeError,
    ]


def test_same_failure_is_shown_once_and_every_violation():
    watched = lw.watch(positive, RULE, on_violation="warn")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        for x in [[np.nan]] * 5 + [[0.1], [-0.1], [0.1], [-0.1]]:
            watched(x)
    kinds = [warning.category for warning in warned]
    assert kinds == [lw.errors.FailureWarning] + [lw.errors.ViolationWarning] * 3
    assert watched.counts.failures == 5


def test_warnings_leave_nothing_behind_in_the_module_that_calls():
    watched = lw.watch(positive, RULE, on_violation="warn")
    before = dict(globals().get("__warningregistry__", {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in ([np.nan], [0.1], [-0.1]):
            watched(x)
    assert watched.counts.violations == watched.counts.failures == 1
    assert globals().get("__warningregistry__", {}).keys() - before.keys() <= {"version"}


WHERE_IT_FAILS = {
    "input": {"input": no},
    "output": {"output": no},
    "monitor": {"input": lambda x: [np.nan]},
    "on_violation": {"on_violation": no},
    "on_failure": {"input": lambda x: [np.nan], "on_failure": no},
}


def handling(use):
    """The caller's own exception, with another behind it, after `use` was called meanwhile."""
    try:
        try:
            raise KeyError("first")
        except KeyError as first:
            raise ValueError("the caller's own") from first
    except ValueError as error:
        use()
        return error


@pytest.mark.parametrize("where", WHERE_IT_FAILS)
def test_exception_that_the_caller_handles_is_left_alone_and_let_go_of(where):
    answers = iter(range(9))
    watched = lw.watch(
        lambda x: next(answers), RULE, **{"on_failure": "record"} | WHERE_IT_FAILS[where]
    )

    def use():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            watched([0.0]), watched([0.0])

    error = handling(use)
    assert error.__traceback__ is not None and error.__cause__ is error.__context__
    assert error.__cause__.__traceback__ is not None
    assert "the caller's own" in watched.failures[0].traceback
    for failure in watched.failures:
        kept = [failure.error]
        for one in kept:
            assert one.__traceback__ is None and one is not error
            kept.extend(other for other in (one.__cause__, one.__context__) if other is not None)


def test_exception_that_the_caller_handles_may_be_raised_again_while_watching():
    def again(x):
        raise sys.exception()

    watched = lw.watch(positive, RULE, input=again, on_failure="record")
    error = handling(lambda: watched([0.0]))
    assert watched.failures[0].error is error
    assert error.__traceback__ is not None and error.__cause__.__traceback__ is not None


def test_raised_failure_keeps_its_frames_and_those_behind_it():
    def wrong(x):
        try:
            no()
        except RuntimeError as error:
            raise LookupError("of the second") from error

    watched = lw.watch(positive, RULE, input=wrong, on_failure="raise")
    with pytest.raises(LookupError) as raised:
        watched([0.0])
    frames = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert "wrong" in frames
    behind = traceback.extract_tb(raised.value.__cause__.__traceback__)
    assert [frame.name for frame in behind] == ["wrong", "no"]


def test_failure_has_the_number_of_its_own_call_though_others_came_meanwhile():
    def on_violation(record):
        if record.verdict.row == 1:
            watched([9.0])
            raise RuntimeError("in the second call")

    watched = lw.watch(positive, RULE, on_violation=on_violation, on_failure="record")
    watched([0.1]), watched([-0.1])
    assert watched.counts.decisions == 3
    assert [failure.call for failure in watched.failures] == [2]


@pytest.mark.parametrize("where", ["input", "on_violation"])
def test_interrupt_is_never_swallowed(where):
    def stop(*_):
        raise KeyboardInterrupt

    answers = iter([0, 1])
    watched = lw.watch(lambda x: next(answers), RULE, **{where: stop})
    with pytest.raises(KeyboardInterrupt):
        watched([0.0]), watched([0.0])
    assert watched.counts.failures == 0


def test_closed_ledger_fails_and_the_model_goes_on(tmp_path):
    ledger = lw.open(tmp_path, RULE)
    watched = lw.watch(positive, ledger)
    watched([1.0])
    ledger.close()
    with warns(lw.errors.FailureWarning):
        assert watched([-1.0]) is False
    assert watched.counts == Counts(1, 0, 1)


def test_full_disk_does_not_stop_the_model(tmp_path):
    skip_without(tmp_path)
    program = Path(__file__).with_name("filled.py")
    done = on_small_disk(tmp_path, sys.executable, program, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["watched"] > 100 and found["failed"] == 20
    assert found["again"] == 40
    assert 1 <= found["warned"] <= found["failed"]


def test_every_violation_is_told_though_the_callable_raises_at_each():
    told = []

    def tell(flagged):
        told.append(flagged.verdict.row)
        raise RuntimeError(f"row {flagged.verdict.row}")

    x = [[0.0, 0.0], [0.0, 0.0], [0.01, 0.0], [0.0, 0.01]]
    for on_failure in ("record", "raise"):
        told.clear()
        model = lw.watch(
            lambda batch: [0, 1, 1, 2], RULE, batched=True, on_violation=tell, on_failure=on_failure
        )
        if on_failure == "raise":
            with pytest.raises(RuntimeError, match="row 1"):
                model(x)
        else:
            assert model(x) == [0, 1, 1, 2]
        assert told == [1, 2, 3]
        assert model.counts == Counts(4, 3, 3)
        assert sorted(str(one.error) for one in model.failures) == ["row 1", "row 2", "row 3"]
        assert model.monitor.rows == 4
