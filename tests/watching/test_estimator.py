"""A watched estimator is an estimator: it answers as the inner one, and works where that works."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import likewise as lw
from likewise.watching.watch_records import Counts
from tests.support.lazily import joblib
from tests.support.refusals import raises
from tests.watching.models import (
    NUMBER,
    PROBABILITIES,
    RULE,
    classifier,
    flowers,
    iris,
    regressor,
    same,
)


@pytest.fixture(autouse=True, scope="module")
def scikit_learn():
    """Load it with the first test, not when tests are collected."""
    global X, Y, csr_matrix, BaseEstimator, clone, is_classifier, is_regressor, KMeans
    global NotFittedError, LogisticRegression, Ridge, GridSearchCV, cross_val_predict
    global cross_val_score, make_pipeline, StandardScaler, LinearSVC, DecisionTreeClassifier
    global check_estimator
    from scipy.sparse import csr_matrix
    from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
    from sklearn.cluster import KMeans
    from sklearn.exceptions import NotFittedError
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC
    from sklearn.tree import DecisionTreeClassifier
    from sklearn.utils.estimator_checks import check_estimator

    X, Y = iris()


ESTIMATORS = {
    "tree, labels": (classifier, RULE, "predict"),
    "tree, numbers": (regressor, NUMBER, "predict"),
    "tree, probabilities": (classifier, PROBABILITIES, "predict_proba"),
    "logistic": (lambda: LogisticRegression(max_iter=500).fit(X[:, 2:], Y), RULE, "predict"),
    "words": (
        lambda: LogisticRegression(max_iter=500).fit(X[:, 2:], np.array(["a", "b", "c"])[Y]),
        RULE,
        "predict",
    ),
}


def check_as_scikit_learn_does(*estimators):
    """Run the checks of scikit-learn on estimators; return how many applied and passed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as the checks themselves decide
        done = [
            one
            for estimator in estimators
            for one in check_estimator(estimator, on_skip=None, on_fail=None)
        ]
    failed = {one["check_name"]: one["exception"] for one in done if one["status"] == "failed"}
    assert not failed, failed
    assert not [one for one in done if one["status"] == "xfail"]
    return sum(one["status"] == "passed" for one in done)


def test_watched_classifier_passes_the_checks_of_scikit_learn():
    assert check_as_scikit_learn_does(lw.WatchedEstimator(LogisticRegression(), RULE)) > 40


@pytest.mark.long
def test_watched_estimators_pass_the_checks_of_scikit_learn():
    ran = check_as_scikit_learn_does(
        lw.WatchedEstimator(LogisticRegression(), PROBABILITIES),
        lw.WatchedEstimator(DecisionTreeClassifier(random_state=0), RULE),
        lw.WatchedEstimator(Ridge(), NUMBER),
        lw.WatchedEstimator(make_pipeline(StandardScaler(), Ridge()), NUMBER),
    )
    assert ran > 160


@pytest.mark.parametrize("name", ESTIMATORS)
def test_watched_estimator_answers_as_the_inner_one_and_finds_what_a_monitor_finds(name):
    make, rule, method = ESTIMATORS[name]
    inner, flower = make(), flowers()
    watched = lw.watch(inner, rule, keep=1000)
    assert isinstance(watched, lw.WatchedEstimator) and watched.estimator_ is inner
    expected = getattr(inner, method)(flower)
    for part in (flower[:1], flower[1:2], flower[2:60], flower[60:]):
        answer, other = getattr(watched, method)(part), getattr(inner, method)(part)
        assert answer.dtype == other.dtype and np.array_equal(answer, other)
    told = lw.Monitor(rule).observe_many(flower, expected)
    found = [verdict for verdict in told if verdict.violation]
    assert len(found) > 5
    assert watched.counts == Counts(len(flower), len(found), 0)
    assert all(same(a.verdict, b) for a, b in zip(watched.violations, found, strict=True))


