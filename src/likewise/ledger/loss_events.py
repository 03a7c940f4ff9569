"""Read and make the events of a ledger about lost decisions.

Invariant: every event of kind "lost" holds the sum of all losses so far (`missing`), so the last
one is enough; before it leaves the window with its rows, it is repeated with a count of 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from likewise.ledger.stored import Event
from likewise.verdict.losses import AT_LEAST, AT_MOST, reason_at_least

# A buffer (queueing/buffer.py) holds decisions in memory, which are lost if the process is killed.
# So an event `buffers` says which buffers there are and how much each may hold, whenever that
# changes. The next process that opens the ledger and finds some left records a loss of as many,
# which also says that none is left.

LOST = "lost"
"""The kind of these events."""
CARRIED: dict[str, Any] = {"count": 0, "reason": "carried over"}
"""The part of an event's body that says that it only repeats the sum."""
BUFFERS = "buffers"
"""The kind of events that say which buffers hold decisions in memory; the field has that name."""
_KILLED = "killed while a buffer held decisions in memory"


class BufferBound(NamedTuple):
    """How many decisions one buffer may lose when the process is killed."""

    most: int
    drops: bool
    """Whether it also drops decisions when it is full, so that more may be lost."""


def buffers_in(events: Sequence[Event]) -> dict[str, BufferBound]:
    """Return the buffers that are in use after these events, by name."""
    last = next((event for event in reversed(events) if BUFFERS in event.body), None)
    if last is None:
        return {}
    try:
        return {name: BufferBound(*bound) for name, bound in last.body[BUFFERS].items()}
    except (AttributeError, TypeError):
        raise last.unreadable() from None


def loss_by_kill(buffers: Mapping[str, BufferBound]) -> dict[str, Any]:
    """Return the body of a loss of all that these buffers may have held; none is left after it."""
    bounds = buffers.values()
    drops = any(bound.drops for bound in bounds)
    reason = reason_at_least(_KILLED) if drops else _KILLED + AT_MOST
    return {"count": sum(bound.most for bound in bounds), "reason": reason, BUFFERS: {}}


def missing_in(events: Sequence[Event]) -> int:
    """Return how many decisions are known to be missing after these events, in order."""
    last = next((event for event in reversed(events) if event.kind == LOST), None)
    return 0 if last is None else last.get_integer("missing")


def bound_of(events: Sequence[Event], row: int | None = None) -> str:
    """Return the bound that the number of missing decisions is, now or at a row's verdict.

    "at least ", "at most ", "about " if it is one of both, and "" if it is exact.
    """
    at_most = _has_reason(events, AT_MOST, row)
    if is_at_least(events, row):
        return "about " if at_most else "at least "
    return "at most " if at_most else ""


def is_at_least(events: Sequence[Event], row: int | None = None) -> bool:
    """Return whether more may be missing than is known, now or when a row was judged.

    Of losses that were carried over since, only the sum is known.
    """
    return _has_reason(events, AT_LEAST, row)


def _has_reason(events: Sequence[Event], ending: str, row: int | None) -> bool:
    return any(
        event.kind == LOST
        and str(event.body.get("reason")).endswith(ending)
        and (row is None or event.at_row <= row)
        for event in events
    )


def last_row_with(events: Sequence[Event]) -> int:
    """Return how many rows there were at the last of these events; -1 if there is none."""
    return max((event.at_row for event in events if event.kind == LOST), default=-1)
