"""What an earlier process left in a spill folder, and what became of the rest.

Of the numbers that it gave, some are settled (answered, refused, or lost and told); of the others
some wait in frames, and the rest waited in memory: they are lost.

What was being told to the monitor when the process ended may be told or not. The monitor knows: it
has as many rows (or knows as many to be missing) as before, or more by as many as were being told.

Guarantee: with a ledger each spilled decision is judged once, in its order, however often the
process is killed, as long as nothing else observes through that ledger. Without a ledger the
history ends with the process, so what was being told is told again, to a new one.
"""

from dataclasses import dataclass
from typing import Any

from likewise.buffering.position import DECISIONS, LOSSES, Intention
from likewise.buffering.spill import Spill
from likewise.buffering.telling import is_durable
from likewise.values.errors import BadFile


@dataclass(frozen=True)
class Recovered:
    """Where to go on."""

    next_number: int
    lost: int
    first: int
    """No smaller number is lost."""


def recovered(spill: Spill, monitor: Any) -> Recovered:
    """Settle what was being told, find what waits, and count what is lost."""
    position = spill.position
    intention = position.intention
    if intention.durable and is_durable(monitor):
        if intention.kind == DECISIONS and _is_stored(intention, monitor, spill):
            position.settle(intention.size, intention.stop)
        elif intention.kind == LOSSES and monitor.missing >= intention.before + intention.size:
            position.settle(intention.size)
    position.settle(0)
    spill.find()
    next_number = max(position.given, spill.next_number)
    lost = next_number - position.settled - spill.waiting
    return Recovered(next_number, max(0, lost), position.done)


def _is_stored(intention: Intention, monitor: Any, spill: Spill) -> bool:
    more = monitor.rows - intention.before
    if more <= 0:  # or an older copy of the ledger, which does not have them
        return False
    if more == intention.size:
        return True
    raise BadFile(
        f"the spill folder {str(spill.folder)!r} was left while {intention.size:,} decisions were"
        f" being written behind row {intention.before:,}; now there are {more:,} more, so something"
        " else has observed since, and it cannot be told whether they are among them. Nothing was"
        " changed: move the folder away to go on without what waits in it.",
        path=spill.folder,
    )
