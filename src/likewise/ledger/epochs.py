"""Epochs: who has opened a ledger since shards of a cluster were first made from it.

Each opening is an event of the chain, by a cluster or by one process: with the number of the epoch,
a random name of whoever opened it, and how rows are placed on shards. From these events it follows
up to which row a shard can be relied on that was filled by somebody earlier: what it was sent may
have rows that never reached the ledger, and these begin where the next epoch does, or later.

Invariant: rows that one writer has sent to shards are the ledger's up to `trusted`.
Cost: nothing in a ledger that no cluster has opened.
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
    """By earlier writer: up to which row what it sent to shards is what the ledger has."""


def stored_plans(store: Store) -> Any:
    """How rows are placed, as the ledger has it; None if no cluster has opened it."""
    events = store.reader.events(CLUSTER)
    return events[-1].body.get("plans") if events else None


def begin_epoch(store: Store, plans: Any) -> Epoch:
    """Chain that an epoch begins, in which rows are placed by these plans."""
    events = store.reader.events(CLUSTER)
    number = 1 + (events[-1].get_integer("epoch") if events else 0)
    epoch = Epoch(number, secrets.token_hex(8), find_trusted_rows(events, store.rows))
    body = {"epoch": number, "coordinator": epoch.writer, "plans": plans}
    store.pin_event(CLUSTER, body)
    return epoch


def find_trusted_rows(events: Sequence[Event], rows: int) -> dict[str, int]:
    """By writer: the row at which the epoch after its last one began."""
    writers = [str(event.body.get("coordinator")) for event in events]
    trust = {}
    for i, writer in enumerate(writers):
        later = (j for j in range(i, len(writers)) if writers[j] != writer)
        trust[writer] = min((events[j].at_row for j in later), default=rows)
    return trust
