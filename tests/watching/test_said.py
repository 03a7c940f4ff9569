"""What is not watched as was meant is said once; the log names no values of people."""

import copy
import logging
import pickle
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import likewise as lw
from tests.support.lazily import joblib
from tests.support.programs import run_python
from tests.watching.models import NUMBER, RULE, classifier, flowers, regressor


def warned_by(call):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        call()
    return [one for one in warned if issubclass(one.category, lw.errors.HintWarning)]


# Labels that hardly repeat


@pytest.mark.parametrize("batched", [False, True])
def test_label_rule_on_a_regressor_hints_once_at_numbers(batched):
    X = np.random.default_rng(1).random((600, 2))
    model = lw.watch(
        (lambda X: X[:, 0] * 3) if batched else (lambda x: float(x[0] * 3)), RULE, batched=batched
    )

    def serve():
        for part in np.split(X, 12) if batched else X:
            model(part)

    (hint,) = warned_by(serve)
    assert 'output="number"' in str(hint.message) and hint.filename == __file__
    assert not any(str(value) in str(hint.message) for value in (X[:, 0] * 3).tolist())
    assert model.counts.decisions == 600


def test_estimator_that_regresses_under_a_label_rule_hints():
    X = np.random.default_rng(1).random((300, 2))
    from sklearn.linear_model import LinearRegression

    model = lw.watch(LinearRegression().fit(X, X[:, 0] + X[:, 1] ** 2), RULE)
    (hint,) = warned_by(lambda: model.predict(X))
    assert "LinearRegression" in str(hint.message)


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        (RULE, lambda i: i % 7),
        (RULE, lambda i: int(np.random.default_rng(i).integers(1000))),  # many classes by number
        (RULE, lambda i: f"text {i}"),  # no numbers
        (RULE, lambda i: (i % 50) / 4),  # few scores
        (NUMBER, lambda i: i / 7),
    ],
)
def test_outputs_that_repeat_or_are_no_numbers_make_no_hint(rule, answer):
    numbers = iter(range(1000))
    model = lw.watch(lambda x: answer(next(numbers)), rule)
    random = np.random.default_rng(2).random((600, 2)) * 100
    assert not warned_by(lambda: [model(x) for x in random])
    assert model.counts.decisions == 600


# Copies


