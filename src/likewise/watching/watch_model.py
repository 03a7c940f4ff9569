"""`lw.watch` watches a model that is used as before.

Callables are wrapped in `Watched`, estimators and boosters as in estimator.py and predictor.py;
torch modules get hooks and are used themselves.
Invariant: the answer is the very object that the model answered. What the model raises passes
through, and then nothing is observed. An awaitable answer is observed once it was awaited.
Cost: watcher.py's.
"""

import functools
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from likewise.errors import BadRule, HintWarning
from likewise.runtime.log import logger
from likewise.watching.predictor import WatchedModel, WatchedPredictor
from likewise.watching.settings import WatchKeywords, split_settings
from likewise.watching.warnings import warn
from likewise.watching.watcher import CapturedInput, Watcher

if TYPE_CHECKING:
    from likewise.watching.estimator import WatchedEstimator


# Watches a torch module by hooks; the module itself is used as before. One hook copies the input
# before the module can change it, one tells the watcher the answer. Only a module in eval mode is
# watched: what it answers during training is no decision.
# Invariant: no gradient passes through here, and no tensor of the model is changed. A copy of the
# module, or a pickle of it, is not watched, and says so at its first call.
# Not here: torch is not imported; whoever has a module has imported it.


class ModuleHooks:
    """Holds the two hooks of one module."""

    def __init__(self, module: Any, watcher: Watcher) -> None:
        self._watcher: Watcher | None = watcher
        self._copy_of: str | None = None
        self._latest = threading.local()
        self._handles = (
            module.register_forward_pre_hook(self.capture_input, with_kwargs=True),
            module.register_forward_hook(self.observe_answer, with_kwargs=True),
        )

    def _active_watcher(self, module: Any) -> Watcher | None:
        watcher = self._watcher
        if self._copy_of is not None and not module.training:
            name, self._copy_of = self._copy_of, None
            _warn_not_watched(name)
        return None if watcher is None or watcher.closed or module.training else watcher

    def capture_input(self, module: Any, args: Any, kwargs: Any) -> None:
        watcher = self._active_watcher(module)
        if watcher is not None:
            # One place for each thread: if the module raises, the next call takes it.
            self._latest.call = (args, watcher.capture_input(args, kwargs))

    def observe_answer(self, module: Any, args: Any, kwargs: Any, answer: Any) -> None:
        watcher = self._active_watcher(module)
        if watcher is None:
            return
        latest_args, captured = getattr(self._latest, "call", (None, None))
        self._latest.call = (None, None)
        if captured is None or latest_args is not args:  # a module within itself, or another's hook
            captured = watcher.capture_input(args, kwargs)
        watcher.observe_answer(captured, answer)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def __reduce__(self) -> Any:
        return _hooks_of_copy, (self._copy_of if self._watcher is None else self._watcher.name,)


def _hooks_of_copy(name: str | None = None) -> ModuleHooks:
    """Return the hooks of a copy of a watched module, which only say once that it is one."""
    hooks = ModuleHooks.__new__(ModuleHooks)
    hooks._watcher = None
    hooks._copy_of = name
    return hooks


def _warn_not_watched(name: str) -> None:
    text = (
        f"this {name} is a copy of a watched module, and is not watched. To have it watched, say"
        " lw.watch(copy, rule)."
    )
    logger.warning("%s", text)
    warn(HintWarning(text), {})


P = ParamSpec("P")
R = TypeVar("R")

_PREDICT_METHODS = ("predict", "predict_proba")


