"""Boosters, bound methods and decorated functions are watched; attributes are passed on."""

import asyncio
import copy
import inspect
from functools import cache

import numpy as np
import pytest

import likewise as lw
from likewise.watching.watch_model import Watched
from likewise.watching.watch_records import Counts
from tests.support.refusals import raises, warns
from tests.watching.models import NUMBER, PROBABILITIES, RULE, classifier, flowers, iris, regressor


@pytest.fixture(autouse=True, scope="module")
def scikit_learn():
    """Load it with the first test, not when tests are collected."""
    global X, Y
    global BaseEstimator, RandomForestClassifier, LogisticRegression, GridSearchCV
    from sklearn.base import BaseEstimator
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    X, Y = iris()


class Booster:
    """Predicts batches, has no parameters and is no callable, like those of XGBoost or LightGBM."""

    def __init__(self, inner):
        self.inner = inner
        self.best_iteration = 7

    def predict(self, data, raw_score=False):
        return -self.inner.predict(data) if raw_score else self.inner.predict(data)

    def save_model(self, path):
        path.write_text("trees")


@cache
def saved_class():
    """Make the class with the first test that needs it."""

    class Saved(BaseEstimator):
        """An estimator with methods that scikit-learn does not know, like those of XGBoost."""

        def fit(self, X, y):
            self.booster_ = Booster(None)
            return self

        def predict(self, X):
            return np.zeros(len(X))

        def get_booster(self):
            return self.booster_

        def save_model(self, path):
            self.booster_.save_model(path)

    return Saved


# Attributes of the estimator inside


def test_fitted_attributes_and_methods_of_the_estimator_are_passed_on(tmp_path):
    inner = LogisticRegression(max_iter=500).fit(X, Y)
    watched = lw.watch(inner, RULE)
    assert watched.coef_ is inner.coef_ and watched.intercept_ is inner.intercept_
    assert watched.classes_.tolist() == [0, 1, 2] and watched.n_features_in_ == 4
    forest = lw.WatchedEstimator(RandomForestClassifier(5, random_state=0), RULE).fit(X, Y)
    assert len(forest.feature_importances_) == 4 and len(forest.estimators_) == 5
    search = lw.watch(GridSearchCV(LogisticRegression(max_iter=500), {"C": [1.0]}).fit(X, Y), RULE)
    assert search.best_params_ == {"C": 1.0}
    saved = lw.WatchedEstimator(saved_class()(), RULE).fit(X, Y)
    assert saved.get_booster().best_iteration == 7
    saved.save_model(tmp_path / "model")
    assert (tmp_path / "model").read_text() == "trees"


def test_attributes_are_not_there_before_the_fit_nor_if_the_estimator_has_none():
    model = lw.WatchedEstimator(LogisticRegression(max_iter=500), RULE)
    assert not hasattr(model, "coef_")
    model.fit(X, Y)
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(AttributeError, match=r"WatchedEstimator.*LogisticRegression.*'trees_'"):
        model.trees_  # noqa: B018


def test_methods_that_would_fit_the_estimator_behind_the_watch_are_not_passed_on():
    from sklearn.cluster import KMeans
    from sklearn.linear_model import SGDClassifier

    assert not hasattr(lw.watch(SGDClassifier().fit(X, Y), RULE), "partial_fit")
    clusters = lw.watch(KMeans(2, n_init=1).fit(X), RULE)
    assert not hasattr(clusters, "fit_predict") and not hasattr(clusters, "fit_transform")


# Boosters


def test_booster_is_watched_by_its_predict_and_passes_on_the_rest(tmp_path):
    flower, inner = flowers(), classifier()
    booster = Booster(inner)
    watched = lw.watch(booster, RULE, keep=1000)
    for part in (flower[:1], flower[1:70], flower[70:]):
        assert np.array_equal(watched.predict(part), inner.predict(part))
    found = lw.Monitor(RULE).observe_many(flower, inner.predict(flower)).violations
    assert watched.counts == Counts(len(flower), int(found.sum()), 0) and found.sum() > 5
    assert watched.best_iteration == 7
    watched.save_model(tmp_path / "model")
    assert (tmp_path / "model").exists()
    watched.best_iteration = 9
    assert booster.best_iteration == 9
    assert "Booster" in repr(watched) and "150 decisions" in repr(watched)
    with pytest.raises(AttributeError, match="get_params"):
        watched.get_params  # noqa: B018


