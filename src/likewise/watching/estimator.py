"""Watches a scikit-learn estimator, and is an estimator itself.

Invariant: every method answers what the inner estimator answers. One of them makes decisions and is
watched: `predict_proba` where the rule compares probabilities, `predict` otherwise.
Cost: watcher.py's; a batch of one row is judged as one decision.
Not here: `score` and the rest are forwarded and not watched: measuring a model decides nothing.
"""

from collections.abc import Callable
from typing import Any, Self

from likewise.errors import BadRule
from likewise.rule.rule import Rule
from likewise.watching.predictor import WatcherView
from likewise.watching.settings import (
    KEEP,
    WAIT_SECONDS,
    WATCH_SETTINGS,
    WatchSettings,
    WatchTarget,
)
from likewise.watching.watcher import Watcher

try:
    from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import get_tags
    from sklearn.utils.metaestimators import available_if
except ImportError:
    raise ImportError(
        "watching an estimator needs scikit-learn 1.6 or newer, which is not installed:"
        " pip install '.[scikit-learn]' in the clone of likewise"
    ) from None


_FITTING_METHODS = ("fit_predict", "fit_transform", "partial_fit")
"""Methods that would change the fitted estimator without beginning a new history."""
_SETTINGS = [name for name in WATCH_SETTINGS if name != "key"]


def _require_method(name: str) -> Callable[[Any], bool]:
    """Return a check that the inner estimator has this method; it raises what that raises."""

    def check(self: "WatchedEstimator") -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return check


def _decision_method(watcher: Watcher) -> str:
    """Name the method that makes decisions; `predict` while only a service knows the rule."""
    return "predict_proba" if watcher.output == "probabilities" else "predict"


def _forward(name: str) -> Any:
    """Return a method that the fitted estimator answers, unwatched, if the inner one has it."""

    def method(self: "WatchedEstimator", X: Any, **params: Any) -> Any:
        return getattr(self._require_fitted(), name)(X, **params)

    method.__name__, method.__doc__ = name, "Call the estimator's own method, unwatched."
    return available_if(_require_method(name))(method)


