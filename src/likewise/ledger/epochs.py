"""Record epochs: which writers have opened a ledger since shards of a cluster were made from it.

An event for each opening holds the epoch's number, a random name of the writer, and how rows are
placed on shards. A shard filled by an earlier writer may have rows that never reached the ledger;
these begin where the next epoch does, or later. Invariant: rows that a writer sent to shards are
the ledger's up to `find_trusted_rows`. Cost: nothing in a ledger that no cluster has opened.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from likewise.ledger.store import Store
from likewise.ledger.stored import Event

CLUSTER = "cluster"
"""The kind of these events."""


@dataclass(frozen=True)
class Epoch:
    """The time during which a ledger was open to one writer."""

    number: int
    writer: str
    trust: dict[str, int]
    """By earlier writer: up to which row its shards hold what the ledger has."""


def stored_plans(store: Store) -> Any:
    """Return how the ledger says rows are placed; None if no cluster has opened it."""
    events = store.reader.events(CLUSTER)
    return events[-1].body.get("plans") if events else None


def begin_epoch(store: Store, plans: Any) -> Epoch:
    """Begin an epoch, in which rows are placed by these plans, with an event of the chain."""
    events = store.reader.events(CLUSTER)
    number = 1 + (events[-1].get_integer("epoch") if events else 0)
    epoch = Epoch(number, secrets.token_hex(8), find_trusted_rows(events, store.rows))
    body = {"epoch": number, "coordinator": epoch.writer, "plans": plans}
    store.pin_event(CLUSTER, body)
    return epoch


def find_trusted_rows(events: Sequence[Event], rows: int) -> dict[str, int]:
    """Return for each writer the row at which the epoch after its last one began."""
    writers = [str(event.body.get("coordinator")) for event in events]
    trust = {}
    for i, writer in enumerate(writers):
        later = (j for j in range(i, len(writers)) if writers[j] != writer)
        trust[writer] = min((events[j].at_row for j in later), default=rows)
    return trust
