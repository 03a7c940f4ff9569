"""A watched callable answers what it answered, and its monitor is told of each decision."""

import asyncio
import gc
import inspect
import pickle
import threading
import warnings
import weakref

import numpy as np
import pytest

import likewise as lw
from likewise.tables.copy_input import copy_input
from likewise.watching.watch_records import Counts
from tests.support.looping import each
from tests.support.refusals import raises, warns
from tests.support.slopes import slope_monitor
from tests.watching.models import NUMBER, PROBABILITIES, RULE, classifier, flowers, same


class Answer:
    """An answer that equals only itself."""

    def __init__(self, label):
        self.label = label


def threshold(x):
    """Whether the first feature is large."""
    return "yes" if x[0] > 1 else "no"


def test_watched_callable_answers_the_very_object():
    given = []

    def model(x):
        given.append(Answer(threshold(x)))
        return given[-1]

    watched = lw.watch(model, RULE, output=lambda answer: answer.label)
    answers = [watched(x) for x in flowers()]
    assert all(one is other for one, other in zip(answers, given, strict=True))
    assert watched.counts.decisions == len(answers)
    assert 0 < watched.counts.violations < len(answers)
    assert watched.violations[-1].answer in given


def test_watched_callable_looks_like_the_function_it_wraps():
    watched = lw.watch(threshold, RULE)
    assert watched.__name__ == "threshold"
    assert watched.__doc__ == threshold.__doc__
    assert watched.__wrapped__ is threshold
    assert list(inspect.signature(watched).parameters) == ["x"]


def test_watched_repr_names_policies_and_counts():
    def page_someone(record):
        pass

    watched = lw.watch(threshold, RULE, on_violation=page_someone, on_failure="record")
    watched([1.1]), watched([0.9])
    text = repr(watched)
    assert "threshold" in text and "page_someone" in text and "on_failure='record'" in text
    assert "2 decisions, 1 violations, 0 failures" in text
    assert watched.on_violation is page_someone and watched.on_failure == "record"


@pytest.mark.parametrize("rule", [RULE, NUMBER, PROBABILITIES], ids=lambda rule: rule.output)
def test_verdicts_of_batches_and_of_single_inputs_are_those_of_a_monitor(rule):
    model, X = classifier(), flowers()
    decide = model.predict_proba if rule.output == "probabilities" else model.predict
    told = list(lw.Monitor(rule).observe_many(X, decide(X)))
    found = [verdict for verdict in told if verdict.violation]
    assert len(found) > 10

    batched = lw.watch(decide, rule, batched=True, keep=1000)
    sizes = [1, 1, 7, 1, 40, 100]
    for stop, size in zip(np.cumsum(sizes), sizes, strict=True):
        X_part = X[stop - size : stop]
        assert np.array_equal(batched(X_part), decide(X_part))
    single = lw.watch(lambda x: decide(x[None])[0], rule, keep=1000)
    for x in X:
        single(x)
    for watched in (batched, single):
        assert watched.counts == Counts(len(X), len(found), 0)
        assert len(watched.violations) == len(found)
        for record, verdict in zip(watched.violations, found, strict=True):
            assert same(record.verdict, verdict)
            assert np.array_equal(record.answer, decide(X)[verdict.row])


def test_exception_of_the_model_passes_and_nothing_is_observed():
    fault = KeyError("the model's own")

    def model(x):
        raise fault

    watched = lw.watch(model, RULE)
    with pytest.raises(KeyError) as raised:
        watched([1.0])
    assert raised.value is fault
    assert len(watched.monitor) == 0
    assert watched.counts == Counts(0, 0, 0)


@pytest.mark.parametrize("make", [list, np.array, lambda x: [list(x)]], ids=["list", "array", "2d"])
def test_input_is_observed_as_it_was_given_though_the_model_changes_it(make):
    def model(x):
        if isinstance(x[0], list):
            x[0][0] = 9.0
        else:
            x[0] = 9.0
        return "same"

    watched = lw.watch(model, RULE)
    given = make([1.0, 2.0])
    watched(given)
    assert np.array_equal(watched.monitor.past.inputs(0)[0], make([1.0, 2.0]))
    assert not np.array_equal(given, make([1.0, 2.0]))