def test_only_the_method_of_the_rule_is_watched():
    model = lw.watch(classifier(), RULE)
    flower = flowers()
    model.predict_proba(flower), model.score(flower, flower[:, 0].round())
    assert model.counts.decisions == 0
    model.predict(flower)
    assert model.counts.decisions == len(flower)
    model = lw.watch(classifier(), PROBABILITIES)
    model.predict(flower)
    assert model.counts.decisions == 0


def test_fit_fits_a_clone_and_begins_a_new_history():
    inner = LogisticRegression(max_iter=500)
    model = lw.WatchedEstimator(inner, RULE)
    assert model.fit(X, Y) is model
    assert not hasattr(inner, "coef_")
    model.predict(X)
    first = model.monitor
    model.fit(X, Y, sample_weight=np.ones(len(X)))
    assert model.counts.decisions == 0 and model.monitor is not first
    assert len(first) == len(X)
    model.predict(X[:3])
    assert len(model.monitor) == 3


def test_fit_does_not_leave_a_monitor_that_was_given(tmp_path):
    inner = LogisticRegression(max_iter=500).fit(X, Y)
    with lw.open(tmp_path, RULE) as ledger:
        model = lw.watch(inner, ledger)
        model.predict(X[:3])
        with raises(lw.errors.BadRule):
            model.fit(X, Y)
        assert model.estimator_ is inner and model.monitor is ledger
        model.predict(X[3:5])
        again = lw.watch(clone(inner).fit(X[::2], Y[::2]), ledger)  # the way out
        again.predict(X[5:6])
        assert len(ledger) == 6
        assert clone(model).fit(X, Y).counts.decisions == 0  # a copy has a history of its own
    owned = lw.watch(inner, RULE)
    owned.predict(X)
    assert owned.fit(X, Y).counts.decisions == 0


def test_failed_fit_leaves_the_model_and_its_history():
    model = lw.WatchedEstimator(LogisticRegression(max_iter=500), RULE).fit(X, Y)
    model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X * np.nan, Y)
    assert len(model.monitor) == model.counts.decisions == len(X)


def test_methods_are_there_if_the_inner_one_has_them():
    assert not hasattr(lw.WatchedEstimator(LinearSVC(), RULE), "predict_proba")
    assert hasattr(lw.WatchedEstimator(LinearSVC(), RULE), "decision_function")
    assert not hasattr(lw.WatchedEstimator(Ridge(), RULE), "decision_function")
    clusters = lw.WatchedEstimator(KMeans(3, random_state=0, n_init=1), RULE).fit(X)
    assert np.array_equal(clusters.transform(X), clusters.estimator_.transform(X))
    assert not hasattr(clusters, "classes_") and not hasattr(clusters, "inverse_transform")
    model = lw.WatchedEstimator(LogisticRegression(max_iter=500), RULE)
    assert not hasattr(model, "classes_") and not hasattr(model, "n_features_in_")
    model.fit(X, Y)
    assert model.classes_.tolist() == [0, 1, 2] and model.n_features_in_ == 4
    assert model.score(X, Y) == model.estimator_.score(X, Y)
    assert is_classifier(model) and is_regressor(lw.WatchedEstimator(Ridge(), NUMBER))


def test_watched_estimator_works_in_pipelines_searches_and_cross_validation():
    watched = lw.WatchedEstimator(LogisticRegression(max_iter=500), RULE)
    inside = make_pipeline(StandardScaler(), watched).fit(X, Y)
    scaled = inside[0].transform(X)
    assert np.array_equal(inside.predict(X), inside[-1].estimator_.predict(scaled))
    assert np.array_equal(inside[-1].monitor.past.inputs(0), scaled[:1])
    around = lw.WatchedEstimator(make_pipeline(StandardScaler(), LogisticRegression()), RULE)
    around.fit(X, Y).predict(X)
    assert np.array_equal(around.monitor.past.inputs(0), X[:1])

    plain = LogisticRegression(max_iter=500)
    assert np.array_equal(cross_val_predict(watched, X, Y), cross_val_predict(plain, X, Y))
    assert np.array_equal(cross_val_score(watched, X, Y), cross_val_score(plain, X, Y))
    search = GridSearchCV(watched, {"estimator__C": [0.1, 1.0]}).fit(X, Y)
    other = GridSearchCV(plain, {"C": [0.1, 1.0]}).fit(X, Y)
    assert search.best_score_ == other.best_score_


