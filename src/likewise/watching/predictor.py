"""Watches a booster: a model with `predict` that is neither a callable nor an estimator.

XGBoost and LightGBM have such models, without scikit-learn's parameters.
Invariant: every attribute is the model's own, except `predict` (or `predict_proba`, under a rule
about probabilities, where the model has one), which is watched, and those of `WatcherView`.
Cost: watcher.py's.
"""

from typing import Any, Self

from likewise.watching.watch_records import Counts, Failure, Flagged
from likewise.watching.watcher import Watcher


class WatcherView:
    """Shows the watcher of a watched model: its counts, violations and failures."""

    _watcher: Watcher

    def _get_watcher(self) -> Watcher:
        return self._watcher

    @property
    def monitor(self) -> Any:
        """The monitor that is told of each decision."""
        return self._get_watcher().monitor

    @property
    def violations(self) -> tuple[Flagged, ...]:
        """The latest decisions that contradict earlier ones or raise alarms, the latest last."""
        return self._get_watcher().violations

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The latest calls that could not be watched, the latest last."""
        return self._get_watcher().failures

    @property
    def counts(self) -> Counts:
        """How many decisions were watched, contradict others, failed, or raised alarms."""
        return self._get_watcher().counts

    @property
    def waiting_count(self) -> int:
        """How many calls wait for the thread that judges them, or decisions for a service."""
        return self._get_watcher().waiting_count

    def flush(self, seconds: float = 60.0) -> bool:
        """Wait until every call is judged; return whether that took no longer than `seconds`."""
        return self._get_watcher().flush(seconds)

    def close(self) -> None:
        """Stop watching. The model can still be used; a monitor that was made here is closed.

        What waits is judged first.
        """
        self._get_watcher().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WatchedModel(WatcherView):
    """Wraps a model and its watcher; it cannot be copied, since it holds a history."""

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} holds a history, which is not copied or pickled. Copy the model, and watch"
            " the copy."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._watcher.name}, {self._watcher}>"


class WatchedPredictor(WatchedModel):
    """Watches the predictions of a model; `lw.watch` makes it.

    Use it as the model: it has every attribute of the model. `__wrapped__` is the model itself, for
    code that needs its type. As a context manager it stops watching when it is left.
    """

    def __init__(self, model: Any, watcher: Watcher, method: str) -> None:
        vars(self).update(__wrapped__=model, _watcher=watcher, _method=method)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the model's own __deepcopy__ would copy only the model
            raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}")
        value = getattr(self.__wrapped__, name)
        return self._predict if name == self._method else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.__wrapped__)})

    def _predict(self, *args: Any, **kwargs: Any) -> Any:
        watcher, predict = self._watcher, getattr(self.__wrapped__, self._method)
        if watcher.closed:
            return predict(*args, **kwargs)
        captured = watcher.capture_input(args, kwargs)
        answer = predict(*args, **kwargs)
        watcher.observe_answer(captured, answer)
        return answer