@pytest.mark.parametrize(
    "view", [lambda x: x.view(), lambda x: x[:1][:], lambda x: x.T], ids=["view", "part", "turned"]
)
def test_read_only_view_of_an_array_that_changes_is_observed_as_it_was_given(view):
    buffer = np.array([1.0])
    given = view(buffer)
    given.flags.writeable = False

    def model(x):
        buffer[0] = 9.0
        return "same"

    watched = lw.watch(model, RULE)
    watched(given)
    assert watched.monitor.past.inputs(0).tolist() == [[1.0]]


def test_array_that_stays_as_it_is_is_not_copied():
    owner = np.array([[1.0], [2.0]])
    owner.flags.writeable = False
    for fixed in (owner, owner[1], np.frombuffer(owner.tobytes())):
        assert copy_input(fixed) is fixed
    for changing in (np.array([1.0]), np.frombuffer(bytearray(owner.tobytes()))):
        assert copy_input(changing) is not changing


def test_row_of_a_table_is_observed_as_it_was_given():
    rule = lw.Rule(features={"age": lw.Feature("number", tolerance=5)}, output_column="ok")

    def model(row):
        row["age"] = 0
        row["extra"] = 1
        return "yes"

    watched = lw.watch(model, rule)
    watched({"age": 41})
    assert watched.monitor.past.values(0) == {"age": 41, "ok": "yes"}


def test_input_is_not_kept_from_changing_by_being_watched():
    watched = lw.watch(threshold, RULE)
    x = np.array([1.0, 2.0])
    before = x.copy()
    watched(x)
    assert np.array_equal(x, before) and x.flags.writeable
    fixed = np.array([1.0, 2.0])
    fixed.flags.writeable = False
    watched(fixed)
    assert watched.counts.decisions == 2


def test_input_and_output_are_taken_from_where_they_are_said_to_be():
    def model(context, *, features, verbose=False):
        return {"label": threshold(features), "seconds": 0.1}

    watched = lw.watch(
        model,
        RULE,
        input=lambda context, features, **_: features,
        output=lambda answer: answer["label"],
    )
    assert watched("a", features=[1.2])["seconds"] == 0.1
    watched("b", features=[0.9], verbose=True)
    (record,) = watched.violations
    assert record.answer == {"label": "no", "seconds": 0.1}
    assert record.verdict.witnesses.rows.tolist() == [0]


def test_only_keyword_argument_is_the_input():
    watched = lw.watch(threshold, RULE)
    watched(x=[1.2])
    assert watched.monitor.past.inputs(0).tolist() == [[1.2]]


def test_rule_with_features_watches_rows_and_frames():
    pd = pytest.importorskip("pandas")
    rule = lw.Rule(
        features={
            "age": lw.Feature("number", tolerance=5),
            "job": lw.Feature("category"),
        },
        output_column="approved",
    )
    rows = [
        {"age": 41, "job": "nurse"},
        {"age": 44, "job": "nurse"},
        {"age": 43, "job": "clerk"},
        {"age": 39, "job": "nurse", "approved": "?"},  # a column of the output is not the input
    ]

    def decide(row):
        return "yes" if row["age"] > 42 else "no"

    one = lw.watch(decide, rule)
    for row in rows:
        one(row)
    frame = pd.DataFrame(rows, index=[7, 7, 8, 9])
    many = lw.watch(lambda frame: frame["age"].gt(42).map({True: "yes", False: "no"}), rule,
                    batched=True)  # fmt: skip
    answer = many(frame)
    assert isinstance(answer, pd.Series)
    apart = lw.watch(many.__wrapped__, rule, batched=True)
    for i in range(len(frame)):
        apart(frame[i : i + 1])
    for watched in (one, many, apart):
        assert watched.counts == Counts(4, 2, 0)
        assert watched.monitor.past.values(1) == {"age": 44, "job": "nurse", "approved": "yes"}
        assert "nurse" in str(watched.violations[0].verdict.explain())


def test_existing_monitor_is_told_and_stays_open():
    monitor = lw.Monitor(RULE)
    monitor.observe([1.2], "yes")
    with lw.watch(threshold, monitor) as watched:
        watched([0.9])
        assert watched.monitor is monitor
        assert watched.violations[0].verdict.witnesses.rows.tolist() == [0]
    monitor.observe([1.0], "no")
    assert len(monitor) == 3


def test_slopes_can_be_watched():
    rule = lw.Rule("l2", 1, output="number")
    watched = lw.watch(lambda x: x[0] ** 2, slope_monitor(rule, slope_limit=3), on_violation="warn")
    watched([1.0])
    with warns(lw.errors.ViolationWarning):
        watched([3.0])
    assert watched.counts.violations == 1


