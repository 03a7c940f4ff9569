"""`lw.watch`: a model that is used as before, and watched.

    a callable                wrapped: call the `Watched` instead
    a scikit-learn estimator  wrapped: use the `WatchedEstimator` instead (estimator.py)
    a torch module            hooked: use the module itself (modules.py)

Invariant: the answer is the very object that the model answered; what the model raises passes
through, and then nothing is observed. An awaitable is no answer yet: what is given back instead is
a coroutine that awaits it, observes what comes, and gives that back.
Cost: watcher.py's.
"""

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from likewise.watching.looks import Looks
from likewise.watching.modules import Hooks
from likewise.watching.watcher import KEEP, Given, Watcher

if TYPE_CHECKING:
    from likewise.watching.estimator import WatchedEstimator


class Watched(Looks):
    """A callable or a torch module that is watched; `lw.watch` makes it.

    Call it as the model is called. As a context manager it ends the watch when it is left: hooks
    are removed, and a monitor that it made itself is closed. The model goes on, unwatched.

    on_violation, on_failure   what was chosen
    monitor                    the monitor that is told of each decision
    counts                     decisions, violations, failures and alarms so far
    violations, failures       the latest of them, each a frozen record; alarms are with violations
    """

    def __init__(self, model: Callable[..., Any], watcher: Watcher) -> None:
        self._model = model
        self._watcher = watcher
        self._hooks = Hooks(model, watcher) if is_module(model) else None
        functools.update_wrapper(self, model, updated=())
        if inspect.iscoroutinefunction(model):
            self._say_that_it_is_awaited()

    @property
    def on_violation(self) -> Any:
        """What happens at a violation."""
        return self._watcher.on_violation

    @property
    def on_failure(self) -> Any:
        """What happens where watching fails."""
        return self._watcher.on_failure

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watcher = self._watcher
        if watcher.closed or self._hooks is not None:
            return self._model(*args, **kwargs)
        given = watcher.given(args, kwargs)
        answer = self._model(*args, **kwargs)
        if inspect.isawaitable(answer):
            return self._answer_later(given, answer)
        watcher.answered(given, answer)
        return answer

    async def _answer_later(self, given: Given, awaited: Awaitable[Any]) -> Any:
        answer = await awaited
        self._watcher.answered(given, answer)
        return answer

    def _say_that_it_is_awaited(self) -> None:
        """Have inspect and asyncio see in this object what they see in an `async def`."""
        if sys.version_info >= (3, 12):
            inspect.markcoroutinefunction(self)
        else:  # they look for no mark, but take what has a function's attributes for a function
            for name in ("__code__", "__defaults__", "__kwdefaults__"):
                setattr(self, name, getattr(Watched._answer_later, name))

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


def watch(
    model: Any,
    rule: Any,
    *,
    on_violation: Any = "record",
    on_failure: Any = "warn",
    batched: bool | None = None,
    input: Callable[..., Any] | None = None,
    output: Callable[[Any], Any] | None = None,
    key: Callable[..., Any] | None = None,
    keep: int = KEEP,
    **monitor_settings: Any,
) -> "Watched | WatchedEstimator":
    """Have a monitor told of every decision that a model makes.

    >>> import likewise as lw
    >>> def approve(applicant):
    ...     return "yes" if applicant[0] > 0.5 else "no"
    >>> approve = lw.watch(approve, lw.Rule("linf", epsilon=0.1))
    >>> approve([0.52, 0.30]), approve([0.48, 0.30])
    ('yes', 'no')
    >>> approve.counts
    Counts(decisions=2, violations=1, failures=0)
    >>> print(approve.violations[-1])
    row 1 contradicts row 0 (inputs 0.04 apart, outputs 1)

    model         a callable, a fitted scikit-learn estimator, or a torch module (in eval mode)
    rule          a Rule, for which a Monitor is made, with `monitor_settings`; or a monitor, such
                  as lw.open(…), which stays open when the watch ends
    on_violation  "record" keeps and counts it; "warn" warns as well (ViolationWarning); "raise"
                  raises Violation, which holds the answer, when the decision is remembered; a
                  callable gets a record with `.verdict` and `.answer`, one for each violation;
                  so too for a decision that raises the alarm of a Burst (`.verdict.alarm`)
    on_failure    if watching fails, the answer is given all the same: "record" keeps and counts the
                  failure; "warn" warns as well (FailureWarning); a callable gets a record with
                  `.call`, `.error` and `.traceback`; only "raise" raises the error instead
    batched       whether a call takes a batch and answers one output for each row; unless told, so
                  for estimators and modules, and not for other callables
    input         from the call's arguments to the input; the first argument, unless told
    output        from the answer to the output; the answer itself, unless told
    key           from the call's arguments to the caller's own key (of a batch, keys), for lw.open
    keep          how many of the latest violations, and failures, are kept
    """
    settings = {
        "on_violation": on_violation,
        "on_failure": on_failure,
        "input": input,
        "output": output,
        "keep": keep,
    }
    module = is_module(model)
    if not module and is_estimator(model):
        from likewise.watching.estimator import WatchedEstimator

        if batched is False:
            raise ValueError("batched is False, but an estimator answers batches. Leave it out.")
        return WatchedEstimator._around(model, rule, key, monitor_settings, settings)
    if not callable(model):
        raise TypeError(
            f"the model is {model!r}; expected a callable, a scikit-learn estimator or a torch"
            " module"
        )
    watcher = Watcher(
        rule,
        name=getattr(model, "__qualname__", type(model).__name__),
        batched=module if batched is None else batched,
        key=key,
        settings=monitor_settings,
        **settings,
    )
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
