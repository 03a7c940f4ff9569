"""What a user chooses when a watch begins: checked then, not at the first decision."""

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict

from likewise.monitors.monitor import Monitor
from likewise.rules.burst import Burst
from likewise.rules.rule import Rule
from likewise.values.errors import BadRule
from likewise.values.known_names import did_you_mean
from likewise.watching.records import Failure, Flagged

KEEP = 100
QUEUE_CALLS = 1000

POLICIES = ("record", "warn", "raise")

OnViolation: TypeAlias = Literal["record", "warn", "raise"] | Callable[[Flagged], object]
OnFailure: TypeAlias = Literal["record", "warn", "raise"] | Callable[[Failure], object]
OnBadRow: TypeAlias = Literal["fail", "skip"]


class Settings(TypedDict, total=False):
    """The settings of `lw.watch`, for type checkers."""

    on_violation: OnViolation
    on_failure: OnFailure
    on_bad_row: OnBadRow
    batched: bool | None
    input: Callable[..., Any] | None
    output: Callable[[Any], Any] | None
    key: Callable[..., Any] | None
    keep: int
    background: bool
    queue_calls: int
    index: Any
    rows: str | os.PathLike[str] | None
    burst: Burst | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What was chosen, checked."""

    on_violation: Any = "record"
    on_failure: Any = "warn"
    on_bad_row: Any = "fail"
    input: Callable[..., Any] | None = None
    output: Callable[[Any], Any] | None = None
    key: Callable[..., Any] | None = None
    keep: int = KEEP
    background: bool = False
    queue_calls: int = QUEUE_CALLS

    def __post_init__(self) -> None:
        for name in ("on_violation", "on_failure"):
            policy = getattr(self, name)
            if not callable(policy) and policy not in POLICIES:
                raise BadRule(
                    f"{name} is {policy!r}; expected one of {', '.join(POLICIES)}, or a callable"
                    + did_you_mean(policy, POLICIES),
                    setting=name,
                )
            if self.background and policy == "raise":
                raise BadRule(
                    f"{name} is 'raise', but with background=True the answer is given before the"
                    " decision is judged. Choose a callable, or leave out background.",
                    setting=name,
                )
        if self.on_bad_row not in ("fail", "skip"):
            raise BadRule(
                f"on_bad_row is {self.on_bad_row!r}; expected fail or skip", setting="on_bad_row"
            )
        for name in ("input", "output", "key"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise TypeError(f"{name} is {given!r}; expected a callable, or None")
        for name in ("keep", "queue_calls"):
            number = getattr(self, name)
            if not isinstance(number, int) or number < 1:
                raise BadRule(f"{name} is {number!r}; expected a whole number from 1", setting=name)


def monitor_of(given: Any, settings: dict[str, Any]) -> Any:
    """A monitor for a rule, or the monitor that was given."""
    if isinstance(given, Rule):
        return Monitor(given, **settings)
    if not is_monitor(given):
        raise BadRule(f"the rule is {given!r}; expected a likewise.Rule, or a monitor")
    if settings:
        raise TypeError(
            f"{', '.join(settings)}: settings of a monitor, but a monitor was given. Give a rule"
            " and settings, or a monitor that has them."
        )
    return given


def is_monitor(given: Any) -> bool:
    """Whether it can be told of decisions."""
    # A client's class is looked at first: to look at its rule, a service would have to be asked.
    names = ("observe", "observe_many", "rule")
    if inspect.iscoroutinefunction(getattr(given, "observe", None)):
        return False  # lw.AsyncClient: nobody here would await it
    return all(hasattr(type(given), name) or hasattr(given, name) for name in names)


def shown(policy: Any) -> str:
    """A policy for people."""
    return str(getattr(policy, "__qualname__", repr(policy)))


def check_keys(monitor: Any) -> None:
    """Raise TypeError if a monitor cannot be given keys beside decisions."""
    if "key" not in inspect.signature(monitor.observe).parameters:
        raise TypeError(
            f"key is given, but a {type(monitor).__name__} keeps no keys. Leave it out, or watch"
            " with a ledger: lw.open(folder, rule)."
        )
    features = monitor.rule.features or {}
    for name, feature in features.items():
        if feature.kind == "key":
            raise TypeError(
                f"key is given, but the rule takes keys from the column {name!r}. Leave it out."
            )
