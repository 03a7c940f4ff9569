"""`lw.watch`: a model that is used as before, and watched.

    a callable                wrapped: call the `Watched` instead
    a scikit-learn estimator  wrapped: use the `WatchedEstimator` instead (estimator.py)
    what else has `predict`   wrapped: use the `WatchedPredictor` instead (predictor.py)
    a torch module            hooked: use the module itself (torch_module.py)

Invariant: the answer is the very object that the model answered; what the model raises passes
through, and then nothing is observed. An awaitable is no answer yet: what is given back instead is
a coroutine that awaits it, observes what comes, and gives that back.
Cost: watcher.py's.
"""

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from likewise.errors import BadRule
from likewise.watching.predictor import WatchedPredictor, WatcherView
from likewise.watching.settings import (
    KEEP,
    WAIT_SECONDS,
    OnBadRow,
    OnFailure,
    OnViolation,
    WatchKeywords,
    WatchSettings,
    WhenUnknown,
)
from likewise.watching.torch_module import ModuleHooks
from likewise.watching.watcher import CapturedInput, Watcher

if TYPE_CHECKING:
    from likewise.watching.estimator import WatchedEstimator

P = ParamSpec("P")
R = TypeVar("R")

_PREDICT_METHODS = ("predict", "predict_proba")


class Watched(WatcherView, Generic[P, R]):
    """A callable or a torch module that is watched; `lw.watch` makes it.

    Call it as the model is called. As a context manager it ends the watch when it is left: hooks
    are removed, and a monitor that it made itself is closed. The model goes on, unwatched.

    on_violation, on_failure   what was chosen
    monitor                    the monitor that is told of each decision
    counts                     decisions, violations, failures and alarms so far
    violations, failures       the latest of them, each a frozen record; alarms are with violations
    """

    def __init__(self, model: Callable[P, R], watcher: Watcher) -> None:
        self._model = model
        self._watcher = watcher
        self._hooks = ModuleHooks(model, watcher) if is_module(model) else None
        functools.update_wrapper(self, model, updated=())
        if inspect.iscoroutinefunction(model):
            self._mark_as_coroutine()

    @property
    def on_violation(self) -> Any:
        """What happens at a violation."""
        return self._watcher.on_violation

    @property
    def on_failure(self) -> Any:
        """What happens where watching fails."""
        return self._watcher.on_failure

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        watcher = self._watcher
        if watcher.closed or self._hooks is not None:
            return self._model(*args, **kwargs)
        given = watcher.capture_input(args, kwargs)
        return self._observe_or_await(given, self._model(*args, **kwargs))

    def _observe_or_await(self, given: CapturedInput, answer: R) -> R:
        if inspect.isawaitable(answer):
            return self._await_and_observe(given, answer)  # type: ignore[return-value]
        self._watcher.observe_answer(given, answer)
        return answer

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A function in a class is a method; the object that it belongs to is not its input."""
        if instance is None or not inspect.isfunction(self._model):
            return self
        return functools.partial(self._call_method, instance)

    def _call_method(self, instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        model: Callable[..., Any] = self._model
        if self._watcher.closed:
            return model(instance, *args, **kwargs)
        given = self._watcher.capture_input(args, kwargs)
        return self._observe_or_await(given, model(instance, *args, **kwargs))

    async def _await_and_observe(self, given: CapturedInput, awaited: Awaitable[Any]) -> Any:
        answer = await awaited
        self._watcher.observe_answer(given, answer)
        return answer

    def _mark_as_coroutine(self) -> None:
        """Have inspect and asyncio see in this object what they see in an `async def`."""
        if sys.version_info >= (3, 12):
            inspect.markcoroutinefunction(self)
        else:  # they look for no mark, but take what has a function's attributes for a function
            for name in ("__code__", "__defaults__", "__kwdefaults__"):
                setattr(self, name, getattr(Watched._await_and_observe, name))

    def close(self) -> None:
        """Watch no more. The model goes on; a monitor that was made here is closed."""
        if self._hooks is not None:
            self._hooks.remove()
        super().close()

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} holds a history, which is not copied or pickled. Copy the model, and watch"
            " the copy."
        )

    def __repr__(self) -> str:
        return f"<Watched {self._watcher.name}, {self._watcher}>"


class _Estimator(Protocol):
    """What is used as scikit-learn's estimators are."""

    def get_params(self, deep: bool = ...) -> dict[str, Any]: ...


class _Predictor(Protocol):
    """What has `predict`."""

    @property
    def predict(self) -> Callable[..., Any]: ...


class _Decorator(Protocol):
    """`lw.watch(rule=…)`: takes a function, and gives it back watched."""

    def __call__(self, model: Callable[P, R], /) -> Watched[P, R]: ...