class Watched(WatchedModel, Generic[P, R]):
    """Watches a callable or a torch module; `lw.watch` makes it.

    Call it as the model is called. As a context manager it stops watching when it is left: hooks
    are removed, and a monitor that it made itself is closed. The model can still be used.

    on_violation, on_failure   what the user chose
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
        captured = watcher.capture_input(args, kwargs)
        return self._observe_or_await(captured, self._model(*args, **kwargs))

    def _observe_or_await(self, captured: CapturedInput, answer: R) -> R:
        if inspect.isawaitable(answer):
            return self._await_and_observe(captured, answer)  # type: ignore[return-value]
        self._watcher.observe_answer(captured, answer)
        return answer

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind a watched function of a class; the object it belongs to is not its input."""
        if instance is None or not inspect.isfunction(self._model):
            return self
        return functools.partial(self._call_method, instance)

    def _call_method(self, instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        model: Callable[..., Any] = self._model
        if self._watcher.closed:
            return model(instance, *args, **kwargs)
        captured = self._watcher.capture_input(args, kwargs)
        return self._observe_or_await(captured, model(instance, *args, **kwargs))

    async def _await_and_observe(self, captured: CapturedInput, awaited: Awaitable[Any]) -> Any:
        answer = await awaited
        self._watcher.observe_answer(captured, answer)
        return answer

    def _mark_as_coroutine(self) -> None:
        """Have inspect and asyncio take this object for an `async def`."""
        if sys.version_info >= (3, 12):
            inspect.markcoroutinefunction(self)
        else:  # they know no mark, but take what has a function's attributes for one
            for name in ("__code__", "__defaults__", "__kwdefaults__"):
                setattr(self, name, getattr(Watched._await_and_observe, name))

    def close(self) -> None:
        """Stop watching. The model can still be used; a monitor that was made here is closed."""
        if self._hooks is not None:
            self._hooks.remove()
        super().close()


class _Estimator(Protocol):
    """Has the parameters of scikit-learn's estimators."""

    def get_params(self, deep: bool = ...) -> dict[str, Any]: ...


class _Predictor(Protocol):
    """Has `predict`."""

    @property
    def predict(self) -> Callable[..., Any]: ...


class _Decorator(Protocol):
    """Takes a function and returns it watched, as `lw.watch(rule=…)` does."""

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
    model: Any = None, rule: Any = None, *, batched: bool | None = None, **settings: Any
) -> Any:
    """Watch a model: tell a monitor of every decision that it makes.

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
                  booster or anything else with `predict`, or a torch module (in eval mode)
    rule          a Rule, for which a Monitor is made; or a monitor, such as lw.open(…), which stays
                  open when the watch ends; or a client (lw.connect) or a buffer (lw.buffered): then
                  decisions are queued, and the model never waits for a service. The verdicts of a
                  buffer come from the buffer, not from the watch
    on_violation  "record" (the default) keeps and counts it; "warn" warns as well
                  (ViolationWarning); "raise" raises Violation, which holds the answer, once the
                  decision is remembered; a callable gets a record with `.verdict`, `.answer`,
                  `.key` and `.witness_keys` of each violation. The same happens for a decision that
                  raises the alarm of a Burst (`.verdict.alarm`)
    on_failure    if watching fails, the model still answers: "record" keeps and counts the failure;
                  "warn" (the default) warns as well (FailureWarning); a callable gets a record with
                  `.call`, `.place`, `.error` and `.traceback`; only "raise" raises the error
    on_bad_row    in a batch with rows that cannot be judged, such as one with a NaN: "fail" (the
                  default) judges none; "skip" judges the good ones, and each bad one is a failure
                  with its `.place`
    batched       whether a call takes a batch and answers one output for each row; by default yes
                  for estimators, boosters, their bound `predict`, and modules, and no for other
                  callables
    input         makes the input from the call's arguments; by default it is the first of them
    output        makes the output from the answer; by default it is the answer itself
    key           makes your own key (for a batch, keys) from the call's arguments, for lw.open; a
                  decision whose key the ledger has is counted as repeated and not judged again
    keep          how many of the latest violations, and failures, are kept; by default 100
    background    whether the caller (an event loop) never waits: all decisions are judged in a
                  thread, in their order; `flush` and `close` wait for it. Your callables are
                  called in that thread
    queue_calls   how many calls may wait for the thread, or decisions for a service (by default
                  65,536); one that finds the queue full is counted as dropped, and is a failure
    wait_seconds  how long a call waits at most for its verdict (by default 0.05): for the thread,
                  which judges what may take long, as with a ledger; or for a service, if "raise"
                  was chosen
    when_unknown  what happens if the verdict did not come in that time: "pass" (the default) counts
                  it (`counts.unknown`) and goes on, "raise" raises Unreachable
    settings      all others are those of the Monitor that is made for a rule
    """
    if rule is None:
        raise TypeError(
            "there is no rule; expected lw.watch(model, rule), or for a function that is defined"
            " here @lw.watch(rule=…)"
        )
    choices, monitor_settings = split_settings(settings)
    if model is None:
        return functools.partial(watch, rule=rule, batched=batched, **settings)
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
    answers_batches = module or predictor or predicts_batches(model)
    watcher = Watcher(
        rule,
        name=getattr(model, "__qualname__", type(model).__name__),
        batched=answers_batches if batched is None else batched,
        choices=choices,
        settings=monitor_settings,
    )
    if predictor:
        proba = watcher.output == "probabilities" and hasattr(model, "predict_proba")
        return WatchedPredictor(model, watcher, "predict_proba" if proba else "predict")
    return Watched(model, watcher)


def is_module(model: Any) -> bool:
    """Tell whether this is a torch module; without torch nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def is_estimator(model: Any) -> bool:
    """Tell whether this is used as scikit-learn's estimators are."""
    return (
        not isinstance(model, type) and hasattr(model, "predict") and hasattr(model, "get_params")
    )


def predicts_batches(model: Any) -> bool:
    """Tell whether this is `predict`, or `predict_proba`, of an estimator or a booster."""
    owner = getattr(model, "__self__", None)
    if owner is None or getattr(model, "__name__", None) not in _PREDICT_METHODS:
        return False
    return is_estimator(owner) or hasattr(owner, "save_model")