def test_leaving_the_context_ends_the_watch_and_not_the_model():
    with lw.watch(threshold, RULE) as watched:
        watched([1.2])
    assert watched([0.9]) == "no"
    assert watched.counts.decisions == 1
    assert "closed" in repr(watched)
    with raises(lw.errors.BadDecision):
        watched.monitor.observe([1.0], "yes")


def test_settings_reach_the_monitor_that_is_made(tmp_path):
    watched = lw.watch(threshold, RULE, index="live", row_file=tmp_path / "rows")
    watched([1.2])
    assert (tmp_path / "rows").exists()
    watched.close()


def test_keys_reach_a_ledger(tmp_path):
    with lw.open(tmp_path / "one", RULE) as ledger:
        watched = lw.watch(
            lambda x, case: threshold(x), ledger, key=lambda x, case: case, on_failure="raise"
        )
        watched([1.2], case="a")
        watched([0.9], case="b")
        assert ledger.row_of("b") == 1
        assert watched([0.9], case="b") == "no"
        assert watched.counts.repeated == 1 and ledger.rows == 2
    with lw.open(tmp_path / "many", RULE) as ledger:
        predict = classifier().predict
        watched = lw.watch(
            lambda X, cases: predict(X),
            ledger,
            key=lambda X, cases: cases,
            batched=True,
            on_failure="raise",
        )
        watched(flowers()[:3], cases=["c", "d", "e"])
        watched(flowers()[3:4], cases=["f"])
        assert [ledger.row_of(key) for key in "cdef"] == [0, 1, 2, 3]


def handed_on(model):
    """A plain function that answers with what an async one answers: a coroutine."""

    def call(x):
        return model(x)

    return call


def test_async_callable_is_awaited_and_watched():
    async def model(x):
        await asyncio.sleep(0)
        return threshold(x)

    class Served:
        async def __call__(self, x):
            return await model(x)

    def scheduled(x):
        return asyncio.ensure_future(model(x))

    for one in (model, Served(), handed_on(model), scheduled):
        watched = lw.watch(one, RULE)

        async def serve(watched=watched):
            return await asyncio.gather(*(watched([value]) for value in (1.2, 0.9, 5.0)))

        assert asyncio.run(serve()) == ["yes", "no", "yes"]
        assert watched.counts == Counts(3, 1, 0)


def test_awaitable_is_observed_by_what_it_gives_when_it_is_awaited():
    async def model(x):
        x[0] = 7.0
        return [threshold(x)]

    watched = lw.watch(handed_on(model), RULE, output=lambda answer: answer[0])

    async def serve():
        pending = watched([0.5])
        assert watched.counts.decisions == 0
        return await pending

    assert asyncio.run(serve()) == ["yes"]
    assert watched.counts == Counts(1, 0, 0)
    assert watched.monitor.past.inputs(0).tolist() == [[0.5]]  # as it was given


def test_exception_of_an_awaited_model_passes_and_nothing_is_observed():
    async def model(x):
        raise KeyError("the model's own")

    for one in (model, handed_on(model)):
        watched = lw.watch(one, RULE)
        with pytest.raises(KeyError, match="the model's own"):
            asyncio.run(watched([1.0]))
        assert watched.counts == Counts(0, 0, 0)


def test_watched_async_function_is_seen_to_be_one():
    async def model(x, *, loud=False):
        return threshold(x)

    class Served:
        async def decide(self, x):
            return threshold(x)

    for one in (model, Served().decide):
        watched = lw.watch(one, RULE)
        assert inspect.iscoroutinefunction(watched)
        assert inspect.signature(watched) == inspect.signature(one)
        assert watched.__name__ == one.__name__
    assert not inspect.iscoroutinefunction(lw.watch(threshold, RULE))