def test_parameters_are_got_set_and_cloned():
    model = lw.WatchedEstimator(LogisticRegression(C=2), RULE, on_violation="warn", keep=7)
    got = model.get_params()
    assert got["rule"] == RULE and got["estimator__C"] == 2 and got["on_failure"] == "warn"
    model.set_params(estimator__C=3, on_violation="raise")
    other = clone(model.fit(X, Y))
    assert other.estimator.C == 3 and other.on_violation == "raise" and other.rule == RULE
    with pytest.raises(NotFittedError):
        other.predict(X)
    with pytest.raises(NotFittedError, match="Call fit first"):
        other.counts  # noqa: B018


def test_repr_names_policies():
    model = lw.WatchedEstimator(Ridge(alpha=2), NUMBER, on_failure="record")
    assert repr(model) == (
        "WatchedEstimator(Ridge(alpha=2), on_violation='record', on_failure='record')"
    )
    model.fit(X, Y).predict(X)
    assert "on_failure='record': 150 decisions" in repr(model)


@pytest.mark.parametrize("through", ["pickle", "joblib", "deepcopy"])
def test_copy_predicts_and_has_a_history_of_its_own(through, tmp_path):
    model = lw.watch(classifier(), RULE, on_violation="warn", on_failure="record", index="live")
    with pytest.warns(lw.errors.ViolationWarning):
        model.predict(flowers())
    if through == "pickle":
        other = pickle.loads(pickle.dumps(model))
    elif through == "deepcopy":
        other = copy.deepcopy(model)
    else:
        joblib.dump(model, tmp_path / "model")
        other = joblib.load(tmp_path / "model")
    assert other.counts.decisions == 0 and len(other.monitor) == 0
    with pytest.warns(lw.errors.ViolationWarning), pytest.warns(lw.errors.HintWarning):
        assert np.array_equal(other.predict(flowers()), model.estimator_.predict(flowers()))
    assert other.counts == model.counts
    assert (other.on_violation, other.on_failure) == ("warn", "record")
    unfitted = pickle.loads(pickle.dumps(lw.WatchedEstimator(Ridge(), NUMBER)))
    assert not hasattr(unfitted, "estimator_")


def test_frame_passes_as_it_is_to_the_model_and_to_the_monitor():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:, 2:], columns=["length", "width"])
    rule = lw.Rule(
        features={name: lw.Feature("number", tolerance=0.5) for name in frame},
        output_column="kind",
    )
    model = lw.WatchedEstimator(DecisionTreeClassifier(random_state=0), rule).fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["length", "width"]
    mixed = frame.sample(frac=1, random_state=1)
    assert np.array_equal(model.predict(mixed), model.estimator_.predict(mixed))
    for i in range(5):
        model.predict(mixed[i : i + 1])
    assert model.counts.decisions == 155 and model.counts.failures == 0
    assert model.counts.violations > 10
    assert model.monitor.past.values(3) == model.monitor.past.values(153)


