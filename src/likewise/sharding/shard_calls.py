"""The part of a monitor that has shards: calls that are judged together, and what is owed.

A decision that was answered while a shard was down is owed the witnesses of that shard. The chain
says so before the answer (an event "incomplete"), and says when they were told (an event "late").

Invariant: what is owed is told at least once; a pair of rows tells whether it was told before.
Not here: the contract of this part (monitor/sharded.py), and everything else a monitor does.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.errors import BadDecision
from likewise.ledger.stored import Event
from likewise.monitor.metadata import RawMetadata
from likewise.monitor.protocol import Decision
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.monitor.sequencer import Sequencer
from likewise.sharding.fleet import IncompleteRange
from likewise.sharding.sharded_index import ShardedIndexFactory
from likewise.verdict.verdicts import Verdict

INCOMPLETE, LATE = "incomplete", "late"
"""Kinds of events: rows are judged without a shard; what it named of them was told."""


class MonitorShards:
    """The shards of one monitor (monitor/sharded.py)."""

    def __init__(self, sharded: ShardedIndexFactory) -> None:
        self._sharded = sharded
        self.fleet = sharded.fleet

    @property
    def incomplete_count(self) -> int:
        rows: set[int] = set()
        for one in self.fleet.incomplete_ranges:
            rows.update(range(one.first, one.stop))
        return len(rows)

    def collect_late_verdicts(self, sequencer: Sequencer) -> list[Verdict]:
        told: list[Verdict] = []
        taken, standing = sequencer.rows_taken, self._sharded.current_index
        for owed in [one for one in self.fleet.incomplete_ranges if one.first < taken]:
            sequencer.midway = True
            assert standing is not None
            found = standing.find_late_verdicts(owed.first, min(owed.stop, taken), owed.shard)
            sequencer.midway = False
            if found is None:
                continue
            late = sequencer.annotate_late_verdicts(found)
            sequencer.event(LATE, {**owed._asdict(), "pairs": late.pairs})
            self.fleet.incomplete_ranges.remove(owed)
            told += [verdict for verdict in late if verdict.violation]
        return told

    def observe_together(
        self, sequencer: Sequencer, decisions: Sequence[Decision]
    ) -> list[Verdict] | None:
        said = _build_batch_metadata(decisions) if len(decisions) > 1 else None
        if said is None or not sequencer.rows_taken:  # the first one settles types and shapes
            return None
        inputs, outputs = [one.x for one in decisions], [one.z for one in decisions]
        z = FROM_ROW if outputs[0] is FROM_ROW else outputs
        try:
            return list(sequencer.observe_many(inputs, z, said, None))
        except BadDecision:  # one of them is refused: see which
            return None


def _build_batch_metadata(decisions: Sequence[Decision]) -> RawMetadata | None:
    """What is said beside decisions, as of a batch; None if they cannot be one."""
    if not decisions or len({one.z is FROM_ROW for one in decisions}) > 1:
        return None
    try:
        types = {np.asarray(one.x).dtype for one in decisions}
    except ValueError:  # one of them has no shape
        return None
    if len(types) > 1:  # a batch has one type
        return None

    def column(name: str) -> list[Any] | None:
        values = [getattr(one, name) for one in decisions]
        return None if all(value is None for value in values) else values

    times = column("time")
    if times is not None and None in times:
        return None
    names = ("model", "source", "position")
    return RawMetadata(column("key"), times, *map(column, names))


def read_incomplete_ranges(events: Sequence[Event], first: int) -> list[IncompleteRange]:
    """What a ledger owes, of rows from `first` on."""
    owed: list[IncompleteRange] = []
    for event in events:
        if event.kind not in (INCOMPLETE, LATE):
            continue
        one = IncompleteRange(*(event.get_integer(name) for name in IncompleteRange._fields))
        if event.kind == INCOMPLETE and one.stop > first and one not in owed:
            owed.append(one._replace(first=max(first, one.first)))
        elif event.kind == LATE:
            owed = [other for other in owed if other[1:] != one[1:]]
    return owed
