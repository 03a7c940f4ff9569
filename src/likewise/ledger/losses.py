"""Losses as a ledger keeps them: events of kind "lost", each with the sum of all so far.

The sum stands in every event (`missing`), so the last one is enough. When rows leave a window, the
events before them leave as well; so a last event that is about to leave is carried over first: the
same sum again, with a count of 0.
"""

from collections.abc import Sequence
from typing import Any

from likewise.ledger.stored import Event
from likewise.values.losses import AT_LEAST

LOST = "lost"
"""The kind of these events."""
CARRIED: dict[str, Any] = {"count": 0, "reason": "carried over"}
"""The body of an event that only repeats the sum."""


def missing_in(events: Sequence[Event]) -> int:
    """Decisions known to be missing after these events, in order."""
    lost = [event for event in events if event.kind == LOST]
    return lost[-1].whole("missing") if lost else 0


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
