"""A scikit-learn estimator that is watched, and is an estimator.

Invariant: every method answers what the inner estimator answers. One of them makes decisions and is
watched: `predict_proba` where the rule compares probabilities, `predict` otherwise.
Cost: watcher.py's; a batch of one row is judged as one decision.
Not here: `score` and the rest are passed on and not watched: measuring a model decides nothing.
"""

from collections.abc import Callable
from typing import Any, Self

from likewise.errors import BadRule
from likewise.rule.rule import Rule
from likewise.watching.predictor import WatcherView
from likewise.watching.settings import KEEP, WAIT_SECONDS, WatchSettings, WatchTarget
from likewise.watching.watcher import Watcher

try:
    from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import get_tags
    from sklearn.utils.metaestimators import available_if
except ImportError:
    raise ImportError(
        "watching an estimator needs scikit-learn 1.6 or newer, which is not installed:"
        " pip install 'likewise[scikit-learn]'"
    ) from None


_FITTING_METHODS = ("fit_predict", "fit_transform", "partial_fit")
"""Methods of an estimator that would change it and not begin a new history."""


def _require_method(name: str) -> Callable[[Any], bool]:
    """Whether the inner estimator has this method; raises as it would, if not."""

    def check(self: "WatchedEstimator") -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return check


def _decision_method(watcher: Watcher) -> str:
    """Which method makes decisions; `predict` while a service that is away has the rule."""
    return "predict_proba" if watcher.output == "probabilities" else "predict"


class WatchedEstimator(WatcherView, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator whose predictions are watched; itself an estimator, for pipelines and searches.

    >>> import likewise as lw
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = lw.WatchedEstimator(DecisionTreeClassifier(), lw.Rule("linf", epsilon=0.1))
    >>> model = model.fit([[0.0], [0.4], [0.6], [1.0]], ["no", "no", "yes", "yes"])
    >>> model.predict([[0.48], [0.52]]).tolist()
    ['no', 'yes']
    >>> model.counts
    Counts(decisions=2, violations=1, failures=0)

    `fit` fits a clone, `estimator_`, and begins a new history. `lw.watch(estimator, rule)` makes
    one around an estimator that is fitted already, and takes a monitor instead of a rule as well;
    with a monitor it is not fitted again, since that history is not its own to leave.

    estimator         to be watched; it has `predict`, or `predict_proba` for such a rule
    rule              when inputs are near, and outputs different
    on_violation      as for lw.watch; so are on_failure, on_bad_row, input, output, keep,
                      background, queue_calls, wait_seconds and when_unknown
    monitor_settings  a dictionary of settings for the Monitor

    What the fitted estimator has, such as `coef_` or `save_model`, this has. Copied or pickled (so
    too in a worker of joblib), it goes with its estimator, its rule and what was chosen, but
    without its history: the copy begins a new one, in memory, and says so once (HintWarning).
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
        cls, fitted: Any, rule: Any, settings: dict[str, Any], chosen: dict[str, Any]
    ) -> Self:
        """Around an estimator that is fitted already."""
        chosen = dict(chosen)
        key = chosen.pop("key")
        told, known = WatchTarget.from_argument(rule), rule
        if told is not None and told.monitor is not None:  # no service is asked for its rule yet
            known = told.monitor if told.monitor.remote is not None else told.monitor.rule
        watched = cls(fitted, known, monitor_settings=settings or None, **chosen)
        watched._watcher = watched._new_watcher(rule, key)
        watched.estimator_ = fitted
        return watched

    def _new_watcher(self, rule: Any, key: Any = None) -> Watcher:
        """With a new history, where it is given a rule."""
        watcher = Watcher(
            rule,
            name=type(self.estimator).__name__,
            batched=True,
            choices=WatchSettings(
                on_violation=self.on_violation,
                on_failure=self.on_failure,
                on_bad_row=self.on_bad_row,
                input=self.input,
                output=self.output,
                key=key,
                keep=self.keep,
                background=self.background,
                queue_calls=self.queue_calls,
                wait_seconds=self.wait_seconds,
                when_unknown=self.when_unknown,
            ),
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
        watcher = self._new_watcher(self.rule)  # first: what is wrong with it shows at once
        self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
        self._watcher = watcher
        return self

    # The methods that may be watched

    def predict(self, X: Any, **params: Any) -> Any:
        """What the estimator predicts."""
        return self._watch("predict", X, params)

    @available_if(_require_method("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, **params: Any) -> Any:
        """The probabilities that the estimator predicts."""
        return self._watch("predict_proba", X, params)

    def _watch(self, method: str, X: Any, params: dict[str, Any]) -> Any:
        known = self.__dict__  # `__getattr__` makes other ways to attributes slower
        model = getattr(
            known["estimator_"] if "estimator_" in known else self._require_fitted(), method
        )
        watcher = known["_watcher"]
        if method != _decision_method(watcher) or watcher.closed:
            return model(X, **params)
        given = watcher.capture_input((X,), params)
        answer = model(X, **params)
        watcher.observe_answer(given, answer)
        return answer

    # Passed on

    @available_if(_require_method("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any, **params: Any) -> Any:
        """The estimator's own; not watched."""
        return self._require_fitted().predict_log_proba(X, **params)

    @available_if(_require_method("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any, **params: Any) -> Any:
        """The estimator's own; not watched."""
        return self._require_fitted().decision_function(X, **params)

    @available_if(_require_method("score"))  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any = None, **params: Any) -> Any:
        """The estimator's own; not watched."""
        return self._require_fitted().score(X, y, **params)

    @available_if(_require_method("score_samples"))  # type: ignore[untyped-decorator]
    def score_samples(self, X: Any) -> Any:
        """The estimator's own; not watched."""
        return self._require_fitted().score_samples(X)

    @available_if(_require_method("transform"))  # type: ignore[untyped-decorator]
    def transform(self, X: Any, **params: Any) -> Any:
        """The estimator's own; not watched."""
        return self._require_fitted().transform(X, **params)

    @available_if(_require_method("inverse_transform"))  # type: ignore[untyped-decorator]
    def inverse_transform(self, X: Any, **params: Any) -> Any:
        """The estimator's own; not watched."""
        return self._require_fitted().inverse_transform(X, **params)

    def __getattr__(self, name: str) -> Any:
        """What the fitted estimator has: its attributes, and methods that are not watched."""
        fitted = vars(self).get("estimator_")
        if fitted is None and isinstance(getattr(type(self), name, None), property):
            self._require_fitted()  # what is shown of a watch that has not begun
        if fitted is None or name.startswith("_") or name in _FITTING_METHODS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            return getattr(fitted, name)
        except AttributeError:
            raise AttributeError(
                f"neither {type(self).__name__!r} nor the {type(fitted).__name__!r} inside has an"
                f" attribute {name!r}"
            ) from None

    # An estimator among others

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
            state["_told"] = type(watcher.monitor).__name__
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        told = state.pop("_told", "Monitor")
        super().__setstate__(state)
        if "estimator_" in vars(self):
            self._watcher = self._new_watcher(self.rule)
            self._watcher.hint = (
                f"this watched {self._watcher.name} is a copy, made by copying or unpickling, as"
                f" joblib does for its workers. The {told} of the original is not told of what it"
                " predicts: that goes into a new history in memory, for this copy and this process"
                " alone. To have it told, watch the estimator where it predicts:"
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
