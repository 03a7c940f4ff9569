"""The settings of a buffer, checked when they are made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from likewise.buffering.receipt import Receipt
from likewise.values.errors import BadRule
from likewise.values.known_names import check_one_of

WhenFull: TypeAlias = Literal["block", "drop_newest", "accept"]
POLICIES = ("block", "drop_newest", "accept")


@dataclass(frozen=True, kw_only=True)
class BufferSettings:
    """As `lw.buffered` explains them."""

    capacity: int
    max_bytes: int
    when_full: WhenFull
    timeout: float | None
    batch_rows: int
    batch_seconds: float
    on_verdict: Callable[[Receipt], Any] | None

    def __post_init__(self) -> None:
        for name in ("capacity", "max_bytes", "batch_rows"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadRule(f"{name} is {value!r}; expected a whole number from 1", setting=name)
        if not _is_seconds(self.batch_seconds):
            raise BadRule(
                f"batch_seconds is {self.batch_seconds!r}; expected seconds, from 0",
                setting="batch_seconds",
            )
        if self.timeout is not None and not _is_seconds(self.timeout):
            raise BadRule(
                f"timeout is {self.timeout!r}; expected seconds, from 0, or None", setting="timeout"
            )
        check_one_of("when_full", self.when_full, POLICIES)
        if self.timeout is not None and self.when_full == "drop_newest":
            raise BadRule(
                'timeout is given, and with when_full="drop_newest" nothing waits. Leave it out, or'
                ' let when_full be "block" or "accept".',
                setting="timeout",
            )
        if self.on_verdict is not None and not callable(self.on_verdict):
            raise BadRule(
                f"on_verdict is {self.on_verdict!r}; expected a callable, or None",
                setting="on_verdict",
            )


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