def test_threads_lose_no_decision():
    watched = lw.watch(classifier().predict, RULE, batched=True, keep=5)
    X = flowers()
    parts = [np.concatenate([X + 10 * k]) for k in range(8)]  # threads do not meet
    expected = [
        lw.Monitor(RULE).observe_many(part, watched.__wrapped__(part)).violations.sum()
        for part in parts
    ]

    def serve(part):
        for i in range(len(part)):
            watched(part[i : i + 1])

    threads = [threading.Thread(target=serve, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert watched.counts == Counts(8 * len(X), sum(expected), 0)
    assert len(watched.monitor) == 8 * len(X)
    assert len(watched.violations) == 5


def test_what_is_kept_is_bounded():
    watched = lw.watch(lambda X: np.arange(len(X)), RULE, batched=True, keep=3)
    watched(np.zeros((50, 2)))
    assert watched.counts.violations == 49
    assert [record.verdict.row for record in watched.violations] == [47, 48, 49]
    for record in watched.violations:
        assert record.verdict.witnesses.rows.base is None  # not the batch's whole array


def test_given_inputs_are_let_go_of():
    watched = lw.watch(threshold, RULE, on_failure="record")
    for bad in (1.0, np.nan):
        x = np.array([bad, 2.0])
        gone = weakref.ref(x)
        watched(x)
        del x
        gc.collect()
        assert gone() is None
    assert watched.counts == Counts(1, 0, 1)


def test_watched_is_not_pickled():
    with pytest.raises(TypeError, match="holds a history"):
        pickle.dumps(lw.watch(threshold, RULE))


# What happens at a violation


def test_recorded_violation_makes_no_noise():
    watched = lw.watch(threshold, RULE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watched([1.2]), watched([0.9])
    assert watched.counts.violations == 1


def test_warning_names_rows_and_distances_and_the_line_of_the_caller():
    watched = lw.watch(threshold, RULE, on_violation="warn")
    watched([1.25])
    with pytest.warns(lw.errors.ViolationWarning) as warned:
        assert watched([1.0]) == "no"
    text = str(warned[0].message)
    assert text == "threshold: row 1 contradicts row 0 (inputs 0.25 apart, outputs 1)"
    assert warned[0].filename == __file__


def test_warning_of_a_batch_comes_once():
    watched = lw.watch(lambda X: np.arange(len(X)), RULE, batched=True, on_violation="warn")
    with pytest.warns(lw.errors.ViolationWarning) as warned:
        watched(np.zeros((50, 2)))
    assert len(warned) == 1
    assert "and 46 more decisions" in str(warned[0].message)


def test_raised_violation_carries_the_answer_and_the_decision_is_remembered():
    answers = []

    def model(x):
        answers.append([threshold(x)])
        return answers[-1]

    watched = lw.watch(model, RULE, output=lambda answer: answer[0], on_violation="raise")
    watched([1.2])
    with raises(lw.errors.Violation) as raised:
        watched([0.9])
    assert raised.value.answer is answers[1]
    assert raised.value.verdict.row == 1 and len(raised.value.verdicts) == 1
    assert len(watched.monitor) == 2
    assert watched.counts == Counts(2, 1, 0)
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value) and again.answer == ["no"]


def test_raised_violation_of_a_batch_carries_all_verdicts():
    X, model = flowers(), classifier()
    found = [one for one in lw.Monitor(RULE).observe_many(X, model.predict(X)) if one.violation]
    watched = lw.watch(model.predict, RULE, batched=True, on_violation="raise", keep=2)
    with pytest.raises(lw.errors.Violation) as raised:
        watched(X)
    assert np.array_equal(raised.value.answer, model.predict(X))
    assert all(same(*pair) for pair in zip(raised.value.verdicts, found, strict=True))


@pytest.mark.parametrize("batched", [False, True])
def test_callable_gets_each_violation_once(batched):
    got = []
    if batched:
        watched = lw.watch(lambda X: np.arange(len(X)), RULE, batched=True, on_violation=got.append)
        watched(np.zeros((5, 2)))
    else:
        answers = iter(range(5))
        watched = lw.watch(lambda x: next(answers), RULE, on_violation=got.append)
        for _ in range(5):
            watched([0.0, 0.0])
    assert [(record.verdict.row, record.answer) for record in got] == [(i, i) for i in range(1, 5)]
    assert tuple(got) == watched.violations


# What happens at an alarm

BURST = lw.Burst(last=100, alarm=3)


def watched_in_a_burst(batched, monitor=RULE, **settings):
    """Someone looks around one input, and at the seventh query finds an edge."""
    if isinstance(monitor, lw.Rule):
        settings["burst"] = BURST
    queries = 1.06 - np.arange(7)[:, None] / 100
    if batched:
        model = lw.watch(lambda X: [threshold(x) for x in X], monitor, batched=True, **settings)
        model(queries)
    else:
        model = lw.watch(threshold, monitor, **settings)
        for query in queries:
            model(query)
    return model


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("ledger", [False, True])
def test_alarm_is_counted_and_recorded_beside_violations(batched, ledger, tmp_path):
    monitor = lw.open(tmp_path, RULE, burst=BURST) if ledger else RULE
    watched = watched_in_a_burst(batched, monitor)
    assert watched.counts == Counts(7, 1, 0, alarms=4), watched.failures
    assert repr(watched.counts) == "Counts(decisions=7, violations=1, failures=0, alarms=4)"
    assert "7 decisions, 1 violations, 0 failures, 4 alarms" in repr(watched)
    found = [(one.verdict.row, one.verdict.neighbours) for one in watched.violations]
    assert found == [(3, 3), (4, 4), (5, 5), (6, 6)]
    assert all(one.verdict.alarm for one in watched.violations)
    assert [one.verdict.violation for one in watched.violations] == [False] * 3 + [True]
    assert [one.answer for one in watched.violations] == ["yes"] * 3 + ["no"]
    assert str(watched.violations[0]) == "row 3 raises an alarm (3 neighbours)"
    assert str(watched.violations[-1]).startswith("row 6 contradicts row 5 (inputs 0.01")
    assert str(watched.violations[-1]).endswith(" and raises an alarm (6 neighbours)")
    if ledger:
        monitor.close()


def test_burst_without_an_alarm_is_only_counted():
    watched = lw.watch(threshold, RULE, burst=lw.Burst(last=100), on_violation="raise")
    for _ in range(9):
        watched([2.0])
    assert repr(watched.counts) == "Counts(decisions=9, violations=0, failures=0)"
    assert "alarm" not in repr(watched)


@pytest.mark.parametrize("batched", [False, True])
def test_alarm_is_warned_of(batched):
    with warns(lw.errors.ViolationWarning) as warned:
        watched_in_a_burst(batched, on_violation="warn")
    assert len(warned) == (1 if batched else 4)
    assert "row 3 raises an alarm (3 neighbours)" in str(warned[0].message)
    if batched:
        assert str(warned[0].message).endswith("; and 1 more decisions of this batch")


@pytest.mark.parametrize("batched", [False, True])
def test_alarm_is_raised_with_the_answer(batched):
    with raises(lw.errors.Violation) as raised:
        watched_in_a_burst(batched, on_violation="raise")
    assert raised.value.verdict.alarm and not raised.value.verdict.violation
    assert raised.value.answer == (["yes"] * 6 + ["no"] if batched else "yes")


@pytest.mark.parametrize("batched", [False, True])
def test_callable_gets_each_alarm_once(batched):
    got = []
    watched = watched_in_a_burst(batched, on_violation=got.append)
    assert [record.verdict.row for record in got] == [3, 4, 5, 6]
    assert tuple(got) == watched.violations


# What is refused when the watch begins


@each(
    ("arguments", "settings", "text"),
    [
        ((3, RULE), {}, "the model is 3; expected a callable"),
        ((threshold, RULE), {"input": "x"}, "input is 'x'; expected a callable"),
        ((threshold, lw.Monitor(RULE)), {"index": "live"}, "a monitor was given"),
    ],
)
def test_what_is_of_the_wrong_type_is_refused_when_the_watch_begins(arguments, settings, text):
    with pytest.raises(TypeError, match=text):
        lw.watch(*arguments, **settings)


@each("settings", [{"on_violation": "stop"}, {"on_failure": None}, {"keep": 0}])
def test_a_setting_that_makes_no_sense_is_refused_when_the_watch_begins(settings):
    (setting,) = settings
    with raises(lw.errors.BadRule, setting=setting):
        lw.watch(threshold, RULE, **settings)


def test_what_is_no_rule_is_refused_when_the_watch_begins():
    with raises(lw.errors.BadRule):
        lw.watch(threshold, "linf")


def test_an_estimator_is_not_watched_one_by_one():
    with raises(lw.errors.BadRule, setting="batched"):
        lw.watch(classifier(), RULE, batched=False)


def test_key_beside_a_column_of_keys_is_refused(tmp_path):
    rule = lw.Rule(
        features={"age": lw.Feature("number", tolerance=5), "case": lw.Feature("key")},
        output_column="ok",
    )
    with (
        lw.open(tmp_path, rule) as ledger,
        pytest.raises(TypeError, match="from the column 'case'"),
    ):
        lw.watch(threshold, ledger, key=len)
