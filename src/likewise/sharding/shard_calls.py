"""The shards of a monitor: decisions judged together, and verdicts completed later.

A decision that was answered while a shard was down lacks the witnesses of that shard. The chain
says so before the answer (an event "incomplete"), and when they were found (an event "late").
Invariant: missing witnesses are reported at least once; a pair of rows says whether it was before.
Not here: the contract (monitor/sequencer.py), and everything else that a monitor does.
"""

from collections.abc import Sequence

from likewise.errors import BadDecision
from likewise.ledger.stored import Event
from likewise.monitor.batching import make_batch
from likewise.monitor.readers.protocol import Decision
from likewise.monitor.sequencer import Sequencer
from likewise.sharding.fleet import IncompleteRange
from likewise.sharding.sharded_index import ShardedIndexFactory
from likewise.verdict.verdicts import Verdict

INCOMPLETE, LATE = "incomplete", "late"
"""Kinds of events: rows are judged without a shard; its witnesses of them were found later."""


class MonitorShards:
    """Connects the shards of one monitor to it; implements `ShardCoordinator`."""

    def __init__(self, sharded: ShardedIndexFactory) -> None:
        self._sharded = sharded
        self.fleet = sharded.fleet

    @property
    def incomplete_count(self) -> int:
        ranges = [range(part.first, part.stop) for part in self.fleet.incomplete_ranges]
        return len(set().union(*ranges))

    def collect_late_verdicts(self, sequencer: Sequencer) -> list[Verdict]:
        violations: list[Verdict] = []
        taken, index = sequencer.rows_taken, self._sharded.current_index
        for part in [part for part in self.fleet.incomplete_ranges if part.first < taken]:
            sequencer.midway = True
            assert index is not None
            late = index.find_late_verdicts(part.first, min(part.stop, taken), part.shard)
            sequencer.midway = False
            if late is None:
                continue
            late = sequencer.annotate_late_verdicts(late)
            sequencer.event(LATE, {**part._asdict(), "pairs": late.pairs})
            self.fleet.incomplete_ranges.remove(part)
            violations += [verdict for verdict in late if verdict.violation]
        return violations

    def observe_together(
        self, sequencer: Sequencer, decisions: Sequence[Decision]
    ) -> list[Verdict] | None:
        batch = make_batch(decisions) if len(decisions) > 1 else None
        if batch is None or not sequencer.rows_taken:  # the first one fixes types and shapes
            return None
        try:
            verdicts = sequencer.observe_many(batch.inputs, batch.outputs, batch.raw_metadata, None)
        except BadDecision:  # one of them is refused: see which
            return None
        return list(verdicts)


def read_incomplete_ranges(events: Sequence[Event], first: int) -> list[IncompleteRange]:
    """Return what a ledger has incomplete, of rows from `first` on."""
    ranges: list[IncompleteRange] = []
    for event in events:
        if event.kind not in (INCOMPLETE, LATE):
            continue
        part = IncompleteRange(*(event.get_integer(name) for name in IncompleteRange._fields))
        if event.kind == INCOMPLETE and part.stop > first and part not in ranges:
            ranges.append(part._replace(first=max(first, part.first)))
        elif event.kind == LATE:
            ranges = [other for other in ranges if other[1:] != part[1:]]
    return ranges
