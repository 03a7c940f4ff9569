"""The settings of a watch, checked when it begins and not at the first decision."""

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

from likewise.errors import BadRule
from likewise.monitor.monitor import Monitor
from likewise.monitor.protocol import AnyMonitor
from likewise.queueing.buffer import DecisionBuffer
from likewise.rule.burst import Burst
from likewise.rule.rule import Rule
from likewise.tables.known_names import check_one_of, did_you_mean
from likewise.tables.setting_checks import check_whole_number
from likewise.watching.watch_records import Failure, Flagged

KEEP = 100
CAPACITY = 65_536  # decisions for a service, or calls, that wait
MAX_BYTES = 256 << 20  # of calls that wait
WAIT_SECONDS = 0.05

POLICIES = ("record", "warn", "raise")

OnViolation: TypeAlias = Literal["record", "warn", "raise"] | Callable[[Flagged], object]
OnFailure: TypeAlias = Literal["record", "warn", "raise"] | Callable[[Failure], object]
OnBadRow: TypeAlias = Literal["fail", "skip"]
WhenUnknown: TypeAlias = Literal["pass", "raise"]


class WatchKeywords(TypedDict, total=False):
    """Names the settings of `lw.watch` for type checkers."""

    on_violation: OnViolation
    on_failure: OnFailure
    on_bad_row: OnBadRow
    batched: bool | None
    input: Callable[..., Any] | None
    output: Callable[[Any], Any] | None
    key: Callable[..., Any] | None
    keep: int
    background: bool
    queue_calls: int | None
    wait_seconds: float
    when_unknown: WhenUnknown
    index: Any
    rows: str | os.PathLike[str] | None
    burst: Burst | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """Holds what the user chose, checked."""

    on_violation: Any = "record"
    on_failure: Any = "warn"
    on_bad_row: Any = "fail"
    input: Callable[..., Any] | None = None
    output: Callable[[Any], Any] | None = None
    key: Callable[..., Any] | None = None
    keep: int = KEEP
    background: bool = False
    queue_calls: int | None = None
    wait_seconds: float = WAIT_SECONDS
    when_unknown: WhenUnknown = "pass"

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
        check_one_of("on_bad_row", self.on_bad_row, ("fail", "skip"))
        for name in ("input", "output", "key"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise TypeError(f"{name} is {function!r}; expected a callable, or None")
        if not isinstance(self.wait_seconds, int | float) or not 0 <= self.wait_seconds < 1e6:
            raise BadRule(
                f"wait_seconds is {self.wait_seconds!r}; expected seconds, from 0",
                setting="wait_seconds",
            )
        check_one_of("when_unknown", self.when_unknown, ("pass", "raise"))
        check_whole_number("keep", self.keep)
        if self.queue_calls is not None:
            check_whole_number("queue_calls", self.queue_calls)


WATCH_SETTINGS = tuple(field.name for field in fields(WatchSettings))
"""The names of the settings of a watch."""


def split_settings(settings: dict[str, Any]) -> tuple[WatchSettings, dict[str, Any]]:
    """Return the settings of a watch, checked, and those that are left for its monitor."""
    own = {name: settings[name] for name in WATCH_SETTINGS if name in settings}
    return WatchSettings(**own), {name: settings[name] for name in settings if name not in own}


class WatchTarget(NamedTuple):
    """Says what is told of decisions.

    rule        for which a monitor is to be made
    monitor     given by the user, or behind the buffer that was given
    buffer      the user's own
    """

    rule: Rule | None = None
    monitor: AnyMonitor | None = None
    buffer: DecisionBuffer | None = None

    @classmethod
    def from_argument(cls, argument: Any) -> "WatchTarget | None":
        """Sort out what a user gave; None if it is neither a rule, nor a monitor, nor a buffer.

        Nothing is asked of a service.
        """
        if isinstance(argument, Rule):
            return cls(rule=argument)
        if isinstance(argument, DecisionBuffer):
            return cls(monitor=argument.monitor, buffer=argument)
        names = ("observe", "observe_many", "remote", "core")
        return cls(monitor=argument) if all(hasattr(argument, name) for name in names) else None


def resolve_target(argument: Any, settings: dict[str, Any]) -> tuple[WatchTarget, AnyMonitor]:
    """Return the target of a watch, and its monitor, which is made here for a rule."""
    target = WatchTarget.from_argument(argument)
    if target is None:
        raise BadRule(f"the rule is {argument!r}; expected a likewise.Rule, or a monitor")
    if target.monitor is None:
        return target, Monitor(argument, **settings)
    if settings:
        raise TypeError(
            f"{', '.join(settings)}: settings of a monitor, but a monitor was given. Give a rule"
            " and settings, or a monitor that has them."
        )
    return target, target.monitor


def describe_policy(policy: Any) -> str:
    """Name a policy for people."""
    return str(getattr(policy, "__qualname__", repr(policy)))


def check_key_column(rule: Rule) -> None:
    """Raise TypeError if a rule takes keys from a column, so that none can be given."""
    for name, feature in (rule.features or {}).items():
        if feature.kind == "key":
            raise TypeError(
                f"key is given, but the rule takes keys from the column {name!r}. Leave it out."
            )
