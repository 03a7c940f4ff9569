"""What a user chooses when a watch begins: checked then, not at the first decision."""

import inspect
from typing import Any

from likewise.errors import BadRule
from likewise.monitors.robustness import Monitor
from likewise.rule import Rule

POLICIES = ("record", "warn", "raise")


def monitor_of(given: Any, settings: dict[str, Any]) -> Any:
    """A monitor for a rule, or the monitor that was given."""
    if isinstance(given, Rule):
        return Monitor(given, **settings)
    if not all(hasattr(given, name) for name in ("observe", "observe_many", "rule")):
        raise BadRule(f"the rule is {given!r}; expected a likewise.Rule, or a monitor")
    if settings:
        raise TypeError(
            f"{', '.join(settings)}: settings of a monitor, but a monitor was given. Give a rule"
            " and settings, or a monitor that has them."
        )
    return given


def check_policy(name: str, policy: Any) -> None:
    if not callable(policy) and policy not in POLICIES:
        raise ValueError(
            f"{name} is {policy!r}; expected one of {', '.join(POLICIES)}, or a callable"
        )


def shown(policy: Any) -> str:
    """A policy for people."""
    return str(getattr(policy, "__qualname__", repr(policy)))


def check_keys(monitor: Any) -> None:
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
