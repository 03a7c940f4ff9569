"""The contract of the part that a monitor has where its history is searched elsewhere, by shards.

`sharding/shard_calls.py` keeps it; a monitor without shards has no such part. Its methods are
called under the monitor's lock, when no call is half done.
"""

from collections.abc import Sequence
from typing import Protocol

from likewise.monitor.protocol import Decision
from likewise.monitor.sequencer import Sequencer
from likewise.verdict.verdicts import Verdict


class ShardCoordinator(Protocol):
    """Shards of a history, and what was answered without some of them."""

    @property
    def incomplete_count(self) -> int:
        """How many decisions were answered without some shard that was not asked since."""

    def collect_late_verdicts(self, sequencer: Sequencer) -> list[Verdict]:
        """The witnesses of these that shards name now; see `Monitor.late`."""

    def observe_together(
        self, sequencer: Sequencer, decisions: Sequence[Decision]
    ) -> list[Verdict] | None:
        """Judge decisions as one batch, since each call costs a round trip.

        None, and nothing is taken, if they have to be taken one by one.
        """