class WatchedEstimator(WatcherView, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Watches the predictions of an estimator, and is one itself, for pipelines and searches.

    >>> import likewise as lw
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = lw.WatchedEstimator(DecisionTreeClassifier(), lw.Rule("linf", epsilon=0.1))
    >>> model = model.fit([[0.0], [0.4], [0.6], [1.0]], ["no", "no", "yes", "yes"])
    >>> model.predict([[0.48], [0.52]]).tolist()
    ['no', 'yes']
    >>> model.counts
    Counts(decisions=2, violations=1, failures=0)

    `fit` fits a clone, `estimator_`, and begins a new history. `lw.watch(estimator, rule)` wraps
    an estimator that is fitted already, and takes a monitor instead of a rule as well; with a
    monitor it cannot be fitted again, since that history belongs to the user.

    estimator         to be watched; it has `predict`, or `predict_proba` for such a rule
    rule              when inputs are near, and outputs different
    on_violation      as for lw.watch; so are on_failure, on_bad_row, input, output, keep,
                      background, queue_calls, wait_seconds and when_unknown
    monitor_settings  a dictionary of settings for the Monitor

    It has the attributes of the fitted estimator, such as `coef_` or `save_model`. A copy or a
    pickle (as in a worker of joblib) has its estimator, rule and settings, but not its history: it
    begins a new one, in memory, and says so once (HintWarning).
    """

    def __init__(
        self,
        estimator: Any,
        rule: Any,
        *,
        on_violation: Any = "record",
        on_failure: Any = "warn",
        on_bad_row: Any = "fail",
        input: Any = None,
        output: Any = None,
        keep: int = KEEP,
        background: bool = False,
        queue_calls: int | None = None,
        wait_seconds: float = WAIT_SECONDS,
        when_unknown: Any = "pass",
        monitor_settings: dict[str, Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.rule = rule
        self.on_violation = on_violation
        self.on_failure = on_failure
        self.on_bad_row = on_bad_row
        self.input = input
        self.output = output
        self.keep = keep
        self.background = background
        self.queue_calls = queue_calls
        self.wait_seconds = wait_seconds
        self.when_unknown = when_unknown
        self.monitor_settings = monitor_settings

    @classmethod
    def _wrap_fitted(
        cls, fitted: Any, rule_or_monitor: Any, settings: dict[str, Any], choices: WatchSettings
    ) -> Self:
        """Wrap an estimator that is fitted already."""
        target, rule = WatchTarget.from_argument(rule_or_monitor), rule_or_monitor
        if target is not None and target.monitor is not None:  # ask no service for its rule yet
            rule = target.monitor if target.monitor.remote is not None else target.monitor.rule
        keywords = {name: getattr(choices, name) for name in _SETTINGS}
        watched = cls(fitted, rule, monitor_settings=settings or None, **keywords)
        watched._watcher = watched._new_watcher(rule_or_monitor, choices.key)
        watched.estimator_ = fitted
        return watched

    def _new_watcher(self, rule_or_monitor: Any, key: Any = None) -> Watcher:
        """Return a watcher; given a rule, it has a new history."""
        chosen = {name: getattr(self, name) for name in _SETTINGS}
        watcher = Watcher(
            rule_or_monitor,
            name=type(self.estimator).__name__,
            batched=True,
            choices=WatchSettings(key=key, **chosen),
            settings=self.monitor_settings,
        )
        method = _decision_method(watcher)
        if not hasattr(self.estimator, method):
            raise BadRule(
                f"the rule's output is {watcher.output!r}, but {self.estimator!r} has no {method}."
                " Choose another output, or another estimator."
            )
        return watcher

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Fit a clone of the estimator, and begin a new history."""
        if hasattr(self, "_watcher") and not self._watcher.owns_monitor:
            raise BadRule(
                f"this {type(self).__name__} tells a {type(self._watcher.monitor).__name__} that"
                " it was given; fit would leave that history and begin another in memory. Fit the"
                " estimator itself, and watch the newly fitted estimator: lw.watch(est, monitor)"
            )
        if not isinstance(self.rule, Rule):
            raise BadRule(f"the rule is {self.rule!r}; expected a likewise.Rule")
        watcher = self._new_watcher(self.rule)  # before fitting, so that errors show at once
        self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
        self._watcher = watcher
        return self

    # Watched

    def predict(self, X: Any, **params: Any) -> Any:
        """Predict with the fitted estimator; watched unless the rule is about probabilities."""
        return self._watch("predict", X, params)

    @available_if(_require_method("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, **params: Any) -> Any:
        """Predict probabilities; watched if the rule is about them."""
        return self._watch("predict_proba", X, params)

    def _watch(self, method: str, X: Any, params: dict[str, Any]) -> Any:
        attributes = self.__dict__  # `__getattr__` makes other ways to attributes slower
        model = getattr(
            attributes["estimator_"] if "estimator_" in attributes else self._require_fitted(),
            method,
        )
        watcher = attributes["_watcher"]
        if method != _decision_method(watcher) or watcher.closed:
            return model(X, **params)
        captured = watcher.capture_input((X,), params)
        answer = model(X, **params)
        watcher.observe_answer(captured, answer)
        return answer

    # Forwarded; methods of their own, so that an unfitted one shows which it will have

    predict_log_proba = _forward("predict_log_proba")
    decision_function = _forward("decision_function")
    score_samples = _forward("score_samples")
    transform = _forward("transform")
    inverse_transform = _forward("inverse_transform")

    @available_if(_require_method("score"))  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Score the fitted estimator, unwatched."""
        return self._require_fitted().score(X, y, **params)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the fitted estimator, or a method of it that is not watched."""
        fitted = vars(self).get("estimator_")
        if fitted is None and isinstance(getattr(type(self), name, None), property):
            self._require_fitted()  # a property of WatcherView, before the watch has begun
        if fitted is None or name.startswith("_") or name in _FITTING_METHODS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            return getattr(fitted, name)
        except AttributeError:
            raise AttributeError(
                f"neither {type(self).__name__!r} nor the {type(fitted).__name__!r} inside has an"
                f" attribute {name!r}"
            ) from None

    # As scikit-learn sees it

    def _require_fitted(self) -> Any:
        try:
            return self.estimator_
        except AttributeError:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted. Call fit first, or wrap an estimator"
                " that is fitted with lw.watch(estimator, rule)."
            ) from None

    def _get_watcher(self) -> Watcher:
        self._require_fitted()
        return self._watcher

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        watcher = state.pop("_watcher", None)
        if not isinstance(state["rule"], Rule):
            state["rule"] = state["rule"].rule
        if watcher is not None:
            state["_monitor_class"] = type(watcher.monitor).__name__
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        monitor_class = state.pop("_monitor_class", "Monitor")
        super().__setstate__(state)
        if "estimator_" in vars(self):
            self._watcher = self._new_watcher(self.rule)
            self._watcher.hint = (
                f"this watched {self._watcher.name} is a copy, made by copying or unpickling, as"
                f" joblib does for its workers. The {monitor_class} of the original is not told of"
                " what it predicts: that goes into a new history in memory, for this copy and this"
                " process alone. To have it told, watch the estimator where it predicts:"
                " lw.watch(model.estimator_, monitor)."
            )

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        inner = repr(self.estimator)[:N_CHAR_MAX]
        if not hasattr(self, "estimator_"):
            return (
                f"{type(self).__name__}({inner}, on_violation={self.on_violation!r},"
                f" on_failure={self.on_failure!r})"
            )
        return f"<{type(self).__name__} {inner}, {self._watcher}>"