def test_arguments_of_a_boosters_predict_are_passed_on():
    watched = lw.watch(Booster(regressor()), NUMBER)
    flower = flowers()
    assert np.array_equal(watched.predict(flower, raw_score=True), -regressor().predict(flower))
    assert watched.counts.decisions == len(flower)
    with watched:
        pass
    watched.predict(flower)
    assert watched.counts.decisions == len(flower)


def test_input_without_rows_that_can_be_read_says_what_to_do():
    class Opaque:
        """Like XGBoost's DMatrix."""

    model = Booster(None)
    model.predict = lambda data: [1, 2]
    watched = lw.watch(model, RULE)
    with warns(lw.errors.FailureWarning):
        assert watched.predict(Opaque()) == [1, 2]


def test_watched_booster_is_not_copied():
    with pytest.raises(TypeError, match="holds a history"):
        copy.copy(lw.watch(Booster(None), RULE))


# Bound methods


def test_bound_method_that_predicts_is_known_to_take_batches():
    flower = flowers()
    for bound, rule in (
        (classifier().predict, RULE),
        (classifier().predict_proba, PROBABILITIES),
        (Booster(classifier()).predict, RULE),
    ):
        watched = lw.watch(bound, rule)
        assert np.array_equal(watched(flower), bound(flower))
        assert watched.counts.decisions == len(flower) and watched.counts.failures == 0
        assert watched.counts.violations > 5


def test_bound_method_of_something_else_takes_one_input():
    class Service:
        def predict(self, x):
            return "yes" if x[0] > 1 else "no"

    watched = lw.watch(Service().predict, RULE)
    assert watched([1.2]) == "yes" and watched([0.9]) == "no"
    assert watched.counts == Counts(2, 1, 0)


# Decorators


def test_decorated_function_is_watched():
    @lw.watch(rule=RULE, keep=1)
    def approve(applicant):
        """Whether to approve."""
        return "yes" if applicant[0] > 1 else "no"

    assert isinstance(approve, Watched) and approve.__doc__ == "Whether to approve."
    assert [approve([value]) for value in (1.2, 0.9, 1.1)] == ["yes", "no", "yes"]
    assert approve.counts == Counts(3, 2, 0)
    assert len(approve.violations) == 1


def test_decorated_coroutine_function_is_one():
    @lw.watch(rule=RULE)
    async def approve(applicant):
        return "yes" if applicant[0] > 1 else "no"

    assert inspect.iscoroutinefunction(approve)
    assert asyncio.run(approve([1.2])) == "yes"
    assert approve.counts.decisions == 1


def test_decorated_method_is_given_its_object_which_is_not_the_input():
    class Desk:
        def __init__(self, limit):
            self.limit = limit

        @lw.watch(rule=RULE)
        def approve(self, applicant):
            return "yes" if applicant[0] > self.limit else "no"

    one, other = Desk(1), Desk(2)
    assert one.approve([1.2]) == "yes" and other.approve(applicant=[1.3]) == "no"
    assert Desk.approve.counts == Counts(2, 1, 0)
    assert Desk.approve.monitor.past.inputs([0, 1]).tolist() == [[1.2], [1.3]]


def test_decorator_without_a_rule_says_how_it_is_written():
    with pytest.raises(TypeError, match=r"@lw\.watch\(rule=…\)"):
        lw.watch(RULE)
    with pytest.raises(TypeError, match=r"@lw\.watch\(rule=…\)"):
        lw.watch()
    with pytest.raises(TypeError, match="rule"):
        lw.watch(lambda x: 1)
    with raises(lw.errors.BadRule, setting="on_violation"):
        lw.watch(rule=RULE, on_violation="stop")
