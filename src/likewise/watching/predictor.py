"""A model that predicts batches and is neither a callable nor an estimator: a booster.

XGBoost and LightGBM have such models: they have `predict`, and none of scikit-learn's parameters.

Invariant: every attribute is the model's own, but for `predict` (or `predict_proba`, under a rule
about probabilities, where the model has one), which is watched, and what is shown of the watch.
Cost: watcher.py's.
"""

from typing import Any, Self

from likewise.watching.watch_records import Counts, Failure, Flagged
from likewise.watching.watcher import Watcher


class WatcherView:
    """What a watched model shows of its watcher."""

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
        """How many decisions were watched, contradicted others, were missed, raised alarms."""
        return self._get_watcher().counts

    @property
    def waiting_count(self) -> int:
        """How many calls wait to be judged in another thread, or decisions for a service."""
        return self._get_watcher().waiting_count

    def flush(self, seconds: float = 60.0) -> bool:
        """Wait until what was called is judged; whether that came about within `seconds`."""
        return self._get_watcher().flush(seconds)

    def close(self) -> None:
        """Watch no more. The model goes on; a monitor that was made here is closed.

        What waits is judged first.
        """
        self._get_watcher().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WatchedPredictor(WatcherView):
    """A model whose predictions are watched; `lw.watch` makes it.

    Use it as the model; what it has, this has. `__wrapped__` is the model itself, for whoever asks
    what type it is of. As a context manager it ends the watch when it is left.
    """

    def __init__(self, model: Any, watcher: Watcher, method: str) -> None:
        vars(self).update(__wrapped__=model, _watcher=watcher, _method=method)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # such as __deepcopy__: the model's own would copy the model only
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
        given = watcher.capture_input(args, kwargs)
        answer = predict(*args, **kwargs)
        watcher.observe_answer(given, answer)
        return answer

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} holds a history, which is not copied or pickled. Copy the model, and watch"
            " the copy."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._watcher.name}, {self._watcher}>"
