"""Decisions known to be missing from a history: every verdict says how many."""

from typing import Any

from likewise.engine.engine import Engine
from likewise.values.losses import Loss
from likewise.values.times import microseconds


def loss_of(
    count: int, reason: str, first: int | None, last: int | None, since: Any, until: Any
) -> Loss:
    """What a caller says was lost; times as `time` of a decision."""
    times = (None if one is None else microseconds(one) for one in (since, until))
    return Loss(count, reason, first, last, *times)


class Missing:
    """How many decisions are missing, as the verdicts of an engine say."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def count(self) -> int:
        return self._engine.beside.missing

    def say(self, count: int) -> None:
        """Have every verdict from now on say so."""
        if count != self.count:
            self._engine.beside = self._engine.beside._replace(missing=count)