@pytest.mark.parametrize("through", ["pickle", "joblib", "deepcopy"])
def test_copy_of_a_watched_estimator_says_once_what_is_not_told_any_more(through, tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as ledger:
        model = lw.watch(classifier(), ledger)
        if through == "pickle":
            other = pickle.loads(pickle.dumps(model))
        elif through == "deepcopy":
            other = copy.deepcopy(model)
        else:
            joblib.dump(model, tmp_path / "model")
            other = joblib.load(tmp_path / "model")
        (hint,) = warned_by(lambda: [other.predict(flowers()) for _ in range(3)])
        text = str(hint.message)
        assert "DecisionTreeClassifier" in text and "Monitor" in text and "lw.watch" in text
        assert hint.filename == __file__
        assert ledger.rows == 0 and other.counts.decisions == 450
        assert not warned_by(lambda: model.predict(flowers()))
        (again,) = warned_by(lambda: copy.deepcopy(other).predict(flowers()))
        assert "copy" in str(again.message)


@pytest.mark.long
def test_workers_of_joblib_say_that_they_tell_another_history(tmp_path):
    code = (
        "import joblib, numpy as np, likewise as lw\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "X, y = np.random.default_rng(0).random((40, 2)), [0, 1] * 20\n"
        "model = lw.watch(LogisticRegression().fit(X, y), lw.Rule('linf', 0.1))\n"
        "joblib.Parallel(2)(joblib.delayed(model.predict)(X) for _ in range(4))\n"
        "print(model.counts.decisions)\n"
    )
    done = run_python("-c", code, code=None)
    assert done.stdout == "0\n", done.stderr
    assert "HintWarning" in done.stderr and "LogisticRegression" in done.stderr


def test_fitted_again_a_copy_has_nothing_to_say():
    model = pickle.loads(pickle.dumps(lw.watch(regressor(), NUMBER)))
    flower = flowers()
    assert not warned_by(lambda: model.fit(flower, flower[:, 0]).predict(flower))


class Module:
    """As much of a torch module as a watch uses."""

    training = False

    def __init__(self):
        self.hooks = []

    def _register(self, hook, with_kwargs):
        assert with_kwargs
        self.hooks.append(hook)

    register_forward_pre_hook = register_forward_hook = _register

    def __call__(self, *args, **kwargs):
        before, after = self.hooks
        before(self, args, kwargs)
        answer = [1] * len(args[0])
        after(self, args, kwargs, answer)
        return answer


@pytest.mark.parametrize("through", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copy_of_a_watched_module_says_once_that_it_is_not_watched(through, monkeypatch):
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(nn=SimpleNamespace(Module=Module), Tensor=Module)
    )
    module = Module()
    watched = lw.watch(module, RULE)
    other = through(through(module))  # a copy of a copy is none the less one
    (hint,) = warned_by(lambda: [other(np.zeros((2, 1))) for _ in range(3)])
    assert "Module is a copy" in str(hint.message) and "not watched" in str(hint.message)
    assert hint.filename == __file__
    assert not warned_by(lambda: module(np.zeros((2, 1))))
    assert watched.counts.decisions == 2
    another = through(module)
    another.training = True
    assert not warned_by(lambda: another(np.zeros((2, 1))))


# The log

SECRET = "Mrs Jones"


def serve_everything(tmp_path, **settings):
    """Violations, failures, repeated keys, with a name in every input, output, key and error."""

    def model(row, case):
        if row["age"] == 44:
            return SECRET
        return f"not {SECRET}"

    rule = lw.Rule(
        features={"age": lw.Feature("number", tolerance=5), "name": lw.Feature("protected")},
        output_column="ok",
    )
    with (
        lw.open(tmp_path, rule) as ledger,
        lw.watch(
            model, ledger, key=lambda row, case: case, on_failure="record", **settings
        ) as watched,
    ):
        watched({"age": 41, "name": SECRET}, f"{SECRET} 1")
        watched({"age": 44, "name": SECRET}, f"{SECRET} 2")
        watched({"age": 44, "name": SECRET}, f"{SECRET} 2")
        watched({"age": SECRET, "name": SECRET}, f"{SECRET} 3")
        watched({"age": SECRET, "name": SECRET}, f"{SECRET} 4")
    return watched


@pytest.mark.parametrize("background", [False, True])
def test_log_tells_what_happened_and_nothing_about_people(tmp_path, caplog, background):
    caplog.set_level(logging.DEBUG, logger="likewise")
    watched = serve_everything(tmp_path, background=background)
    assert watched.counts.violations == 1 and watched.counts.failures == 2
    told = [(one.levelname, one.getMessage()) for one in caplog.records]
    assert all(one.name == "likewise" for one in caplog.records)
    assert any(level == "INFO" and "row 1 contradicts" in text for level, text in told), told
    failures = [level for level, text in told if "UnexpectedValue" in text]
    assert failures == ["WARNING", "DEBUG"]  # the first of its kind is for everyone
    assert any("repeated" in text for _, text in told)
    assert any("2 decisions" in text for _, text in told)
    for one in caplog.records:
        formatted = logging.Formatter().format(one)
        assert "Jones" not in formatted and "44" not in formatted.replace(str(tmp_path), "")
        assert one.exc_info is None


def test_log_is_silent_unless_asked_for():
    code = (
        "import math, likewise as lw\n"
        "watched = lw.watch(lambda x: x[0] > 1, lw.Rule('linf', 1), on_failure='record')\n"
        "watched([1.2]), watched([0.9]), watched([math.nan])\n"
    )
    done = run_python("-c", code, code=None)
    assert done.returncode == 0 and done.stdout == done.stderr == ""
