"""Losses as a ledger keeps them: events of kind "lost", each with the sum of all so far.

The sum stands in every event (`missing`), so the last one is enough. When rows leave a window, the
events before them leave as well; so a last event that is about to leave is carried over first: the
same sum again, with a count of 0.

A buffer (buffering/) holds decisions in memory, which a kill takes with it. So an event `buffers`
says which buffers there are and how much each may hold, whenever that changes. Whoever opens the
ledger and finds some of them left records a loss of as many, which also says that none is left.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from likewise.ledger.stored import Event
from likewise.verdict.losses import AT_LEAST, AT_MOST, reason_at_least

LOST = "lost"
"""The kind of these events."""
CARRIED: dict[str, Any] = {"count": 0, "reason": "carried over"}
"""The body of an event that only repeats the sum."""
BUFFERS = "buffers"
"""The kind of events that say which buffers hold decisions in memory; the field has that name."""
_KILLED = "killed while a buffer held decisions in memory"


class BufferBound(NamedTuple):
    """How many decisions one buffer may lose when the process is killed."""

    most: int
    drops: bool
    """Whether it also drops decisions that find no room, so that there may be more."""


def buffers_in(events: Sequence[Event]) -> dict[str, BufferBound]:
    """Return the buffers that have begun and not ended after these events, by name."""
    told = [event for event in events if BUFFERS in event.body]
    if not told:
        return {}
    last = told[-1]
    try:
        return {name: BufferBound(*bound) for name, bound in last.body[BUFFERS].items()}
    except (AttributeError, TypeError):
        raise last.unreadable() from None


def loss_by_kill(buffers: Mapping[str, BufferBound]) -> dict[str, Any]:
    """Return the body of a loss of all that these buffers may have held; none is left after it."""
    drops = any(one.drops for one in buffers.values())
    reason = reason_at_least(_KILLED) if drops else _KILLED + AT_MOST
    return {"count": sum(one.most for one in buffers.values()), "reason": reason, BUFFERS: {}}


def missing_in(events: Sequence[Event]) -> int:
    """Decisions known to be missing after these events, in order."""
    lost = [event for event in events if event.kind == LOST]
    return lost[-1].get_integer("missing") if lost else 0


def bound_of(events: Sequence[Event], row: int | None = None) -> str:
    """Return what the number of missing decisions is after these events; or at a row's verdict.

    "at least ", "at most ", "about " where it is one of both, and "" where it is exact.
    """
    at_most = any(
        event.kind == LOST
        and str(event.body.get("reason")).endswith(AT_MOST)
        and (row is None or event.at_row <= row)
        for event in events
    )
    if is_at_least(events, row):
        return "about " if at_most else "at least "
    return "at most " if at_most else ""


def is_at_least(events: Sequence[Event], row: int | None = None) -> bool:
    """Whether more may be missing than is known, after these events; or when a row was judged.

    Of losses that were carried over since, only the sum is known.
    """
    return any(
        event.kind == LOST
        and str(event.body.get("reason")).endswith(AT_LEAST)
        and (row is None or event.at_row <= row)
        for event in events
    )


def last_row_with(events: Sequence[Event]) -> int:
    """How many rows there were at the last of these events; -1 if there is none."""
    return max((event.at_row for event in events if event.kind == LOST), default=-1)
