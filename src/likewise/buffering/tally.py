"""What has become of decisions, as one value that is replaced whole.

An exception may arrive between any two bytecodes; a value that is replaced in one step is either
the one from before or the one from after.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from likewise.values.losses import Loss


class Tally(NamedTuple):
    """Counts, and losses that the monitor has not been told of yet."""

    answered: int = 0
    refused: int = 0
    lost: Mapping[str, int] = MappingProxyType({})
    """By reason."""
    pending: tuple[Loss, ...] = ()
    """Of these, what the monitor is still to be told: one for each reason."""
    next_number: int = 0
    """One more than the largest number that was lost when it was submitted."""

    def with_answered(self, count: int) -> "Tally":
        return self._replace(answered=self.answered + count)

    def with_refused(self) -> "Tally":
        return self._replace(refused=self.refused + 1)

    def with_lost(self, loss: Loss) -> "Tally":
        """A loss joins what is pending for the same reason."""
        lost = dict(self.lost)
        lost[loss.reason] = lost.get(loss.reason, 0) + loss.count
        pending = {one.reason: one for one in self.pending}
        earlier = pending.get(loss.reason)
        pending[loss.reason] = loss if earlier is None else earlier.and_then(loss)
        return self._replace(lost=MappingProxyType(lost), pending=tuple(pending.values()))

    def with_lost_number(self, loss: Loss, number: int) -> "Tally":
        """A loss at submit, which takes a number that does not wait anywhere."""
        return self.with_lost(loss)._replace(next_number=number + 1)

    def with_told(self) -> "Tally":
        """Nothing is pending any more."""
        return self._replace(pending=())
