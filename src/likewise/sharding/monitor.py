"""The monitor of a cluster: any monitor with a ledger, and what it owes.

A decision that was answered while a shard was down is owed the witnesses of that shard. The chain
says so before the answer (an event "incomplete"), and says when they were told (an event "late").

Invariant: what is owed is told at least once; a pair of rows tells whether it was told before.
Not here: everything else a monitor does (monitors/monitor.py).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.ledger.stored import Event
from likewise.monitors.monitor import Monitor
from likewise.monitors.protocol import Decision
from likewise.monitors.stated import Said
from likewise.reading.protocol import FROM_ROW
from likewise.sharding.fleet import Owed
from likewise.sharding.index import Sharded
from likewise.values.errors import BadDecision
from likewise.values.verdicts import Verdict

_TOGETHER = 4096  # decisions of several calls that are taken as one batch
INCOMPLETE, LATE = "incomplete", "late"
"""Kinds of events: rows are judged without a shard; what it named of them was told."""


class ClusterMonitor(Monitor):
    """A monitor whose history is searched by shards; `lw.cluster` makes one."""

    _sharded: Sharded | None = None

    def search_with(self, sharded: Sharded) -> None:
        """These are the shards."""
        self._sharded = sharded

    @property
    def owed(self) -> int:
        """How many decisions were answered without some shard that was not asked since."""
        with self._looking():
            rows: set[int] = set()
            for one in self._owed():
                rows.update(range(one.first, one.stop))
            return len(rows)

    def late(self) -> list[Verdict]:
        """Witnesses of decisions that were answered while shards were down that are back now.

        One verdict for each such decision with the witnesses that its own lacks, and no other.
        """
        told: list[Verdict] = []
        with self._lock:
            self._ready(note=True)
            taken = self._steps.taken
            for owed in [one for one in self._owed() if one.first < taken]:
                self._steps.midway = True
                assert self._sharded is not None and self._sharded.standing is not None
                found = self._sharded.standing.late(owed.first, min(owed.stop, taken), owed.shard)
                self._steps.midway = False
                if found is None:
                    continue
                late = self._steps.told_late(found)
                self._steps.event(LATE, {**owed._asdict(), "pairs": late.pairs})
                self._sharded.fleet.owed.remove(owed)
                told += [verdict for verdict in late if verdict.violation]
        return told

    def _observe_joined(self, decisions: Sequence[Decision]) -> None:
        """Decisions of several calls: `_take_each` has them judged in batches."""

    def _take_each(self, decisions: Sequence[Decision]) -> list[Verdict | Exception]:
        """As one after another, in batches: each call costs a round trip."""
        answers: list[Verdict | Exception] = []
        for start in range(0, len(decisions), _TOGETHER):
            some = decisions[start : start + _TOGETHER]
            said = _said_together(some) if len(some) > 1 else None
            if said is not None and self._steps.taken:  # the first one settles types and shapes
                self._ready(note=True)
                inputs, outputs = [one.x for one in some], [one.z for one in some]
                z = FROM_ROW if outputs[0] is FROM_ROW else outputs
                try:
                    answers += list(self._steps.observe_many(inputs, z, said, None))
                    continue
                except BadDecision:  # one of them is refused: see which
                    self._ready(note=True)
            answers += super()._take_each(some)
        return answers

    def _owed(self) -> list[Owed]:
        return [] if self._sharded is None else self._sharded.fleet.owed


def _said_together(decisions: Sequence[Decision]) -> Said | None:
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
    return Said(column("key"), times, *map(column, names))


def owed_in(events: Sequence[Event], first: int) -> list[Owed]:
    """What a ledger owes, of rows from `first` on."""
    owed: list[Owed] = []
    for event in events:
        if event.kind not in (INCOMPLETE, LATE):
            continue
        one = Owed(*(event.whole(name) for name in Owed._fields))
        if event.kind == INCOMPLETE and one.stop > first and one not in owed:
            owed.append(one._replace(first=max(first, one.first)))
        elif event.kind == LATE:
            owed = [other for other in owed if other[1:] != one[1:]]
    return owed