def test_frame_of_mixed_columns_gives_one_row_as_it_gives_many():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "age": [41, 44, 43, 52],
            "job": pd.Categorical(["nurse", "nurse", "clerk", "nurse"]),
            "rent": [700.0, np.nan, 650.0, 800.0],
            "case": ["a", "b", "c", "d"],
        }
    )
    rule = lw.Rule(
        features={
            "age": lw.Feature("number", tolerance=5),
            "job": lw.Feature("category"),
            "rent": lw.Feature("number", tolerance=100, missing="match"),
            "case": lw.Feature("key"),
        },
        output_column="approved",
    )

    class Approves(BaseEstimator):
        def predict(self, frame):
            return frame["age"].to_numpy() > 42

    many = lw.watch(Approves(), rule, on_failure="raise")
    many.predict(frame)
    one = lw.watch(Approves(), rule, on_failure="raise")
    for i in range(len(frame)):
        one.predict(frame[i : i + 1])
    assert many.counts == one.counts == Counts(4, 1, 0)
    for row in range(4):
        assert many.monitor.past.values(row) == one.monitor.past.values(row)
    assert same(many.violations[0].verdict, one.violations[0].verdict)


def test_frame_is_observed_as_it_was_given_and_named_columns_may_be_chosen():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:, 2:], columns=["length", "width"]).assign(note="n")
    rule = lw.Rule(features={"length": lw.Feature("number", tolerance=1)}, output_column="kind")

    class InPlace(BaseEstimator):
        def predict(self, frame):
            frame["length"] = 0.0
            return np.arange(len(frame))

    model = lw.watch(InPlace(), rule, input=lambda frame: frame[["length"]], on_failure="raise")
    model.predict(frame[:1].copy())
    model.predict(frame[:4].copy())
    assert [model.monitor.past.values(row)["length"] for row in range(3)] == [1.4, 1.4, 1.4]


def test_scaler_that_works_in_place_does_not_change_what_is_observed():
    model = make_pipeline(StandardScaler(copy=False), LogisticRegression()).fit(X.copy(), Y)
    watched = lw.watch(model, RULE)
    for rows in (slice(0, 1), slice(0, 4)):
        given = X[rows].copy()
        watched.predict(given)
        assert not np.array_equal(given, X[rows])  # it did change them
    assert np.array_equal(watched.monitor.past.inputs([0, 1, 2]), X[[0, 0, 1]])


def test_sparse_rows_are_observed_as_dense_ones():
    model = LogisticRegression(max_iter=500).fit(csr_matrix(X), Y)
    watched = lw.watch(model, RULE, on_failure="raise")
    watched.predict(csr_matrix(X[:1])), watched.predict(csr_matrix(X[1:4]))
    assert np.array_equal(watched.monitor.past.inputs([0, 1, 2, 3]), X[:4])


def test_ledger_is_told_with_keys(tmp_path):
    with lw.open(tmp_path, RULE) as ledger:
        model = lw.watch(
            classifier(), ledger, key=lambda X: [f"{value:.6f}" for value in X[:, 0] + X[:, 1]],
            input=lambda X: X, on_failure="record",
        )  # fmt: skip
        model.predict(np.array([[1.0, 2.0], [3.0, 4.0]]))
        model.predict(np.array([[5.0, 6.0]]))
        assert ledger.row_of("11.000000") == 2
        model.predict(np.array([[5.0, 6.0]]))
        assert model.counts == Counts(3, 0, 0, repeated=1) and ledger.rows == 3
        model.close()
        ledger.observe([1.0, 1.0], 0)  # it was given, so it stays open


def test_closed_watch_predicts_on():
    with lw.watch(classifier(), RULE) as model:
        model.predict(flowers())
    assert np.array_equal(model.predict(flowers()), classifier().predict(flowers()))
    assert model.counts.decisions == len(flowers())


def test_violation_is_raised_with_the_answer():
    model = lw.watch(classifier(), RULE, on_violation="raise")
    with pytest.raises(lw.errors.Violation) as raised:
        model.predict(flowers())
    assert np.array_equal(raised.value.answer, classifier().predict(flowers()))
    assert len(model.monitor) == len(flowers())


def test_rule_that_does_not_fit_is_refused_before_fitting():
    for estimator, rule in (
        (LinearSVC(), PROBABILITIES),
        (Ridge(), "linf"),
        (Ridge(), lw.Monitor(NUMBER)),
    ):
        with raises(lw.errors.BadRule):
            lw.WatchedEstimator(estimator, rule).fit(X, Y)