@overload
def watch(*, rule: Any, **settings: Unpack[WatchKeywords]) -> _Decorator: ...
@overload
def watch(model: Callable[P, R], rule: Any, **settings: Unpack[WatchKeywords]) -> Watched[P, R]: ...
@overload
def watch(
    model: _Estimator, rule: Any, **settings: Unpack[WatchKeywords]
) -> "WatchedEstimator": ...
@overload
def watch(model: _Predictor, rule: Any, **settings: Unpack[WatchKeywords]) -> WatchedPredictor: ...
def watch(
    model: Any = None,
    rule: Any = None,
    *,
    on_violation: OnViolation = "record",
    on_failure: OnFailure = "warn",
    on_bad_row: OnBadRow = "fail",
    batched: bool | None = None,
    input: Callable[..., Any] | None = None,
    output: Callable[[Any], Any] | None = None,
    key: Callable[..., Any] | None = None,
    keep: int = KEEP,
    background: bool = False,
    queue_calls: int | None = None,
    wait_seconds: float = WAIT_SECONDS,
    when_unknown: WhenUnknown = "pass",
    **monitor_settings: Any,
) -> Any:
    """Have a monitor told of every decision that a model makes.

    >>> import likewise as lw
    >>> @lw.watch(rule=lw.Rule("linf", epsilon=0.1))
    ... def approve(applicant):
    ...     return "yes" if applicant[0] > 0.5 else "no"
    >>> approve([0.52, 0.30]), approve([0.48, 0.30])
    ('yes', 'no')
    >>> approve.counts
    Counts(decisions=2, violations=1, failures=0)
    >>> print(approve.violations[-1])
    row 1 contradicts row 0 (inputs 0.04 apart, outputs 1)

    Without a model it is a decorator, as here; otherwise `approve = lw.watch(approve, rule)`.

    model         a callable (a function, a bound method), a fitted scikit-learn estimator, a
                  booster or what else has `predict`, or a torch module (in eval mode)
    rule          a Rule, for which a Monitor is made, with `monitor_settings`; or a monitor, such
                  as lw.open(…), which stays open when the watch ends; or a client (lw.connect) or a
                  buffer (lw.buffered): then decisions are queued, and the model never waits for a
                  service. The verdicts of a buffer are its own
    on_violation  "record" keeps and counts it; "warn" warns as well (ViolationWarning); "raise"
                  raises Violation, which holds the answer, when the decision is remembered; a
                  callable gets a record with `.verdict`, `.answer`, `.key` and `.witness_keys`, one
                  for each violation; so too for a decision that raises the alarm of a Burst
                  (`.verdict.alarm`)
    on_failure    if watching fails, the answer is given all the same: "record" keeps and counts the
                  failure; "warn" warns as well (FailureWarning); a callable gets a record with
                  `.call`, `.place`, `.error` and `.traceback`; only "raise" raises it instead
    on_bad_row    of a batch with rows that cannot be judged, such as one with a NaN: "fail" judges
                  none; "skip" judges the good ones, and each bad one is a failure with its `.place`
    batched       whether a call takes a batch and answers one output for each row; unless told, so
                  for estimators, boosters, their bound `predict`, and modules, and not for other
                  callables
    input         from the call's arguments to the input; the first argument, unless told
    output        from the answer to the output; the answer itself, unless told
    key           from the call's arguments to the caller's own key (of a batch, keys), for lw.open;
                  a decision whose key the ledger has is counted as repeated and not judged again
    keep          how many of the latest violations, and failures, are kept
    background    whether the caller (an event loop) never waits: all decisions are judged in a
                  thread, in their order; `flush` and `close` wait for it. Callables that were
                  given here are called in that thread
    queue_calls   how many calls may wait for the thread, or decisions for a service
                  (65,536); what comes when it is full is counted as dropped, and is a failure
    wait_seconds  how long a call waits at most for a verdict: of a thread, which judges where that
                  may take long, as with a ledger; or of a service, if "raise" was chosen, and
                  otherwise it does not wait
    when_unknown  what happens if the verdict did not come in that time: "pass" counts it
                  (`counts.unknown`) and goes on, "raise" raises Unreachable
    """
    choices: dict[str, Any] = {
        "on_violation": on_violation,
        "on_failure": on_failure,
        "on_bad_row": on_bad_row,
        "input": input,
        "output": output,
        "key": key,
        "keep": keep,
        "background": background,
        "queue_calls": queue_calls,
        "wait_seconds": wait_seconds,
        "when_unknown": when_unknown,
    }
    if rule is None:
        raise TypeError(
            "there is no rule; expected lw.watch(model, rule), or for a function that is defined"
            " here @lw.watch(rule=…)"
        )
    if model is None:
        WatchSettings(**choices)  # what is wrong with them shows at the decorator's line
        return functools.partial(
            watch, rule=rule, batched=batched, **choices, **monitor_settings
        )  # fmt: skip
    checked = WatchSettings(**choices)
    module = is_module(model)
    if not module and is_estimator(model):
        from likewise.watching.estimator import WatchedEstimator

        if batched is False:
            raise BadRule(
                "batched is False, but an estimator answers batches. Leave it out.",
                setting="batched",
            )
        return WatchedEstimator._wrap_fitted(model, rule, monitor_settings, choices)
    predictor = not callable(model) and hasattr(model, "predict")
    if not callable(model) and not predictor:
        raise TypeError(
            f"the model is {model!r}; expected a callable, a scikit-learn estimator, a torch"
            " module, or something with predict"
        )
    known_batched = module or predictor or predicts_batches(model)
    watcher = Watcher(
        rule,
        name=getattr(model, "__qualname__", type(model).__name__),
        batched=known_batched if batched is None else batched,
        choices=checked,
        settings=monitor_settings,
    )
    if predictor:
        proba = watcher.output == "probabilities" and hasattr(model, "predict_proba")
        return WatchedPredictor(model, watcher, "predict_proba" if proba else "predict")
    return Watched(model, watcher)


def is_module(model: Any) -> bool:
    """Whether this is a torch module; without torch nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def is_estimator(model: Any) -> bool:
    """Whether this is used as scikit-learn's estimators are."""
    return (
        not isinstance(model, type) and hasattr(model, "predict") and hasattr(model, "get_params")
    )


def predicts_batches(model: Any) -> bool:
    """Whether this is `predict`, or `predict_proba`, of an estimator or a booster."""
    owner = getattr(model, "__self__", None)
    if owner is None or getattr(model, "__name__", None) not in _PREDICT_METHODS:
        return False
    return is_estimator(owner) or hasattr(owner, "save_model")
